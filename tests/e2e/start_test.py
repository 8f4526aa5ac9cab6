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

    def test_closed_streams_are_no_files_of_the_daemon(self):
        """Else what is meant for standard error is written into the first file that is opened."""
        started = self.top / 'atolld'
        started.write_text(f'#!/bin/sh\nexec {atoll.BUILD}/atolld "$@" <&- >&- 2>&-\n', encoding='utf-8')
        started.chmod(0o755)
        daemon = atoll.Daemon()
        daemon.programs = self.top
        with daemon:
            box = daemon.create(daemon.import_busybox())
            self.assertEqual(daemon.run(box, 'echo up').stdout, 'up')
            for pid in (daemon.process.pid, daemon.spawner_pid()):
                for fd in range(3):
                    self.assertIn(os.readlink(f'/proc/{pid}/fd/{fd}'),
                                  ('/dev/null', str(daemon.run_dir / 'spawner.log')), (pid, fd))
            self.assertEqual((daemon.run_dir / 'lock').read_bytes(), b'')

    def test_no_core_has_their_memory(self):
        with atoll.Daemon() as daemon:
            spawner = daemon.spawner_pid()
            for pid in (daemon.process.pid, spawner, *atoll.children(spawner)):
                limits = pathlib.Path(f'/proc/{pid}/limits').read_text(encoding='ascii')
                row = next(line for line in limits.splitlines() if 'core file size' in line)
                # Not 0, which the kernel ignores where a program takes cores from a pipe.
                self.assertEqual(row.split()[4:6], ['1', '1'], atoll.comm(pid))
            # And its user may not look into it: what it has in /proc is root's.
            self.assertEqual(os.stat(f'/proc/{daemon.process.pid}/mem').st_uid, 0)

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

    def test_root_believes_nothing_in_the_directory_of_the_daemon(self):
        """Its user, or who has taken it over, may put anything there under any name."""
        with atoll.Daemon() as daemon:
            secret = daemon.top / 'secret'
            secret.write_text('of-root', encoding='utf-8')
            secret.chmod(0o600)
            plants = {
                'a link': lambda path: path.symlink_to(secret),
                'a FIFO': os.mkfifo,
                'a second name': lambda path: os.link(secret, path),
                'a directory': os.mkdir,
                "somebody's": lambda path: (path.write_text('theirs', encoding='utf-8'),
                                            os.chown(path, 4321, 4321)),
            }
            daemon.stop()
            for name in ('api_key', 'route_key', 'lock'):
                path = daemon.data_dir / 'state' / name
                kept = path.with_name('kept')
                for what, plant in plants.items():
                    # Of the lock nothing is read, and it is locked under any name.
                    if name == 'lock' and what in ('a second name', "somebody's"):
                        continue
                    path.rename(kept)
                    plant(path)
                    done = subprocess.run([atoll.BUILD / 'atolld', '--config', daemon.config],
                                          stderr=subprocess.PIPE, text=True, check=False,
                                          timeout=20 * SLOWNESS)
                    self.assertEqual(done.returncode, 1, (name, what))
                    self.assertIn(name, done.stderr, what)
                    self.assertNotIn('of-root', done.stderr)
                    if name == 'api_key' and what in ('a link', 'a FIFO'):
                        # Nor does root's own client.
                        listed = subprocess.run(
                            [atoll.BUILD / 'atoll', 'ps'], stderr=subprocess.PIPE, text=True,
                            env={'ATOLL_RUN_DIR': str(daemon.run_dir)}, check=False,
                            timeout=20 * SLOWNESS)
                        self.assertIn('api_key is', listed.stderr, what)
                    if path.is_dir() and not path.is_symlink():
                        path.rmdir()
                    else:
                        path.unlink()
                    kept.rename(path)
            # What would be written on the way to a new key.
            path = daemon.data_dir / 'state/route_key'
            path.unlink()
            os.mkfifo(path.with_name('route_key.new'))
            daemon.start()
            self.assertEqual(path.stat().st_mode & 0o777, 0o600)
            self.assertEqual(path.stat().st_uid, (daemon.data_dir / 'state').stat().st_uid)
            self.assertEqual(secret.read_text(encoding='utf-8'), 'of-root')

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
