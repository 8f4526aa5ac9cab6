"""The daemon with a certificate: what clients, sandboxes and a reload see of it."""
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import unittest
import urllib.parse

import atoll
from atoll import BUILD, SLOWNESS, until
from box import Box, shell_image
from ingress_test import UPGRADE

ELSEWHERE = '192.0.2.77'  # an address of this host that is not loopback (RFC 5737)


def make_pair(directory, name='localhost', certificate='cert.pem', key='key.pem', days=30):
    """Readable for the daemon's user after it has dropped its privileges."""
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt',
                    'ec_paramgen_curve:P-256', '-nodes', '-days', str(days), '-subj', f'/CN={name}',
                    '-addext', f'subjectAltName=DNS:{name},IP:127.0.0.1,IP:{ELSEWHERE}',
                    '-keyout', directory / key, '-out', directory / certificate],
                   check=True, stderr=subprocess.DEVNULL)
    shutil.chown(directory / key, group='atoll')
    (directory / key).chmod(0o640)
    (directory / certificate).chmod(0o644)


class Pair(unittest.TestCase):
    """A directory with a certificate and its key."""

    @classmethod
    def setUpClass(cls):
        cls.top = pathlib.Path(tempfile.mkdtemp(prefix='atoll-tls.',
                                                dir=os.environ.get('TEST_TMPDIR', '/var/tmp')))
        cls.addClassCleanup(shutil.rmtree, cls.top)
        cls.top.chmod(0o755)
        make_pair(cls.top)
        cls.settings = {'server_tls_cert': str(cls.top / 'cert.pem'),
                        'server_tls_key': str(cls.top / 'key.pem')}

    @classmethod
    def trust(cls):
        return ssl.create_default_context(cafile=cls.top / 'cert.pem')

    def port(self):
        return urllib.parse.urlsplit(self.daemon.url).port

    def encrypted(self, host='127.0.0.1'):
        return http.client.HTTPSConnection(host, self.port(), context=self.trust(),
                                           timeout=60 * SLOWNESS)

    def raw(self, host='127.0.0.1'):
        """As of a program that knows sockets only."""
        peer = socket.create_connection((host, self.port()), 60 * SLOWNESS)
        return self.trust().wrap_socket(peer, server_hostname='localhost')


class Served(Pair):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        subprocess.run(['ip', 'addr', 'add', f'{ELSEWHERE}/32', 'dev', 'lo'], check=True)
        cls.addClassCleanup(subprocess.run, ['ip', 'addr', 'del', f'{ELSEWHERE}/32', 'dev', 'lo'],
                            check=True)
        cls.daemon = atoll.Daemon(server_host='0.0.0.0', **cls.settings).__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.box = Box(cls.daemon, shell_image(cls.daemon), metadata={'name': 'box'})
        cls.box.out('busybox httpd -p 127.0.0.1:8001 -h /srv; mkfifo /tmp/go')
        cls.box.background('busybox nc -ll -p 8100 -e /srv/ws')
        until(lambda: cls.box.call('GET', '/proxy/8100/').status == 200, 30 * SLOWNESS,
              'the echo listens')

    def ask(self, method, path, body=None, connection=None, **headers):
        response = self.daemon.send(method, path, body, headers, connection or self.encrypted())
        response.text = response.read().decode()
        return response

    def test_the_api(self):
        connection = self.encrypted(ELSEWHERE)
        for _ in range(3):
            self.assertEqual(self.ask('GET', '/v1/sandboxes', connection=connection).status, 200)
        self.assertEqual(connection.sock.selected_alpn_protocol(), None)
        self.assertEqual(connection.sock.version(), 'TLSv1.3')

    def test_http_1_1_is_what_it_agrees_to(self):
        context = self.trust()
        context.set_alpn_protocols(['h2', 'http/1.1'])
        with socket.create_connection(('127.0.0.1', self.port())) as peer:
            with context.wrap_socket(peer, server_hostname='localhost') as session:
                self.assertEqual(session.selected_alpn_protocol(), 'http/1.1')

    def test_who_comes_from_elsewhere_must_encrypt(self):
        plain = http.client.HTTPConnection(ELSEWHERE, self.port(), timeout=60 * SLOWNESS)
        plain.request('GET', '/health')
        answer = plain.getresponse()
        self.assertEqual(answer.status, 400)
        self.assertIn('https://', json.loads(answer.read())['message'])
        plain.close()
        # On the host nothing travels; its tools know no name of the certificate.
        self.assertEqual(self.daemon.request('GET', '/health'), {'status': 'healthy'})

    def test_a_server_in_a_sandbox(self):
        answer = self.ask('POST', self.box.port(8001) + '/cgi-bin/show?x', os.urandom(3_000_000))
        self.assertEqual(answer.status, 200)
        self.assertTrue(answer.text.endswith('body 3000000\n'))
        self.assertIn('HTTP_X_FORWARDED_PROTO=https\n', answer.text)
        plain = self.ask('GET', self.box.port(8001) + '/cgi-bin/show',
                         connection=self.daemon.connection())
        self.assertIn('HTTP_X_FORWARDED_PROTO=http\n', plain.text)

    def test_a_large_answer(self):
        self.box.out('head -c 20000000 /dev/zero >/srv/large')
        response = self.daemon.send('GET', self.box.port(8001) + '/large',
                                    connection=self.encrypted())
        self.assertEqual(len(response.read()), 20_000_000)

    def test_a_stream(self):
        response = self.daemon.send('GET', self.box.port(8001) + '/cgi-bin/show?stream',
                                    connection=self.encrypted())
        self.assertEqual(response.readline(), b'first\n')
        # The rest is written only after the first line has been read here.
        self.box.out('echo second >/tmp/go')
        self.assertEqual(response.read(), b'second\n')

    def test_a_web_socket(self):
        head = ''.join(f'{name}: {value}\r\n' for name, value in {'Host': 'x', **UPGRADE}.items())
        with self.raw() as peer:
            peer.sendall(f'GET {self.box.port(8100)}/ HTTP/1.1\r\n{head}\r\n'.encode())
            answer = b''
            while b'\r\n\r\n' not in answer:
                answer += peer.recv(4096)
            self.assertIn(b' 101 ', answer)
            for _ in range(100):
                peer.sendall(b'bytes as they are')
                self.assertEqual(peer.recv(100), b'bytes as they are')
            peer.unwrap()  # both ends say that it is over

    def cli(self, *arguments, expect=0, stdin=b'', **environment):
        done = subprocess.run([BUILD / 'atoll', *arguments], input=stdin, capture_output=True,
                              timeout=60 * SLOWNESS, check=False, env={
                                  'PATH': os.environ['PATH'], 'ATOLL_API_KEY': self.daemon.key,
                                  'ATOLL_SERVER': f'https://localhost:{self.port()}',
                                  'ATOLL_CACERT': str(self.top / 'cert.pem'), **environment})
        self.assertEqual(done.returncode, expect, (arguments, done.stdout, done.stderr))
        return done.stdout if expect == 0 else done.stderr.decode()

    def test_the_command_line(self):
        self.assertIn(b'box', self.cli('ps'))
        self.assertEqual(self.cli('exec', 'box', '--', 'echo', 'over tls'), b'over tls\n')
        # Through a terminal's WebSocket.
        data = os.urandom(300_000).hex().encode()
        self.assertEqual(self.cli('exec', '-i', 'box', '--', 'cat', stdin=data), data)
        large = self.top / 'large'
        large.write_bytes(os.urandom(5_000_000))
        self.cli('cp', str(large), 'box:/tmp/large')
        self.cli('cp', 'box:/tmp/large', str(self.top / 'back'))
        self.assertEqual((self.top / 'back').read_bytes(), large.read_bytes())

    def test_the_command_line_believes_nobody_else(self):
        self.assertIn('is not accepted', self.cli('ps', expect=1, ATOLL_CACERT=''))
        self.assertIn('mismatch', self.cli(
            'ps', expect=1, ATOLL_SERVER=f'https://127.0.0.2:{self.port()}'))


class Renewed(Pair):
    """SIGHUP takes a new certificate."""

    def hangup(self, daemon, expected):
        before = len(daemon.log.read_text())
        daemon.process.send_signal(signal.SIGHUP)
        until(lambda: expected in daemon.log.read_text()[before:], 30 * SLOWNESS,
              f'the log says {expected!r}: {daemon.log.read_text()[before:]}')
        return daemon.log.read_text()[before:]

    def name(self, daemon):
        """That the server has for who comes now."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection(('127.0.0.1', self.port())) as peer:
            with context.wrap_socket(peer) as session:
                pem = ssl.DER_cert_to_PEM_cert(session.getpeercert(True))
        subject = subprocess.run(['openssl', 'x509', '-noout', '-subject'], input=pem, text=True,
                                 check=True, stdout=subprocess.PIPE).stdout
        return subject.rpartition(' ')[2].strip()

    def test_reload(self):
        with atoll.Daemon(**self.settings) as daemon:
            self.daemon = daemon
            box = Box(daemon, shell_image(daemon))
            self.assertEqual(self.name(daemon), 'localhost')
            kept = self.encrypted()
            stream = daemon.send('POST', f'/sandboxes/{box.id}/proxy/44772/command',
                                 {'command': 'mkfifo /tmp/go; read line </tmp/go; echo $line'},
                                 box.headers, kept)
            self.assertIn(b'init', stream.readline())
            make_pair(self.top, 'renewed')
            self.hangup(daemon, 'reloaded the configuration')
            self.assertEqual(self.name(daemon), 'renewed')
            # Who is there already is not disturbed.
            box.out('echo goes on >/tmp/go')
            self.assertIn(b'goes on', stream.read())

            # A pair that is none changes nothing.
            make_pair(self.top, 'third', certificate='other.pem', key='other-key.pem')
            (self.top / 'other-key.pem').rename(self.top / 'key.pem')
            said = self.hangup(daemon, 'nothing has changed')
            self.assertIn('does not match the certificate', said)
            self.assertEqual(self.name(daemon), 'renewed')
            (self.top / 'other.pem').rename(self.top / 'cert.pem')
            self.hangup(daemon, 'reloaded the configuration')
            self.assertEqual(self.name(daemon), 'third')

            # Without one from now on, and with one again.
            settings = daemon.config.read_text()
            lines = [line for line in settings.splitlines(True) if not line.startswith('tls_')]
            daemon.config.write_text(''.join(lines))
            self.hangup(daemon, 'changed=server.tls_cert')
            with self.assertRaises(ssl.SSLError):
                self.name(daemon)
            daemon.config.write_text(settings)
            self.hangup(daemon, 'changed=server.tls_cert')
            self.assertEqual(self.name(daemon), 'third')
            make_pair(self.top)

    def test_health_tells_of_its_end(self):
        with atoll.Daemon(**self.settings) as daemon:
            self.daemon = daemon
            trouble = lambda: daemon.request('GET', '/health').get('troubles', {}).get('certificate', '')
            self.assertEqual(trouble(), '')
            make_pair(self.top, days=6)
            self.hangup(daemon, 'reloaded the configuration')
            self.assertIn('expires on ', trouble())
            # `req` makes none that has expired.
            for words in (['req', '-new', '-subj', '/CN=localhost', '-out', 'request.pem', '-key', 'key.pem'],
                          ['x509', '-req', '-in', 'request.pem', '-signkey', 'key.pem', '-days', '0', '-out', 'cert.pem']):
                subprocess.run(['openssl', *words], cwd=self.top, check=True, stderr=subprocess.DEVNULL)
            self.hangup(daemon, 'reloaded the configuration')
            self.assertIn('expired on ', trouble())
        make_pair(self.top)

    def test_a_key_that_the_daemon_cannot_read_again_is_named(self):
        os.chown(self.top / 'key.pem', 0, 0)
        (self.top / 'key.pem').chmod(0o600)
        with atoll.Daemon(**self.settings) as daemon:
            self.daemon = daemon
            self.assertIn(f'file={self.top}/key.pem', daemon.log.read_text())
            self.assertEqual(self.name(daemon), 'localhost')
            self.assertIn('Permission denied', self.hangup(daemon, 'nothing has changed'))
            self.assertEqual(self.name(daemon), 'localhost')
        make_pair(self.top)


class Checked(Pair):
    """What atolld says about files that it cannot serve, with --check-config and at its start."""

    def check(self, **options):
        text = '[server]\n' + ''.join(f'{name.removeprefix("server_")} = {json.dumps(value)}\n'
                                      for name, value in self.settings.items())
        file = self.top / 'atoll.toml'
        file.write_text(text)
        file.chmod(0o644)
        return subprocess.run([BUILD / 'atolld', '--check-config', '--config', file], text=True,
                              check=False, capture_output=True, timeout=20 * SLOWNESS, **options)

    def test_a_good_pair(self):
        self.assertEqual((self.check().returncode, self.check().stderr), (0, ''))
        # Who cannot read the key is told that it was not looked at.
        done = self.check(user='nobody', group='nogroup', extra_groups=[])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('cannot check the certificate', done.stderr)

    def test_no_pair(self):
        self.addCleanup(make_pair, self.top)
        make_pair(self.top, certificate='other.pem', key='other-key.pem')
        (self.top / 'other-key.pem').rename(self.top / 'key.pem')
        done = self.check()
        self.assertEqual((done.returncode, done.stdout), (1, ''))
        self.assertIn('does not match', done.stderr)
        with self.assertRaisesRegex(AssertionError, 'does not match'):
            atoll.Daemon(**self.settings).__enter__()

    def test_a_key_for_everybody(self):
        self.addCleanup(make_pair, self.top)
        (self.top / 'key.pem').chmod(0o644)
        done = self.check()
        self.assertEqual(done.returncode, 1)
        self.assertIn('chmod o-rwx', done.stderr)

    def test_half_a_pair(self):
        kept = dict(self.settings)
        self.addCleanup(self.settings.update, kept)
        del self.settings['server_tls_key']
        self.assertIn('without server.tls_key', self.check().stderr)


if __name__ == '__main__':
    unittest.main()
