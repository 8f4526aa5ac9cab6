"""A cgroup of the test's own that freezes processes of ours outside of sandboxes. A stopped process is noticed by its
parent; a frozen one is like one that the kernel keeps waiting, and can still be killed."""
import itertools
import pathlib

from atoll import SLOWNESS, until
from host_state import OWN

NUMBERS = itertools.count()


def top():
    """Where the kernel's own hierarchy is mounted."""
    hybrid = pathlib.Path('/sys/fs/cgroup/unified')
    return hybrid if hybrid.is_dir() else hybrid.parent


class Freezer:
    def __init__(self, test):
        """Lets its processes go on, and removes itself when they have ended, at the end of the case."""
        self.group = top() / f'{OWN}{next(NUMBERS)}'
        self.group.mkdir()
        test.addCleanup(self.remove)

    def write(self, name, value):
        (self.group / name).write_text(str(value), encoding='ascii')

    def freeze(self, *pids):
        """These, and what they fork, and those that were frozen before."""
        self.write('cgroup.freeze', 1)
        for pid in pids:
            self.write('cgroup.procs', pid)

    def thaw(self):
        self.write('cgroup.freeze', 0)

    def remove(self):
        self.thaw()
        procs = self.group / 'cgroup.procs'
        until(lambda: not procs.read_text(encoding='ascii'), 30 * SLOWNESS, 'what was frozen has ended')
        self.group.rmdir()
