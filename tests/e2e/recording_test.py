#!/usr/bin/python3
"""Recorded terminals: what is recorded and what is not, who reads it, and what happens when it cannot be written."""
import json
import os
import pty
import re
import select
import subprocess
import unittest

import atoll
import tenants_test
import tenant_ingress_test
from atoll import SLOWNESS, until
from box import shell_image
from execd.websocket_client import Socket

SECRET = 'typed-hunter2'


class Daemon(tenant_ingress_test.Daemon):
    def raw(self):
        connection = self.connection()
        connection.connect()
        return connection.sock


class WithDaemon(unittest.TestCase):
    policy = 'output'
    settings = {}

    def setUp(self):
        self.daemon = self.enterContext(Daemon(audit_record_pty=self.policy, **self.settings))
        self.admin = self.daemon.key = self.daemon.new_key('admin')
        self.keys = {role: self.daemon.new_key(role) for role in tenants_test.ROLES}
        self.keys['other'] = self.daemon.new_key('developer', 'blue')
        image = shell_image(self.daemon)
        body = {'image': {'uri': image}, 'resourceLimits': {}, 'entrypoint': ['sleep', '100000']}
        status, text = self.daemon.ask(self.keys['developer'], 'POST', '/v1/sandboxes', body)
        self.assertEqual(status, 202, text)
        self.box = json.loads(text)['id']
        self.headers = {'OPEN-SANDBOX-API-KEY': self.keys['developer']}

    def open(self, form='', expect=101):
        """A terminal, by another spelling of its path if one is given."""
        execd = f'/sandboxes/{self.box}/proxy/44772'
        status, text = self.daemon.ask(self.keys['developer'], 'POST', f'{execd}/pty', {'command': 'sh'})
        self.assertEqual(status, 201, text)
        path = f'{execd}/pty/{json.loads(text)["session_id"]}/ws'
        socket = Socket(self.daemon, path.replace('/ws', form) if form else path,
                        {**self.headers, 'Sec-WebSocket-Extensions': 'permessage-deflate'})
        self.addCleanup(socket.sock.close)
        self.assertEqual(socket.status, expect, socket.buffer)
        return socket

    def say(self, socket, words, answer):
        socket.send(2, b'\0' + words.encode() + b'\n')
        socket.until(lambda output: isinstance(output, bytes) and answer.encode() in output)

    def listed(self, role='developer'):
        status, text = self.daemon.ask(self.keys[role], 'GET', f'/v1/recordings/{self.box}')
        self.assertEqual(status, 200, text)
        return json.loads(text)['items']

    def events(self, recording, role='developer'):
        """The head and the events. Each line of a file that was not cut is JSON."""
        status, text = self.daemon.ask(self.keys[role], 'GET', f'/v1/recordings/{self.box}/{recording}')
        self.assertEqual(status, 200, text)
        lines = [json.loads(line) for line in text.splitlines()]
        return lines[0], lines[1:]

    def output(self, recording):
        return ''.join(text for _, kind, text in self.events(recording)[1] if kind == 'o')

    def audited(self, action):
        text = self.daemon.ask(self.keys['auditor'], 'GET', f'/v1/audit?action={action}&limit=1000')[1]
        return [json.loads(line) for line in text.splitlines()]


class Recorded(WithDaemon):
    def test_what_a_terminal_shows_is_recorded(self):
        socket = self.open()
        socket.text(type='resize', cols=100, rows=30)
        self.say(socket, 'echo gr\u00fcn $((6*7))', 'gr\u00fcn 42')
        self.say(socket, f'read -s x; echo read', 'read -s x')
        self.say(socket, SECRET, 'read')
        one, = self.listed()
        head, events = self.events(one['id'])
        key = 'k_' + self.keys['developer'].split('_')[1]
        self.assertEqual((head['version'], head['sandbox'], head['actor']), (2, self.box, key))
        self.assertEqual((one['actor'], one['input']), (key, False))
        self.assertIn([100, 30], [list(map(int, text.split('x'))) for _, kind, text in events if kind == 'r'])
        self.assertIn('gr\u00fcn 42', self.output(one['id']))
        times = [event[0] for event in events]
        self.assertEqual(times, sorted(times))
        self.assertNotIn('i', [kind for _, kind, _ in events])
        self.assertNotIn(SECRET, json.dumps(events))
        opened = [line for line in self.audited('exec.pty') if 'recording' in line.get('what', {})]
        self.assertEqual([line['what']['recording'] for line in opened], [one['id']])
        self.assertEqual(json.loads(self.daemon.ask(self.keys['viewer'], 'GET', '/v1/whoami')[1])['recordsTerminals'],
                         'output')
        path = next((self.daemon.data_dir / 'state/recordings').glob('*/*.cast'))
        self.assertEqual((path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777), (0o600, 0o700))

    def test_no_spelling_of_the_path_gets_around_it(self):
        for number, form in enumerate(('/%77s', '/ws?pty=1', '/w%73?x=/ws')):
            self.say(self.open(form), 'echo $((6*7))', '42')
            self.assertEqual(len(self.listed()), number + 1, form)
        # A request that opens nothing leaves nothing.
        self.daemon.ask(self.keys['developer'], 'GET', f'/sandboxes/{self.box}/proxy/44772/pty/nothing/ws')
        self.assertEqual(len(self.listed()), 3)

    def test_what_a_client_sends_does_not_end_its_recording(self):
        socket = self.open()
        self.say(socket, 'stty -echo; cat > /dev/null; echo eaten-$((6*7))', 'stty')
        # One message, longer than every resize.
        socket.send(2, b'\0' + b'0123456789abcdef\n' * 20000)
        self.say(socket, '\x04', 'eaten-42')
        # execd ends a client that it cannot read.
        socket.send(2, b'\0x', mask=False)
        self.assertEqual(socket.close_code(), 1002)
        one, = self.listed()
        self.assertIn('eaten-42', self.output(one['id']))
        self.assertEqual(self.audited('audit.gap'), [])

    def test_kill_9_leaves_a_recording_that_plays(self):
        socket = self.open()
        self.say(socket, 'echo before $((6*7))', 'before 42')
        socket.send(2, b'\0' + b'while :; do echo noise; done\n')
        socket.until(lambda output: isinstance(output, bytes) and output.count(b'noise') > 1000)
        self.daemon.kill()
        self.daemon.start()
        one, = self.listed()
        self.assertIn('before 42', self.output(one['id']))
        self.assertIn('noise', self.output(one['id']))
        self.assertIn('before 42', self.daemon.cli('replay', self.box, key=self.keys['developer']))

    def test_who_reads_it(self):
        self.say(self.open(), 'echo $((6*7))', '42')
        one, = self.listed()
        for role, expected in (('developer', 200), ('admin', 200), ('viewer', 403), ('operator', 403),
                               ('auditor', 403), ('other', 404)):
            for path in (f'/v1/recordings/{self.box}', f'/v1/recordings/{self.box}/{one["id"]}'):
                self.assertEqual(self.daemon.ask(self.keys[role], 'GET', path)[0], expected, (role, path))
        for name in ('..', '%2e%2e%2f..', one['id'][:-1], one['id'] + '.cast'):
            path = f'/v1/recordings/{self.box}/{name}'
            self.assertEqual(self.daemon.ask(self.keys['developer'], 'GET', path)[0], 404, name)
        # The owner's own reading has no line, that of the admin has one, which the owner sees.
        line, = self.audited('content.read')
        self.assertEqual((line['actor']['role'], line['tenant'], line['target']['id'], line['what']['id']),
                         ('admin', 'red', self.box, one['id']))

    def test_it_stays_with_the_history_and_goes_with_it(self):
        self.say(self.open(), 'echo $((6*7))', '42')
        one, = self.listed()
        self.assertEqual(self.daemon.ask(self.keys['developer'], 'DELETE', f'/v1/sandboxes/{self.box}')[0], 204)
        until(lambda: self.daemon.ask(self.keys['developer'], 'GET', f'/v1/history/{self.box}')[0] == 200,
              20 * SLOWNESS, 'the history')
        self.assertIn('42', self.output(one['id']))
        self.assertEqual(self.daemon.ask(self.keys['other'], 'GET', f'/v1/recordings/{self.box}')[0], 404)
        self.events(one['id'], 'admin')
        self.assertEqual([line['tenant'] for line in self.audited('content.read')], ['red'])
        directory = self.daemon.data_dir / 'state/recordings' / self.box
        self.daemon.stop()
        stray = directory.parent / '00000000-0000-4000-8000-000000000000'
        subprocess.run(['cp', '-a', directory, stray], check=True)
        self.daemon.start()
        self.assertIn('42', self.output(one['id']))
        until(lambda: not stray.exists(), 20 * SLOWNESS, 'no recording of nobody')
        self.assertTrue(directory.exists())

    def test_replay_shows_and_does_not_act(self):
        socket = self.open()
        self.say(socket, r"printf 'a\033]0;title\007b\033[31mred\033[21t\n'", 'red')
        self.say(socket, 'echo done-$((6*7))', 'done-42')
        shown = self.at_a_terminal('replay', '--speed', '1000', self.box)
        self.assertIn(b'ab\x1b[31mred', shown)
        self.assertIn(b'done-42', shown)
        self.assertNotIn(b'title', re.sub(rb"printf [^\r\n]*", b'', shown))
        self.assertNotIn(b'\x1b[21t', shown)
        raw = self.daemon.cli('replay', '--raw', self.box, key=self.keys['developer'])
        self.assertEqual(json.loads(raw.splitlines()[0])['version'], 2)
        listed = self.daemon.cli('replay', '--list', self.box, key=self.keys['developer'])
        self.assertIn(self.listed()[0]['id'], listed)

    def at_a_terminal(self, *words):
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        client = subprocess.Popen([atoll.BUILD / 'atoll', *words], stdin=subprocess.DEVNULL, stdout=slave, stderr=slave,
                                  env={**os.environ, 'ATOLL_SERVER': self.daemon.url,
                                       'ATOLL_API_KEY': self.keys['developer']})
        os.close(slave)
        shown = b''
        while True:
            self.assertTrue(select.select([master], [], [], 30 * SLOWNESS)[0], shown)
            try:
                piece = os.read(master, 65536)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        self.assertEqual(client.wait(), 0, shown)
        return shown


class Input(WithDaemon):
    policy = 'input'

    def test_what_is_typed_is_recorded_if_the_policy_says_so(self):
        socket = self.open()
        self.say(socket, 'read -s x; echo read', 'read -s x')
        socket.text(type='stdin', data=SECRET + '\n')
        socket.until(lambda output: isinstance(output, bytes) and b'read' in output)
        one, = self.listed()
        typed = ''.join(text for _, kind, text in self.events(one['id'])[1] if kind == 'i')
        self.assertIn(SECRET, typed)
        self.assertTrue(one['input'])
        self.assertEqual(json.loads(self.daemon.ask(self.keys['viewer'], 'GET', '/v1/whoami')[1])['recordsTerminals'],
                         'input')


class Off(WithDaemon):
    policy = 'off'

    def test_nothing_is_recorded(self):
        self.say(self.open(), 'echo $((6*7))', '42')
        self.assertEqual(self.listed(), [])
        self.assertFalse((self.daemon.data_dir / 'state/recordings').exists())
        self.assertNotIn('recordsTerminals', self.daemon.ask(self.keys['viewer'], 'GET', '/v1/whoami')[1])


class Unwritable(WithDaemon):
    def fill(self):
        """The disk of the recordings has room for the first lines of one."""
        state = self.daemon.data_dir / 'state'
        directory = state / 'recordings'
        directory.mkdir(mode=0o700, exist_ok=True)
        owner = f'uid={state.stat().st_uid},gid={state.stat().st_gid}'
        subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size=64k,mode=700,{owner}', 'recordings', directory],
                       check=True)
        self.addCleanup(subprocess.run, ['umount', '-l', directory], check=False)
        return directory

    def fill_up(self, directory):
        with self.assertRaises(OSError), open(directory / 'rest', 'wb', buffering=0) as rest:
            while True:
                rest.write(bytes(4096))

    def flood(self, socket):
        socket.send(2, b'\0' + b'yes 0123456789 | head -n 20000; echo end-$((6*7))\n')
        return socket.until(lambda output: isinstance(output, bytes) and b'end-42' in output or
                            isinstance(output, tuple) and output[0] == 8)

    def test_a_terminal_ends_with_its_recording(self):
        directory = self.fill()
        told = self.flood(self.open())
        self.assertIsInstance(told, tuple)
        self.assertEqual(int.from_bytes(told[2][:2], 'big'), 1011)
        gap, = self.audited('audit.gap')
        self.assertEqual((gap['target']['id'], gap['tenant']), (self.box, 'red'))
        one, = self.listed()
        self.assertIn('0123456789', self.output(one['id']))
        # The next one does not begin. Cutting the last event may have left a page.
        self.fill_up(directory)
        self.open(expect=503)
        self.assertEqual(len(self.listed()), 1)


class Continued(Unwritable):
    settings = {'audit_on_failure': 'continue'}

    def test_a_terminal_ends_with_its_recording(self):
        """It does not: the policy says that clients go on."""
        directory = self.fill()
        self.assertIsInstance(self.flood(self.open()), bytes)
        self.assertEqual(len(self.audited('audit.gap')), 1)
        self.fill_up(directory)
        self.say(self.open(), 'echo $((6*7))', '42')
        unrecorded = [line for line in self.audited('exec.pty') if 'unrecorded' in line.get('what', {})]
        self.assertEqual(len(unrecorded), 1)


if __name__ == '__main__':
    unittest.main()
