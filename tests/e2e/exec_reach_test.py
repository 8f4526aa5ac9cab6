"""Terminals and the way into a sandbox's own ports, through the daemon's proxy."""
import json
import os
import socket
import struct
import unittest
import urllib.parse

from atoll import SLOWNESS, until
from exec_contract_test import UUID, Contract


def holds(*parts):
    return lambda output: isinstance(output, bytes) and all(part in output for part in parts)


class Terminals(Contract):
    def create(self, **body):
        answer = self.s.call('POST', '/pty', body or None)
        self.assertEqual((answer.status, list(answer.json)), (201, ['session_id']))
        self.assertRegex(answer.json['session_id'], UUID)
        return answer.json['session_id']

    def attach(self, terminal, query=''):
        return self.s.websocket(f'/pty/{terminal}/ws{query}')

    def info(self, terminal):
        return self.s.call('GET', f'/pty/{terminal}').json

    def test_life(self):
        terminal = self.create(cwd='/usr')
        self.assertEqual(self.info(terminal),
                         {'session_id': terminal, 'running': False, 'output_offset': 0})
        ws = self.attach(terminal)
        self.assertEqual(ws.message('connected'),
                         {'type': 'connected', 'session_id': terminal, 'mode': 'pty'})
        ws.send(2, b'\0echo $0; pwd; stty size; tty\n')
        output = ws.until(holds(b'24 80', b'/dev/pts/'))
        self.assertIn(b'bash\r\n', output)
        self.assertIn(b'/usr\r\n', output)
        ws.text(type='resize', cols=132, rows=50)
        ws.text(type='stdin', data='stty size\n')
        ws.until(holds(b'50 132'))
        ws.text(type='ping')
        self.assertEqual(ws.message('pong'), {'type': 'pong'})
        ws.text(type='stdin', data='exit 3\n')
        self.assertEqual(ws.message('exit'), {'type': 'exit', 'exit_code': 3})
        self.assertEqual(ws.close_code(), 1000)
        self.assertFalse(self.info(terminal)['running'])
        # A new client starts it again.
        self.attach(terminal, '?since=99999').message('connected')
        self.assertTrue(self.info(terminal)['running'])
        self.empty(self.s.call('DELETE', f'/pty/{terminal}'))
        for method, path in (('GET', ''), ('DELETE', ''), ('GET', '/ws')):
            self.refused(self.s.call(method, f'/pty/{terminal}{path}'), 404, 'CONTEXT_NOT_FOUND')

    def test_a_program_of_its_own_runs_once(self):
        """A deploy that has ended while its client was away is not started again by a look at it."""
        script = 'echo begun; read x </tmp/go; echo ran >>/tmp/runs; echo more; exit 4'
        self.s.out('mkfifo /tmp/go')
        for query, begun in (('?takeover=1', b'begun\r\n'), ('?takeover=1&pty=0', b'begun\n')):
            for body in ({'argv': ['sh', '-c', script]}, {'command': script}):
                self.s.out(': >/tmp/runs')
                terminal = self.create(**body)
                ws = self.attach(terminal, query)
                ws.until(holds(begun))
                ws.sock.close()
                self.s.out('echo go >/tmp/go')
                until(lambda: not self.info(terminal)['running'], 30 * SLOWNESS, 'it has ended')
                for since in (0, len(begun)):
                    ws = self.attach(terminal, f'{query}&since={since}')
                    told = ws.until(holds(b'more')).replace(b'\r', b'')
                    self.assertEqual(told, b'more\n' if since else b'begun\nmore\n')
                    self.assertEqual(ws.message('exit'), {'type': 'exit', 'exit_code': 4})
                    self.assertEqual(ws.close_code(), 1000)
                self.assertEqual(self.s.out('cat /tmp/runs'), 'ran')
                self.empty(self.s.call('DELETE', f'/pty/{terminal}'))

    def test_pipes(self):
        terminal = self.create(command='read line; echo "got $line"; echo err >&2; exit 4')
        ws = self.attach(terminal, '?pty=0')
        self.assertEqual(ws.message('connected')['mode'], 'pipe')
        ws.send(2, b'\0word\n')
        frames = [ws.frame(), ws.frame()]
        self.assertEqual(sorted(frames), [(2, b'\1got word\n'), (2, b'\2err\n')])
        self.assertEqual(ws.message('exit')['exit_code'], 4)

    def test_replay(self):
        terminal = self.create(command='printf 0123456789; exec sleep 99')
        ws = self.attach(terminal)
        ws.until(lambda o: o == b'0123456789')
        ws.sock.close()
        for since in (0, 4):
            ws = self.attach(terminal, f'?takeover=1&since={since}')
            opcode, payload = ws.frame()
            self.assertEqual((opcode, payload[0], struct.unpack('>q', payload[1:9])[0], payload[9:]),
                             (2, 3, since, b'0123456789'[since:]))
            self.assertEqual(json.loads(ws.frame()[1])['type'], 'connected')
        self.s.call('DELETE', f'/pty/{terminal}')

    def test_the_ring_keeps_a_mebibyte(self):
        terminal = self.create(command='head -c 3000000 /dev/zero | tr "\\0" x; exec sleep 99')
        ws = self.attach(terminal, '?pty=0')
        received = 0
        while received < 3000000:
            payload = ws.frame()[1]
            received += len(payload) - 1 if payload[0] == 1 else 0
            self.assertLessEqual(len(payload), 1 + (32 << 10))
        ws = self.attach(terminal, '?takeover=1&pty=0')
        payload = ws.frame()[1]
        self.assertEqual((payload[0], struct.unpack('>q', payload[1:9])[0], len(payload) - 9),
                         (3, 3000000 - (1 << 20), 1 << 20))
        self.s.call('DELETE', f'/pty/{terminal}')

    def test_one_client(self):
        terminal = self.create()
        first = self.attach(terminal)
        first.message('connected')
        self.assertEqual(self.attach(terminal).status, 409)
        second = self.attach(terminal, '?takeover=1')
        self.assertEqual(first.message('error')['code'], 'TAKEN_OVER')
        self.assertEqual(first.close_code(), 4001)
        second.text(type='stdin', data='echo al\\ive\n')
        second.until(holds(b'alive'))
        self.s.call('DELETE', f'/pty/{terminal}')
        self.assertEqual(second.message('error')['code'], 'SESSION_GONE')

    def test_signals(self):
        for name, number in (('SIGINT', 2), ('SIGTERM', 15), ('SIGQUIT', 3), ('SIGHUP', 1)):
            terminal = self.create(command=f'trap "echo got {name}; exit {number}" {name[3:]}; '
                                           'echo ready; while :; do sleep 0.01; done')
            ws = self.attach(terminal)
            ws.until(holds(b'ready'))
            ws.text(type='signal', signal=name)
            self.assertEqual(ws.message('exit')['exit_code'], number)
        terminal = self.create(command='echo ready; sleep 99')
        ws = self.attach(terminal)
        ws.until(holds(b'ready'))
        ws.text(type='signal', signal='SIGSTOP')
        self.assertEqual(ws.message('error')['code'], 'INVALID_FRAME')
        ws.text(type='signal', signal='SIGKILL')
        self.assertEqual(ws.message('exit')['exit_code'], -1)

    def test_delete_leaves_nothing(self):
        before = self.at_rest()
        terminal = self.create(command='setsid sleep 98 & trap "" HUP; echo ready; sleep 99')
        self.attach(terminal).until(holds(b'ready'))
        self.s.call('DELETE', f'/pty/{terminal}')
        until(lambda: self.s.processes() == before, 30 * SLOWNESS, 'all of it is gone')

    def test_bad_frames(self):
        terminal = self.create()
        ws = self.attach(terminal)
        ws.message('connected')
        for opcode, payload in ((1, b'{'), (1, b'{"type":"?"}'), (2, b'\x09x'),
                                (1, b'{"type":"resize","cols":0,"rows":1}')):
            ws.send(opcode, payload)
            self.assertEqual(ws.message('error')['code'], 'INVALID_FRAME')
        ws.send(2, b'\0x', mask=False)
        self.assertEqual(ws.close_code(), 1002)
        self.s.call('DELETE', f'/pty/{terminal}')


class Ports(Contract):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.own = cls.s.out("ip -4 addr show | awk '/inet / && !/127.0/ {print $2}' | cut -d/ -f1")
        # The same port on each address tells which one was taken.
        for number, address in enumerate(('127.0.0.1', '[::1]', cls.own)):
            for port in range(8001, 8004):
                if port - 8001 <= number:
                    cls.s.out(f'mkdir -p /srv/{number}/cgi-bin; echo {number} >/srv/{number}/which; '
                              f'cp /srv/cgi-bin/show /srv/{number}/cgi-bin/; '
                              f'busybox httpd -p {address}:{port} -h /srv/{number}')
        cls.s.background('busybox nc -ll -p 8100 -e /srv/ws')
        until(lambda: cls.ask(8100).status == 200, 30 * SLOWNESS)

    @classmethod
    def ask(cls, port, path='/', method='GET', body=None, headers=None):
        response = cls.daemon.send(method, cls.s.port(port) + path, body,
                                   {**cls.s.headers, **(headers or {})})
        response.text = response.read().decode()
        return response

    def test_loopback_then_ipv6_then_own_address(self):
        self.assertEqual([self.ask(port, '/which').text for port in (8001, 8002, 8003)],
                         ['0\n', '1\n', '2\n'])

    def test_request_as_the_server_sees_it(self):
        answer = self.ask(8001, '/cgi-bin/show?a=b%20c', 'POST', b'12345',
                          {'X-Mine': 'kept', 'Connection': 'X-Hop', 'X-Hop': 'gone',
                           'X-Forwarded-For': '9.9.9.9, 8.8.8.8', 'X-Forwarded-Host': 'gone.test'})
        self.assertEqual(answer.status, 200)
        lines = answer.text.splitlines()
        self.assertEqual((lines[0], lines[-1]), ('POST /cgi-bin/show?a=b%20c', 'body 5'))
        self.assertIn('HTTP_X_MINE=kept', lines)
        self.assertIn('HTTP_X_FORWARDED_PROTO=http', lines)
        self.assertIn('HTTP_X_FORWARDED_FOR=127.0.0.1', lines)
        self.assertIn(f'HTTP_X_FORWARDED_HOST={urllib.parse.urlsplit(self.daemon.url).netloc}', lines)
        for absent in ('HOP', 'gone.test', '9.9.9.9', self.s.headers['X-EXECD-ACCESS-TOKEN'],
                       self.daemon.execd_secret(self.s.id), self.daemon.key):
            self.assertNotIn(absent, answer.text)

    def test_a_large_chunked_body(self):
        answer = self.ask(8001, '/cgi-bin/show', 'POST', (bytes(10000) for _ in range(100)))
        # busybox's httpd knows no chunked bodies; what counts is that it is told of one.
        self.assertEqual(answer.status, 200)
        answer = self.ask(8001, '/cgi-bin/show', 'POST', os.urandom(3_000_000))
        self.assertTrue(answer.text.endswith('body 3000000\n'))

    def test_streams(self):
        self.s.out('mkfifo /tmp/go')
        response = self.daemon.send('GET', self.s.port(8001) + '/cgi-bin/show?stream')
        self.assertEqual(response.readline(), b'first\n')
        # The rest is written only after the first line has been read here.
        self.s.out('echo second >/tmp/go')
        self.assertEqual(response.read(), b'second\n')

    def test_websocket(self):
        with self.s.raw() as peer:
            peer.sendall(f'GET {self.s.port(8100)}/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n'
                         'Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n'
                         'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n'.encode())
            head = b''
            while b'\r\n\r\n' not in head:
                head += peer.recv(4096)
            self.assertIn(b' 101 ', head)
            self.assertIn(b's3pPLMBiTxaQ9kYGzzhZRbK+xOo=', head)
            peer.sendall(b'bytes as they are')
            self.assertEqual(peer.recv(100), b'bytes as they are')
            peer.shutdown(socket.SHUT_WR)
            self.assertEqual(peer.recv(100), b'')

    def test_execds_own_proxy_route(self):
        """As docker-mode clients reach ports: through execd's own endpoint."""
        self.assertEqual(self.s.call('GET', '/proxy/8001/which').body, b'0\n')
        self.assertEqual(self.s.call('GET', '/proxy/44772/').status, 502)
        for port in ('x', '0', '65536', ''):
            self.assertEqual(self.s.call('GET', f'/proxy/{port}/').status, 400)

    def test_nobody_there(self):
        answer = self.ask(9)
        self.assertEqual(answer.status, 502)
        self.assertIn('9', answer.text)


if __name__ == '__main__':
    unittest.main()
