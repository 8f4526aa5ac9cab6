"""Runs programs of the host that recipes need."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PACKAGES = {'busybox': 'busybox-static'}  # packages whose name differs from the program's


class _Nobody:
    """Ids that no account, sandbox or service uses, for programs that read untrusted input. The own ids if not root.
    """
    _FIRST = 1_900_000_000  # the same as in tools/atoll/client/child.cc

    def __init__(self):
        self._id = self._FIRST + os.getpid()

    def identity(self):
        """Returns arguments for Popen."""
        return {'user': self._id, 'group': self._id, 'extra_groups': []} if os.geteuid() == 0 else {}

    def do(self, work):
        """Calls a function in a child with these ids, which need not be able to read the interpreter again."""
        child = os.fork()
        if child == 0:
            try:
                if os.geteuid() == 0:
                    os.setgroups([])
                    os.setresgid(self._id, self._id, self._id)
                    os.setresuid(self._id, self._id, self._id)
                work()
                os._exit(0)
            except BaseException as error:  # pylint: disable=broad-exception-caught
                print(error, file=sys.stderr)
            finally:
                os._exit(1)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
            sys.exit('the build cannot go on')

    def own(self, path):
        if os.geteuid() == 0:
            os.lchown(path, self._id, self._id)


NOBODY = _Nobody()


def need(program):
    """Ends the build with the command to type if the host lacks the program."""
    if not shutil.which(program):
        sys.exit(f"'{program}' is missing; install it with: "
                 f'apt-get install --no-install-recommends {PACKAGES.get(program, program)}')


def _end(program):
    """Ends a program and everything that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGTERM)
        if program.stdout:
            program.stdout.close()  # otherwise it could wait for a reader
        program.wait()
        os.killpg(program.pid, signal.SIGKILL)


_running = set()


def end_all():
    """Ends the programs that other threads wait for."""
    for program in list(_running):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGTERM)


def run(*words, stdout=sys.stderr, stdin=subprocess.DEVNULL, **options):
    """Runs a program to its end, or ends it if the build ends meanwhile. Its output goes to standard error. With
    stdout=PIPE, returns its output."""
    with subprocess.Popen(words, stdin=stdin, stdout=stdout, process_group=0, **options) as program:
        _running.add(program)
        try:
            told, _ = program.communicate()
        except BaseException:
            _end(program)
            raise
        finally:
            _running.discard(program)
    if program.returncode != 0:
        sys.exit(f'{words[0]} ended with {program.returncode}')
    return told
