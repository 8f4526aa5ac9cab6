"""Programs of the host that recipes are made with."""
import contextlib
import os
import shutil
import signal
import subprocess
import sys

PACKAGES = {'busybox': 'busybox-static'}  # where they are not called alike


def need(program):
    """Ends the build, with what to type, if the host has no such program."""
    if not shutil.which(program):
        sys.exit(f"'{program}' is missing; install it with: "
                 f'apt-get install --no-install-recommends {PACKAGES.get(program, program)}')


def _end(program):
    """Also what it has started: mmdebstrap awaits that, whatever it is told."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGTERM)
        if program.stdout:
            program.stdout.close()  # else it could wait for a reader
        program.wait()
        os.killpg(program.pid, signal.SIGKILL)


@contextlib.contextmanager
def at_work(*words, within=(), hint='', stdout=sys.stderr, **options):
    """A Popen that works while the body does, and is awaited behind it; ended if the build ends meanwhile.
    `within`: a program that becomes it; `hint`: what else to say if it fails."""
    with subprocess.Popen([*within, *words], stdin=subprocess.DEVNULL, stdout=stdout, process_group=0,
                          **options) as program:
        try:
            yield program
            status = program.wait()
        except BaseException:
            _end(program)
            raise
    if status != 0:
        sys.exit(f'{words[0]} ended with {status}{hint}')


def run(*words):
    """What it prints goes to standard error."""
    with at_work(*words):
        pass
