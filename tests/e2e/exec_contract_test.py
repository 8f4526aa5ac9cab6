"""The exec API of a real sandbox through the daemon's proxy: every row of the endpoint table."""
import concurrent.futures
import json
import re
import time
import unittest

import atoll
from atoll import SLOWNESS, until
from box import Box, shell_image
from harness import parse_events

TIME = r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$'
UUID = r'^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'


class Contract(unittest.TestCase):
    """One daemon, one image, one sandbox for all cases."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.image = shell_image(cls.daemon)
        cls.s = Box(cls.daemon, cls.image)

    def refused(self, answer, status, code):
        self.assertEqual((answer.status, answer.json['code']), (status, code), answer.body)
        self.assertEqual(sorted(answer.json), ['code', 'message'])
        self.assertTrue(answer.json['message'])

    def empty(self, answer):
        """Success without data."""
        self.assertEqual((answer.status, answer.body, answer.headers['Content-Length']),
                         (200, b'', '0'))

    def at_rest(self):
        """Names of what runs there: its program has started, what another case has ended is gone."""
        until(self.s.processes, 30 * SLOWNESS, 'its program has started')
        return atoll.settled(self.s.processes)


class Endpoints(Contract):
    def test_ping(self):
        self.empty(self.s.call('GET', '/ping'))
        answer = self.s.call('GET', '/ping', headers={'X-EXECD-ACCESS-TOKEN': 'no'})
        self.assertEqual((answer.status, list(answer.json)), (401, ['error']))
        self.assertIn('X-EXECD-ACCESS-TOKEN', answer.json['error'])

    def test_command(self):
        for body in ('', '{', '{}', '{"command":""}', '{"command":"x","gid":1}',
                     '{"command":"x","timeout":-1}', '{"command":"x","cwd":"/nope"}',
                     '{"command":"x","cwd":"/etc/passwd"}'):
            self.refused(self.s.call('POST', '/command', body), 400, 'INVALID_REQUEST_BODY')

    def test_interrupt(self):
        command = self.s.background('sleep 99')
        self.empty(self.s.call('DELETE', f'/command?id={command}'))
        self.assertEqual(self.s.status(command)['exit_code'], -1)
        self.refused(self.s.call('DELETE', '/command'), 400, 'MISSING_QUERY')
        for gone in ('nosuch', command):
            self.refused(self.s.call('DELETE', f'/command?id={gone}'), 500, 'RUNTIME_ERROR')

    def test_processes(self):
        """One of them has a name that looks like another line of what the kernel tells."""
        self.s.background(r'printf "State:\tX" >/proc/$$/comm; >/tmp/named; sleep 99 & wait',
                          uid=7, gid=7)
        self.s.run('until [ -e /tmp/named ]; do :; done')

        def waits():
            # Its child has its name until it is executed; then it waits for that.
            nonlocal answer
            answer = self.s.call('GET', '/processes')
            return [process['state'] for process in answer.json['processes']
                    if process['name'] == 'State:\tX'] == ['S']
        answer = None
        until(waits, 30 * SLOWNESS, 'it waits')
        self.assertEqual((answer.status, answer.json['truncated']), (200, False))
        processes = sorted(answer.json['processes'], key=lambda process: process['pid'])
        self.assertEqual((processes[0]['pid'], processes[0]['uid']), (1, 0))
        self.assertGreater(processes[0]['memory_bytes'], 0)
        (named,) = [process for process in processes if process['name'] == 'State:\tX']
        self.assertEqual(list(named), ['pid', 'uid', 'state', 'memory_bytes', 'name'])
        self.assertEqual((named['uid'], named['state']), (7, 'S'))

    def test_a_signal_that_is_not_passed_on(self):
        for body in ('', '{}', '{"signal":19}', '{"signal":"KILL"}', '{"signal":65}', '[]'):
            self.refused(self.s.call('POST', '/entrypoint/signal', body), 400,
                         'INVALID_REQUEST_BODY')
        self.empty(self.s.call('POST', '/entrypoint/signal', {'signal': 28}))

    def test_command_status(self):
        command = self.s.events('/command', {'command': 'exit 3'})[0]['text']
        status = self.s.status(command)
        self.assertEqual(sorted(status), ['content', 'error', 'exit_code', 'finished_at', 'id',
                                          'running', 'started_at'])
        self.assertEqual((status['id'], status['content'], status['running'], status['exit_code']),
                         (command, 'exit 3', False, 3))
        for when in ('started_at', 'finished_at'):
            self.assertRegex(status[when], TIME)
        self.refused(self.s.call('GET', '/command/status/nosuch'), 404, 'INVALID_REQUEST_BODY')

    def test_command_logs(self):
        command = self.s.background('echo one; echo two >&2')
        until(lambda: not self.s.status(command)['running'], 30 * SLOWNESS)
        for cursor, wanted in (('', b'one\ntwo\n'), ('?cursor=4', b'two\n'), ('?cursor=8', b''),
                               ('?cursor=x', b'one\ntwo\n')):
            answer = self.s.call('GET', f'/command/{command}/logs{cursor}')
            self.assertEqual((answer.status, answer.body), (200, wanted))
            self.assertEqual(answer.headers['EXECD-COMMANDS-TAIL-CURSOR'], '8')
            self.assertEqual(answer.headers['Content-Type'], 'text/plain; charset=utf-8')
        foreground = self.s.events('/command', {'command': 'true'})[0]['text']
        for other in ('nosuch', foreground):
            self.refused(self.s.call('GET', f'/command/{other}/logs'), 400, 'INVALID_REQUEST_BODY')

    def test_session(self):
        answer = self.s.call('POST', '/session', {'cwd': '/tmp/made/for/session'})
        self.assertEqual((answer.status, list(answer.json)), (200, ['session_id']))
        session = answer.json['session_id']
        self.assertRegex(session, UUID)
        events = self.s.events(f'/session/{session}/run', {'command': 'pwd'})
        self.assertEqual((events[0]['text'], events[2]['text']), (session, '/tmp/made/for/session'))
        run = lambda **body: self.s.call('POST', f'/session/{session}/run', body)
        for body in ({}, {'command': ''}, {'command': 'x', 'timeout': -1},
                     {'command': 'x', 'cwd': '/nope'}):
            self.refused(run(**body), 400, 'INVALID_REQUEST_BODY')
        self.refused(self.s.call('POST', '/session', '{'), 400, 'INVALID_REQUEST_BODY')
        self.empty(self.s.call('DELETE', f'/session/{session}'))
        self.refused(run(command='true'), 500, 'RUNTIME_ERROR')
        self.refused(self.s.call('DELETE', f'/session/{session}'), 404, 'CONTEXT_NOT_FOUND')

    def test_code(self):
        self.refused(self.s.call('POST', '/code/context', '{'), 400, 'INVALID_REQUEST_BODY')
        self.refused(self.s.call('POST', '/code/context', {'language': 'python'}), 500,
                     'RUNTIME_ERROR')
        self.assertEqual(self.s.call('GET', '/code/contexts').json, [])
        self.refused(self.s.call('GET', '/code/contexts?language=sql'), 500, 'RUNTIME_ERROR')
        for method in ('GET', 'DELETE'):
            self.refused(self.s.call(method, '/code/contexts/x'), 404, 'CONTEXT_NOT_FOUND')
        self.refused(self.s.call('DELETE', '/code/contexts'), 400, 'MISSING_QUERY')
        self.empty(self.s.call('DELETE', '/code/contexts?language=python'))
        self.refused(self.s.call('POST', '/code', {'code': ''}), 400, 'INVALID_REQUEST_BODY')
        for context in ({'id': 'x'}, {'language': 'python'}):
            self.refused(self.s.call('POST', '/code', {'code': '1', 'context': context}), 500,
                         'RUNTIME_ERROR')
        self.refused(self.s.call('DELETE', '/code'), 400, 'MISSING_QUERY')
        self.refused(self.s.call('DELETE', '/code?id=x'), 500, 'RUNTIME_ERROR')
        events = self.s.events('/code', {'code': 'echo shell'})
        self.assertEqual([e['type'] for e in events],
                         ['init', 'ping', 'stdout', 'execution_complete'])

    def test_metrics(self):
        self.metrics(self.s.call('GET', '/metrics').json)
        response = self.s.open('GET', '/metrics/watch')
        self.assertEqual(response.headers['Content-Type'], 'text/event-stream')
        first, second = response.readline(), response.readline()
        self.metrics(json.loads(first))
        # One object a line, with a single newline.
        self.assertGreater(json.loads(second)['timestamp'], json.loads(first)['timestamp'])
        response.close()

    def metrics(self, values):
        self.assertGreater(values['cpu_count'], 0)
        self.assertTrue(0 <= values['cpu_used_pct'] <= 100)
        self.assertTrue(0 <= values['mem_used_mib'] <= values['mem_total_mib'])
        self.assertLess(abs(values['timestamp'] - time.time() * 1000), 60000)

    def test_routing(self):
        self.assertEqual(self.s.call('GET', '/nope').status, 404)
        self.assertEqual(self.s.call('PUT', '/command').status, 404)
        self.assertEqual(self.s.call('GET', '/ping/').status, 301)
        self.assertEqual(self.s.call('POST', '/command/').status, 307)


class Stream(Contract):
    def test_framing(self):
        answer = self.s.call('POST', '/command', {'command': 'echo out; echo err >&2'})
        for name, value in (('Content-Type', 'text/event-stream'), ('Cache-Control', 'no-cache'),
                            ('X-Accel-Buffering', 'no')):
            self.assertEqual(answer.headers[name], value)
        self.assertNotRegex(answer.body, rb'(?m)^(data|event|id):')
        events = parse_events(answer.body)
        self.assertEqual([e['type'] for e in events[:2]], ['init', 'ping'])
        self.assertRegex(events[0]['text'], '^[0-9a-f]{32}$')
        self.assertEqual(events[1]['text'], 'pong')
        self.assertEqual(sorted(e['type'] for e in events[2:4]), ['stderr', 'stdout'])
        for event in events:
            self.assertIsInstance(event['timestamp'], int)
            self.assertLess(abs(event['timestamp'] - time.time() * 1000), 60000)

    def test_error_or_complete(self):
        for command, value in (('true', None), ('exit 7', '7'), ('kill -9 $$', '-1'),
                               ('nosuch', '127')):
            events = self.s.events('/command', {'command': command})
            ends = [e for e in events if e['type'] in ('error', 'execution_complete')]
            self.assertEqual(ends, events[-1:])
            if value is None:
                self.assertEqual(ends[0]['type'], 'execution_complete')
            else:
                self.assertEqual(ends[0]['error']['ename'], 'CommandExecError')
                self.assertEqual(ends[0]['error']['evalue'], value)
                self.assertEqual(len(ends[0]['error']['traceback']), 1)

    def test_lines(self):
        for script, wanted in (('a\\n\\nb\\n', ['a\n', '\n', 'b\n']), ('a\\r\\nb', ['a\r\n', 'b']),
                               ('x\\ry', ['x\r', 'y']), ('tail', ['tail'])):
            self.assertEqual(self.s.run(f"printf '{script}'")[0], wanted)

    def test_pings_go_on(self):
        events = self.s.events('/command', {'command': 'sleep 3.3'})
        self.assertEqual([e['type'] for e in events], ['init', 'ping', 'ping', 'execution_complete'])

    def test_output_comes_while_the_command_runs(self):
        response = self.s.open('POST', '/command',
                               {'command': 'mkfifo /tmp/go; echo first; cat /tmp/go'})
        seen = b''
        while b'"first\\n"' not in seen:
            seen += response.read1()
        # What comes next is written only after this line has been read here.
        self.s.out('echo second >/tmp/go')
        self.assertIn(b'"second\\n"', response.read())

    def test_binary_output(self):
        self.assertEqual(self.s.run("printf 'a\\377b\\303'")[0], ['a\ufffdb\ufffd'])

    def test_a_hundred_at_once(self):
        with concurrent.futures.ThreadPoolExecutor(100) as pool:
            outputs = list(pool.map(lambda i: self.s.run(f'echo {i}; exit {i}'), range(100)))
        for i, (out, err, last) in enumerate(outputs):
            self.assertEqual((out, err), ([f'{i}\n'], []))
            self.assertEqual(last.get('error', {}).get('evalue', '0'), str(i))


class Commands(Contract):
    def test_shell(self):
        self.assertEqual(self.s.out('echo $0; [ -n "$BASH_VERSION" ] && echo bash'), 'bash\nbash')
        self.assertEqual(self.s.out('cat; [ $$ = $(ps -o pid,pgid | awk -v p=$$ \'$1 == p {print $2}\')'
                                    ' ] && echo leader'), 'leader')

    def test_environment(self):
        box = Box(self.daemon, self.image, env={'A': 'create', 'B': 'create', 'C': 'create',
                                                'EXECD_ENVS': '/tmp/envs'})
        self.addCleanup(self.daemon.delete, box.id)
        box.out("printf '# no\\nB=file\\nC=file-$A\\n' >/tmp/envs")
        self.assertEqual(box.out('echo $A $B $C', envs={'C': 'request'}), 'create file request')
        self.assertEqual(box.out('echo $C'), 'file-create')
        self.assertNotIn('EXECD_ACCESS', box.out('env'))

    def test_identity(self):
        self.assertEqual(self.s.out('id -u; id -g; id -G', uid=1000), '1000\n1000\n1000 29 44')
        self.assertEqual(self.s.out('id -u; id -g', uid=1000, gid=29), '1000\n29')
        self.assertEqual(self.s.out('id -u; id -g; id -G', uid=4242), '4242\n4242\n4242')

    def test_home(self):
        """As `docker exec -u`: HOME is the user's, unless image or request name one; nothing else is."""
        names = 'echo $HOME; cd; pwd; env | grep -E "^(USER|LOGNAME|SHELL)=" || true'
        for uid, home in ((0, '/root'), (1000, '/home/dev'), (4242, '/')):
            self.assertEqual(self.s.out(names, uid=uid), f'{home}\n{home}', uid)
            self.assertEqual(self.s.out('pwd', uid=uid, cwd='~'), home)
            terminal = self.s.call('POST', '/pty', {'command': names + '; pwd', 'uid': uid,
                                                    'cwd': '~'}).json['session_id']
            ws = self.s.websocket(f'/pty/{terminal}/ws?pty=0')
            ws.until(lambda o, home=home: o == b'%b\n%b\n%b\n' % ((home.encode(),) * 3))
        self.assertEqual(self.s.out('echo $HOME', uid=1000, envs={'HOME': '/srv'}), '/srv')
        image = shell_image(self.daemon, 'home:latest', env=['HOME=/opt'])
        box = Box(self.daemon, image)
        self.assertEqual(box.out('echo $HOME', uid=1000), '/opt')
        self.daemon.delete(box.id)

    def test_cwd(self):
        self.assertEqual(self.s.out('pwd', cwd='~'), '/root')
        self.assertEqual(self.s.out('pwd', cwd='$HOME/../tmp'), '/tmp')

    def test_timeout_leaves_nothing(self):
        before = self.at_rest()
        begun = time.monotonic()
        last = self.s.run('setsid sleep 97 & (setsid sh -c "sleep 98 & sleep 96" &); nohup sleep 95 &'
                          'sleep 99', timeout=300)[2]
        self.assertLess(time.monotonic() - begun, 30 * SLOWNESS)
        self.assertEqual(last['error']['evalue'], '-1')
        until(lambda: self.s.processes() == before, 30 * SLOWNESS, 'all of it is gone')

    def test_interrupt_is_polite_first(self):
        before = self.at_rest()
        command = self.s.background('trap "echo bye; exit 5" TERM; setsid sleep 97 & echo ready; '
                                    'while :; do sleep 0.01; done')
        logs = lambda: self.s.call('GET', f'/command/{command}/logs').body
        until(lambda: logs() == b'ready\n', 30 * SLOWNESS)
        self.empty(self.s.call('DELETE', f'/command?id={command}'))
        self.assertEqual(self.s.status(command)['exit_code'], 5)
        self.assertTrue(logs().endswith(b'bye\n'), logs())
        until(lambda: self.s.processes() == before, 30 * SLOWNESS, 'all of it is gone')

    def test_interrupt_kills_after_three_seconds(self):
        command = self.s.background('trap "" TERM; echo ready; while :; do sleep 0.01; done')
        until(lambda: self.s.call('GET', f'/command/{command}/logs').body, 30 * SLOWNESS)
        begun = time.monotonic()
        self.empty(self.s.call('DELETE', f'/command?id={command}'))
        self.assertTrue(2.5 < time.monotonic() - begun < 30 * SLOWNESS)
        self.assertEqual(self.s.status(command)['exit_code'], -1)

    def test_background(self):
        events = self.s.events('/command', {'command': 'sleep 99', 'background': True,
                                            'timeout': 200})
        self.assertEqual([e['type'] for e in events], ['init', 'ping', 'execution_complete'])
        status = self.s.status(events[0]['text'])
        self.assertEqual(sorted(status), ['content', 'id', 'running', 'started_at'])
        until(lambda: not self.s.status(events[0]['text'])['running'], 30 * SLOWNESS)
        self.assertEqual(self.s.status(events[0]['text'])['exit_code'], -1)

    def test_a_client_that_leaves(self):
        response = self.s.open('POST', '/command', {
            'command': 'echo x; mkfifo /tmp/left; cat /tmp/left; echo done >/tmp/after'})
        response.read1(10)
        response.close()
        self.s.out('echo go >/tmp/left')
        until(lambda: self.s.out('cat /tmp/after || true') == 'done', 30 * SLOWNESS)


class Sessions(Contract):
    def setUp(self):
        self.id_ = self.s.call('POST', '/session').json['session_id']

    def run_(self, command, **members):
        events = self.s.events(f'/session/{self.id_}/run', {'command': command, **members})
        return [e['text'] for e in events if e['type'] == 'stdout'], events[-1]

    def test_what_persists(self):
        self.run_('export A=1; cd /tmp; B=2; f() { echo fun; }')
        self.assertEqual(self.run_('echo "$A|$B|$PWD"; f')[0], ['1|2|/tmp', 'fun'])
        self.assertEqual(self.run_('pwd', cwd='/opt')[0], ['/opt'])
        self.assertEqual(self.run_('pwd')[0], ['/opt'])

    def test_streams_and_ends(self):
        out, last = self.run_('echo one; echo; echo two >&2; exit 9')
        self.assertEqual((out, last['error']['evalue']), (['one', 'two'], '9'))
        self.assertEqual(self.run_('true')[1]['type'], 'execution_complete')

    def test_timeout(self):
        out, last = self.run_('echo x; sleep 99', timeout=200)
        self.assertEqual((out, last['error']['evalue']), (['x'], '-1'))
        self.assertEqual(self.run_('echo again')[0], ['again'])

    def test_interrupt_ends_the_session(self):
        self.empty(self.s.call('DELETE', f'/command?id={self.id_}'))
        self.refused(self.s.call('DELETE', f'/session/{self.id_}'), 404, 'CONTEXT_NOT_FOUND')

    def test_a_client_that_leaves_ends_the_run(self):
        before = self.at_rest()
        response = self.s.open('POST', f'/session/{self.id_}/run', {'command': 'echo x; sleep 99'})
        response.read1(10)
        response.close()
        until(lambda: self.s.processes() == before, 30 * SLOWNESS, 'the run is gone')


class Errors(Contract):
    def test_json_escapes_and_first_value_only(self):
        answer = self.s.call('POST', '/command', '{"COMMAND":"echo \'<&>\'","x":1} trailing')
        self.assertIn(b'"text":"\\u003c\\u0026\\u003e\\n"', answer.body)

    def test_messages_name_the_value(self):
        answer = self.s.call('POST', '/command', {'command': 'x', 'cwd': '/no/such/place'})
        self.assertTrue(re.search('/no/such/place.*No such file', answer.json['message']))

    def test_chunked_request(self):
        answer = self.s.call('POST', '/command', iter([b'{"command":', b'"echo chunks"}']))
        self.assertIn(b'chunks', answer.body)


if __name__ == '__main__':
    unittest.main()
