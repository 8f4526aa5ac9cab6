# Given by execd (zygote.h) to the image's own Python as its standard input, and run as the image's
# user: imports what every kernel of IPython imports, and what the arguments name, once; and becomes
# a kernel by forking for each context. Nothing that a fork would break is there before it: no
# thread, no event loop, no socket but the one to execd.
import sys

# The directory in which we were started is not to be looked into, as by ipykernel_launcher.
del sys.path[0]

import ctypes
import gc
import os
import random
import select
import socket
import time

PR_SET_DUMPABLE, PR_SET_NAME = 4, 15
# Nothing more is imported for so long while the first kernel starts.
REST_SECONDS = 0.5
# A pool of threads, which OpenBLAS makes when it is loaded, would not be there after a fork.
BLAS_VARIABLE = 'OPENBLAS_NUM_THREADS'
BLAS_CALLS = [prefix + 'openblas_set_num_threads' + suffix
              for prefix in ('', 'scipy_') for suffix in ('', '64_')]

# What a kernel imports only while it starts, and at its first run. The debugger alone is half of it.
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
    # What is there now stays for ever: not looked at again, so not written to, so shared.
    gc.collect()
    gc.freeze()


def raise_blas_threads():
    with open('/proc/self/maps', encoding='utf-8', errors='replace') as maps:
        paths = {line.split(None, 5)[5].strip() for line in maps if 'openblas' in line}
    for path in paths:
        library = ctypes.CDLL(path)
        for name in BLAS_CALLS:
            if hasattr(library, name):
                getattr(library, name)(len(os.sched_getaffinity(0)))


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
        sys.exit('a module has started threads')
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
            sys.exit(0)
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
    from ipykernel.kernelapp import IPKernelApp
    from IPython.core.application import BaseIPythonApplication
    import ipykernel_launcher
    import_all(LATER)

    class Base(BaseIPythonApplication):
        """The part of a kernel's start that is the same for all: arguments, profile, logging."""
        ready = False

        def initialize(self, argv=None):
            if not self.ready:
                super().initialize(argv)
                self.ready = True

    class Application(IPKernelApp, Base):
        """As ipykernel has it, but the other's part is behind it before the fork."""

    kernel = Application.instance()
    # execd hears of the end of a run on the socket that its output comes by, in its order: there is
    # nothing to wait for before the reply.
    Base.initialize(kernel, ['--Kernel._execute_sleep=0'])
    path, cpus = serve(socket.socket(fileno=3), sys.argv[1:])
    if own_threads:
        del os.environ[BLAS_VARIABLE]
    stay_on(cpus)
    if own_threads:
        raise_blas_threads()
    sys.argv = [ipykernel_launcher.__file__, '-f', path]
    kernel.connection_file = path
    kernel.initialize([])
    kernel.start()


main()
