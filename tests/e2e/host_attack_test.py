"""Attacks on the host and on other tenants through the daemon: hostile clients, hostile sandboxes.

What is asked is answered by the daemon of the test; what must not be reached is a witness, in a
sandbox or on the host, that writes down whatever comes.
"""
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
import unittest
import urllib.parse

import atoll
from atoll import SLOWNESS, until
from box import Box, pack, shell_image

INGRESS = 'OpenSandbox-Ingress-To'
SECURE = 'OpenSandbox-Secure-Access'
TOKEN = 'X-EXECD-ACCESS-TOKEN'
LOG_LINE = re.compile(r'\d{4}-\d\d-\d\dT[\d:.]+Z (debug|info|warning|error) atoll[a-z-]*: ')
# Writes down each head that arrives, whatever the client is told.
WITNESS = r"""#!/bin/sh
head=
while IFS= read -r line; do
  line=${line%"$(printf '\r')"}
  [ -n "$line" ] || break
  head="$head$line
"
done
printf '%s--\n' "$head" >>/tmp/seen
printf 'HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s' ${#head} "$head"
"""


class HostAttack(unittest.TestCase):
    """One daemon; a sandbox `a` with a witness on port 8000, and its neighbour `b`."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.image = shell_image(cls.daemon)
        cls.a, cls.b = Box(cls.daemon, cls.image), Box(cls.daemon, cls.image)
        cls.a.out(f"cat >/tmp/witness <<'END'\n{WITNESS}END\nchmod 755 /tmp/witness")
        cls.a.background('busybox nc -ll -p 8000 -e /tmp/witness')
        until(lambda: cls.ask(f'/{cls.a.id}/8000/').status == 200, 30 * SLOWNESS, 'it listens')

    @classmethod
    def ask(cls, path, headers=None, method='GET', body=None, connection=None):
        """Without the API key unless `headers` have it."""
        own = connection or cls.daemon.connection()
        own.request(method, path, body, headers or {})
        response = own.getresponse()
        response.text = response.read().decode(errors='replace')
        if not connection:
            own.close()
        return response

    def raw(self, data, enough=1 << 20):
        """What comes back until the daemon closes, or there is enough of it."""
        answer = b''
        with self.a.raw() as peer:
            try:
                peer.sendall(data if isinstance(data, bytes) else data.encode('latin-1'))
                while len(answer) < enough:
                    piece = peer.recv(65536)
                    if not piece:
                        break
                    answer += piece
            except ConnectionError:  # closed with something of ours unread
                pass
        return answer

    def seen(self):
        return self.a.out('cat /tmp/seen')

    def forms(self, box, port):
        """Each way to a port: target prefix, and lines of the head."""
        own = f'{TOKEN}: {box.headers[TOKEN]}\r\n'
        return {'proxy': (f'/sandboxes/{box.id}/proxy/{port}', ''),
                'v1': (f'/v1/sandboxes/{box.id}/proxy/{port}', ''),
                'uri': (f'/{box.id}/{port}', ''),
                'header': ('', f'{INGRESS}: {box.id}-{port}\r\n'),
                'execd': (f'/sandboxes/{box.id}/proxy/44772/proxy/{port}', own)}


class Framing(HostAttack):
    def test_what_parsers_disagree_on_reaches_nobody(self):
        cases = ('Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
                 'Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n',
                 'Content-Length: 0\r\nContent-Length: 44\r\n\r\n',
                 'Content-Length: 0, 44\r\n\r\n',
                 'Transfer-Encoding: x, chunked\r\n\r\n0\r\n\r\n',
                 'Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n',
                 'Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n',
                 'X: a\r\n\tTransfer-Encoding: chunked\r\n\r\n',
                 'X: a\nX-Evil: 1\r\n\r\n', 'X: a\rX-Evil: 1\r\n\r\n', 'X: a\0b\r\n\r\n',
                 'Host: other\r\n\r\n', 'X Evil: 1\r\n\r\n', '\x00: 1\r\n\r\n')
        for form, (prefix, lines) in self.forms(self.a, 8000).items():
            for case in cases:
                answer = self.raw(f'POST {prefix}/evil HTTP/1.1\r\nHost: h\r\n{lines}{case}'
                                  f'GET {prefix}/smuggled HTTP/1.1\r\nHost: h\r\n{lines}'
                                  'Connection: close\r\n\r\n')
                self.assertRegex(answer, rb'^HTTP/1\.1 (400|501) ', (form, case))
                self.assertEqual(len(re.findall(rb'HTTP/1\.1 \d', answer)), 1,
                                 (form, case, answer))
            # One that is well-formed, so that silence means something.
            self.assertIn(b' 200 ', self.raw(f'GET {prefix}/well-{form} HTTP/1.1\r\nHost: h\r\n'
                                             f'Connection: close\r\n{lines}\r\n'))
        seen = self.seen()
        for form in self.forms(self.a, 8000):
            self.assertIn(f'/well-{form} ', seen)
        for word in ('evil', 'smuggled'):
            self.assertNotIn(word, seen.lower())

    def test_a_request_within_a_body_is_a_body(self):
        for form, (prefix, lines) in self.forms(self.a, 8000).items():
            inner = f'GET {prefix}/within-{form} HTTP/1.1\r\nHost: h\r\n{lines}\r\n'
            for framing, body in ((f'Content-Length: {len(inner)}', inner),
                                  ('Transfer-Encoding: chunked',
                                   f'{len(inner):x};a=b\r\n{inner}\r\n0\r\nX-Evil: 1\r\n\r\n')):
                # The last one ends the connection, so that all answers are seen.
                answer = self.raw(f'POST {prefix}/outer-{form} HTTP/1.1\r\nHost: h\r\n{lines}'
                                  f'{framing}\r\n\r\n{body}GET {prefix}/last HTTP/1.1\r\n'
                                  f'Host: h\r\nConnection: close\r\n{lines}\r\n')
                self.assertIn(b'GET /last ', answer, (form, framing))
                self.assertEqual(len(re.findall(rb'HTTP/1\.1 \d', answer)), 2, (form, framing))
                until(lambda form=form: f'POST /outer-{form} ' in self.seen(), 30 * SLOWNESS)
        for line in self.seen().splitlines():
            self.assertFalse(line.startswith('GET /within') or 'Evil' in line, line)

    def test_the_name_in_the_header_form_is_one_name(self):
        name = f'{self.a.id}-8000'
        for value in (f'{name}\r\n X-Evil: 1', f'{name}\nX-Evil: 1', f'{name}\0', f'{name}\rX: 1'):
            self.assertIn(b' 400 ', self.raw(f'GET /named-evil HTTP/1.1\r\nHost: h\r\n'
                                             f'{INGRESS}: {value}\r\n\r\n')[:20], value)
        for value in (f'{name}%0d%0aX-Evil:%201', f'{name},{self.b.id}-8000', f'{self.a.id}-+8000',
                      f'{self.a.id}-0x1f40', f'{self.a.id}-8000/', f'{self.a.id}-73536',
                      f'{self.a.id.upper()}-8000', f'../{name}', f'{self.a.id}-127.0.0.1:8000',
                      f'{name}-x', f'{name}-1-', f'{self.a.id}-', f'{self.a.id}', f'-{name}'):
            answer = self.ask('/named-evil', {INGRESS: value})
            # Not a route: then it is the API's, which wants the key.
            self.assertIn(answer.status, (400, 401, 404), value)
        self.assertNotIn('named-evil', self.seen())

    def test_an_absolute_target_names_no_other_server(self):
        with Witness() as victim:
            for target in (f'http://127.0.0.1:{victim.port}/', f'http://127.0.0.1:{victim.port}',
                           f'http://x@127.0.0.1:{victim.port}/v1/sandboxes', '*',
                           f'//127.0.0.1:{victim.port}/', f'/http://127.0.0.1:{victim.port}/'):
                answer = self.raw(f'GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n')
                self.assertRegex(answer, rb'^HTTP/1\.1 40[014] ', target)
            prefix, _ = self.forms(self.a, 8000)['proxy']
            there = f'127.0.0.1:{victim.port}'
            answer = self.raw(f'GET http://{there}{prefix}/absolute HTTP/1.1\r\n'
                              f'Host: {there}\r\nConnection: close\r\n\r\n')
            self.assertIn(b'GET /absolute ', answer)
            self.assertEqual(victim.count, 0)

    def test_forwarded_headers_decide_nothing(self):
        forged = {'X-Forwarded-For': '127.0.0.1', 'X-Real-IP': '127.0.0.1', 'Forwarded': 'for=::1',
                  'X-Forwarded-Host': 'evil.test', 'X-Forwarded-Proto': 'https',
                  'X-Forwarded-Prefix': '/evil', 'X-Original-URL': '/health',
                  'X-Rewrite-URL': '/health', 'X-HTTP-Method-Override': 'DELETE',
                  'X-Forwarded-Port': '1'}
        self.assertEqual(self.ask('/v1/sandboxes', forged).status, 401)
        path = f'/v1/sandboxes/{self.a.id}/endpoints/8000'
        key = {'OPEN-SANDBOX-API-KEY': self.daemon.key}
        self.assertEqual(self.ask(path, {**key, **forged}).text, self.ask(path, key).text)


class Witness:
    """A service of the host, on all of its addresses; counts who comes."""

    def __enter__(self):
        self.count = 0
        self.sockets = [socket.create_server(('0.0.0.0', 0))]
        self.port = self.sockets[0].getsockname()[1]
        self.sockets.append(socket.create_server(('::', self.port), family=socket.AF_INET6))
        for listening in self.sockets:
            threading.Thread(target=self._serve, args=(listening,), daemon=True).start()
        for host in ('127.0.0.1', '::1'):
            with socket.create_connection((host, self.port)) as peer:
                assert peer.recv(100).startswith(b'HTTP/1.1 200')
        assert self.count == 2  # it would be seen
        self.count = 0
        return self

    def _serve(self, listening):
        while True:
            try:
                peer = listening.accept()[0]
            except OSError:
                return
            self.count += 1
            peer.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhost')
            peer.close()

    def __exit__(self, *_):
        for listening in self.sockets:
            listening.shutdown(socket.SHUT_RDWR)
            listening.close()


class Reach(HostAttack):
    """From a port of a sandbox to what is not the sandbox's."""

    def test_no_port_is_the_hosts(self):
        daemon_port = urllib.parse.urlsplit(self.daemon.url).port
        with Witness() as victim:
            for port in (victim.port, daemon_port):
                for form, (prefix, lines) in self.forms(self.a, port).items():
                    answer = self.raw(f'GET {prefix}/health HTTP/1.1\r\nHost: h\r\n{lines}'
                                      'Connection: close\r\n\r\n')
                    self.assertIn(b' 502 ', answer[:20], (form, port))
            for odd in (f'127.0.0.1:{victim.port}', f'@127.0.0.1:{victim.port}',
                        f'%31{str(victim.port)[1:]}', f'{victim.port}@h', f'[::1]:{victim.port}',
                        f'{victim.port}%2f', f'..%2f{victim.port}', f'+{victim.port}',
                        f'44772/proxy/127.0.0.1:{victim.port}', f'44772/proxy/..%2f{victim.port}'):
                for path in (f'/sandboxes/{self.a.id}/proxy/{odd}/', f'/{self.a.id}/{odd}/'):
                    answer = self.ask(path, self.a.headers)
                    self.assertIn(answer.status, (400, 401, 404, 502), path)
            self.assertEqual(victim.count, 0)

    def test_the_hosts_services_from_inside(self):
        gateway = self.a.out("ip route | awk '/default/ {print $3}'")
        own = '192.0.2.78'  # as of a network card of the host (RFC 5737)
        change = lambda what: subprocess.run(['ip', 'addr', what, f'{own}/32', 'dev', 'lo'],
                                             check=True)
        change('add')
        self.addCleanup(change, 'del')
        with Witness() as victim:
            for host in ('127.0.0.1', gateway, '::1', own):
                said = self.a.run(f'nc -w 1 {host} {victim.port} </dev/null')[0]
                self.assertNotIn('Content-Length: 4', said, host)
                self.assertEqual(victim.count, 0, host)

    def test_abstract_sockets_of_the_host(self):
        name = 'atoll-test-victim'
        with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as peer:
            listening.bind('\0' + name)
            listening.listen()
            peer.connect('\0' + name)
            probe = subprocess.run([atoll.BUILD / 'tests/support/attack-probe', 'abstract-host'],
                                   check=True, stdout=subprocess.PIPE, text=True).stdout
            self.assertEqual(probe.strip(), 'abstract-host: ALLOWED')  # on the host
            for uid in (0, 1000):
                self.assertEqual(self.a.out('/bin/attack abstract-host', uid=uid),
                                 'abstract-host: ECONNREFUSED')

    def test_files_of_the_daemon_are_not_for_users_of_the_host(self):
        """Neither to be written nor, where secrets are, to be read."""
        look = ('import os, sys\nos.setgroups([]); os.setgid(65534); os.setuid(65534)\n'
                'for top, names, files in os.walk(sys.argv[1]):\n'
                '    for one in [top, *(os.path.join(top, f) for f in files)]:\n'
                '        if not os.path.islink(one):\n'
                '            print(one, *("w" * os.access(one, os.W_OK),'
                ' "r" * os.access(one, os.R_OK)))\n')
        out = subprocess.run([sys.executable, '-c', look, self.daemon.top], check=True,
                             stdout=subprocess.PIPE, text=True).stdout
        reached = {line.split()[0]: ''.join(line.split()[1:]) for line in out.splitlines()}
        self.assertIn('r', reached[str(self.daemon.log)])  # this test's own; so it does look
        self.assertEqual([one for one, how in reached.items() if 'w' in how], [])
        secret = re.compile('/state/|/sandboxes/|key|[.]sock|/logs?/')
        self.assertEqual([one for one, how in reached.items() if 'r' in how and secret.search(one)],
                         [])

    def test_an_image_with_a_proc_of_its_own(self):
        top = self.daemon.top / 'fake'
        for directory in ('bin', 'proc/self/attr', 'proc/sys/kernel', 'proc/1', 'sys/kernel'):
            (top / directory).mkdir(parents=True)
        for file in ('self/attr/exec', 'self/attr/current', 'self/status', 'self/setgroups',
                     'self/uid_map', 'sys/kernel/core_pattern', '1/status', 'mounts'):
            (top / 'proc' / file).write_text('FAKE\n', encoding='ascii')
        subprocess.run(['cp', '/bin/busybox', top / 'bin/sh'], check=True)
        pack(top, 'fake:latest', self.daemon.top / 'fake.tar')
        self.daemon.import_image(self.daemon.top / 'fake.tar', 'fake:latest')
        box = Box(self.daemon, 'fake:latest', entrypoint=['/bin/sh', '-c', 'sleep 1000'])
        self.addCleanup(self.daemon.delete, box.id)
        script = ('while read -r a b; do case $a in NoNewPrivs:|Seccomp:|FAKE) echo $a $b;; esac; '
                  'done </proc/self/status; while read -r _ at kind _; do '
                  '[ $at = /proc ] && echo $kind; done </proc/self/mounts; true')
        self.assertEqual(box.out(script).split(),
                         ['NoNewPrivs:', '1', 'Seccomp:', '2', 'proc'])


class Others(HostAttack):
    """What opens one sandbox opens no other, and none that comes after it."""

    def secure_box(self):
        box = self.daemon.create(self.image, secureAccess=True)
        self.addCleanup(lambda: self.daemon.send('DELETE', f'/v1/sandboxes/{box}').read())
        headers = self.daemon.execd_headers(box)
        return box, {name: value for name, value in headers.items()}

    def upgrade(self, path, headers):
        lines = ''.join(f'{name}: {value}\r\n' for name, value in headers.items())
        return self.raw(f'GET {path} HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\n'
                        'Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n'
                        f'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{lines}\r\n', 12)[9:12]

    def test_execds_token(self):
        pty = self.b.call('POST', '/pty', {}).json['session_id']
        base, headers = f'/sandboxes/{self.b.id}/proxy/44772', self.a.headers
        for method, path, body in (
                ('GET', '/ping', None), ('POST', '/command', '{"command":"touch /tmp/hit"}'),
                ('GET', '/files/info?path=/etc/passwd', None), ('POST', '/session', '{}'),
                ('GET', '/files/download?path=/etc/passwd', None), ('GET', '/metrics', None),
                ('POST', '/pty', '{}'), ('DELETE', f'/pty/{pty}', None),
                ('GET', '/proxy/8000/', None), ('POST', '/code', '{"code":"touch /tmp/hit"}')):
            for way in (base, f'/v1{base}', f'/{self.b.id}/44772'):
                self.assertEqual(self.ask(way + path, headers, method, body).status, 401, path)
            named = {**headers, INGRESS: f'{self.b.id}-44772'}
            self.assertEqual(self.ask(path, named, method, body).status, 401, path)
        self.assertEqual(self.upgrade(f'{base}/pty/{pty}/ws', headers), b'401')
        self.assertEqual(self.upgrade(f'{base}/pty/{pty}/ws', self.b.headers), b'101')
        self.assertEqual(self.b.out('ls /tmp'), '')

    def test_secure_access(self):
        (c, c_headers), (d, d_headers) = self.secure_box(), self.secure_box()
        ping = lambda box, headers: self.ask(f'/{box}/44772/ping', headers).status
        self.assertEqual([ping(c, c_headers), ping(d, d_headers)], [200, 200])
        self.assertEqual(ping(d, c_headers), 401)
        mixed = {**d_headers, SECURE: c_headers[SECURE]}
        self.assertEqual(ping(d, mixed), 401)
        self.assertEqual(self.upgrade(f'/{d}/8000/', {SECURE: c_headers[SECURE]}), b'401')
        self.assertEqual(ping(c, {**c_headers, TOKEN: d_headers[TOKEN]}), 401)

    def test_signatures(self):
        (c, _), (d, _) = self.secure_box(), self.secure_box()
        told = self.daemon.request(
            'GET', f'/v1/sandboxes/{c}/endpoints/8000?expires={int(time.time()) + 3600}')
        path = '/' + told['endpoint'].partition('/')[2]
        expires, signature = path.split('/')[-2:]
        self.assertEqual(self.ask(path + '/').status, 502)  # admitted; nobody listens
        self.assertEqual(self.ask(path.replace(c, d) + '/').status, 401)
        self.assertEqual(self.upgrade(path.replace(c, d) + '/', {}), b'401')
        for name, status in ((f'{c}-8000-{expires}-{signature}', 502),
                             (f'{d}-8000-{expires}-{signature}', 401),
                             (f'{c}-8001-{expires}-{signature}', 401),
                             (f'{c}-8000-z{expires}-{signature}', 401),
                             (f'{c}-8000-{expires}-{signature[::-1]}', 401)):
            self.assertEqual(self.ask('/', {INGRESS: name}).status, status, name)
        # The form of the path must not be a way round the form of the name.
        self.assertEqual(self.ask(path + '/', {INGRESS: f'{d}-8000'}).status, 401)

    def test_the_api_key_stays_with_the_daemon(self):
        key = self.daemon.key
        escaped = ''.join(f'%{ord(c):02x}' for c in key)
        names = ('OPEN-SANDBOX-API-KEY', 'open-sandbox-api-key', 'OPEN_SANDBOX_API_KEY', 'X-API-Key',
                 'Authorization', 'Proxy-Authorization', 'Cookie', 'Referer', 'Origin', TOKEN, SECURE,
                 'User-Agent', 'X-Request-ID', 'Sec-WebSocket-Protocol', 'X-Forwarded-For', 'TE',
                 'X-Forwarded-Host', 'X-Real-IP', 'Accept', 'Connection', 'Keep-Alive')
        for form, (prefix, lines) in self.forms(self.a, 8000).items():
            for name in names:
                if form == 'execd' and name == TOKEN:
                    continue  # that it does not pass for the token is said elsewhere
                for value in (key, f'Bearer {key}', f'x, {key}, y'):
                    answer = self.raw(f'GET {prefix}/key HTTP/1.1\r\nHost: h\r\n{lines}'
                                      f'{name}: {value}\r\nConnection: close\r\n\r\n')
                    self.assertIn(b'GET /key ', answer, (form, name))
            for rest in (f'/key-{key}', f'/key?api_key={key}', f'/key?{escaped}', f'/key/%/{escaped}'):
                answer = self.raw(f'GET {prefix}{rest} HTTP/1.1\r\nHost: h\r\n{lines}'
                                  'Connection: close\r\n\r\n')
                self.assertIn(b' 400 ', answer[:20], (form, rest))
            answer = self.raw(f'GET {prefix}/key HTTP/1.1\r\nHost: {key}.test\r\n{lines}'
                              'Connection: close\r\n\r\n')
            self.assertIn(b'GET /key ', answer)
            self.upgrade(prefix + '/key', {'Sec-WebSocket-Protocol': f'v1, {key}', **dict(
                [lines.strip().split(': ')] if lines else [])})
        seen = self.seen()
        self.assertIn('GET /key ', seen)
        for secret in (key, escaped, self.a.headers[TOKEN], self.daemon.execd_secret(self.a.id)):
            self.assertNotIn(secret, seen)

    def test_a_dead_sandbox_stays_dead(self):
        old = Box(self.daemon, self.image)
        told = self.daemon.request(
            'GET', f'/v1/sandboxes/{old.id}/endpoints/44772?expires={int(time.time()) + 3600}')
        signed = '/' + told['endpoint'].partition('/')[2]
        terminal = old.call('POST', '/pty', {}).json['session_id']
        tunnel = old.websocket(f'/pty/{terminal}/ws')
        tunnel.message('connected')
        kept = self.daemon.connection()
        self.assertEqual(self.ask(old.base + '/ping', old.headers, connection=kept).status, 200)
        was = self.address(old)
        self.daemon.delete(old.id)
        heir = until(lambda: self.has_address(was), 60 * SLOWNESS, f'{was} has a new owner')
        self.addCleanup(self.daemon.delete, heir.id)
        with self.assertRaises((EOFError, ConnectionError)):
            while True:
                tunnel.frame()
        for path, more in ((old.base + '/ping', {}), (f'/{old.id}/44772/ping', {}),
                           ('/ping', {INGRESS: f'{old.id}-44772'}), (signed + '/ping', {})):
            for connection in (None, kept):
                answer = self.ask(path, {**old.headers, **more}, connection=connection)
                self.assertEqual((answer.status, json.loads(answer.text)['code']),
                                 (404, 'DOCKER::SANDBOX_NOT_FOUND'), path)
        self.assertNotEqual(heir.id, old.id)
        self.assertEqual(heir.call('GET', '/ping', headers=old.headers).status, 401)
        self.assertEqual(self.ask(signed.replace(old.id, heir.id) + '/ping').status, 401)
        self.assertEqual(heir.out('ls /tmp'), '')

    @staticmethod
    def address(box):
        return box.out("ip -4 addr show | awk '/inet / && !/127.0/ {print $2}'")

    def has_address(self, address):
        """A new sandbox, if it has the slot that gives it this address."""
        box = Box(self.daemon, self.image)
        if self.address(box) == address:
            return box
        self.daemon.delete(box.id)
        return None


class Floods(HostAttack):
    """What one client makes grow or hold up."""

    def tearDown(self):
        self.assertEqual(self.b.out('echo alive'), 'alive')

    def memory_kib(self):
        text = pathlib.Path(f'/proc/{self.daemon.process.pid}/smaps_rollup').read_text(encoding='ascii')
        return int(re.search(r'^Anonymous: +(\d+)', text, re.M).group(1))

    def median(self):
        """Of an answer of the API and one of a sandbox, on one connection."""
        connection, times = self.daemon.connection(), []
        for _ in range(60):
            began = time.perf_counter()
            key = {'OPEN-SANDBOX-API-KEY': self.daemon.key}
            self.assertEqual(self.ask('/v1/sandboxes/' + self.a.id, key, connection=connection).status,
                             200)
            self.assertEqual(self.b.call('GET', '/ping', connection=connection).status, 200)
            times.append(time.perf_counter() - began)
        return statistics.median(times)

    def test_slow_clients_delay_nobody(self):
        before = self.median()
        peers = [self.a.raw() for _ in range(400)]
        try:
            for peer in peers[:150]:
                peer.sendall(b'POST /v1/sandb')
            for peer in peers[150:200]:
                peer.sendall(f'POST /v1/sandboxes HTTP/1.1\r\nHost: h\r\nOPEN-SANDBOX-API-KEY: '
                             f'{self.daemon.key}\r\nContent-Length: 1000\r\n\r\n{{'.encode())
            for peer in peers[200:250]:
                peer.sendall(f'POST {self.b.base}/command HTTP/1.1\r\nHost: h\r\n{TOKEN}: '
                             f'{self.b.headers[TOKEN]}\r\nContent-Length: 1000\r\n\r\n{{'.encode())
            during = self.median()
        finally:
            for peer in peers:
                peer.close()
        self.assertLess(during, before + 0.25 * SLOWNESS)  # who waits for a peer waits for ever

    def create(self, body):
        key = {'OPEN-SANDBOX-API-KEY': self.daemon.key, 'Content-Type': 'application/json'}
        connection = self.daemon.connection()
        try:
            answer = self.ask('/v1/sandboxes', key, 'POST', body, connection)
        except ConnectionError:  # closed while we still sent
            return 0, ''
        finally:
            connection.close()
        return answer.status, answer.text

    def test_monstrous_requests(self):
        plain = {'image': {'uri': self.image}, 'entrypoint': ['sleep', '9'], 'resourceLimits': {}}
        many = {f'n{i}': 'v' * 20 for i in range(100000)}
        self.create(b'{}')
        before = self.memory_kib()
        for what, body in {
                'env': json.dumps({**plain, 'env': many}),
                'metadata': json.dumps({**plain, 'metadata': many}),
                'entrypoint': json.dumps({**plain, 'entrypoint': ['x'] * 900000}),
                'a long word': json.dumps({**plain, 'entrypoint': ['x' * 4000000]}),
                'arrays': '[' * 1000000, 'objects': '{"a":' * 500000,
                'nested extensions': json.dumps({**plain, 'extensions': 0})[:-2] + '[' * 100000,
                'keys twice': '{' + '"image":{"uri":"x"},' * 100000 + '"a":1}',
                'number': '{"timeout":' + '9' * 1000000 + '}',
                'volumes': json.dumps({**plain, 'volumes': [{'name': 'v'}] * 100000}),
                'too large': b' ' * (64 << 20)}.items():
            status, text = self.create(body)
            self.assertIn(status, (400, 422), what)
            self.assertLess(len(text), 64 << 10, what)
        self.assertEqual(self.create(json.dumps(plain).replace('"9"', '"\\ud800"'))[0] // 100, 4)
        until(lambda: self.memory_kib() < before + (48 << 10), 30 * SLOWNESS,
              'the memory comes back')

    def test_names_that_lead_elsewhere(self):
        """Every placeholder of every route, with what is no id."""
        victim = self.daemon.top / 'victim'
        victim.mkdir()
        (victim / 'file').write_text('here', encoding='ascii')
        document = json.loads(self.ask('/openapi.json').text)
        odd = ('..', '../victim', '%2e%2e', '%2e%2e%2fvictim', '..%2f..%2f..%2fvictim', 'a%00b', '%00',
               'x' * 5000, '%0d%0aX-Evil:%201', '%ff%fe', '.', '%2f', '%5c..%5c', '*', "'%20OR%201=1--",
               self.a.id.upper(), self.a.id + '%00', self.a.id + '%20', '%2e%2e%2f' + self.a.id,
               '{}', '$(id)', '%', '%zz')
        routes = [(method.upper(), path) for path, methods in document['paths'].items()
                  for method in methods if '{' in path and method in ('get', 'post', 'put', 'patch',
                                                                      'delete')]
        self.assertGreater(len(routes), 10)
        connection = self.daemon.connection()
        key = {'OPEN-SANDBOX-API-KEY': self.daemon.key, 'Content-Type': 'application/json'}
        for method, pattern in routes:
            for value in odd:
                path = re.sub(r'\{[^}]*\}', lambda _, value=value: value, pattern)
                for prefix in ('', '/v1'):
                    full = prefix + path if not path.startswith('/v1') else path
                    body = None if method in ('GET', 'DELETE') else '{}'
                    answer = self.ask(full, key, method, body, connection)
                    self.assertIn(answer.status, (400, 404, 405, 409, 422, 501), (method, full[:200]))
                    self.assertIsNone(answer.headers['X-Evil'])
                    self.assertLess(len(answer.text), 8192, (method, full[:200]))
        for name in ('../victim', '..', 'a/../../victim', '/etc', 'a\0b', 'x' * 5000, ''):
            for path in ('/v1/volumes', '/v1/images?name=' + urllib.parse.quote(name, safe='')):
                answer = self.ask(path, key, 'POST', json.dumps({'name': name}))
                self.assertIn(answer.status, (400, 413, 415, 422), (path, name[:99]))
        self.assertEqual((victim / 'file').read_text(encoding='ascii'), 'here')
        self.assertEqual(os.listdir(victim), ['file'])
        self.assertEqual(self.a.out('echo alive'), 'alive')

    def test_no_line_of_the_log_is_forged(self):
        """What clients say is checked before it is logged, and quoted when it is: the quoting alone
        is tested beside the log itself."""
        line = '2026-01-01T00:00:00.000Z error atolld: forged'
        evil = f'x\n{line}\r{line}\x1b[2J\u2028{line}'
        sent = ({'image': {'uri': evil}}, {'entrypoint': [f'/{evil}']}, {'metadata': {'a': evil}},
                {'metadata': {evil: 'a'}}, {'env': {'A': evil}}, {'env': {evil: 'A'}},
                {'extensions': {evil: evil}}, {'resourceLimits': {evil: evil}}, {evil: evil},
                {'entrypoint': ['sh', '-c', f"printf '{line}\\n{line}\\n' >&2; echo '{evil}'"]},
                {'volumes': [{'name': 'v', 'host': {'path': f'/{evil}'}, 'mountPath': '/v'}]},
                {'volumes': [{'name': 'v', 'pvc': {'claimName': evil}, 'mountPath': f'/{evil}'}]},
                {'extensions': {'user': evil}})
        key = {'OPEN-SANDBOX-API-KEY': self.daemon.key,
               'X-Request-ID': f'x"_sandbox=forged\\n{line.replace(" ", "_")}',
               'Idempotency-Key': 'forged"=\\n'}
        for number, fields in enumerate(sent):
            body = {'image': {'uri': self.image}, 'entrypoint': ['sleep', '9'], 'resourceLimits': {},
                    **fields}
            answer = self.ask('/v1/sandboxes', {**key, 'Idempotency-Key': f'forged{number}"'}, 'POST',
                              json.dumps(body))
            if answer.status == 202:
                self.addCleanup(self.daemon.delete, json.loads(answer.text)['id'])
        quoted = urllib.parse.quote(evil)
        for path in (f'/v1/sandboxes/{quoted}', f'/{quoted}', f'/v1/volumes/{quoted}',
                     f'/v1/images/{quoted}', f'/sandboxes/{self.a.id}/proxy/8000/{quoted}'):
            for method in ('GET', 'DELETE'):
                self.ask(path, key, method)
        self.ask('/v1/images?name=' + quoted, key, 'POST', b'no archive: ' + evil.encode())
        self.b.run(f"printf '%s' '{evil}'; printf '%s' '{evil}' >&2; exit 3")
        # A request id of several words is not taken over.
        answer = self.ask('/v1/sandboxes', {**key, 'X-Request-ID': 'x" sandbox=forged'}, 'POST',
                          json.dumps({'image': {'uri': self.image}, 'entrypoint': ['sleep', '9'],
                                      'resourceLimits': {}}))
        self.assertNotIn('forged', answer.headers['X-Request-ID'])
        self.addCleanup(self.daemon.delete, json.loads(answer.text)['id'])
        # By then it has written about the last one.
        self.assertEqual(self.ask('/v1/sandboxes', key).status, 200)
        logs = [self.daemon.log, self.daemon.run_dir / 'spawner.log']
        written = ''.join(log.read_bytes().decode('latin-1') for log in logs if log.exists())
        self.assertIn('forged', written)  # some of it does get there
        for text in written.split('\n')[:-1]:
            self.assertRegex(text, LOG_LINE)
            self.assertNotRegex(text, r'^\S+ \S+ \S+ forged')
            self.assertRegex(text, r'^[ -~]*$')
            # A field of its own, rather than the text within one.
            self.assertNotIn(' sandbox=forged', re.sub(r'"(\\.|[^"\\])*"', '""', text))


if __name__ == '__main__':
    unittest.main()
