"""What takes long of bucket_test.py: a store that dies, and more than fits into memory."""
import threading
import time

import buckets
from atoll import SLOWNESS, until
from buckets import PATIENCE


class Stores(buckets.Case):

    def test_more_than_its_memory(self):
        box = self.create(self.volume())
        self.out(box, 'dd if=/dev/zero bs=1M count=300 2>/dev/null | tr "\\0" x > /data/large')
        self.assertEqual(self.store.content('large'), b'x' * (300 << 20))
        self.assertEqual(self.out(box, 'tail -c 5 /data/large; wc -c < /data/large'),
                         f'xxxxx{300 << 20}')
        self.out(box, 'rm /data/large')

    def test_a_store_that_dies(self):
        box = self.create(self.volume(store=self.odd))
        self.out(box, 'echo before > /data/before')

        self.silence()
        done = threading.Event()
        told = []

        def read():
            told.append(self.daemon.run(box, 'cat /data/never'))
            done.set()

        threading.Thread(target=read, daemon=True).start()
        until(lambda: any('never' in path for _, path, _ in self.odd.heard), PATIENCE,
              'the store is asked')
        # The daemon, its neighbours and the sandbox itself go on.
        self.assertTrue(self.daemon.healthy())
        self.assertEqual(self.out(box, 'echo alive'), 'alive')
        other = self.create()
        self.assertEqual(self.out(other, 'echo alive'), 'alive')
        until(done.is_set, PATIENCE, 'whoever asked is told')
        self.assertNotEqual(told[0].exit_code, 0)
        self.assertIn('Input/output error', told[0].stderr)
        # Somebody waits for it now, and cannot be killed while it does.
        self.daemon.run(box, 'cat /data/for-ever & cat /data/again', background=True)
        until(lambda: any('for-ever' in path for _, path, _ in self.odd.heard), PATIENCE,
              'the store is asked again')
        before = time.monotonic()
        self.daemon.delete(box)
        self.nothing_left()
        self.assertLess(time.monotonic() - before, 8 * SLOWNESS)
        self.assertTrue(self.daemon.healthy())

    def test_a_create_for_a_store_that_says_nothing(self):
        self.silence()
        before = time.monotonic()
        self.refused(500, 'VOLUME::OSSFS_MOUNT_FAILED', self.volume(store=self.odd))
        self.assertLess(time.monotonic() - before, 35 * SLOWNESS)
        self.nothing_left()
