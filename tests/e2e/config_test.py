"""What the configuration does, where only a whole daemon can show it."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

import atoll
from atoll import SLOWNESS, until


def atolld(*arguments, env=None, **options):
    return subprocess.run([atoll.BUILD / 'atolld', *arguments], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20 * SLOWNESS,
                          env={**os.environ, **(env or {})}, **options)


class Files(unittest.TestCase):
    """--check-config and init-config: no root, no daemon."""

    def setUp(self):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix='atoll-config.',
                                                 dir=os.environ.get('TEST_TMPDIR', '/var/tmp')))
        self.top.chmod(0o777)
        self.addCleanup(shutil.rmtree, self.top)
        self.file = self.top / 'atoll.toml'

    def test_check_says_what_is_in_force_and_hides_secrets(self):
        self.file.write_text('[server]\nport = 99\napi_key = "not-for-eyes"\nbacklog = 1\n')
        self.file.chmod(0o644)
        done = atolld('--check-config', '--config', self.file, '--log-level', 'error',
                      env={'ATOLL_SERVER_TIMEOUT_KEEP_ALIVE': '5'}, user='nobody')
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in ('port = 99', 'timeout_keep_alive = 5', 'level = "error"', '# api_key is set'):
            self.assertIn(line + '\n', done.stdout)
        self.assertIn('server.backlog has no effect', done.stderr)
        self.assertNotIn('not-for-eyes', done.stdout + done.stderr)

    def test_check_of_a_bad_file(self):
        self.file.write_text('[server]\nport = 1\nhost = "0.0.0.0"\ninsecure_no_api_key = true\n')
        done = atolld('--check-config', '--config', self.file)
        self.assertEqual((done.returncode, done.stdout), (1, ''))
        self.assertIn('loopback', done.stderr)

    def test_our_own_directories_are_not_for_sandboxes(self):
        (self.top / 'link').symlink_to(self.top)
        for allowed in (self.top, self.top / 'data', self.top / 'data/store/x', self.top / 'run',
                        self.top / 'link', self.top / 'link/data'):
            self.file.write_text(f'[storage]\ndata_dir = "{self.top}/data"\n'
                                 f'allowed_host_paths = ["{self.top}/fine", "{allowed}"]\n'
                                 f'[runtime]\nrun_dir = "{self.top}/run"\n')
            done = atolld('--check-config', '--config', self.file)
            self.assertEqual((done.returncode, done.stdout), (1, ''), allowed)
            self.assertIn(f"allowed_host_paths '{allowed}'", done.stderr)
        self.assertEqual(sorted(os.listdir(self.top)), ['atoll.toml', 'link'])

    def test_the_spawner_asks_that_for_itself(self):
        data, run, link = self.top / 'data', self.top / 'run', self.top / 'link'
        data.mkdir()
        link.symlink_to(data)
        for allowed in (self.top, data, link):
            done = subprocess.run(
                [atoll.BUILD / 'atoll-spawner', '--data-dir', data, '--run-dir', run,
                 '--user', 'nobody', '--host-path', allowed],
                text=True, check=False, stderr=subprocess.PIPE, timeout=20 * SLOWNESS)
            self.assertEqual(done.returncode, 1, allowed)
            self.assertIn(f"'{allowed}'", done.stderr)
        self.assertEqual(os.listdir(data), [])

    def test_a_file_of_somebody_else_is_not_believed(self):
        self.file.write_text('')
        os.chown(self.file, 65534, 65534)
        done = atolld('--check-config', '--config', self.file)
        self.assertEqual(done.returncode, 1)
        self.assertIn('chown root', done.stderr)

    def test_init_writes_a_private_file_once(self):
        self.assertEqual(atolld('init-config', self.file).returncode, 0)
        self.assertEqual(self.file.stat().st_mode & 0o037, 0)
        self.assertEqual(atolld('--check-config', '--config', self.file).stderr, '')
        self.file.write_text('mine')
        again = atolld('init-config', self.file)
        self.assertEqual(again.returncode, 1)
        self.assertIn('--force', again.stderr)
        self.assertEqual(self.file.read_text(), 'mine')
        self.assertEqual(atolld('init-config', self.file, '--force').returncode, 0)
        self.assertNotEqual(self.file.read_text(), 'mine')


class Running(unittest.TestCase):
    """A daemon each."""

    def log_says(self, daemon, text, since=0):
        until(lambda: text in daemon.log.read_text()[since:], 30 * SLOWNESS,
              f'the log says {text!r}: {daemon.log}')

    def hangup(self, daemon, settings, expected):
        before = len(daemon.log.read_text())
        daemon.config.write_text(settings)
        daemon.process.send_signal(signal.SIGHUP)
        self.log_says(daemon, expected, before)
        return daemon.log.read_text()[before:]

    @staticmethod
    def can_have(daemon, image, processes):
        """Whether a new sandbox that asks for no limit may have so many."""
        done = daemon.run(daemon.create(image), f'i=0; while [ $i -lt {processes} ]; do '
                                                'sleep 100 & i=$((i+1)); done; echo all')
        return 'all' in done.stdout

    def test_reload(self):
        with atoll.Daemon(limits_pids=70, log_level='warning') as daemon:
            image = daemon.import_busybox()
            self.assertTrue(self.can_have(daemon, image, 66))
            self.assertFalse(self.can_have(daemon, image, 75))
            settings = daemon.config.read_text().replace('pids = 70', 'pids = 60')
            settings = settings.replace('"warning"', '"info"')
            said = self.hangup(daemon, settings + '[renew_intent]\nenabled = true\n',
                               'reloaded the configuration')
            self.assertIn('changed=limits.pids changed=log.level', said)
            self.assertIn('needs_restart=renew_intent.enabled', said)
            # Over the new limit, not over the old one.
            self.assertFalse(self.can_have(daemon, image, 66))

            said = self.hangup(daemon, settings.replace('pids = 60', 'pids = 1'),
                               'nothing has changed')
            self.assertIn('limits.pids', said)
            self.assertEqual(daemon.request('GET', '/health')['status'], 'healthy')
            daemon.run(daemon.create(image), 'true')

    def test_reload_replaces_a_configured_key(self):
        with atoll.Daemon(server_api_key='first-key') as daemon:
            self.hangup(daemon, daemon.config.read_text().replace('first-key', 'second-key'),
                        'changed=server.api_key')
            self.assertEqual(daemon.send('GET', '/v1/sandboxes').status, 401)
            daemon.key = daemon.configured_key = 'second-key'
            self.assertEqual(daemon.send('GET', '/v1/sandboxes').status, 200)

    def test_more_requests_at_once_than_allowed_are_503(self):
        with atoll.Daemon(server_limit_concurrency=1) as daemon:
            box = daemon.create(daemon.import_busybox())
            # A stream into a sandbox takes no turn.
            stream = daemon.send('POST', f'/sandboxes/{box}/proxy/44772/command',
                                 {'command': 'echo on; sleep 1000'}, daemon.execd_headers(box))
            self.assertTrue(stream.readline())
            self.assertEqual(daemon.request('GET', '/health')['status'], 'healthy')
            # A request whose body is on its way does.
            slow = daemon.connection()
            slow.putrequest('POST', '/v1/images?name=x')
            slow.putheader('OPEN-SANDBOX-API-KEY', daemon.key)
            slow.putheader('Content-Length', '10')
            slow.endheaders(b'12345')

            def refused():
                response = daemon.send('GET', '/health')
                return response if response.status == 503 else None
            until(refused, 30 * SLOWNESS, 'the one request in hand counts')
            response = daemon.send('GET', '/v1/sandboxes')
            self.assertEqual((response.status, response.headers['Retry-After']), (503, '1'))
            slow.close()
            until(lambda: daemon.send('GET', '/health').status == 200, 30 * SLOWNESS,
                  'nothing is in hand any more')
            stream.close()

    def test_disk_limits_that_cannot_be_kept_pass_if_the_operator_says_so(self):
        fields = {'entrypoint': ['sleep', '1000'], 'resourceLimits': {'memory': '64Mi', 'ephemeral-storage': '1Gi'}}
        with atoll.Daemon() as daemon:
            fields['image'] = {'uri': daemon.import_busybox()}
            with self.assertRaises(atoll.ApiError) as refused:
                daemon.request('POST', '/v1/sandboxes', fields)
            self.assertEqual((refused.exception.status, refused.exception.code),
                             (400, 'SANDBOX::API_NOT_SUPPORTED'))
            self.assertIn('storage.ignore_disk_limits', refused.exception.message)
        with atoll.Daemon(storage_ignore_disk_limits=True) as daemon:
            fields['image'] = {'uri': daemon.import_busybox()}
            daemon.delete(daemon.request('POST', '/v1/sandboxes', fields)['id'])
            self.assertIn('disk limits of requests are ignored', daemon.log.read_text(encoding='utf-8'))

    def test_endpoints_name_the_public_host_and_creates_are_bounded(self):
        with atoll.Daemon(server_eip='https://box.example', server_base_path='/atoll',
                          server_max_sandbox_timeout_seconds=100) as daemon:
            image = daemon.import_busybox()
            box = daemon.create(image, timeout=100)
            path = f'/v1/sandboxes/{box}/endpoints/80?use_server_proxy=true'
            self.assertEqual(daemon.request('GET', path)['endpoint'],
                             f'box.example/atoll/v1/sandboxes/{box}/proxy/80')
            with self.assertRaises(atoll.ApiError) as refused:
                daemon.create(image, timeout=101)
            self.assertIn(refused.exception.status, (400, 422))

    def test_an_idle_connection_is_kept_as_long_as_said(self):
        with atoll.Daemon(server_timeout_keep_alive=1) as daemon:
            connection = daemon.connection()
            daemon.send('GET', '/health', connection=connection).read()
            connection.sock.settimeout(20 * SLOWNESS)
            # The end of the stream; a time-out is an exception.
            self.assertEqual(connection.sock.recv(1), b'')


if __name__ == '__main__':
    unittest.main()
