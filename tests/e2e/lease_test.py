"""The example of tools/examples/lease: a sandbox that is there as long as somebody holds it."""
import subprocess
import sys
import unittest

import atoll
from atoll import SLOWNESS, until


class Lease(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.image = cls.daemon.import_busybox()

    def holder(self, command, seconds):
        return subprocess.Popen([sys.executable, atoll.TOP / 'tools/examples/lease/lease.py', command],
                                env={**self.daemon.example_env(self.image), 'LEASE_SECONDS': str(seconds)},
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def boxes(self):
        return self.daemon.request('GET', '/v1/sandboxes')['items']

    def test_a_command(self):
        holder = self.holder('echo done; echo not well >&2; exit 3', 60)
        self.assertEqual((*holder.communicate(timeout=60 * SLOWNESS), holder.returncode),
                         ('done\n', 'not well\n', 3))
        self.assertEqual(self.boxes(), [])

    def test_without_its_holder_it_ends(self):
        holder = self.holder('sleep 1000', 3 * SLOWNESS)
        try:
            ends = set()
            # Renewed for longer than one lease.
            until(lambda: ends.update(box['expiresAt'] for box in self.boxes()) or len(ends) > 4,
                  60 * SLOWNESS, 'it is renewed')
            self.assertEqual(len(self.boxes()), 1)
        finally:
            holder.kill()
            holder.communicate()
        until(lambda: not self.boxes(), 30 * SLOWNESS, 'the lease ends')


if __name__ == '__main__':
    unittest.main()
