"""Code contexts over a kernel of the test's own, which does what kernels should not."""
import http.client
import json
import os
import pathlib
import threading
import time
import unittest

from harness import Sandbox, parse_events, until

KERNEL = pathlib.Path(__file__).with_name('fake_kernel.py').read_text(encoding='utf-8')
KERNELS = '/opt/share/jupyter/kernels'


def install():
    pathlib.Path('/opt/fake_kernel.py').write_text(KERNEL, encoding='utf-8')
    for how in ('fake', 'message', 'exit', 'silent', 'stranger', 'broken', 'forgetful', 'late', 'ipc', 'colon',
                'link'):
        os.makedirs(f'{KERNELS}/{how}')
        spec = {'argv': ['python3', '/opt/fake_kernel.py', '{connection_file}', how],
                'language': how.capitalize(), 'env': {'FROM_SPEC': 'set'},
                'interrupt_mode': 'message' if how in ('message', 'colon') else 'signal',
                'metadata': {'transport': 'ipc'} if how in ('ipc', 'colon', 'link') else {}}
        text = '{"argv": 3}' if how == 'broken' else json.dumps(spec)
        pathlib.Path(KERNELS, how, 'kernel.json').write_text(text, encoding='utf-8')


def texts(events, kind='stdout'):
    return [e.get('text') for e in events if e['type'] == kind]


def sandbox():
    return Sandbox(env=['PATH=/usr/bin:/bin', 'JUPYTER_PATH=/opt/share/jupyter', 'JPY_PARENT_PID=1'],
                   setup=install, user='dev', token='secret-token')


class Silent(unittest.TestCase):
    """A kernel that never answers is given up, which takes a minute: while the other cases run."""
    @classmethod
    def begin(cls):
        cls.s, cls.began = sandbox(), time.monotonic()
        cls.thread = threading.Thread(target=cls.ask)
        cls.thread.start()

    @classmethod
    def ask(cls):
        try:
            cls.answer = cls.s.call('POST', '/code/context', {'language': 'silent'},
                                    connection=cls.s.connection(90))
            cls.took = time.monotonic() - cls.began
        except (OSError, http.client.HTTPException):
            pass  # the sandbox was closed: the case that asks for this is not among those to run

    def test_it_is_given_up(self):
        self.thread.join()
        self.assertEqual(self.answer.status, 500)
        self.assertIn('did not answer within 60 s', self.answer.json['message'])
        self.assertLess(self.took, 80)


class SetUp(unittest.TestCase):
    """Kernels that the entrypoint of an image with JUPYTER_HOST brings while it runs."""
    @staticmethod
    def set_up():
        return Sandbox(env=['PATH=/usr/bin:/bin', 'JUPYTER_PATH=/opt/share/jupyter',
                            'JUPYTER_HOST=http://127.0.0.1:44771'],
                       setup=install, user='dev', token='secret-token')

    @classmethod
    def begin(cls):
        """One that never comes is waited for while the other cases run."""
        cls.s = cls.set_up()
        cls.absent = threading.Thread(target=cls.ask_for_absent)
        cls.absent.start()

    @classmethod
    def ask_for_absent(cls):
        began = time.monotonic()
        try:
            cls.answer = cls.s.call('POST', '/code/context', {'language': 'absent'},
                                    connection=cls.s.connection(90))
            cls.took = time.monotonic() - began
        except (OSError, http.client.HTTPException):
            pass  # as for Silent

    def test_not_for_ever(self):
        self.absent.join()
        self.assertEqual(self.answer.status, 500)
        self.assertIn("language 'absent'", self.answer.json['message'])
        self.assertGreater(self.took, 50)
        self.assertLess(self.took, 75)
        # From then on it is said at once.
        began = time.monotonic()
        self.assertEqual(self.s.call('POST', '/code/context', {'language': 'absent'}).status, 500)
        self.assertLess(time.monotonic() - began, 5)

    def ask(self, language):
        """In a new sandbox, a request for a context that has to wait: (the sandbox, the request's thread,
        where its answer will be)."""
        fresh, answers = self.set_up(), []
        self.addCleanup(fresh.close)
        thread = threading.Thread(target=lambda: answers.append(
            fresh.call('POST', '/code/context', {'language': language},
                       connection=fresh.connection(50))))
        thread.start()
        self.addCleanup(thread.join)
        until(lambda: self.contexts(fresh, language), what='it waits')
        self.assertEqual(answers, [])
        return fresh, thread, answers

    @staticmethod
    def contexts(fresh, language):
        return fresh.call('GET', f'/code/contexts?language={language}').json

    def test_one_that_comes_is_waited_for(self):
        fresh, thread, answers = self.ask('soon')
        kernels = '~/.local/share/jupyter/kernels'
        fresh.out(f'mkdir -p {kernels} && cp -r {KERNELS}/fake {kernels}/soon && '
                  f"sed -i 's/\"Fake\"/\"soon\"/' {kernels}/soon/kernel.json")
        thread.join()
        self.assertEqual(answers[0].status, 200, answers[0].body)
        context = {'id': answers[0].json['id']}
        events = fresh.events('/code', {'code': 'echo here', 'context': context})
        self.assertEqual(texts(events), ['here'])

    def test_who_waits_can_be_sent_away(self):
        fresh, thread, answers = self.ask('never')
        fresh.call('DELETE', '/code/contexts?language=never')
        thread.join()
        self.assertEqual(answers[0].status, 500)
        self.assertIn('the context was deleted', answers[0].json['message'])
        self.assertEqual(self.contexts(fresh, 'never'), [])


def setUpModule():
    Silent.begin()
    SetUp.begin()


def tearDownModule():
    for case, thread in ((Silent, Silent.thread), (SetUp, SetUp.absent)):
        case.s.close()
        thread.join()


class Code(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = sandbox()

    @classmethod
    def tearDownClass(cls):
        cls.s.close()

    def setUp(self):
        self.before = len(self.s.processes())

    def tearDown(self):
        for language in ('fake', 'message', 'forgetful', 'late', 'ipc', 'colon'):
            self.assertEqual(self.s.call('DELETE', f'/code/contexts?language={language}').status, 200)
        # Whole leaves: whatever a kernel has started goes with it.
        until(lambda: len(self.s.processes()) <= self.before, what='kernels are gone')
        self.assertEqual(self.s.out('ls -A /tmp /dev/shm | grep execd-kernel; true'), '')

    def create(self, language='fake', **members):
        answer = self.s.call('POST', '/code/context', {'language': language, **members})
        self.assertEqual(answer.status, 200, answer.body)
        self.assertRegex(answer.json['id'], r'^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')
        return answer.json['id']

    def run_in(self, context, code, **_):
        return self.s.events('/code', {'code': code, 'context': {'id': context}})

    def start(self, context, code, until_text):
        """A run that goes on: its response, after that text has come."""
        connection = self.s.connection()
        connection.request('POST', '/code', json.dumps({'code': code, 'context': {'id': context}}),
                           {'X-EXECD-ACCESS-TOKEN': 'secret-token'})
        response = connection.getresponse()
        seen, deadline = b'', time.monotonic() + 20
        while until_text.encode() not in seen:
            piece = response.read1(65536)
            self.assertTrue(piece and time.monotonic() < deadline, seen[-1000:])
            seen += piece
        return connection, response, seen

    def refused(self, answer, text, status=500):
        self.assertEqual((answer.status, answer.json['code']), (status, 'RUNTIME_ERROR'))
        self.assertIn(text, answer.json['message'])

    def test_stream(self):
        context = self.create()
        events = self.run_in(context, 'echo a\nb')
        self.assertEqual([e['type'] for e in events],
                         ['init', 'ping', 'stdout', 'execution_complete'])
        self.assertEqual(events[0]['text'], context)
        self.assertEqual(texts(events), ['a\nb'])
        for event in events:
            self.assertLess(abs(event['timestamp'] / 1000 - time.time()), 60)
        form = self.s.events('/code?encoding=base64', {'code': 'echo hi', 'context': {'id': context}})
        self.assertEqual([e['base64'] for e in form if e['type'] == 'stdout'], ['aGk='])

    def test_contexts(self):
        first, second, other = self.create(), self.create(cwd='/tmp/made/here'), self.create('MESSAGE')
        listed = lambda query='': {c['id'] for c in self.s.call('GET', '/code/contexts' + query).json}
        self.assertEqual(listed(), {first, second, other})
        self.assertEqual(listed('?language=FAKE'), {first, second})
        self.assertEqual(self.s.call('GET', f'/code/contexts/{other}').json,
                         {'id': other, 'language': 'MESSAGE'})
        self.assertEqual(self.s.out('stat -c %U /tmp/made/here'), 'dev')
        self.assertEqual(self.s.call('DELETE', f'/code/contexts/{first}').status, 200)
        self.refused(self.s.call('POST', '/code', {'code': 'x', 'context': {'id': first}}), first)
        self.assertEqual(self.s.call('DELETE', f'/code/contexts/{first}').status, 404)
        self.assertEqual(self.s.call('DELETE', '/code/contexts?language=Fake').status, 200)
        self.assertEqual(listed(), {other})

    def test_a_kernel_may_be_slow_to_hear(self):
        """It loses the first question, or says on iopub only what it was asked the time before."""
        for how in ('forgetful', 'late'):
            with self.subTest(how=how):
                self.assertEqual(texts(self.run_in(self.create(how), 'echo heard')), ['heard'])

    def test_default_context(self):
        run = lambda language: self.s.events('/code', {'code': 'echo x', 'context': {'language': language}})
        first = run('fake')[0]['text']
        self.assertEqual(run('FAKE')[0]['text'], first)
        self.assertNotEqual(run('message')[0]['text'], first)
        self.s.call('DELETE', f'/code/contexts/{first}')
        self.assertNotEqual(run('fake')[0]['text'], first)

    def test_how_a_kernel_runs(self):
        """As the image's user, with its environment and its kernelspec's, without the token."""
        self.create(cwd='/srv/dev')
        self.assertEqual(self.s.out(
            "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null | grep -q '[f]ake_kernel.py /dev/shm' "
            "&& stat -c %U $p && readlink $p/cwd && tr '\\0' '\\n' <$p/environ | sort"
            " | grep -iE 'from_spec|parent|token'; done; true"),
            'dev\n/srv/dev\nFROM_SPEC=set\nJPY_PARENT_PID=')
        self.assertEqual(self.s.out('stat -c "%U %a" /dev/shm/.execd-kernel-* /dev/shm/.execd-kernel-*/*',
                                    uid=0), 'dev 700\ndev 600')

    def test_kernels_that_know_unix_sockets(self):
        for how in ('ipc', 'colon'):
            with self.subTest(how=how):
                context = self.create(how)
                self.assertEqual(texts(self.run_in(context, 'echo by a file')), ['by a file'])
                connection, response, _ = self.start(context, 'wait', 'waiting')
                self.assertEqual(self.s.call('DELETE', f'/code?id={context}').status, 200)
                self.assertIn(b'execution_complete', response.read())
                connection.close()
                # Another user does not reach the sockets, and no port is open.
                self.assertEqual(self.s.out('ls -A /dev/shm/.execd-kernel-*/ 2>&1 | grep -c denied; true',
                                            uid=1001), '1')
                self.assertEqual(self.s.out("cat /proc/net/tcp /proc/net/tcp6 | grep -c ' 0A '; true"), '0')
                self.s.call('DELETE', f'/code/contexts/{context}')

    def test_a_kernels_socket_is_no_link(self):
        """Through a link execd would speak to whom it leads to."""
        self.refused(self.s.call('POST', '/code/context', {'language': 'link'}), 'no socket of the kernel')

    def test_busy(self):
        context = self.create()
        connection, response, _ = self.start(context, 'wait', 'waiting')
        self.refused(self.s.call('POST', '/code', {'code': 'x', 'context': {'id': context}}), 'busy')
        self.assertEqual(self.s.call('DELETE', f'/code?id={context}').status, 200)
        events = response.read()
        self.assertIn(b'"interrupted"', events)
        self.assertIn(b'execution_complete', events)
        connection.close()
        self.refused(self.s.call('DELETE', f'/code?id={context}'), context)
        self.assertEqual(texts(self.run_in(context, 'echo next')), ['next'])

    def test_interrupt_by_message(self):
        context = self.create('message')
        connection, response, _ = self.start(context, 'wait', 'waiting')
        self.assertEqual(self.s.call('DELETE', f'/code?id={context}').status, 200)
        self.assertIn(b'execution_complete', response.read())
        connection.close()

    def test_client_that_goes_interrupts(self):
        context = self.create()
        connection, _, _ = self.start(context, 'wait', 'waiting')
        connection.sock.close()
        connection.close()

        def free():
            answer = self.s.call('POST', '/code', {'code': 'echo free', 'context': {'id': context}})
            return answer.status == 200 and texts(parse_events(answer.body)) == ['free']
        until(free, what='the context can be used')

    def test_a_kernel_that_dies_is_told_and_replaced(self):
        context = self.create()
        self.run_in(context, 'child')
        events = self.run_in(context, 'die 3')
        self.assertEqual(events[-1]['type'], 'error')
        self.assertEqual((events[-1]['error']['ename'], events[-1]['error']['evalue']),
                         ('KernelDied', 'exit status 3'))
        self.assertEqual(texts(self.run_in(context, 'echo new')), ['new'])
        # Between two runs: the next one is told.
        self.s.out("kill -9 $(pgrep -f '[f]ake_kernel.py /dev/shm')")
        until(lambda: self.s.out("pgrep -f '[f]ake_kernel.py /dev/shm'; true") == '')
        events = self.run_in(context, 'echo again')
        self.assertIn('signal: killed', texts(events, 'stderr')[0])
        self.assertEqual(texts(events), ['again'])
        self.assertEqual(texts(self.run_in(context, 'echo told'), 'stderr'), [])

    def test_a_kernel_that_hangs_is_killed_and_replaced(self):
        context = self.create()
        connection, response, _ = self.start(context, 'hang', 'hanging')
        began = time.monotonic()
        self.assertEqual(self.s.call('DELETE', f'/code?id={context}').status, 200)
        last = parse_events(response.read())[-1]
        connection.close()
        self.assertIn('did not answer an interrupt within 1 s', last['error']['evalue'])
        self.assertLess(time.monotonic() - began, 9)
        self.assertEqual(texts(self.run_in(context, 'echo new')), ['new'])

    def test_deleting_a_context_ends_its_run(self):
        context = self.create()
        connection, response, _ = self.start(context, 'wait', 'waiting')
        self.assertEqual(self.s.call('DELETE', f'/code/contexts/{context}').status, 200)
        self.assertEqual(parse_events(response.read())[-1]['error']['evalue'],
                         'the context was deleted')
        connection.close()

    def test_messages_of_others_are_nobodys(self):
        self.assertEqual(texts(self.run_in(self.create(), 'foreign')), ['mine'])

    def test_what_cannot_be_read_is_told(self):
        context = self.create()
        for code in ('huge', 'deep'):
            events = self.run_in(context, code)
            self.assertEqual(texts(events), ['after'])
            self.assertIn('left out', texts(events, 'stderr')[0])
            self.assertEqual(events[-1]['type'], 'execution_complete')

    def test_broken_zmtp_ends_the_kernel(self):
        for code, why in (('garble', 'frame flags 255'), ('frames', 'more than 256 frames')):
            context = self.create()
            error = self.run_in(context, code)[-1]['error']
            self.assertEqual(error['ename'], 'KernelDied')
            self.assertIn(why, error['evalue'])
            self.assertEqual(texts(self.run_in(context, 'echo new')), ['new'])

    def test_half_a_word_is_enough(self):
        context = self.create()
        for code in ('noreply', 'noidle'):
            self.assertEqual(self.run_in(context, code)[-1]['type'], 'execution_complete')
        events = self.run_in(context, 'refuse')
        self.assertEqual([e['type'] for e in events],
                         ['init', 'ping', 'status', 'error', 'execution_complete'])
        self.assertEqual(events[3]['error']['ename'], 'Refused')

    def test_a_run_that_is_put_off_is_run(self):
        """A kernel that empties its queue after a failure has not begun with what it aborts."""
        context = self.create()
        self.run_in(context, 'aborts 3')
        events = self.run_in(context, 'echo at last')
        self.assertEqual((texts(events), texts(events, 'stderr')), (['at last'], []))
        self.assertEqual([e for e in events if e['type'] == 'error'], [])
        # Not what was interrupted.
        connection = self.s.connection()
        connection.request('POST', '/code', json.dumps({'code': 'quiet', 'context': {'id': context}}),
                           {'X-EXECD-ACCESS-TOKEN': 'secret-token'})
        response = connection.getresponse()
        until(lambda: self.s.out('cat /tmp/quiet 2>/dev/null; true') == 'x', what='it runs')
        self.assertEqual(self.s.call('DELETE', f'/code?id={context}').status, 200)
        self.assertIn(b'execution_complete', response.read())
        connection.close()
        self.assertEqual(self.s.out('cat /tmp/quiet; rm /tmp/quiet'), 'x')
        # And not for ever.
        self.run_in(context, 'aborts 1000000')
        events = self.run_in(context, 'echo never')
        self.assertEqual([e['type'] for e in events][-2:], ['error', 'execution_complete'])
        self.assertEqual(texts(events), [])

    def test_a_slow_client_holds_the_kernel_back(self):
        context = self.create()
        connection, response, seen = self.start(context, f'flood {64 << 20}', 'yyy')
        sent = lambda: int(self.s.out('cat /tmp/sent 2>/dev/null; true') or 0)
        last = [0, -1]

        def stands():
            last.append(sent())
            return last[-1] == last[-2] == last[-3] > 0
        until(stands, what='the kernel is held back')
        self.assertLess(sent(), 32 << 20)
        self.assertLess(self.memory(), 48 << 20)
        all_of_it = seen + response.read()
        connection.close()
        self.assertEqual(all_of_it.count(b'y') - all_of_it.count(b'"type"'), 64 << 20)

    def memory(self):
        with open(f'/proc/{self.s.pid}/status', encoding='ascii') as file:
            return int(file.read().split('VmRSS:')[1].split()[0]) << 10

    def test_kernels_that_do_not_start(self):
        self.refused(self.s.call('POST', '/code/context', {'language': 'exit'}), 'no such module')
        self.refused(self.s.call('POST', '/code/context', {'language': 'stranger'}), 'no greeting')
        for language in ('cobol', 'broken'):
            answer = self.s.call('POST', '/code/context', {'language': language})
            self.refused(answer, 'Colon, Exit, Fake, Forgetful, Ipc, Late, Link, Message, Silent, Stranger')
        self.refused(self.s.call('POST', '/code', {'code': 'x', 'context': {'language': 'exit'}}),
                     'exit status 1')
        self.s.call('DELETE', '/code/contexts?language=exit')
        self.assertEqual(self.s.call('GET', '/code/contexts').json, [])

    def test_many_contexts(self):
        made = []
        threads = [threading.Thread(target=lambda: made.append(self.create())) for _ in range(20)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        self.assertEqual(len(made), 20)
        self.assertEqual({texts(self.run_in(context, f'echo {context}'))[0] for context in made},
                         set(made))

    def test_there_is_a_limit(self):
        # Kernels that never answer: they cost least.
        connections = []
        for _ in range(64):
            connections.append(self.s.connection())
            connections[-1].request('POST', '/code/context', '{"language": "silent"}',
                                    {'X-EXECD-ACCESS-TOKEN': 'secret-token'})
        until(lambda: len(self.s.call('GET', '/code/contexts').json) == 64)
        self.refused(self.s.call('POST', '/code/context', {'language': 'fake'}), '64 contexts')
        self.assertEqual(self.s.call('DELETE', '/code/contexts?language=silent').status, 200)
        for connection in connections:
            self.assertEqual(connection.getresponse().status, 500)
            connection.close()


if __name__ == '__main__':
    unittest.main()
