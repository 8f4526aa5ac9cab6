"""A Jupyter kernel for compiled languages. Each run is a complete program. Runs share data through files: all of them
run in the kernel's working directory.
"""
import codecs
import os
import selectors
import signal
import subprocess
import tempfile

from ipykernel.kernelbase import Kernel


class ProgramKernel(Kernel):
    """Base of the languages: `build` tells how a source becomes a program."""
    implementation, implementation_version = 'atoll', '1'

    def __init__(self, **given):
        super().__init__(**given)
        self.work = tempfile.TemporaryDirectory(prefix='atoll-kernel.')  # pylint: disable=R1732

    def build(self, code, directory):
        """Writes the source. Returns (the compiler's command line, the program that it makes)."""
        raise NotImplementedError

    def do_execute(self, code, silent, *_, **__):
        try:
            compiler, program = self.build(code, self.work.name)
            built = subprocess.run(compiler, cwd=self.work.name, text=True, check=False,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
            if built.returncode != 0:
                return self.failed('CompileError', built.stdout.strip() or
                                   f'the compiler ended with {built.returncode}')
            status = self.run([program], silent)
        except KeyboardInterrupt:
            return self.failed('KeyboardInterrupt', 'the program was interrupted')
        except OSError as error:
            return self.failed('KernelError', str(error))
        if status < 0:
            return self.failed(signal.Signals(-status).name, 'the program was ended by this signal')
        if status > 0:
            return self.failed('ExitError', f'the program ended with {status}')
        return {'status': 'ok', 'execution_count': self.execution_count, 'payload': [],
                'user_expressions': {}}

    def run(self, words, silent):
        """Passes on the program's output as it comes. Returns its exit status in the form of subprocess."""
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as program:
            try:
                with selectors.DefaultSelector() as ready:
                    for name in ('stdout', 'stderr'):
                        # A character may be split between two parts.
                        text = codecs.getincrementaldecoder('utf-8')(errors='replace')
                        ready.register(getattr(program, name), selectors.EVENT_READ, (name, text))
                    while ready.get_map():
                        for key, _ in ready.select():
                            part = os.read(key.fd, 65536)
                            if not part:
                                ready.unregister(key.fileobj)
                            name, text = key.data
                            said = text.decode(part, final=not part)
                            if said and not silent:
                                self.say(name, said)
                return program.wait()
            except BaseException:
                program.kill()
                raise

    def say(self, name, text):
        self.send_response(self.iopub_socket, 'stream', {'name': name, 'text': text})

    def failed(self, name, value):
        error = {'ename': name, 'evalue': value, 'traceback': value.splitlines()}
        self.send_response(self.iopub_socket, 'error', error)
        return {'status': 'error', 'execution_count': self.execution_count, **error}
