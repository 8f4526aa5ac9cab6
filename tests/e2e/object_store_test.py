"""Snapshots and images in stores of objects: there and back, and stores that fail, lie or are slow."""
import os
import pathlib
import signal
import subprocess
import unittest

import atoll
import registry
import s3_store
from atoll import BUILD, SLOWNESS, until

PART = 16 << 20
KEY = 'some/odd key+%é'


class Stores(unittest.TestCase):

    make_store = staticmethod(s3_store.OwnStore)

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.image = cls.daemon.import_busybox()
        cls.top = cls.daemon.top / 'store'
        cls.work = cls.daemon.top / 'work'
        cls.work.mkdir()
        cls.authority = registry.Authority(cls.top)
        cls.store = cls.make_store(cls.authority)
        cls.addClassCleanup(cls.store.close)

    def environment(self, **more):
        inherited = {name: value for name, value in os.environ.items()
                     if not name.startswith('AWS_')}
        return {**inherited, **self.daemon.client_env(), 'TMPDIR': str(self.work),
                'HOME': str(self.top), 'AWS_ENDPOINT_URL': self.store.endpoint,
                'AWS_CA_BUNDLE': str(self.authority.ca), 'AWS_ACCESS_KEY_ID': self.store.key,
                'AWS_SECRET_ACCESS_KEY': self.store.secret, **more}

    def atoll(self, *words, expect=0, group='snapshot', **environment):
        done = subprocess.run([BUILD / 'atoll', group, *words], capture_output=True, text=True,
                              timeout=120 * SLOWNESS, check=False, stdin=subprocess.DEVNULL,
                              env=self.environment(**environment))
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        self.assertNotIn(self.store.secret, done.stdout + done.stderr)
        self.assertEqual(list(self.work.iterdir()), [])
        return done.stdout.strip() if expect == 0 else done.stderr

    def snapshot(self, command):
        box = self.daemon.create(self.image)
        self.addCleanup(self.daemon.delete, box)
        self.assertEqual(self.daemon.run(box, command).exit_code, 0)
        return self.atoll('create', box)

    def out(self, snapshot, command):
        box = self.daemon.request('POST', '/v1/sandboxes', {
            'snapshotId': snapshot, 'entrypoint': ['sleep', '100000'], 'resourceLimits': {}})['id']
        self.addCleanup(self.daemon.delete, box)
        return self.daemon.run(box, command).stdout

    def snapshots(self):
        return self.daemon.request('GET', '/v1/snapshots')['pagination']['totalItems']


class RoundTripTest(Stores):

    make_store = staticmethod(s3_store.the_store)

    def test_small_and_in_parts(self):
        for size in (1, 40):
            with self.subTest(size):
                snapshot = self.snapshot(f'dd if=/dev/urandom of=/random bs=1M count={size}')
                place = f's3://{s3_store.BUCKET}/{KEY}-{size}'
                self.atoll('export', snapshot, place)
                back = self.atoll('import', place)
                tell = 'md5sum /random; wc -c < /random'
                self.assertEqual(self.out(back, tell), self.out(snapshot, tell))
                self.assertIn(str(size << 20), self.out(back, tell))

    def test_an_image_and_who_we_are_by_a_file(self):
        credentials = self.top / 'credentials'
        credentials.write_text(f'[work]\naws_access_key_id = {self.store.key}\n'
                               f'aws_secret_access_key = {self.store.secret}\n')
        credentials.chmod(0o600)
        ways = {'AWS_ACCESS_KEY_ID': '', 'AWS_SECRET_ACCESS_KEY': '', 'AWS_PROFILE': 'work',
                'AWS_SHARED_CREDENTIALS_FILE': str(credentials), 'AWS_ENDPOINT_URL': ''}
        place = [f's3://{s3_store.BUCKET}/image.tar', '--endpoint', self.store.endpoint]
        self.atoll('export', self.image, *place, group='image', **ways)
        self.atoll('import', *place, '--name', 'again', group='image', **ways)
        self.daemon.request('DELETE', '/v1/images/again')
        credentials.chmod(0o640)
        self.assertIn('chmod 600', self.atoll('import', *place, group='image', expect=1, **ways))
        ways['AWS_SHARED_CREDENTIALS_FILE'] = '/absent'
        self.assertIn('AWS_ACCESS_KEY_ID', self.atoll('import', *place, group='image', expect=1,
                                                      **ways))

    def test_refusals(self):
        before = self.snapshots()
        place = f's3://{s3_store.BUCKET}/absent'
        self.assertIn('status 404', self.atoll('import', place, expect=2))
        self.assertIn('status 403', self.atoll('import', place, expect=1,
                                               AWS_SECRET_ACCESS_KEY='wrong'))
        self.assertIn('certificate', self.atoll('import', place, expect=1, AWS_CA_BUNDLE=''))
        self.assertIn('no TLS', self.atoll('import', place, '--endpoint', 'http://192.0.2.1',
                                           expect=2))
        for url in ('s3://', 's3://bucket', 's3://bucket/', 's3://Bu_cket/x', 's3://bucket/a//b'):
            self.assertIn('s3://BUCKET/KEY', self.atoll('import', url, expect=2))
        self.assertEqual(self.snapshots(), before)


class OddTest(Stores):

    def setUp(self):
        self.store.objects.clear()
        self.addCleanup(setattr, self.store, 'odd', self.store.odd)
        self.store.heard.clear()

    def test_what_passes_is_waited_for(self):
        """503 a few times, a connection that breaks within a part, one that breaks within the answer."""
        snapshot = self.snapshot('dd if=/dev/urandom of=/random bs=1M count=20')
        place, troubles = f's3://{s3_store.BUCKET}/kept', []

        def odd(handler, query, _body):
            number = query.get('partNumber')
            kind = 'busy' if number == '1' else 'break' if number == '2' else None
            if handler.command == 'GET' and 'Range' not in handler.headers:
                kind = 'half'
            if kind is None or troubles.count(kind) == (3 if kind == 'busy' else 1):
                return False
            troubles.append(kind)
            handler.close_connection = True
            if kind == 'busy':
                handler.give(503, b'<Error><Code>SlowDown</Code></Error>')
            elif kind == 'half':
                content = self.store.objects['kept']
                handler.send_response(200)
                handler.send_header('Content-Length', str(len(content)))
                handler.end_headers()
                handler.wfile.write(content[:len(content) // 2])
            return True

        self.store.odd = odd
        self.atoll('export', snapshot, place)
        self.assertEqual(self.store.uploads, {})
        back = self.atoll('import', place)
        self.assertEqual(troubles, ['busy'] * 3 + ['break', 'half'])
        half = len(self.store.objects['kept']) // 2
        # It goes on where it was.
        self.assertEqual(self.store.heard[-1][2]['Range'], f'bytes={half}-')
        self.assertEqual(self.out(back, 'md5sum /random'), self.out(snapshot, 'md5sum /random'))

    def test_what_does_not_pass_leaves_nothing(self):
        snapshot = self.snapshot('dd if=/dev/urandom of=/random bs=1M count=20')
        place = f's3://{s3_store.BUCKET}/kept'

        def at(part):
            def odd(handler, query, _body):
                if query.get('partNumber', 'complete' if handler.command == 'POST'
                             and 'uploadId' in query else '') != part:
                    return False
                # The last one finds out after it has begun to answer.
                handler.give(200 if part == 'complete' else 507,
                             b'<Error><Code>Full</Code><Message>No room</Message></Error>')
                return True
            return odd

        for part in ('1', '2', 'complete'):
            with self.subTest(part):
                self.store.odd = at(part)
                self.assertIn('Full: No room', self.atoll('export', snapshot, place, expect=1))
                self.assertEqual((self.store.objects, self.store.uploads), ({}, {}))

    def test_another_object_meanwhile(self):
        snapshot = self.snapshot('echo x > /x')
        place, before = f's3://{s3_store.BUCKET}/kept', self.snapshots()
        self.atoll('export', snapshot, place)
        content = self.store.objects['kept']

        def odd(handler, _query, _body):
            if handler.command == 'GET' and 'Range' not in handler.headers:
                handler.close_connection = True
                handler.send_response(200)
                handler.send_header('Content-Length', str(len(content)))
                handler.end_headers()
                handler.wfile.write(content[:1000])
                self.store.objects['kept'] = content[:-1] + b'x'
                return True
            return False

        self.store.odd = odd
        self.assertIn('was replaced', self.atoll('import', place, expect=1))
        # What is not what it says is not taken in, whoever has kept it.
        self.store.odd = lambda *_: False
        self.store.objects['kept'] = content.replace(b'x\n', b'y\n')
        self.assertIn('digest mismatch', self.atoll('import', place, expect=1))
        self.assertEqual(self.snapshots(), before)

    def test_an_interrupt(self):
        """Takes back what was begun, and secrets are in nobody's words."""
        snapshot = self.snapshot('dd if=/dev/urandom of=/random bs=1M count=20')
        client = None

        def odd(handler, query, _body):
            if query.get('partNumber') != '2':
                return False
            words = pathlib.Path(f'/proc/{client.pid}/cmdline').read_bytes()
            self.assertNotIn(self.store.secret.encode(), words)
            client.send_signal(signal.SIGINT)
            handler.rfile.read()  # until it lets go
            return True

        self.store.odd = odd
        with subprocess.Popen([BUILD / 'atoll', 'snapshot', 'export', snapshot,
                               f's3://{s3_store.BUCKET}/kept'], env=self.environment(),
                              stderr=subprocess.DEVNULL) as client:
            self.assertNotEqual(client.wait(60 * SLOWNESS), 0)
        until(lambda: not self.store.uploads, 20 * SLOWNESS, 'the upload is given up')
        self.assertEqual(self.store.objects, {})


if __name__ == '__main__':
    unittest.main()
