"""Sessions, terminals, code without kernels, metrics."""
import hashlib
import json
import os
import struct
import threading
import time
import unittest

from harness import Sandbox, mount, until
from websocket_client import Socket


def texts(events, kind='stdout'):
    return [e.get('text') for e in events if e['type'] == kind]


class Sessions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Sandbox(env=['PATH=/usr/bin:/bin', 'BASE=from image'])

    @classmethod
    def tearDownClass(cls):
        cls.s.close()

    def create(self, body=None):
        answer = self.s.call('POST', '/session', body)
        self.assertEqual(answer.status, 200)
        session = answer.json['session_id']
        self.assertRegex(session, r'^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')
        # Its shell stays until then.
        self.addCleanup(self.s.call, 'DELETE', f'/session/{session}')
        return session

    def run_in(self, session, command, **members):
        return self.s.events(f'/session/{session}/run', {'command': command, **members})

    def test_state_persists(self):
        session = self.create()
        run = lambda command, **m: texts(self.run_in(session, command, **m))
        self.assertEqual(run('export A="x  \\"y\\" \\$z"; export E=; cd /usr; f() { echo f "$@"; }; '
                             "alias hey='echo hey'; B=plain; echo $BASE"), ['from image'])
        self.assertEqual(run('echo "$A"; pwd; f 1 2; hey you; echo "[$B]"; echo "${E-unset}"'),
                         ['x  "y" $z', '/usr', 'f 1 2', 'hey you', '[plain]'])
        self.assertEqual(run('unset A BASE; export L=$(printf "a\\nb\\n\\tc")'), [])
        self.assertEqual(run('echo "${A-gone} ${BASE-gone}"; printf "%s\\n" "$L"'),
                         ['gone gone', 'a', 'b', '\tc'])
        self.assertEqual(run('pwd', cwd='/tmp'), ['/tmp'])
        self.assertEqual(run('pwd'), ['/tmp'])

    def test_large_values_persist(self):
        session = self.create()
        self.run_in(session, 'export BIG=$(head -c 90000 /dev/zero | tr "\\0" x) '
                             'BIG2=$(head -c 90000 /dev/zero | tr "\\0" y)')
        self.assertEqual(texts(self.run_in(session, 'echo ${#BIG} ${#BIG2}')), ['90000 90000'])

    def test_exit_ends_the_run_only(self):
        session = self.create()
        events = self.run_in(session, 'export K=kept; cd /usr; exit 7')
        self.assertEqual(events[0]['text'], session)
        self.assertEqual((events[-1]['error']['ename'], events[-1]['error']['evalue']),
                         ('CommandExecError', '7'))
        events = self.run_in(session, 'echo $K; pwd; false')
        self.assertEqual(texts(events), ['kept', '/usr'])
        self.assertEqual(events[-1]['error']['evalue'], '1')
        self.assertEqual(self.run_in(session, 'true')[-1]['type'], 'execution_complete')

    def test_sessions_are_separate(self):
        a, b = self.create(), self.create()
        self.run_in(a, 'export ONLY=a')
        self.assertEqual(texts(self.run_in(b, 'echo "[$ONLY]"')), ['[]'])

    def test_streams(self):
        session = self.create()
        events = self.run_in(session, 'echo out; echo err >&2; echo; echo; echo end')
        self.assertEqual(texts(events), ['out', 'err', 'end'])
        self.assertEqual(texts(events, 'stderr'), [])
        self.assertEqual([e['type'] for e in events[:2]], ['init', 'ping'])

    def test_commands_cannot_touch_the_report(self):
        session = self.create()
        self.run_in(session, 'cd /usr')
        self.assertEqual(texts(self.run_in(session, 'ls /proc/self/fd; echo x >&3'))[:4],
                         ['0', '1', '2', '3'])  # 3 is the directory that ls reads
        self.run_in(session, "bash -c 'printf /etc\\\\0forged\\\\0 >&3' 2>/dev/null; true")
        self.assertEqual(texts(self.run_in(session, 'pwd')), ['/usr'])
        self.assertEqual(texts(self.run_in(session, 'exec echo replaced')), ['replaced'])
        self.assertEqual(texts(self.run_in(session, 'pwd')), ['/usr'])

    def test_syntax_error(self):
        session = self.create()
        self.run_in(session, 'cd /usr')
        self.assertEqual(self.run_in(session, 'if then "')[-1]['type'], 'error')
        self.assertEqual(texts(self.run_in(session, 'pwd # comment')), ['/usr'])

    def test_timeout_and_interrupt(self):
        session = self.create()
        before = self.s.settled()
        events = self.run_in(session, 'setsid sleep 99 & sleep 99', timeout=200)
        self.assertEqual(events[-1]['error']['evalue'], '-1')
        until(lambda: len(self.s.processes()) == before)
        self.assertEqual(texts(self.run_in(session, 'echo usable')), ['usable'])
        connection = self.s.connection()
        connection.request('POST', f'/session/{session}/run', json.dumps({'command': 'sleep 99'}))
        response = connection.getresponse()
        response.read1(10)
        self.assertEqual(self.s.call('DELETE', f'/command?id={session}').status, 200)
        self.assertIn(b'"evalue":"-1"', response.read())
        connection.close()
        answer = self.s.call('POST', f'/session/{session}/run', {'command': 'true'})
        self.assertEqual((answer.status, answer.json['code']), (500, 'RUNTIME_ERROR'))

    def test_disconnect_ends_the_run(self):
        session = self.create()
        before = self.s.settled()
        connection = self.s.connection()
        connection.request('POST', f'/session/{session}/run',
                           json.dumps({'command': 'setsid sleep 99 & sleep 98'}))
        connection.getresponse().read1(10)
        until(lambda: len(self.s.processes()) >= before + 2)
        connection.close()
        until(lambda: len(self.s.processes()) == before)

    def test_delete(self):
        session = self.create()
        self.assertEqual(self.s.call('DELETE', f'/session/{session}').status, 200)
        answer = self.s.call('DELETE', f'/session/{session}')
        self.assertEqual((answer.status, answer.json['code']), (404, 'CONTEXT_NOT_FOUND'))

    def test_cwd(self):
        session = self.create({'cwd': '/tmp/made/by/session'})
        self.assertEqual(texts(self.run_in(session, 'pwd')), ['/tmp/made/by/session'])
        for body in ({'command': ''}, {}, {'command': 'x', 'cwd': '/nope'},
                     {'command': 'x', 'timeout': -1}, '['):
            answer = self.s.call('POST', f'/session/{session}/run', body)
            self.assertEqual((answer.status, answer.json['code']), (400, 'INVALID_REQUEST_BODY'))
        self.assertEqual(self.s.call('POST', '/session', '[').status, 400)
        self.assertEqual(self.s.call('POST', '/session', {'cwd': '/etc/passwd/x'}).status, 500)

    def test_concurrent_runs(self):
        session = self.create()
        out = [None] * 8

        def one(i):
            out[i] = texts(self.run_in(session, f'sleep 0.1; echo {i}'))
        threads = [threading.Thread(target=one, args=(i,)) for i in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        self.assertEqual(out, [[str(i)] for i in range(8)])

    def test_identity(self):
        with Sandbox(user='dev') as s:
            session = s.call('POST', '/session').json['session_id']
            events = s.events(f'/session/{session}/run', {'command': 'id -u; id -G'})
            self.assertEqual(texts(events), ['1000', '1000 29 44'])

    def test_without_bash(self):
        def hide():
            for path in ('/usr/bin/bash', '/bin/bash'):
                if os.path.exists(path) and not os.path.islink(os.path.dirname(path)):
                    mount('/dev/null', path, None, 4096)
        with Sandbox(setup=hide) as s:
            self.assertEqual(s.out('echo "${BASH_VERSION-none}"'), 'none')
            session = s.call('POST', '/session').json['session_id']
            run = lambda c: texts(s.events(f'/session/{session}/run', {'command': c}))
            run("export A='it''s \"here\"'; cd /usr; exit 3")
            self.assertEqual(run('echo "$A"; pwd'), ["its \"here\"", '/usr'])


class Terminals(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Sandbox()

    @classmethod
    def tearDownClass(cls):
        cls.s.close()

    def create(self, **body):
        answer = self.s.call('POST', '/pty', body or None)
        self.assertEqual(answer.status, 201)
        return answer.json['session_id']

    def attach(self, terminal, query=''):
        return Socket(self.s, f'/pty/{terminal}/ws{query}')

    def test_life(self):
        terminal = self.create(cwd='/usr')
        info = lambda: self.s.call('GET', f'/pty/{terminal}').json
        self.assertEqual(info(), {'session_id': terminal, 'running': False, 'output_offset': 0})
        ws = self.attach(terminal)
        self.assertEqual(ws.message('connected'),
                         {'type': 'connected', 'session_id': terminal, 'mode': 'pty'})
        self.assertTrue(info()['running'])
        ws.send(2, b'\0pwd; tty; stty size; id -u\n')
        out = ws.until(lambda o: isinstance(o, bytes) and b'\r\n0\r\n' in o)
        self.assertIn(b'/usr\r\n', out)
        self.assertRegex(out, rb'/dev/pts/\d+')
        self.assertIn(b'24 80', out)
        ws.text(type='resize', cols=100, rows=30)
        ws.text(type='stdin', data='stty size\n')
        ws.until(lambda o: isinstance(o, bytes) and b'30 100' in o)
        ws.text(type='ping')
        ws.message('pong')
        ws.send(2, b'\0exit 9\n')
        self.assertEqual(ws.message('exit'), {'type': 'exit', 'exit_code': 9})
        self.assertEqual(ws.close_code(), 1000)
        self.assertFalse(info()['running'])
        self.assertGreater(info()['output_offset'], 0)
        ws = self.attach(terminal, '?since=999999')
        ws.message('connected')
        self.assertTrue(info()['running'])
        self.assertEqual(self.s.call('DELETE', f'/pty/{terminal}').status, 200)
        self.assertEqual(ws.message('error')['code'], 'SESSION_GONE')
        ws.close_code()
        for method, path in (('GET', ''), ('DELETE', ''), ('GET', '/ws')):
            answer = self.s.call(method, f'/pty/{terminal}{path}')
            self.assertEqual((answer.status, answer.json['code']), (404, 'CONTEXT_NOT_FOUND'))

    def test_replay_from_an_offset(self):
        terminal = self.create(command='printf 0123456789; sleep 99')
        ws = self.attach(terminal)
        ws.until(lambda o: isinstance(o, bytes) and o == b'0123456789')
        ws.sock.close()
        until(lambda: self.attach_status(terminal) == 101)
        for since, wanted in (('', b'0123456789'), ('?since=4', b'456789')):
            ws = self.attach(terminal, since + ('&' if since else '?') + 'takeover=1')
            opcode, payload = ws.frame()
            self.assertEqual((opcode, payload[0]), (2, 3))
            self.assertEqual(struct.unpack('>q', payload[1:9])[0], 10 - len(wanted))
            self.assertEqual(payload[9:], wanted)
            self.assertEqual(ws.frame()[0], 1)
        ws = self.attach(terminal, '?since=10&takeover=1')
        self.assertEqual(json.loads(ws.frame()[1])['type'], 'connected')
        self.s.call('DELETE', f'/pty/{terminal}')

    def attach_status(self, terminal):
        ws = self.attach(terminal)
        ws.sock.close()
        return ws.status

    def test_one_client_and_takeover(self):
        terminal = self.create()
        first = self.attach(terminal)
        first.message('connected')
        self.assertEqual(self.attach_status(terminal), 409)
        second = self.attach(terminal, '?takeover=1')
        second.message('connected')
        self.assertEqual(first.message('error')['code'], 'TAKEN_OVER')
        self.assertEqual(first.close_code(), 4001)
        second.send(2, b'\0echo al\\ive\n')
        second.until(lambda o: isinstance(o, bytes) and b'alive' in o)
        self.s.call('DELETE', f'/pty/{terminal}')

    def test_pipe_mode(self):
        terminal = self.create(command='read x; echo "got $x"; echo err >&2; tty')
        ws = self.attach(terminal, '?pty=0')
        self.assertEqual(ws.message('connected')['mode'], 'pipe')
        ws.text(type='stdin', data='line\n')
        frames = []
        while True:
            opcode, payload = ws.frame()
            if opcode == 1:
                break
            frames.append(payload)
        self.assertIn(b'got line\n', b''.join(f[1:] for f in frames if f[0] == 1))
        self.assertEqual(b''.join(f[1:] for f in frames if f[0] == 2), b'err\n')
        self.assertEqual(json.loads(payload), {'type': 'exit', 'exit_code': 1})

    def test_input_that_crosses_the_end(self):
        """A close that left it unread would reset the connection, and whoever passes the last frames on lose them."""
        ws = self.attach(self.create(command='echo last'), '?pty=0')
        self.assertEqual(ws.message('exit'), {'type': 'exit', 'exit_code': 0})
        self.assertEqual(ws.close_code(), 1000)
        self.assertRaises(EOFError, ws.frame)
        for _ in range(3):
            ws.text(type='eof')

    def test_signals(self):
        terminal = self.create(command='trap "echo caught; exit 3" TERM; echo up; '
                                       'while :; do sleep 0.02; done')
        ws = self.attach(terminal)
        ws.until(lambda o: isinstance(o, bytes) and b'up' in o)
        ws.text(type='signal', signal='SIGTERM')
        self.assertEqual(ws.message('exit')['exit_code'], 3)
        terminal = self.create(command='sleep 99')
        ws = self.attach(terminal)
        ws.text(type='signal', signal='SIGSTOP')
        self.assertEqual(ws.message('error')['code'], 'INVALID_FRAME')
        ws.text(type='signal', signal='SIGKILL')
        self.assertEqual(ws.message('exit')['exit_code'], -1)

    def test_delete_leaves_nothing(self):
        before = self.s.settled()
        terminal = self.create(command='setsid sleep 99 & setsid -f sleep 99; sleep 99')
        ws = self.attach(terminal)
        until(lambda: len(self.s.processes()) >= before + 3)
        self.s.call('DELETE', f'/pty/{terminal}')
        until(lambda: len(self.s.processes()) == before)

    def test_flood_without_a_reader(self):
        terminal = self.create(command='yes')
        ws = self.attach(terminal)
        self.s.wait_until_blocked('yes', 1)
        with open(f'/proc/{self.s.pid}/smaps_rollup', encoding='ascii') as file:
            anonymous = int([l for l in file if l.startswith('Anonymous')][0].split()[1])
        self.assertLess(anonymous, 8192)
        ws.sock.close()
        offset = lambda: self.s.call('GET', f'/pty/{terminal}').json['output_offset']
        start = offset()
        until(lambda: offset() > start + 3_000_000)
        ws = self.attach(terminal, '?since=0')
        opcode, payload = ws.frame()
        self.assertEqual(len(payload) - 9, 1 << 20)
        self.s.call('DELETE', f'/pty/{terminal}')

    def test_bad_frames(self):
        for frame in (dict(opcode=2, payload=b'\x07x'), dict(opcode=1, payload=b'{'),
                      dict(opcode=1, payload=b'{"type":"what"}'),
                      dict(opcode=1, payload=b'{"type":"resize","cols":0,"rows":99999}')):
            terminal = self.create(command='sleep 9')
            ws = self.attach(terminal)
            ws.send(**frame)
            self.assertEqual(ws.message('error')['code'], 'INVALID_FRAME')
            self.s.call('DELETE', f'/pty/{terminal}')
        for frame, code in ((dict(opcode=2, payload=b'x', mask=False), 1002),
                            (dict(opcode=3, payload=b''), 1002), (dict(opcode=0, payload=b'x'), 1002),
                            (dict(opcode=9, payload=b'x' * 126), 1002),
                            (dict(opcode=9, payload=b'x', fin=False), 1002),
                            (dict(opcode=2, payload=b'x' * ((1 << 20) + 1)), 1009)):
            terminal = self.create(command='sleep 9')
            ws = self.attach(terminal)
            try:
                ws.send(**frame)
            except OSError:
                pass
            self.assertEqual(ws.close_code(), code)
            self.s.call('DELETE', f'/pty/{terminal}')

    def test_fragments_and_pings(self):
        terminal = self.create(command='cat')
        ws = self.attach(terminal, '?pty=0')
        ws.message('connected')
        ws.send(2, b'\0he', fin=False)
        ws.send(9, b'between')
        ws.send(0, b'llo', fin=False)
        ws.send(0, b'\n')
        self.assertEqual(ws.frame(), (10, b'between'))
        self.assertEqual(ws.until(lambda o: isinstance(o, bytes) and o.endswith(b'\n')), b'hello\n')
        ws.send(8, struct.pack('>H', 1000))
        self.assertEqual(ws.close_code(), 1000)
        self.s.call('DELETE', f'/pty/{terminal}')

    def test_much_input(self):
        terminal = self.create(command='sleep 0.3; head -c 600000 | md5sum')
        ws = self.attach(terminal, '?pty=0')
        data = os.urandom(600000)
        for i in range(0, len(data), 30000):
            ws.send(2, b'\0' + data[i:i + 30000])
        out = ws.until(lambda o: isinstance(o, bytes) and b'-' in o)
        self.assertIn(hashlib.md5(data).hexdigest().encode(), out)

    def test_refusals(self):
        self.assertEqual(self.s.call('POST', '/pty', {'cwd': '/nope'}).status, 400)
        self.assertEqual(self.s.call('POST', '/pty', '[').status, 400)
        terminal = self.create()
        self.assertEqual(self.s.call('GET', f'/pty/{terminal}/ws').status, 400)

    def test_identity(self):
        with Sandbox(user='dev') as s:
            terminal = s.call('POST', '/pty', {'command': 'id -u; id -G; stat -c %U $(tty)'})
            ws = Socket(s, f'/pty/{terminal.json["session_id"]}/ws')
            out = ws.until(lambda o: isinstance(o, tuple) and o[0] == 1 and b'exit' in o[1])[0]
            self.assertEqual(out.split(), [b'1000', b'1000', b'29', b'44', b'dev'])


class Code(unittest.TestCase):
    def test_without_kernels(self):
        with Sandbox() as s:
            self.assertEqual(texts(s.events('/code', {'code': 'echo shell'})), ['shell\n'])
            self.assertEqual(texts(s.events('/code', {'code': 'echo shell',
                                                      'context': {'language': 'command'}})),
                             ['shell\n'])
            for method, path, body, status, code in (
                    ('POST', '/code', {'code': ''}, 400, 'INVALID_REQUEST_BODY'),
                    ('POST', '/code', {'code': 'x', 'context': {'language': 'python'}}, 500,
                     'RUNTIME_ERROR'),
                    ('POST', '/code', {'code': 'x', 'context': {'id': 'nope'}}, 500, 'RUNTIME_ERROR'),
                    ('POST', '/code/context', {'language': 'python'}, 500, 'RUNTIME_ERROR'),
                    ('POST', '/code/context', '[', 400, 'INVALID_REQUEST_BODY'),
                    ('GET', '/code/contexts?language=sql', None, 500, 'RUNTIME_ERROR'),
                    ('GET', '/code/contexts/x', None, 404, 'CONTEXT_NOT_FOUND'),
                    ('DELETE', '/code/contexts/x', None, 404, 'CONTEXT_NOT_FOUND'),
                    ('DELETE', '/code/contexts', None, 400, 'MISSING_QUERY'),
                    ('DELETE', '/code', None, 400, 'MISSING_QUERY'),
                    ('DELETE', '/code?id=x', None, 500, 'RUNTIME_ERROR')):
                with self.subTest(path=path, method=method):
                    answer = s.call(method, path, body)
                    self.assertEqual((answer.status, answer.json['code']), (status, code))
            self.assertEqual(s.call('GET', '/code/contexts').json, [])
            self.assertEqual(s.call('DELETE', '/code/contexts?language=python').status, 200)


class Metrics(unittest.TestCase):
    def check(self, got):
        self.assertGreater(got['cpu_count'], 0)
        self.assertTrue(0 <= got['cpu_used_pct'] <= 100)
        self.assertGreater(got['mem_total_mib'], 0)
        self.assertTrue(0 <= got['mem_used_mib'] <= got['mem_total_mib'])
        self.assertLess(abs(got['timestamp'] - time.time() * 1000), 60000)
        self.assertGreater(got['disk_total_mib'], 0)
        self.assertIn('net_received_bytes', got)

    def test_once_and_watch(self):
        with Sandbox() as s:
            self.check(s.call('GET', '/metrics').json)
            s.events('/command', {'command': 'while :; do :; done', 'background': True})
            until(lambda: s.call('GET', '/metrics').json['cpu_used_pct'] > 5)
            connection = s.connection()
            connection.request('GET', '/metrics/watch')
            response = connection.getresponse()
            self.assertEqual(response.headers['Content-Type'], 'text/event-stream')
            for _ in range(2):
                line = response.readline()
                self.assertNotEqual(line, b'\n')
                self.check(json.loads(line))
            connection.close()


if __name__ == '__main__':
    unittest.main()
