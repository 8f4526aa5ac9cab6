"""`atolld storage init`: what it refuses, and that a refusal leaves nothing behind. What it makes is
looked at in disk_test.py, on kernels with quotas."""
import os
import pathlib
import subprocess
import unittest

import atoll
from atoll import SLOWNESS


def init(daemon, *flags, user=None):
    """Runs it for this daemon's directories."""
    return subprocess.run([atoll.BUILD / 'atolld', '--config', daemon.config, 'storage', 'init',
                           *flags], text=True, check=False, timeout=60 * SLOWNESS, user=user,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


class StorageInit(unittest.TestCase):
    """Each case has directories of its own, and no daemon unless it starts one."""

    def setUp(self):
        self.daemon = atoll.Daemon()
        self.addCleanup(self.daemon.__exit__)

    def refused(self, *flags, **options):
        done = init(self.daemon, *flags, **options)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(list(self.daemon.data_dir.glob('store.xfs*')), [])
        return done.stdout

    def test_only_root(self):
        self.daemon.config.chmod(0o644)
        self.assertIn('must be started as root', self.refused(user='nobody'))

    def test_sizes(self):
        self.assertIn('at least 512 MiB', self.refused('--size', '100Mi'))
        self.assertIn('not enough for a store', self.refused('--size', '60Ti'))
        self.assertIn("'much'", self.refused('--size', 'much'))
        self.assertIn('absolute path', self.refused('--data-dir', 'data'))

    def test_a_daemon_runs(self):
        self.daemon.start()
        self.assertIn('another atolld uses', self.refused())

    def test_a_spawner_runs(self):
        self.daemon.start()
        self.daemon.kill()
        self.assertIn('a spawner uses', self.refused())
        self.assertIn('atoll shutdown --all', self.refused())

    def test_images_that_the_store_would_hide(self):
        self.daemon.start()
        self.daemon.import_busybox()
        self.daemon.shutdown()
        said = self.refused()
        store = self.daemon.data_dir / 'store'
        self.assertIn(f'mv {store} {store}.old', said)
        self.assertIn('cp -a', said)

    def test_what_is_mounted_there(self):
        store = self.daemon.data_dir / 'store'
        store.mkdir(parents=True)
        subprocess.run(['mount', '-t', 'tmpfs', '-o', 'mode=0700,size=1m', 'none', store],
                       check=True)
        self.addCleanup(subprocess.run, ['umount', store], check=True)
        self.assertIn('is already mounted on', self.refused())

    def test_twice(self):
        self.daemon.data_dir.mkdir()
        image = self.daemon.data_dir / 'store.xfs'
        image.write_text('an image', encoding='utf-8')
        done = init(self.daemon)
        self.assertEqual((done.returncode, image.read_text(encoding='utf-8')), (0, 'an image'))
        self.assertIn('nothing to do', done.stdout)

    def test_the_kernel_decides(self):
        """Either it has quotas, and there is an image, or it says so, and there is none."""
        if os.path.exists('/proc/fs/xfs/stat') and not os.path.exists('/proc/fs/xfs/xqmstat'):
            self.assertIn('cannot be enforced on this host', self.refused('--size', '512Mi'))
            return
        done = init(self.daemon, '--size', '512Mi')
        self.assertEqual(done.returncode, 0, done.stdout)
        image = self.daemon.data_dir / 'store.xfs'
        self.assertEqual([path.name for path in self.daemon.data_dir.glob('store.xfs*')],
                         ['store.xfs'])
        status = image.stat()
        self.assertEqual((status.st_size, status.st_mode & 0o777, status.st_uid),
                         (512 << 20, 0o600, 0))
        # Reserved, not sparse.
        self.assertGreaterEqual(status.st_blocks * 512, 512 << 20)

    def test_an_image_that_is_none_stops_the_start(self):
        """Sandboxes without limits would be the alternative."""
        self.daemon.data_dir.mkdir()
        image = self.daemon.data_dir / 'store.xfs'
        image.write_bytes(bytes(1 << 20))
        image.chmod(0o600)
        with self.assertRaises(AssertionError) as failed:
            self.daemon.start()
        self.assertIn(str(pathlib.Path(image)), str(failed.exception))


if __name__ == '__main__':
    unittest.main()
