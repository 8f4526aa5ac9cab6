"""The reverse proxy and hostile HTTP."""
import json
import os
import re
import socket
import sys
import unittest

from harness import Sandbox, until
from websocket_client import Socket

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from odd_heads import REFUSED, TAKEN, message, next_request  # noqa: E402

SERVER = r'''
import base64, hashlib, http.server, socket, sys, threading, time
READ = threading.Event()
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def log_message(self, *a): pass
    def body(self):
        if self.headers.get('Transfer-Encoding') == 'chunked':
            out = b''
            while True:
                n = int(self.rfile.readline(), 16)
                out += self.rfile.read(n); self.rfile.readline()
                if n == 0: return out
        return self.rfile.read(int(self.headers.get('Content-Length', 0)))
    def do_GET(self):
        if self.path == '/stream':
            self.send_response(200); self.send_header('Transfer-Encoding', 'chunked'); self.end_headers()
            self.wfile.write(b'6\r\nline 0\r\n'); self.wfile.flush(); READ.wait(20)
            self.wfile.write(b'6\r\nline %d\r\n0\r\n\r\n' % READ.is_set()); return
        if self.path == '/read': READ.set()
        if self.path == '/eof':
            self.send_response(200); self.end_headers(); self.wfile.write(b'until eof')
            self.close_connection = True; return
        if self.path == '/cut':
            self.send_response(200); self.send_header('Content-Length', '100'); self.end_headers()
            self.wfile.write(b'short'); self.close_connection = True; return
        if self.path == '/204':
            self.send_response(204); self.end_headers(); return
        if self.path == '/ws':
            key = self.headers['Sec-WebSocket-Key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
            self.send_response(101); self.send_header('Upgrade', 'websocket')
            self.send_header('Connection', 'Upgrade')
            self.send_header('Sec-WebSocket-Accept', base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
            self.end_headers(); self.wfile.write(b'\x82\x05first'); self.wfile.flush()
            while True:
                data = self.connection.recv(65536)
                if not data: return
                self.connection.sendall(b'\x82' + bytes([len(data)]) + data if len(data) < 126 else b'')
        body = self.body()
        out = (self.requestline + '\n' + str(self.headers)).encode() + b'BODY ' + str(len(body)).encode() + b' ' + body[:20]
        self.send_response(200); self.send_header('Content-Length', str(len(out)))
        self.send_header('X-Extra', 'kept'); self.end_headers()
        if self.command != 'HEAD': self.wfile.write(out)
    do_POST = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = do_GET
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
class S(http.server.ThreadingHTTPServer):
    address_family = family
S((sys.argv[1], int(sys.argv[2])), H).serve_forever()
'''


class Proxy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        def setup():
            with open('/opt/server.py', 'w', encoding='ascii') as file:
                file.write(SERVER)
        cls.s = Sandbox(setup=setup, token='tok')
        cls.serve('127.0.0.1', 8001)
        cls.serve('::1', 8002)

    @classmethod
    def serve(cls, host, port):
        cls.s.call('POST', '/command', {
            'command': f'exec /usr/bin/python3 /opt/server.py {host} {port}', 'background': True})
        until(lambda: cls.s.call('GET', f'/proxy/{port}/').status == 200)

    @classmethod
    def tearDownClass(cls):
        cls.s.close()

    def test_request_and_answer(self):
        answer = self.s.call('POST', '/proxy/8001/a/b%20c?x=1&y=%2F', b'hello',
                             {'X-Mine': 'yes', 'Connection': 'X-Hop', 'X-Hop': 'no',
                              'X-Forwarded-Host': 'outside.example'})
        self.assertEqual((answer.status, answer.headers['X-Extra']), (200, 'kept'))
        text = answer.body.decode()
        self.assertTrue(text.startswith('POST /a/b%20c?x=1&y=%2F HTTP/1.1\n'))
        self.assertIn('X-Mine: yes', text)
        self.assertIn('X-Forwarded-Proto: http', text)
        self.assertIn('X-Forwarded-For: 127.0.0.1', text)
        # The daemon's word: it has taken away what its client claimed.
        self.assertIn('X-Forwarded-Host: outside.example', text)
        self.assertTrue(text.endswith('BODY 5 hello'))
        for absent in ('X-Hop', 'tok', 'X-EXECD'):
            self.assertNotIn(absent, text)

    def test_methods_and_bodies(self):
        for method in ('PUT', 'DELETE', 'OPTIONS'):
            self.assertIn(method.encode(), self.s.call(method, '/proxy/8001/').body)
        answer = self.s.call('HEAD', '/proxy/8001/')
        self.assertEqual((answer.status, answer.body), (200, b''))
        self.assertGreater(int(answer.headers['Content-Length']), 0)
        self.assertEqual(self.s.call('GET', '/proxy/8001/204').status, 204)
        big = os.urandom(3_000_000)
        self.assertIn(b'BODY 3000000', self.s.call('POST', '/proxy/8001/', big).body)
        answer = self.s.call('POST', '/proxy/8001/', (big[i:i + 9999] for i in range(0, 99990, 9999)))
        self.assertIn(b'BODY 99990', answer.body)

    def test_streams_as_it_comes(self):
        connection = self.s.connection()
        connection.request('GET', '/proxy/8001/stream', headers={'X-EXECD-ACCESS-TOKEN': 'tok'})
        response = connection.getresponse()
        self.assertEqual(response.read1(100), b'line 0')
        self.s.call('GET', '/proxy/8001/read')
        self.assertEqual(response.read(), b'line 1')
        connection.close()

    def test_ends_by_eof_and_cut_off(self):
        self.assertEqual(self.s.call('GET', '/proxy/8001/eof').body, b'until eof')
        with self.assertRaises(Exception):
            self.s.call('GET', '/proxy/8001/cut')

    def test_websocket(self):
        ws = Socket.__new__(Socket)
        ws.sock = self.s.raw()
        ws.sock.sendall(b'GET /proxy/8001/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n'
                        b'Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n'
                        b'X-EXECD-ACCESS-TOKEN: tok\r\n'
                        b'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n')
        ws.buffer = b''
        while b'\r\n\r\n' not in ws.buffer:
            ws.buffer += ws.sock.recv(4096)
        head, ws.buffer = ws.buffer.split(b'\r\n\r\n', 1)
        self.assertIn(b'101', head)
        self.assertIn(b's3pPLMBiTxaQ9kYGzzhZRbK+xOo=', head)
        self.assertEqual(ws.frame(), (2, b'first'))
        ws.sock.sendall(b'raw bytes')
        self.assertEqual(ws.frame(), (2, b'raw bytes'))
        ws.sock.shutdown(socket.SHUT_WR)
        self.assertEqual(ws.sock.recv(10), b'')

    def test_ipv6_loopback(self):
        self.assertEqual(self.s.call('GET', '/proxy/8002/').status, 200)

    def test_refusals(self):
        answer = self.s.call('GET', '/proxy/9999/')
        self.assertEqual((answer.status, answer.json['code']), (502, 'BACKEND_CONNECTION_FAILED'))
        self.assertIn('9999', answer.json['message'])
        for port in ('x', '0', '65536', '-1', '80x', ''):
            self.assertEqual(self.s.call('GET', f'/proxy/{port}/').status, 400)

    def test_server_that_speaks_no_http(self):
        self.s.call('POST', '/command', {
            'command': "/usr/bin/python3 -c \"import socket; s = socket.create_server(('127.0.0.1', "
                       "8003)); c = s.accept()[0]; c.recv(1000); c.sendall(b'hello\\\\r\\\\n' * 9)\"",
            'background': True})
        until(lambda: self.s.call('POST', '/command', {'command': 'ss -tln 2>/dev/null | grep 8003 '
                      '|| grep -i :1F43 /proc/net/tcp'}).body.count(b'stdout'))
        answer = self.s.call('GET', '/proxy/8003/')
        self.assertEqual((answer.status, answer.json['code']), (502, 'BACKEND_RESPONSE_FAILED'))


class Hostile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Sandbox()

    @classmethod
    def tearDownClass(cls):
        cls.s.close()

    def tearDown(self):
        self.assertEqual(self.s.out('echo alive'), 'alive')

    def raw(self, data, finish=True):
        with self.s.raw() as client:
            try:
                client.sendall(data)
                if finish:
                    client.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            out = b''
            try:
                while piece := client.recv(65536):
                    out += piece
            except OSError:
                pass
            return out

    def test_half_requests(self):
        for data in (b'', b'G', b'GET /ping', b'GET /ping HTTP/1.1\r\nHost: x\r\n', b'\r\n\r\n\r\n',
                     b'POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{',
                     b'POST /command HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab'):
            with self.subTest(data=data):
                self.assertNotIn(b'200 OK', self.raw(data))

    def test_malformed(self):
        for data in (b'GARBAGE\r\n\r\n', b'GET  /ping HTTP/1.1\r\nHost: x\r\n\r\n', b'GET /ping HTTP/3.0\r\n\r\n',
                     b'GET /ping HTTP/1.1\r\nHost: x\r\nA b: c\r\n\r\n', b'GET /ping HTTP/1.1\r\nHost: x\r\n: c\r\n\r\n',
                     b'GET /ping HTTP/1.1\r\nHost: x\r\nA: \0\r\n\r\n', b'G\0T / HTTP/1.1\r\nHost: x\r\n\r\n',
                     b'GET /ping HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab',
                     b'GET /ping HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n',
                     b'GET /ping HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n',
                     b'POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n'
                     b'\r\n0\r\n\r\n', b'POST /command HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n'
                     b'zz\r\n', b'\x16\x03\x01\x02\0\x01\0'):
            with self.subTest(data=data):
                out = self.raw(data, finish=False)
                self.assertIn(b'HTTP/1.1 400', out)
                self.assertNotIn(b'200 OK', out)

    def test_odd_heads(self):
        """The verdicts of the daemon and of the splice proxy: see odd_heads_test.py."""
        for verdict, table in ((False, REFUSED), (True, TAKEN)):
            for name, text in table.items():
                answer = self.raw(message(text, '/ping') + next_request('/ping'), finish=False)
                statuses = re.findall(rb'HTTP/1\.1 (\d\d\d) ', answer)
                self.assertEqual(len(statuses) == 2 and statuses[1] == b'200', verdict, (name, answer))

    def test_huge_headers(self):
        self.assertIn(b' 431 ', self.raw(b'GET /ping HTTP/1.1\r\nHost: x\r\nA: ' + b'x' * 100000 + b'\r\n\r\n',
                                         finish=False))
        self.assertIn(b' 431 ', self.raw(b'GET /' + b'x' * 100000 + b' HTTP/1.1\r\nHost: x\r\n\r\n',
                                         finish=False))
        self.assertIn(b'200 OK', self.raw(b'GET /ping HTTP/1.1\r\nHost: x\r\nA: ' + b'x' * 60000 + b'\r\n'
                                          b'Connection: close\r\n\r\n', finish=False))
        self.assertIn(b' 431 ', self.raw(b'GET /ping HTTP/1.1\r\nHost: x\r\n' + b'A: b\r\n' * 20000 + b'\r\n',
                                         finish=False))

    def test_large_bodies(self):
        answer = self.s.call('POST', '/command', b'x' * (9 << 20))
        self.assertEqual(answer.status, 413)
        body = json.dumps({'command': 'true', 'envs': {f'N{i}': 'v' * 20 for i in range(100000)}})
        answer = self.s.call('POST', '/command', body)
        self.assertEqual(answer.status, 200)
        self.assertIn(b'Argument list too long', answer.body)
        answer = self.s.call('POST', '/files/permissions', {f'/nope/{i}': {} for i in range(100000)})
        self.assertEqual(answer.status, 500)
        answer = self.s.call('POST', '/directories', {f'/tmp/many/{i}': {'mode': 700}
                                                      for i in range(20000)})
        self.assertEqual(answer.status, 200)
        self.assertEqual(self.s.out('ls /tmp/many | wc -l; rm -rf /tmp/many'), '20000')

    def test_json_of_every_shape(self):
        for body in (b'[' * 1000, b'{"a":' * 1000, b'[' * 60 + b']' * 60, b'"' + b'\\u0000' * 100,
                     b'{"command":"\xff\xfe"}x', b'{"command":"\\ud800"}', b'{"a":1e999999}',
                     b'[1,2,3' + b',1' * 600000, b'{"command":tru}', b'\xef\xbb\xbf{}', b'-', b'01'):
            with self.subTest(body=body[:20]):
                self.assertIn(self.s.call('POST', '/command', body).status, (200, 400))

    def test_memory_comes_back(self):
        def memory():
            with open(f'/proc/{self.s.pid}/smaps_rollup', encoding='ascii') as file:
                return int([l for l in file if l.startswith('Anonymous')][0].split()[1])
        self.s.call('POST', '/command', b'[' + b'1,' * 2_000_000)
        self.s.call('POST', '/command', json.dumps({'command': 'x' * 4_000_000}))
        until(lambda: memory() < 2048)

    def test_slow_body_is_served_beside_others(self):
        with self.s.raw() as slow:
            slow.sendall(b'POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: 21\r\n\r\n')
            for byte in b'{"command":"echo ok"}':
                slow.sendall(bytes([byte]))
                self.assertEqual(self.s.call('GET', '/ping').status, 200)
            self.assertIn(b'200 OK', slow.recv(4096))

    def test_expect_continue(self):
        with self.s.raw() as client:
            client.sendall(b'POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: 18\r\n'
                           b'Expect: 100-continue\r\n\r\n')
            self.assertIn(b'100 Continue', client.recv(4096))
            client.sendall(b'{"command":"true"}')
            self.assertIn(b'200 OK', client.recv(4096))

    def test_many_connections(self):
        clients = [self.s.raw() for _ in range(450)]
        for client in clients:
            client.close()
        self.assertEqual(self.s.call('GET', '/ping').status, 200)

    def test_early_answer_to_a_large_upload(self):
        body = b'x' * (4 << 20)
        answer = self.s.call('POST', '/nope', body)
        self.assertEqual(answer.status, 404)

    def test_head_of_a_get_route(self):
        self.assertEqual(self.s.call('HEAD', '/ping').status, 404)


if __name__ == '__main__':
    unittest.main()
