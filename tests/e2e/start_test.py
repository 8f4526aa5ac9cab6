"""How the daemon starts, and when it refuses to."""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import unittest

import atoll
from atoll import SLOWNESS


class Start(unittest.TestCase):
    """Each case has directories of its own."""

    def setUp(self):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix='atoll-start.',
                                                 dir=os.environ.get('TEST_TMPDIR', '/var/tmp')))
        self.top.chmod(0o755)
        self.addCleanup(shutil.rmtree, self.top)

    def refused(self, *flags, user=None):
        """What the daemon says when it ends with status 1; the directories must be untouched."""
        done = subprocess.run(
            [atoll.BUILD / 'atolld', '--config', '/dev/null', '--storage-data-dir',
             self.top / 'data', '--runtime-run-dir', self.top / 'run', '--server-port', '0', *flags],
            stderr=subprocess.PIPE, text=True, check=False, timeout=20 * SLOWNESS, user=user)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(list(self.top.iterdir()), [], 'something was made before the refusal')
        return done.stderr

    def test_port_in_use(self):
        with socket.create_server(('127.0.0.1', 0)) as taken:
            port = taken.getsockname()[1]
            said = self.refused('--server-port', str(port))
        self.assertIn(f'127.0.0.1 port {port}', said)
        self.assertIn('--server-port', said)

    def test_not_root(self):
        self.assertIn('must be started as root', self.refused(user='nobody'))

    def test_no_such_user(self):
        said = self.refused('--runtime-user', 'no-such-user')
        self.assertIn('useradd --system', said)
        self.assertIn('no-such-user', said)

    def test_root_is_no_user_to_drop_to(self):
        self.assertIn('without privileges', self.refused('--runtime-user', 'root'))

    def test_no_key_beyond_loopback(self):
        self.assertIn('loopback',
                      self.refused('--insecure-no-api-key', '--server-host', '0.0.0.0'))

    def test_bad_configuration_names_the_line(self):
        config = pathlib.Path(tempfile.mkdtemp(dir=self.top.parent)) / 'a.toml'
        self.addCleanup(shutil.rmtree, config.parent)
        config.write_text('[server]\nport = 99999\n', encoding='utf-8')
        self.assertIn('a.toml line 2: server.port', self.refused('--config', config))

    def test_two_daemons_do_not_share_a_data_directory(self):
        with atoll.Daemon() as daemon:
            second = subprocess.run(
                [atoll.BUILD / 'atolld', '--config', daemon.config, '--server-port', '0'],
                stderr=subprocess.PIPE, text=True, check=False, timeout=20 * SLOWNESS)
            self.assertEqual(second.returncode, 1)
            self.assertIn('another atolld', second.stderr)
            self.assertEqual(daemon.request('GET', '/health')['status'], 'healthy')

    def test_privileges_after_the_start(self):
        with atoll.Daemon() as daemon:
            pid = daemon.process.pid
            for task in os.listdir(f'/proc/{pid}/task'):
                status = dict(line.split(':\t') for line in
                              pathlib.Path(f'/proc/{pid}/task/{task}/status').read_text().splitlines()
                              if ':\t' in line)
                self.assertEqual(len(set(status['Uid'].split())), 1)
                self.assertNotEqual(status['Uid'].split()[0], '0')
                self.assertEqual(status['Groups'].strip(), '')
                net_admin = 1 << 12
                for name, wanted in (('CapPrm', net_admin), ('CapEff', net_admin), ('CapInh', 0),
                                     ('CapBnd', 0), ('CapAmb', 0)):
                    self.assertEqual(int(status[name], 16), wanted, name)
                self.assertEqual(status['NoNewPrivs'], '1')

    def test_the_key_is_for_root_and_the_daemon(self):
        with atoll.Daemon() as daemon:
            told = json.loads((daemon.run_dir / 'daemon.json').read_text(encoding='utf-8'))
            key = pathlib.Path(told['key_file'])
            self.assertEqual(key.stat().st_mode & 0o777, 0o600)
            self.assertNotIn(daemon.key, json.dumps(told))
            for private in (daemon.data_dir / 'state', daemon.run_dir / 'sandboxes'):
                self.assertEqual(private.stat().st_mode & 0o777, 0o700)
            first = daemon.key
            daemon.stop()
            daemon.start()
            self.assertEqual(daemon.key, first)

    def test_sigterm_leaves_sandboxes_alone(self):
        with atoll.Daemon() as daemon:
            box = daemon.create(daemon.import_busybox())
            daemon.run(box, 'echo kept >/file')
            daemon.stop()
            daemon.start()
            self.assertEqual(daemon.run(box, 'cat /file').stdout, 'kept')

    def test_a_full_disk_at_import_is_507_and_leaves_room(self):
        mount = self.top / 'small'
        mount.mkdir()
        subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=96m,mode=755', 'tmpfs', mount],
                       check=True)
        self.addCleanup(subprocess.run, ['umount', '-l', mount], check=True)
        with atoll.Daemon(storage_data_dir=str(mount / 'data')) as daemon:
            with open(mount / 'filler', 'wb') as filler:
                free = os.statvfs(mount)
                os.posix_fallocate(filler.fileno(), 0, free.f_bavail * free.f_frsize - (3 << 20))
            with self.assertRaises(atoll.ApiError) as refused:
                daemon.request('POST', '/v1/images?name=big', b'x' * (8 << 20))
            self.assertEqual(refused.exception.status, 507)
            self.assertEqual(daemon.request('GET', '/v1/images')['items'], [])
            free = os.statvfs(mount)
            self.assertGreater(free.f_bavail * free.f_frsize, 2 << 20)


if __name__ == '__main__':
    unittest.main()
