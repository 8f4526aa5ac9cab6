# Given by execd (zygote.h) to the image's own Python as its standard input, and run as the image's
# user: imports what every kernel of IPython imports, and what the arguments name, once; and becomes
# a kernel by forking for each context. Nothing that a fork would break is there before it: no
# thread, no event loop, no socket but the one to execd.
#
# With "-f CONNECTION_FILE" it is no zygote, but one kernel that starts as `-m ipykernel_launcher`
# does: with the same mends.
import sys

# The directory in which we were started is not to be looked into, as by ipykernel_launcher.
del sys.path[0]

import atexit
import codecs
import ctypes
import functools
import gc
import importlib
import json
import os
import random
import runpy
import select
import socket
import threading
import time
import types

PR_SET_DUMPABLE, PR_SET_NAME = 4, 15
# Nothing more is imported for so long while the first kernel starts.
REST_SECONDS = 0.5
# The size of a pipe.
PIPE_BYTES = 65536
# A pool of threads, which OpenBLAS makes when it is loaded, would not be there after a fork.
BLAS_VARIABLE = 'OPENBLAS_NUM_THREADS'
BLAS_CALLS = [prefix + 'openblas_set_num_threads' + suffix
              for prefix in ('', 'scipy_') for suffix in ('', '64_')]

# What IPython and ipykernel import as soon as they are imported, and no kernel of ours uses: the shell
# at a terminal, and, where they are installed, a server for debuggers and guesses at what is typed,
# which nobody can ask for. It is more than half of all.
TERMINAL = 'IPython.terminal.embed'
UNUSED = [TERMINAL, 'debugpy', 'jedi']

# What a kernel imports only while it starts, and at its first run.
LATER = ['ipykernel.ipkernel', 'ipykernel.zmqshell', 'ipykernel.debugger', 'IPython.core.completerlib',
         'IPython.core.debugger', 'IPython.core.oinspect', 'IPython.extensions.storemagic',
         'faulthandler', 'sqlite3', 'tornado.platform.asyncio']


def prctl(option, value):
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def import_all(names):
    for name in names:
        try:
            __import__(name)
        except Exception:  # absent, or broken: for whoever wants it to see
            pass
    # What is there now stays for ever: not looked at again, so not written to, so shared. What little
    # of it is garbage would take a tenth of the imports' time to find.
    gc.freeze()


def leave_out_unused():
    """From now on these are as if they were not installed; of the first, IPython wants something."""
    terminal = types.ModuleType(TERMINAL)
    terminal.embed = None
    sys.modules.update(dict.fromkeys(UNUSED), **{TERMINAL: terminal})


def bring_back_unused():
    """Whoever imports them gets them; what IPython has of the first, when it is asked for it."""
    for name in UNUSED:
        del sys.modules[name]
    shell = sys.modules['IPython']
    if vars(shell).get('embed', shell) is not None:
        return
    del shell.embed
    others = vars(shell).get('__getattr__')

    def find(name):
        if name == 'embed':
            return importlib.import_module(TERMINAL).embed
        if others:
            return others(name)
        raise AttributeError(f'module {shell.__name__!r} has no attribute {name!r}')

    shell.__getattr__ = find


def unsynced():
    """For the history's database, of which a crash of the host may lose the end: who commits to it does not wait for
    the disk."""
    import sqlite3

    class Connection(sqlite3.Connection):
        def __init__(self, *given, **named):
            super().__init__(*given, **named)
            self.execute('PRAGMA synchronous = OFF')

    return Connection


def send_any_text():
    """A message with half of a surrogate pair in it (json.loads('"\\ud83d"')) cannot be written as UTF-8. The kernel
    would send nothing in its place, not even that it is idle. Written as ASCII it is sound JSON, and execd reads
    U+FFFD. What stands for a byte that is no text (os.fsdecode) the session would send as that byte."""
    from jupyter_client import session
    begin = session.Session.__init__

    def __init__(self, **given):
        begin(self, **given)
        pack = self.pack

        def sound(message):
            try:
                packed = pack(message)
                packed.decode()
                return packed
            except UnicodeError:
                return json.dumps(session.json_clean(message), default=session.json_default).encode()

        self.pack = sound

    session.Session.__init__ = __init__


def read_any_output():
    """What a cell's children write to the kernel's own descriptors. The stock reader decodes each read by itself, so
    that a character across two reads, or a byte that is no text, ended it: nothing came any more, and whoever had
    written 64 KiB waited for ever. And what it had not read when a run ended was lost."""
    from ipykernel.iostream import OutStream
    from ipykernel.ipkernel import IPythonKernel
    redirect, execute = OutStream._setup_stream_redirects, IPythonKernel.do_execute

    def _setup_stream_redirects(self, name):
        self._reading = threading.Lock()
        self._text = codecs.getincrementaldecoder('utf-8')(errors='replace')
        redirect(self, name)

    def take(self, limit):
        """How many bytes there were."""
        part = os.read(self._fid, limit)
        self.write(self._text.decode(part))
        # The stock reader passes it on, too: to whoever has started the kernel.
        os.write(self._original_stdstream_copy, part)
        return len(part)

    def _watch_pipe_fd(self):
        waiting = select.poll()
        waiting.register(self._fid, select.POLLIN)
        try:
            while waiting.poll() and self._should_watch:
                with self._reading:
                    # Unless the end of a run has taken it.
                    if waiting.poll(0) and take(self, PIPE_BYTES) == 0:
                        return
        except Exception:  # the stream is closed
            self._exc = sys.exc_info()

    def drain(self):
        """What has been written before this call; not what a child goes on writing. The rest of a character that
        is not there by now will not come."""
        waiting = select.poll()
        waiting.register(self._fid, select.POLLIN)
        with self._reading:
            left = PIPE_BYTES
            while left > 0 and waiting.poll(0):
                left -= take(self, left) or left
            self.write(self._text.decode(b'', final=True))

    @functools.wraps(execute)
    async def do_execute(self, *given, **named):
        try:
            return await execute(self, *given, **named)
        finally:
            for stream in (sys.stdout, sys.stderr):
                if hasattr(stream, '_reading'):
                    drain(stream)

    OutStream._setup_stream_redirects, OutStream._watch_pipe_fd = _setup_stream_redirects, _watch_pipe_fd
    IPythonKernel.do_execute = do_execute


def mend():
    """What may be otherwise in another release stays as it is there."""
    for one in (send_any_text, read_any_output):
        try:
            one()
        except Exception:
            pass


def make_shell(app):
    """IPython's shell, which is half of a kernel's start, to be its kernel's. But for its history, which has a
    database and a thread: until the fork it is there, and not begun."""
    from ipykernel.compiler import XCachingCompiler
    from IPython.core import interactiveshell
    kind = app.kernel_class.__new__(app.kernel_class).shell_class
    made_of = {'profile_dir': app.profile_dir, 'user_module': None, 'user_ns': None,
               'compiler_class': XCachingCompiler}
    history, to_begin = interactiveshell.HistoryManager, []

    def not_begun(**given):
        manager = history.__new__(history)
        to_begin.append((manager, given))
        return manager

    def instance(_, parent, kernel, **given):
        """What the kernel calls to have its shell made."""
        del kind.instance  # the class's own again
        if given != made_of:
            kind.clear_instance()
            return kind.instance(parent=parent, kernel=kernel, **given)
        shell.parent, shell.kernel = parent, kernel
        shell.starting_dir = os.getcwd()
        seen = shell.user_ns['_dh']
        seen[:] = [type(seen[0])(shell.starting_dir)]
        shell.save_sys_module_state()
        # At the exit before what the kernel has registered, which closes the sockets.
        atexit.unregister(shell.atexit_operations)
        atexit.register(shell.atexit_operations)
        for manager, first_given in to_begin:
            manager.connection_options = {'factory': unsynced()}
            manager.__init__(**first_given)
        return shell

    interactiveshell.HistoryManager = not_begun
    try:
        shell = kind.instance(parent=app, **made_of)
    finally:
        interactiveshell.HistoryManager = history
    kind.instance = classmethod(instance)
    gc.freeze()


def raise_blas_threads():
    with open('/proc/self/maps', encoding='utf-8', errors='replace') as maps:
        paths = {line.split(None, 5)[5].strip() for line in maps if 'openblas' in line}
    for path in paths:
        library = ctypes.CDLL(path)
        for name in BLAS_CALLS:
            if hasattr(library, name):
                getattr(library, name)(len(os.sched_getaffinity(0)))


def raise_blas_threads_at_first_run(shell):
    """And not earlier: a thread of OpenBLAS that has nothing to do spins for some 20 ms before it sleeps."""
    if not shell:  # another kernel's class, by the profile
        raise_blas_threads()
        return

    def at_first_run(*_):
        shell.events.unregister('pre_run_cell', at_first_run)
        raise_blas_threads()

    shell.events.register('pre_run_cell', at_first_run)


def sender(stream):
    """What makes the message of a stream's text in this thread. The other thread may have taken text a moment ago, of
    which it is still making a message: large text takes it a second. That message comes first, so its being made is
    waited for. No message is sent under the lock: the queue may be full, and whoever empties it wait for the lock."""
    taking, flush = threading.Lock(), stream._flush

    def locked():
        with taking:
            flush()

    def send():
        with taking:
            text = stream._flush_buffer()
        if text:
            stream.session.pid = os.getpid()
            stream.session.send(stream.pub_thread, 'stream', content={'name': stream.name, 'text': text},
                                parent=stream.parent_header, ident=stream.topic)

    stream._flush = locked
    return send


def wait_for_output_only_in_runs(kernel):
    """Behind a run the kernel flushes four times, and waits each time until the thread that sends has done it: a
    third of a short run. There it makes the message itself, which that thread then sends before what comes
    later: that the kernel is idle. A program's own flush waits as always: it may be its last word."""
    execute = kernel.do_execute
    used = ('_flush', '_flush_buffer', 'parent_header', 'pub_thread', 'session', 'topic')
    streams = [stream for stream in (sys.stdout, sys.stderr) if all(hasattr(stream, name) for name in used)]
    sends = {stream: sender(stream) for stream in streams}

    @functools.wraps(execute)
    async def do_execute(*given, **named):
        for stream in streams:
            vars(stream).pop('flush', None)
        try:
            return await execute(*given, **named)
        finally:
            for stream in streams:
                stream.flush = sends[stream]

    kernel.do_execute = do_execute


def stay_on(count):
    """As execd does it with a command: on as many processors as the limit amounts to."""
    os.sched_setaffinity(0, range(os.cpu_count()))
    allowed = sorted(os.sched_getaffinity(0))
    if 0 < count < len(allowed):
        first = random.randrange(len(allowed))
        os.sched_setaffinity(0, [allowed[(first + i) % len(allowed)] for i in range(count)])


def become_kernel(execd, descriptors):
    """In the new process: waits until execd has put it into its leaf, then is as if it were new."""
    os.setsid()
    execd.sendall(b'+')  # with our pid, which the kernel adds
    if execd.recv(1) != b'+':
        os._exit(0)
    execd.close()
    null, output, directory = descriptors
    for number, descriptor in enumerate((null, output, output)):
        os.dup2(descriptor, number)
    os.fchdir(directory)
    for descriptor in descriptors:
        os.close(descriptor)
    prctl(PR_SET_DUMPABLE, 1)
    prctl(PR_SET_NAME, os.fsencode(os.path.basename(sys.executable)))
    # random, ssl, uuid and secrets see to it themselves.
    if 'numpy' in sys.modules:
        sys.modules['numpy'].random.seed()


def fork_kernel(control, execd, descriptors):
    """True in the kernel. It is process 1's child, which hears how it ends: the process between is
    gone before it goes on."""
    if len(os.listdir('/proc/self/task')) != 1:
        os._exit(1)  # a module has started threads
    gone, still_there = os.pipe()
    between = os.fork()
    if between != 0:
        os.close(gone)
        os.waitpid(between, 0)
        os.close(still_there)
        return False
    if os.fork() != 0:
        os._exit(0)
    control.close()
    os.close(still_there)
    os.read(gone, 1)
    os.close(gone)
    become_kernel(execd, descriptors)
    return True


def serve(control, modules):
    """Returns in each new kernel: the connection file and the number of processors."""
    rest_until = None  # until the first fork
    while True:
        left = rest_until - time.monotonic() if rest_until else 0
        if modules and (left < 0 or not select.select([control], [], [], left)[0]):
            import_all(modules)
            modules = []
        message, descriptors, _, _ = socket.recv_fds(control, 8192, 4)
        if not message:
            os._exit(0)
        cpus, _, path = message.decode().partition(' ')
        execd = socket.socket(fileno=descriptors.pop())
        if fork_kernel(control, execd, descriptors):
            return path, int(cpus)
        execd.close()
        for descriptor in descriptors:
            os.close(descriptor)
        rest_until = rest_until or time.monotonic() + REST_SECONDS


def main():
    # A context runs as the same user: it can end us, but not read or change us.
    prctl(PR_SET_DUMPABLE, 0)
    prctl(PR_SET_NAME, b'kernel-zygote')
    own_threads = BLAS_VARIABLE not in os.environ
    os.environ.setdefault(BLAS_VARIABLE, '1')
    # There is hardly any garbage before the first run, and looking for it takes a fifth of the time.
    gc.disable()
    leave_out_unused()
    from ipykernel.kernelapp import IPKernelApp
    from IPython.core.application import BaseIPythonApplication
    import ipykernel_launcher
    import_all(LATER)
    bring_back_unused()
    mend()

    class Base(BaseIPythonApplication):
        """The part of a kernel's start that is the same for all: arguments, profile, logging."""
        ready = False

        def initialize(self, argv=None):
            if not self.ready:
                super().initialize(argv)
                self.ready = True

    class Application(IPKernelApp, Base):
        """As ipykernel has it, but the other's part is behind it before the fork. And it looks for no
        address of the machine, for which it would start programs: the connection file has one."""

        def _ip_default(self):
            return '127.0.0.1'

    kernel = Application.instance()
    # execd hears of the end of a run on the socket that its output comes by, in its order: there is
    # nothing to wait for before the reply.
    Base.initialize(kernel, ['--Kernel._execute_sleep=0'])
    try:
        make_shell(kernel)
    except Exception:  # one of another release, that each kernel makes itself
        pass
    path, cpus = serve(socket.socket(fileno=3), sys.argv[1:])
    if own_threads:
        del os.environ[BLAS_VARIABLE]
    stay_on(cpus)
    sys.argv = [ipykernel_launcher.__file__, '-f', path]
    kernel.connection_file = path
    kernel.initialize([])
    if own_threads:
        raise_blas_threads_at_first_run(kernel.shell)
    if kernel.shell:  # no other kernel's class, by the profile
        wait_for_output_only_in_runs(kernel.kernel)
    gc.enable()
    kernel.start()


def launch():
    """Our own standard input was this program."""
    null = os.open('/dev/null', os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    mend()
    runpy.run_module('ipykernel_launcher', run_name='__main__', alter_sys=True)


if sys.argv[1:2] == ['-f']:
    launch()
else:
    main()
