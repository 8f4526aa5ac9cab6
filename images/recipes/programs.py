"""Programs of the host that recipes are made with."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PACKAGES = {'busybox': 'busybox-static'}  # where they are not called alike


class _Nobody:
    """Ids of no account, sandbox or service, for what reads what strangers send; ours if we are not root."""
    _FIRST = 1_900_000_000  # as tools/atoll/child.cc has them

    def __init__(self):
        self._id = self._FIRST + os.getpid()

    def identity(self):
        """For Popen."""
        return {'user': self._id, 'group': self._id, 'extra_groups': []} if os.geteuid() == 0 else {}

    def do(self, work):
        """Calls it in a child, which need not be able to read the interpreter again."""
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
    """Ends the build, with what to type, if the host has no such program."""
    if not shutil.which(program):
        sys.exit(f"'{program}' is missing; install it with: "
                 f'apt-get install --no-install-recommends {PACKAGES.get(program, program)}')


def _end(program):
    """Also what it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGTERM)
        if program.stdout:
            program.stdout.close()  # else it could wait for a reader
        program.wait()
        os.killpg(program.pid, signal.SIGKILL)


_running = set()


def end_all():
    """Ends what other threads wait for."""
    for program in list(_running):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGTERM)


def run(*words, stdout=sys.stderr, stdin=subprocess.DEVNULL, **options):
    """Runs it to its end; ended if the build ends meanwhile. What it prints goes to standard error. With stdout=PIPE,
    what it printed."""
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
