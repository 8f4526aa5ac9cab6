"""Disk limits through the API, on a store that `atolld storage init` has made, and on ext4 that an
operator has mounted. For kernels with quotas: the guest's."""
import ctypes
import glob
import json
import os
import pathlib
import re
import subprocess
import unittest

import atoll
import s3_store
from box import Box
from isolated_test import Session
from storage_test import init

FILL = 'dd if=/dev/zero of=/big bs=1M count=48; wc -c </big'
MI = 1 << 20
# Of the first slot of instance 0; see runtime/spawner/projects.h.
FIRST_PROJECT = 0x70000000
Q_GETQUOTA_OF_PROJECT = 0x800007 << 8 | 2


def hard_limits(path, project):
    """(bytes, inodes) that quotactl_fd(2) tells of a project; (0, 0): none."""
    block = (ctypes.c_uint64 * 9)()  # struct if_dqblk
    libc = ctypes.CDLL(None, use_errno=True)
    directory = os.open(path, os.O_RDONLY)
    try:
        libc.syscall(ctypes.c_long(443), directory, ctypes.c_uint(Q_GETQUOTA_OF_PROJECT),
                     ctypes.c_uint(project), block)
    finally:
        os.close(directory)
    return block[0] * 1024, block[3]


def loop_files():
    """Files behind the host's loop devices."""
    return [pathlib.Path(path).read_text(encoding='utf-8').strip()
            for path in glob.glob('/sys/block/loop*/loop/backing_file')]


class Disk:
    """The cases; `daemon` runs, its store has quotas."""

    daemon = image = full = store = None

    @classmethod
    def make_daemon(cls):
        cls.store = s3_store.OwnStore(None)
        cls.store.upload_id = '{}'
        cls.addClassCleanup(cls.store.close)
        return atoll.Daemon(storage_volume_default_size='40Mi', storage_object_stores=[
            f'main {cls.store.endpoint} bucket={s3_store.BUCKET}'])

    def create(self, **limits):
        box = self.daemon.create(self.image, resourceLimits=limits)
        self.addCleanup(self.daemon.delete, box)
        return box

    def check_filled(self, box, limit):
        done = self.daemon.run(box, FILL)
        self.assertIn(self.full, done.stderr)
        self.assertLessEqual(int(done.stdout), limit)
        self.assertGreater(int(done.stdout), limit - 4 * MI)

    def test_a_limit_is_kept(self):
        self.check_filled(self.create(disk='16Mi'), 16 * MI)

    def test_a_session_takes_no_limit_along(self):
        """What it wrote counts, and goes; the quota of the sandbox's own directory stays."""
        box = Box(self.daemon, self.image, resourceLimits={'disk': '16Mi'})
        self.addCleanup(self.daemon.delete, box.id)
        box.out('mkdir /w')
        session = Session(box, workspace={'path': '/w', 'mode': 'overlay'})
        self.assertIn(self.full, session.out(f'cd /w; {FILL.replace("/big", "big")} 2>&1'))
        self.assertEqual(session.delete().status, 200)
        # Files are deleted behind the answer.
        atoll.until(lambda: int(box.out("df -k / | awk 'END { print $3 }'")) < 1024, 20 * atoll.SLOWNESS, 'it is gone')
        self.check_filled(box.id, 16 * MI)

    def test_a_commit_that_does_not_fit_leaves_whole_files(self):
        box = Box(self.daemon, self.image, resourceLimits={'disk': '16Mi'})
        self.addCleanup(self.daemon.delete, box.id)
        box.out('mkdir /w; echo low >/w/b')
        session = Session(box, workspace={'path': '/w', 'mode': 'overlay'})
        session.out('echo new >a; dd if=/dev/zero of=b bs=1M count=10 2>/dev/null')
        self.assertEqual(session.call('POST', '/commit').status, 500)
        self.assertEqual(box.out('ls -A /w; cat /w/a /w/b'), 'a\nb\nnew\nlow')
        session.out('dd if=/dev/zero of=b bs=1M count=2 2>/dev/null')
        self.assertEqual(session.call('POST', '/commit').status, 200)
        self.assertEqual(box.out('wc -c </w/b'), str(2 * MI))

    def test_what_is_full_can_be_emptied(self):
        box = self.create(disk='16Mi')
        self.check_filled(box, 16 * MI)
        self.assertEqual(self.daemon.run(box, 'rm /big; echo $?; dd if=/dev/zero of=/b bs=1M '
                                              'count=8 2>/dev/null; echo $?').stdout, '0\n0')

    def test_two_do_not_fill_each_other(self):
        first, second = self.create(disk='16Mi'), self.create(disk='24Mi')
        self.check_filled(first, 16 * MI)
        self.check_filled(second, 24 * MI)

    def test_df_shows_it(self):
        done = self.daemon.run(self.create(disk='64Mi'), 'df -k / | tail -n 1')
        self.assertEqual(done.stdout.split()[1], str(64 << 10))

    def test_the_default_is_set(self):
        self.create()
        limits = [hard_limits(self.daemon.data_dir / 'store', project)
                  for project in range(FIRST_PROJECT, FIRST_PROJECT + 1000)]
        # Of this one and of the slots in stock.
        self.assertIn((10 << 30, (10 << 30) >> 14), limits)

    def test_none_below_what_runs(self):
        with self.assertRaises(atoll.ApiError) as refused:
            self.create(disk='1000')
        self.assertEqual(refused.exception.status, 400)
        self.assertIn('from 1Mi', refused.exception.message)

    def fill_volume(self, size):
        """What a sandbox of 20Mi could write to a new volume with that size (None: the default)."""
        name = f'v{size}'.lower()
        claim = {'claimName': name, **({'storage': size} if size else {})}
        box = self.daemon.create(self.image, resourceLimits={'disk': '20Mi'}, volumes=[
            {'name': 'v', 'mountPath': '/data', 'pvc': claim}])
        try:
            return int(self.daemon.run(
                box, 'dd if=/dev/zero of=/data/big bs=1M count=100 2>/dev/null; '
                     'wc -c </data/big').stdout)
        finally:
            self.daemon.delete(box)
            self.daemon.request('DELETE', f'/v1/volumes/{name}')

    def test_a_volume_has_a_limit(self):
        self.assertLessEqual(self.fill_volume('24Mi'), 24 * MI)
        self.assertGreater(self.fill_volume('24Mi'), 20 * MI)
        # The operator's.
        self.assertLessEqual(self.fill_volume(None), 40 * MI)
        self.assertGreater(self.fill_volume(None), 36 * MI)

    def test_what_is_written_is_measured_by_kind(self):
        box = self.daemon.create(self.image, volumes=[
            {'name': 'v', 'mountPath': '/data', 'pvc': {'claimName': 'measured'}}])
        self.addCleanup(self.daemon.request, 'DELETE', '/v1/volumes/measured')
        self.addCleanup(self.daemon.delete, box)
        self.daemon.run(box, 'dd if=/dev/zero of=/big bs=1M count=12; dd if=/dev/zero of=/data/big bs=1M count=9; sync')
        # The spawner is asked once a minute at most, and at the start.
        self.daemon.stop()
        self.daemon.start()
        kinds = lambda: dict(re.findall(r'^atoll_disk_bytes{kind="(\w+)"} (\d+)$',
                                        self.daemon.send('GET', '/v1/metrics').read().decode(), re.M))
        atoll.until(lambda: 'uppers' in kinds(), 30 * atoll.SLOWNESS, 'the first sample')
        for kind, written in (('uppers', 12 * MI), ('volumes', 9 * MI)):
            self.assertGreaterEqual(int(kinds()[kind]), written, kind)
            self.assertLess(int(kinds()[kind]), written + 4 * MI, kind)

    def test_what_is_open_of_a_bucket_counts(self):
        """s3fs keeps it on disk, outside of the sandbox."""
        box = self.daemon.create(self.image, resourceLimits={'disk': '16Mi'}, volumes=[
            {'name': 'b', 'mountPath': '/data', 'ossfs': {
                'bucket': s3_store.BUCKET, 'endpoint': self.store.endpoint,
                'accessKeyId': self.store.key, 'accessKeySecret': self.store.secret}}])
        self.addCleanup(self.daemon.delete, box)
        done = self.daemon.run(box, 'exec 3> /data/open; dd if=/dev/zero bs=1M count=8 >&3; df -k / | tail -n 1; '
                                    'dd if=/dev/zero bs=1M count=40 >&3; df -k / | tail -n 1; '
                                    'dd if=/dev/zero of=/big bs=1M count=16; wc -c < /big')
        after_8, after_48, of_root = done.stdout.splitlines()
        self.assertGreater(int(after_8.split()[2]), 8 << 10, done.stdout)
        self.assertLessEqual(int(after_48.split()[2]), 16 << 10, done.stdout)
        # What it has there it has not here.
        self.assertIn(self.full, done.stderr)
        self.assertLess(int(of_root), 16 * MI)

    def test_the_doctor_is_content(self):
        report = json.loads(subprocess.run(
            [atoll.BUILD / 'atoll', 'doctor', '--json', '--data-dir', self.daemon.data_dir],
            check=False, stdout=subprocess.PIPE).stdout)
        found = {check['name']: check for check in report['checks']}['disk limits']
        self.assertEqual(found['status'], 'ok', found)


class OnImage(Disk, unittest.TestCase):
    """XFS, from `atolld storage init` to the end of the spawner."""

    full = 'No space left'

    @classmethod
    def setUpClass(cls):
        cls.daemon = cls.make_daemon()
        done = init(cls.daemon, '--size', '1Gi')
        if done.returncode:
            cls.daemon.__exit__()
            raise AssertionError(done.stdout)
        cls.daemon.__enter__()
        cls.addClassCleanup(cls.check_end)
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.image = cls.daemon.import_busybox()

    @classmethod
    def check_end(cls):
        assert not [path for path in loop_files() if str(cls.daemon.top) in path], loop_files()

    def test_again_is_nothing_to_do(self):
        done = init(self.daemon)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn('nothing to do', done.stdout)

    def test_sandboxes_and_store_outlive_daemon_and_spawner(self):
        box = self.create(disk='16Mi')
        self.daemon.stop()
        self.daemon.start()
        self.check_filled(box, 16 * MI)


class OnExt4(Disk, unittest.TestCase):
    """ext4 with its features for it."""

    full = 'Disk quota exceeded'

    @classmethod
    def setUpClass(cls):
        cls.daemon = cls.make_daemon()
        store = cls.daemon.data_dir / 'store'
        store.mkdir(parents=True)
        disk = cls.daemon.top / 'disk'
        with open(disk, 'wb') as file:
            file.truncate(1 << 30)
        subprocess.run(['mkfs.ext4', '-q', '-O', 'project,quota', '-E', 'quotatype=prjquota', disk],
                       check=True)
        subprocess.run(['mount', '-o', 'loop,prjquota', disk, store], check=True)
        try:
            cls.daemon.start()
            cls.image = cls.daemon.import_busybox()
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def tearDownClass(cls):
        try:
            if cls.daemon.spawner_pid():
                cls.daemon.shutdown()
            subprocess.run(['umount', cls.daemon.data_dir / 'store'], check=True)
        finally:
            cls.daemon.__exit__()


if __name__ == '__main__':
    unittest.main()
