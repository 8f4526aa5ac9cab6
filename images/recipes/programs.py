"""Programs of the host that recipes are made with."""
import shutil
import subprocess
import sys

PACKAGES = {'busybox': 'busybox-static'}  # where they are not called alike


def need(program):
    """Ends the build, with what to type, if the host has no such program."""
    if not shutil.which(program):
        sys.exit(f"'{program}' is missing; install it with: "
                 f'apt-get install --no-install-recommends {PACKAGES.get(program, program)}')


def run(*words):
    """What it prints goes to standard error. If the build ends meanwhile it may clean up."""
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=sys.stderr) as program:
        try:
            status = program.wait()
        except BaseException:
            program.terminate()
            program.wait()
            raise
    if status != 0:
        sys.exit(f'{words[0]} ended with {status}')
