"""The end of all, with many sandboxes that the daemon has not made itself: nothing stays on the host.

ATOLL_ADOPTED sandboxes (100); stop_test ends one that is the daemon's own.
"""
import concurrent.futures
import os
import pathlib
import time
import unittest

import atoll
from atoll import SLOWNESS, until
from crash_test import known
from host_state import HostState
from stop_test import groups_of_instances, numbers_of

MANY = int(os.environ.get('ATOLL_ADOPTED', '100')) // SLOWNESS
SMALL = {'memory': '24Mi', 'pids': '16'}
PATIENCE = (30 + MANY / 20) * SLOWNESS
# What each kind of sandbox has more of on the host than the plain one.
KINDS = (
    {},
    {'networkPolicy': {'defaultAction': 'deny', 'egress': [
        {'action': 'allow', 'target': '*.example.org'}, {'action': 'allow', 'target': '192.0.2.1'}]}},
    {'volumes': [{'name': 'v', 'pvc': {'claimName': 'shared'}, 'mountPath': '/shared'}]},
)


class Shutdown(unittest.TestCase):
    def setUp(self):
        self.before, self.groups = HostState.capture(), groups_of_instances()
        self.daemon = atoll.Daemon(runtime_overcommit=0).__enter__()
        self.addCleanup(self.daemon.__exit__)
        image = self.daemon.import_busybox()

        def create(number):
            return self.daemon.create(image, resourceLimits=SMALL, **KINDS[number % len(KINDS)])
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            self.boxes = list(pool.map(create, range(MANY)))
        # One that stands still, and one that nothing but SIGKILL ends.
        self.daemon.request('POST', f'/v1/sandboxes/{self.boxes[0]}/pause')
        self.daemon.run(self.boxes[1], 'trap "" TERM INT HUP; while :; do sleep 1; done', background=True)

    def adopted(self):
        """All of them are the started daemon's, and work."""
        until(lambda: len(known(self.daemon)) == MANY - 1, PATIENCE, 'all are adopted')
        self.assertEqual(self.daemon.run(self.boxes[-1], 'echo here').stdout, 'here')

    def shut_down(self):
        number, = numbers_of(self.daemon.run_dir)
        began = time.monotonic()
        self.daemon.shutdown()
        print(f'# the end of {MANY} took {time.monotonic() - began:.1f} s', flush=True)
        self.assertEqual(self.before.await_same(30 * SLOWNESS), [])
        self.assertEqual(numbers_of(self.daemon.run_dir), [])
        self.assertEqual({group for group in groups_of_instances() - self.groups
                          if group.name == f'atoll{number}'}, set())
        # An empty directory, a file to lock, and what the spawner has said.
        self.assertEqual({path.name for path in self.daemon.run_dir.iterdir()},
                         {'sandboxes', 'lock', 'spawner.log'})
        self.assertEqual(list((self.daemon.run_dir / 'sandboxes').iterdir()), [])
        store = pathlib.Path(self.daemon.data_dir, 'store')
        self.assertEqual({name: list((store / name).iterdir()) for name in ('fs/uppers', 'trash')},
                         {'fs/uppers': [], 'trash': []})

    def test_after_the_death_of_the_daemon(self):
        self.daemon.kill()
        self.daemon.start()
        self.adopted()
        self.shut_down()

    def test_after_the_death_of_daemon_and_spawner(self):
        """No sandbox is the spawner's child any more."""
        self.daemon.kill()
        self.daemon.kill_spawner()
        self.daemon.start()
        self.adopted()
        self.shut_down()


if __name__ == '__main__':
    unittest.main()
