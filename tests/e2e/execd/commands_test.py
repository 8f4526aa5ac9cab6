"""POST /command and its family: framing, output, environment, background, interrupts, limits."""
import base64
import json
import os
import threading
import time
import unittest

from harness import Sandbox, parse_events, until


def texts(events, kind):
    return [e.get('text') for e in events if e['type'] == kind]


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Sandbox()

    @classmethod
    def tearDownClass(cls):
        cls.s.close()

    def test_stream_framing(self):
        answer = self.s.call('POST', '/command', {'command': 'echo hi; echo err >&2'})
        self.assertEqual(answer.headers['Content-Type'], 'text/event-stream')
        self.assertEqual(answer.headers['Cache-Control'], 'no-cache')
        self.assertEqual(answer.headers['Connection'], 'keep-alive')
        self.assertEqual(answer.headers['X-Accel-Buffering'], 'no')
        events = parse_events(answer.body)
        self.assertEqual([e['type'] for e in events[:2]], ['init', 'ping'])
        self.assertRegex(events[0]['text'], '^[0-9a-f]{32}$')
        self.assertEqual(events[1]['text'], 'pong')
        self.assertEqual(texts(events, 'stdout'), ['hi\n'])
        self.assertEqual(texts(events, 'stderr'), ['err\n'])
        self.assertEqual(events[-1]['type'], 'execution_complete')
        now = time.time() * 1000
        for event in events:
            self.assertLess(abs(event['timestamp'] - now), 60000)
            self.assertIsInstance(event['timestamp'], int)

    def test_bytes_of_one_event(self):
        body = self.s.call('POST', '/command', {'command': "printf '<a>&\"\\t\\001\\377'"}).body
        self.assertIn(b'{"type":"stdout","text":"\\u003ca\\u003e\\u0026\\"\\t\\u0001\\ufffd",'
                      b'"timestamp":', body)

    def test_output_is_split_at_line_ends(self):
        for script, wanted in (('a\\n\\nb\\n', ['a\n', '\n', 'b\n']), ('a\\r\\nb', ['a\r\n', 'b']),
                               ('5%%\\r6%%\\r', ['5%\r', '6%\r']), ('x', ['x']), ('', []),
                               ('\\n', ['\n']), ('\\r\\n\\r\\n', ['\r\n', '\r\n']),
                               ('no end', ['no end'])):
            with self.subTest(script=script):
                self.assertEqual(self.s.run(f"printf '{script}'")[0], wanted)

    def test_crlf_in_two_writes(self):
        self.assertEqual(self.s.run("printf 'a\\r'; sleep 0.1; printf '\\nb\\n'")[0],
                         ['a\r', '\n', 'b\n'])

    def test_long_lines_are_whole_up_to_what_every_client_takes(self):
        out, _, _ = self.s.run("head -c 3000001 /dev/zero | tr '\\0' x; echo")
        self.assertEqual(out, ['x' * 3000001 + '\n'])
        answer = self.s.call('POST', '/command', {'command': "yes | tr '\\n' '\\200' | tr y '\\342\\202' |"
                                                  "head -c 1500000"})
        self.assertLess(max(map(len, answer.body.split(b'\n\n'))), 4 << 20)
        out, _, _ = self.s.run("yes x | tr -d '\\n' | head -c 3000000 | sed 's/x/\u20ac/g'")
        self.assertGreater(len(out), 1)
        self.assertEqual(''.join(out), '\u20ac' * 3000000)

    def test_bytes_arrive_as_they_are(self):
        script = 'head -c 1000000 /dev/urandom >/tmp/random; cat /tmp/random; ' \
                 'head -c 5 /tmp/random >&2; printf "a\\r\\n\\0"'
        events = self.s.events('/command?encoding=base64', {'command': script})
        bytes_of = lambda kind: b''.join(base64.b64decode(e['base64']) for e in events
                                         if e['type'] == kind)
        written = self.s.call('GET', '/files/download?path=/tmp/random').body
        self.assertEqual(bytes_of('stdout'), written + b'a\r\n\0')
        self.assertEqual(bytes_of('stderr'), written[:5])
        self.assertEqual(self.s.call('POST', '/command?encoding=hex', {'command': 'true'}).status,
                         400)

    def test_output_arrives_while_the_command_runs(self):
        connection = self.s.connection()
        connection.request('POST', '/command', json.dumps({'command': 'echo one; sleep 100'}))
        response = connection.getresponse()
        seen = b''
        while b'"one\\n"' not in seen:
            seen += response.read1()
        command = json.loads(seen.split(b'\n\n')[0])['text']
        self.assertTrue(self.s.call('GET', f'/command/status/{command}').json['running'])
        self.assertEqual(self.s.call('DELETE', f'/command?id={command}').status, 200)
        connection.close()

    def test_exit_codes(self):
        for command, value, text in (('exit 7', '7', 'exit status 7'),
                                     ('kill -9 $$', '-1', 'signal: killed'),
                                     ('kill -SEGV $$', '-1', 'signal: segmentation fault'),
                                     ('nosuchprogram', '127', 'exit status 127')):
            with self.subTest(command=command):
                last = self.s.run(command)[2]
                self.assertEqual(last['type'], 'error')
                self.assertEqual(last['error']['ename'], 'CommandExecError')
                self.assertEqual(last['error']['evalue'], value)
                self.assertEqual(last['error']['traceback'], [text])

    def test_one_terminal_event(self):
        for command in ('true', 'false', 'kill -9 $$'):
            events = self.s.events('/command', {'command': command})
            ends = [e for e in events if e['type'] in ('error', 'execution_complete')]
            self.assertEqual(ends, events[-1:])

    def test_cannot_start_is_an_event(self):
        events = self.s.events('/command', {'command': 'true', 'envs': {'A': 'x' * 200000}})
        self.assertEqual(events[0]['type'], 'init')
        self.assertEqual(events[-1]['error']['ename'], 'CommandExecError')
        self.assertIn('Argument list too long', events[-1]['error']['evalue'])

    def test_timeout_leaves_no_descendant(self):
        before = self.s.settled()
        begun = time.monotonic()
        last = self.s.run('setsid sleep 99 & (setsid sh -c "sleep 98 &" &) ; sleep 97',
                          timeout=300)[2]
        self.assertLess(time.monotonic() - begun, 30)
        self.assertEqual(last['error']['evalue'], '-1')
        self.assertIn('timeout', last['error']['traceback'][0])
        until(lambda: len(self.s.processes()) == before, 2)

    def test_interrupt(self):
        start = lambda script: self.s.events(
            '/command', {'command': script, 'background': True})[0]['text']
        before = self.s.settled()
        ready = lambda: self.s.call('GET', f'/command/{command}/logs').body == b'ready\n'
        command = start('trap "exit 5" TERM; setsid sleep 99 & echo ready; '
                        'while :; do sleep 0.01; done')
        until(ready)
        self.assertEqual(self.s.call('DELETE', f'/command?id={command}').status, 200)
        status = self.s.call('GET', f'/command/status/{command}').json
        self.assertEqual((status['running'], status['exit_code']), (False, 5))
        until(lambda: len(self.s.processes()) == before, 2)
        command = start('trap "" TERM; setsid sleep 99 & echo ready; while :; do sleep 0.01; done')
        until(ready)
        begun = time.monotonic()
        self.assertEqual(self.s.call('DELETE', f'/command?id={command}').status, 200)
        self.assertTrue(2.5 < time.monotonic() - begun < 5)
        until(lambda: len(self.s.processes()) == before, 2)
        status = self.s.call('GET', f'/command/status/{command}').json
        self.assertEqual((status['exit_code'], status['error']), (-1, 'signal: killed'))

    def test_interrupt_refusals(self):
        answer = self.s.call('DELETE', '/command')
        self.assertEqual((answer.status, answer.json['code']), (400, 'MISSING_QUERY'))
        done = self.s.events('/command', {'command': 'true'})[0]['text']
        for command in ('nosuch', done):
            answer = self.s.call('DELETE', f'/command?id={command}')
            self.assertEqual((answer.status, answer.json['code']), (500, 'RUNTIME_ERROR'))

    def test_left_in_the_background_goes_on(self):
        before = self.s.settled()
        self.assertEqual(self.s.run('(sleep 0.3; yes | head -c 200000; '
                                    'echo survived > /tmp/proof) & echo done')[0], ['done\n'])
        until(lambda: self.s.out('cat /tmp/proof 2>/dev/null || true') == 'survived')
        until(lambda: len(self.s.processes()) == before)

    def test_disconnect_does_not_end_the_command(self):
        connection = self.s.connection()
        connection.request('POST', '/command', json.dumps(
            {'command': 'sleep 0.3; yes | head -c 500000; echo x > /tmp/after-disconnect'}))
        connection.getresponse().read1(10)
        connection.close()
        until(lambda: self.s.out('cat /tmp/after-disconnect 2>/dev/null || true') == 'x')

    def test_environment(self):
        self.assertEqual(self.s.out('echo "$A|$B"', envs={'A': 'x y', 'B': '$A'}), 'x y|$A')
        self.assertEqual(self.s.out('env | grep -c EXECD_ACCESS || true'), '0')

    def test_stdin_is_empty_and_groups_are_own(self):
        self.assertEqual(self.s.out('cat; [ "$(ps -o pgid= $$ | tr -d " ")" = $$ ] && echo leader'),
                         'leader')

    def test_bad_requests(self):
        for body in ('', '{', '[]', '{}', '{"command":""}', '{"command":5}', '{"command":"x","uid":-1}',
                     '{"command":"x","gid":1}', '{"command":"x","timeout":-1}',
                     '{"command":"x","timeout":1.5}', '{"command":"x","timeout":"5"}',
                     '{"command":"x","envs":{"A":5}}', '{"command":"x","envs":{"A=B":"c"}}',
                     '{"command":"x","envs":[]}', '{"command":"x\\u0000y"}',
                     '{"command":"x","background":1}', '{"command":"x","cwd":"/nope"}',
                     '{"command":"x","cwd":"/etc/passwd"}', '{"command":"x","cwd":"$NOPE/x"}'):
            with self.subTest(body=body):
                answer = self.s.call('POST', '/command', body)
                self.assertEqual((answer.status, answer.json['code']),
                                 (400, 'INVALID_REQUEST_BODY'))

    def test_what_go_accepts(self):
        for body in ('{"COMMAND":"echo ok"}', '{"command":"echo ok"} trailing',
                     '{"command":"no","x":[{}],"Command":"echo ok"}',
                     ' {"command":"echo ok","cwd":null,"envs":null,"timeout":null,"uid":null} '):
            with self.subTest(body=body):
                answer = self.s.call('POST', '/command', body, {'Content-Type': 'text/plain'})
                self.assertEqual(texts(parse_events(answer.body), 'stdout'), ['ok\n'])
        chunks = (c for c in (b'{"comm', b'and":"ec', b'ho ok"}'))
        connection = self.s.connection()
        connection.request('POST', '/command', body=chunks)
        self.assertIn(b'"ok\\n"', connection.getresponse().read())
        connection.close()

    def test_cwd_expansion(self):
        self.assertEqual(self.s.out('pwd', cwd='~'), '/root')
        self.assertEqual(self.s.out('pwd', cwd='${HOME}/../tmp'), '/tmp')
        self.assertEqual(self.s.out('pwd', cwd='$WHERE/lib', envs={'WHERE': '/usr'}), '/usr/lib')

    def test_argv(self):
        run = lambda argv, **more: texts(self.s.events('/command', {'argv': argv, **more}), 'stdout')
        self.assertEqual(run(['printf', '%s|', '$HOME *', '', 'a b']), ['$HOME *||a b|'])
        self.assertEqual(run(['/bin/sh', '-c', 'echo $0 "$@"', 'zero', 'one']), ['zero one\n'])
        self.s.out('printf "#!/bin/sh\\necho mine\\n" >/tmp/mine; chmod +x /tmp/mine; mkdir -p /tmp/d/dir')
        self.assertEqual(run(['./mine'], cwd='/tmp'), ['mine\n'])
        # The child's own PATH, of which only absolute entries count; what is no program is passed.
        self.assertEqual(run(['mine'], envs={'PATH': '/nope:/tmp'}), ['mine\n'])
        self.assertEqual(run(['mine'], envs={'PATH': '/tmp/d:/tmp'}), ['mine\n'])
        self.s.out('mkdir /tmp/d/mine')
        self.assertEqual(run(['mine'], envs={'PATH': '/tmp/d:/tmp'}), ['mine\n'])
        for argv, more in ((['mine'], {'envs': {'PATH': '.::tmp'}, 'cwd': '/tmp'}), (['nosuch'], {}),
                           (['./nosuch'], {'cwd': '/tmp'}), (['/tmp'], {})):
            with self.subTest(argv=argv):
                events = self.s.events('/command', {'argv': argv, **more})
                self.assertEqual([e['type'] for e in events], ['init', 'ping', 'error'])
        self.assertEqual(run(['id', '-u'], uid=1000), ['1000\n'])
        events = self.s.events('/command', {'argv': ['echo', 'a"b', ''], 'background': True})
        status = self.s.call('GET', f'/command/status/{events[0]["text"]}').json
        self.assertEqual(json.loads(status['content']), ['echo', 'a"b', ''])

    def test_the_code_interpreter_does_not_wait_for_a_notebook_server(self):
        probe = "bash -c 'exec 3<>/dev/tcp/127.0.0.1/${JUPYTER_PORT:-44771}'"
        listeners = lambda: self.s.out("grep -c ' 0A ' /proc/net/tcp || true")
        self.assertEqual(self.s.run(probe)[2]['type'], 'execution_complete')
        self.assertEqual(listeners(), '0')
        # A server of the image's answers for itself, whether it listens or not.
        self.assertEqual(self.s.run(probe, envs={'JUPYTER_PORT': '9'})[2]['type'], 'error')
        says = 'echo "$JUPYTER_PORT" # /dev/tcp/127.0.0.1/${JUPYTER_PORT:-44771}'
        self.assertRegex(self.s.out(says), '^[0-9]+$')
        server = self.s.events('/command', {'background': True, 'command':
            'python3 -c "import socket; s = socket.create_server((\'127.0.0.1\', 44771));'
            ' open(\'/tmp/up\', \'w\').close(); s.accept(); s.accept()"'})[0]['text']
        until(lambda: self.s.out('test -e /tmp/up && echo up || true') == 'up')
        self.assertEqual(self.s.out(says), '')
        self.s.call('DELETE', f'/command?id={server}')

    def test_argv_refused(self):
        for body in ('{"argv":[]}', '{"argv":null}', '{"argv":"x"}', '{"argv":[""]}',
                     '{"argv":["x",null]}', '{"argv":["x",1]}', '{"argv":["x","a\\u0000b"]}',
                     '{"argv":["x"],"command":"x"}', '{"argv":["x"],"command":""}',
                     '{"argv":null,"command":"x"}', '{"argv":["x"],"command":null}',
                     '{"command":null}', '{"argv":["x"],"cwd":"$NOPE"}'):
            with self.subTest(body=body):
                answer = self.s.call('POST', '/command', body)
                self.assertEqual((answer.status, answer.json['code']),
                                 (400, 'INVALID_REQUEST_BODY'))

    def test_ids_that_the_sandbox_has_not(self):
        """Asked for by a client, or written into passwd by somebody inside."""
        self.s.out('echo far:x:77:70000::/:/bin/sh >>/etc/passwd')
        for route, body in (('/command', {'command': 'id', 'uid': 65536}),
                            ('/command', {'command': 'id', 'uid': 70000, 'cwd': '/'}),
                            ('/command', {'command': 'id', 'uid': 1, 'gid': 65536, 'cwd': '/'}),
                            ('/command', {'command': 'id', 'uid': 77, 'cwd': '/'}),
                            ('/pty', {'uid': 65536}), ('/pty', {'uid': 77, 'cwd': '/'})):
            with self.subTest(route=route, body=body):
                answer = self.s.call('POST', route, body)
                self.assertEqual((answer.status, answer.json['code']), (400, 'INVALID_REQUEST_BODY'))
                self.assertIn('within the ids of this sandbox', answer.json['message'])
        self.assertEqual(self.s.out('id -u', uid=65535), '65535')

    def test_what_expands_without_end(self):
        long = {'L': 'x' * 1_000_000}
        answer = self.s.call('POST', '/command', {'command': 'id', 'cwd': '$L' * 500_000, 'envs': long})
        self.assertEqual(answer.status, 400)
        self.assertIn('longer than', answer.json['message'])
        for argv, path in ((['a' * 1_000_000], '/:' * 1_000_000), (['id'], '/:' * 2_000_000)):
            events = self.s.events('/command', {'argv': argv, 'envs': {'PATH': path}})
            self.assertEqual(events[-1]['type'], 'error')

    def test_background(self):
        events = self.s.events('/command', {'command': 'echo a; sleep 0.2; echo b >&2; exit 3',
                                            'background': True})
        self.assertEqual([e['type'] for e in events], ['init', 'ping', 'execution_complete'])
        command = events[0]['text']
        status = self.s.call('GET', f'/command/status/{command}').json
        self.assertEqual(sorted(status), ['content', 'id', 'running', 'started_at'])
        self.assertTrue(status['running'])
        until(lambda: not self.s.call('GET', f'/command/status/{command}').json['running'])
        status = self.s.call('GET', f'/command/status/{command}').json
        self.assertEqual((status['exit_code'], status['error']), (3, 'exit status 3'))
        self.assertRegex(status['finished_at'], r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$')
        for cursor, wanted in (('', b'a\nb\n'), ('?cursor=2', b'b\n'), ('?cursor=4', b''),
                               ('?cursor=99', b''), ('?cursor=x', b'a\nb\n'), ('?cursor=-1', b'a\nb\n')):
            answer = self.s.call('GET', f'/command/{command}/logs{cursor}')
            self.assertEqual((answer.status, answer.body), (200, wanted))
            self.assertEqual(answer.headers['EXECD-COMMANDS-TAIL-CURSOR'], '4')
            self.assertEqual(answer.headers['Content-Type'], 'text/plain; charset=utf-8')

    def test_background_timeout(self):
        command = self.s.events('/command', {'command': 'sleep 99', 'background': True,
                                             'timeout': 100})[0]['text']
        until(lambda: not self.s.call('GET', f'/command/status/{command}').json['running'])
        self.assertEqual(self.s.call('GET', f'/command/status/{command}').json['exit_code'], -1)

    def test_logs_and_status_refusals(self):
        foreground = self.s.events('/command', {'command': 'true'})[0]['text']
        for command in ('nosuch', foreground):
            answer = self.s.call('GET', f'/command/{command}/logs')
            self.assertEqual((answer.status, answer.json['code']), (400, 'INVALID_REQUEST_BODY'))
        answer = self.s.call('GET', '/command/status/nosuch')
        self.assertEqual((answer.status, answer.json['code']), (404, 'INVALID_REQUEST_BODY'))
        self.assertEqual(self.s.call('GET', f'/command/status/{foreground}').json['exit_code'], 0)

    def test_routing(self):
        self.assertEqual(self.s.call('GET', '/nope').status, 404)
        self.assertEqual(self.s.call('PUT', '/command').status, 404)
        answer = self.s.call('GET', '/ping/?a=b')
        self.assertEqual((answer.status, answer.headers['Location']), (301, '/ping?a=b'))
        self.assertEqual(self.s.call('POST', '/command/').status, 307)

    def test_a_hundred_at_once(self):
        results = [None] * 100

        def one(i):
            results[i] = self.s.out(f'sleep 0.0{i % 7}; echo {i}')
        threads = [threading.Thread(target=one, args=(i,)) for i in range(100)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(results, [str(i) for i in range(100)])

    def test_keep_alive_and_pipelining(self):
        with self.s.raw() as client:
            body = b'{"command":"echo one"}'
            request = (b'POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s'
                       % (len(body), body))
            client.sendall(request + b'GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
            out = b''
            while piece := client.recv(65536):
                out += piece
        self.assertLess(out.index(b'execution_complete'), out.rindex(b'HTTP/1.1 200 OK'))
        self.assertTrue(out.endswith(b'\r\n\r\n'))

    def test_pings_keep_coming(self):
        events = self.s.events('/command', {'command': 'sleep 3.3'})
        self.assertEqual(len(texts(events, 'ping')), 2)


class Flood(unittest.TestCase):
    def test_reader_gets_everything_in_order(self):
        with Sandbox() as s:
            out, _, last = s.run('seq 200000')
            # Not assertEqual: of long lists that differ it computes the difference for ever.
            self.assertTrue(out == [f'{i}\n' for i in range(1, 200001)], out[:3])
            self.assertEqual(last['type'], 'execution_complete')

    def test_client_that_does_not_read_costs_bounded_memory(self):
        def memory(s):
            with open(f'/proc/{s.pid}/smaps_rollup', encoding='ascii') as file:
                return int([l for l in file if l.startswith('Anonymous')][0].split()[1])
        with Sandbox() as s:
            clients = []
            for _ in range(4):
                client = s.raw()
                body = b'{"command":"yes"}'
                client.sendall(b'POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s'
                               % (len(body), body))
                clients.append(client)
            s.wait_until_blocked('yes', 4)
            first = memory(s)
            self.assertLess(first, 8192)
            # Others are served meanwhile.
            begun = time.monotonic()
            self.assertEqual(s.out('echo hi'), 'hi')
            self.assertLess(time.monotonic() - begun, 10)
            for client in clients:
                client.close()

    def test_slow_reader_loses_nothing(self):
        with Sandbox() as s, s.raw() as client:
            body = b'{"command":"seq 100000"}'
            client.sendall(b'POST /command HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s'
                           % (len(body), body))
            s.wait_until_blocked('seq', 1)
            out = b''
            while piece := client.recv(65536):
                out += piece
            events = parse_events(out.split(b'\r\n\r\n', 1)[1])
            self.assertTrue(texts(events, 'stdout') == [f'{i}\n' for i in range(1, 100001)])

    def test_background_log_of_any_size(self):
        with Sandbox(tmp_size='256m') as s:
            command = s.events('/command', {'command': 'yes | head -c 50000000',
                                            'background': True})[0]['text']
            until(lambda: not s.call('GET', f'/command/status/{command}').json['running'])
            answer = s.call('GET', f'/command/{command}/logs?cursor=49999990')
            self.assertEqual(answer.body, b'y\n' * 5)
            self.assertEqual(len(s.call('GET', f'/command/{command}/logs').body), 50000000)

    def test_a_log_cannot_be_cut_or_read_by_its_program(self):
        with Sandbox() as s:
            script = ('seq 2000; echo no >/proc/self/fd/1; echo nor >/proc/self/fd/2; : >/proc/self/fd/1; '
                      'python3 -c "import os; os.ftruncate(1, 0)" 2>/dev/null || echo uncut; '
                      'python3 -c "import os; os.lseek(1, 0, 0)" 2>/dev/null || echo unmoved; '
                      'head -c 4 <&1 2>/dev/null || echo unread')
            wanted = ''.join(f'{i}\n' for i in range(1, 2001)) + 'no\nnor\nuncut\nunmoved\nunread\n'
            command = s.events('/command', {'command': script, 'background': True})[0]['text']
            until(lambda: not s.call('GET', f'/command/status/{command}').json['running'])
            self.assertEqual(s.call('GET', f'/command/{command}/logs').body.decode(), wanted)

    def test_the_end_of_a_very_long_log_stays(self):
        with Sandbox(tmp_size='100m') as s:
            # Six times of what there is room for.
            command = s.events('/command', {'command': 'yes | head -c 600000000; echo end',
                                            'background': True})[0]['text']
            until(lambda: not s.call('GET', f'/command/status/{command}').json['running'], 60)
            self.assertEqual(s.call('GET', f'/command/{command}/logs?cursor=599999998').body,
                             b'y\nend\n')
            kept = len(s.call('GET', f'/command/{command}/logs').body)
            self.assertTrue(64 << 20 <= kept <= 68 << 20, kept)

    def test_log_when_the_disk_is_full(self):
        with Sandbox(tmp_size='1m') as s:
            s.out('head -c 400000 /dev/zero >/tmp/ballast; mkfifo /root/go')
            command = s.events('/command', {'command': 'yes | head -c 2000000; >/root/all; read x </root/go; echo on',
                                            'background': True})[0]['text']
            log = lambda: s.call('GET', f'/command/{command}/logs').body
            until(lambda: s.out('ls /root/all 2>/dev/null || true'), 20, 'all has been written')
            begun = len(log())
            self.assertTrue(400000 < begun < 700000, begun)
            self.assertEqual(s.out('rm /tmp/ballast; echo go >/root/go; echo hi'), 'hi')
            until(lambda: log().endswith(b'\non\n'))
            self.assertEqual(log()[begun:].decode(), f'\n[{2000000 - begun} bytes of output are missing here: '
                                                     'the disk was full]\non\n')


class Grace(unittest.TestCase):
    def test_tail_only_when_asked_for(self):
        for env, low, high in (([], 0, 0.9), (['EXECD_API_GRACE_SHUTDOWN=1s'], 0.95, 3)):
            with Sandbox(env=['PATH=/usr/bin:/bin', *env]) as s:
                begun = time.monotonic()
                s.out('true')
                self.assertTrue(low <= time.monotonic() - begun <= high)


class Exhaustion(unittest.TestCase):
    def test_fork_bomb_within_a_pid_limit(self):
        # No pids controller on a hybrid host's v2 tree: the user's process limit stands in.
        with Sandbox() as s:
            s.run('ulimit -u 60; b() { b | b & }; b 2>/dev/null; sleep 99', uid=1000, timeout=1000)
            until(lambda: len(s.processes()) == 1, 5)
            self.assertEqual(s.out('echo hi'), 'hi')

    def test_out_of_memory_is_told(self):
        with Sandbox() as s:
            if not os.path.exists(f'{s.cgroup}/memory.max'):
                self.assertTrue(os.path.isdir('/sys/fs/cgroup/memory'),
                                'neither v2 nor v1 has the memory controller')
                return
            with open(f'{s.cgroup}/cgroup.subtree_control', 'w', encoding='ascii') as file:
                file.write('+memory')
            with open(f'{s.cgroup}/memory.max', 'w', encoding='ascii') as file:
                file.write(str(64 << 20))
            last = s.run('head -c 200m /dev/zero | tail')[2]
            self.assertIn('out of memory', last['error']['traceback'][0])
            self.assertEqual(s.out('echo hi'), 'hi')


if __name__ == '__main__':
    unittest.main()
