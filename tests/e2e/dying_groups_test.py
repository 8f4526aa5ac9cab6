"""What an ended sandbox leaves in the host's caches keeps no cgroup in kernel memory for ever."""
import contextlib
import os
import pathlib
import tempfile
import unittest

import atoll
from atoll import SLOWNESS, until

LIVES = 40
MOST = 256  # of runtime/spawner/reclaims.h
SLACK = LIVES // 4  # others on the host end as well


def memory_groups():
    """Of the host, dying ones included."""
    for line in pathlib.Path('/proc/cgroups').read_text(encoding='ascii').splitlines():
        if line.startswith('memory\t'):
            return int(line.split('\t')[2])
    raise AssertionError('no memory controller')


def memory_base(daemon):
    """Of the daemon's groups in the hierarchy that has the memory controller, and whether that is v2."""
    name = f'atoll{daemon.instance()}'
    v1 = pathlib.Path('/sys/fs/cgroup/memory', name)
    return (v1, False) if v1.is_dir() else (atoll.groups_named(name)[0], True)


class DyingGroups(unittest.TestCase):
    def test_lives_that_leave_pages_in_caches_leave_no_groups(self):
        with atoll.Daemon() as daemon, tempfile.TemporaryDirectory(dir='/var/tmp') as held:
            image = daemon.import_busybox()
            base, v2 = memory_base(daemon)
            with self.crowd(base, v2, pathlib.Path(held)):
                before = memory_groups()
                for number in range(LIVES):
                    box = daemon.create(image, volumes=[{
                        'name': 'v', 'mountPath': '/v', 'pvc': {'claimName': 'leftovers'}}])
                    # Stays in the page cache, charged to this sandbox, when that is gone.
                    self.assertEqual(
                        daemon.run(box, f'head -c 20000 /dev/zero >/v/{number}').exit_code, 0)
                    daemon.delete(box)
                left = lambda: memory_groups() - before
                until(lambda: left() < SLACK, 20 * SLOWNESS,
                      f'{LIVES} lives leave fewer than {SLACK} groups; now there are {left()}')

    @contextlib.contextmanager
    def crowd(self, base, v2, held):
        """As many dying groups as are let be, each held by a page of a file."""
        parent = base / 'crowd'  # no slot's name
        parent.mkdir()
        try:
            if v2:
                (parent / 'cgroup.subtree_control').write_text('+memory', encoding='ascii')
            for number in range(MOST + 20):
                group = parent / str(number)
                group.mkdir()
                pid = os.fork()
                if pid == 0:
                    try:
                        (group / 'cgroup.procs').write_text('0', encoding='ascii')
                        (held / str(number)).write_bytes(b'x' * 20000)
                    finally:
                        os._exit(0)
                os.waitpid(pid, 0)
                self.assertTrue((held / str(number)).exists())
                until(lambda group=group: not (group / 'cgroup.procs').read_text(encoding='ascii'),
                      30 * SLOWNESS, 'it has left')
                group.rmdir()
            yield
        finally:
            parent.rmdir()


if __name__ == '__main__':
    unittest.main()
