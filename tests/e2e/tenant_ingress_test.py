#!/usr/bin/python3
"""The ways into sandboxes on a host of two teams: who enters by which way, and what ends with a key."""
import http.client
import json
import socket
import subprocess
import unittest
import urllib.parse

import atoll
import tenants_test
from box import shell_image
from execd.websocket_client import Socket
from until import until

UNKNOWN = '00000000-0000-4000-8000-000000000000'
REASON = 'reason=outage+of+web'
SDK = r'''
import asyncio, sys
from datetime import timedelta
from opensandbox import Sandbox
from opensandbox.config import ConnectionConfig
from opensandbox.models.filesystem import WriteEntry

async def main(domain, key, image):
    config = ConnectionConfig(domain=domain, api_key=key, protocol='http')
    box = await Sandbox.create(image, connection_config=config, timeout=timedelta(minutes=5),
                               entrypoint=['sleep', '100000'])
    async with box:
        run = await box.commands.run('echo hello; echo err >&2')
        print(''.join(line.text for line in run.logs.stdout).strip())
        await box.files.write_files([WriteEntry(path='/tmp/a', data='written')])
        print(await box.files.read_file('/tmp/a'))
        print(box.id)
        await box.kill()

asyncio.run(main(*sys.argv[1:]))
'''


def forms(box, port, rest):
    """The same request in every form of route: target and headers."""
    name = f'{box}-{port}'
    return {'proxy': (f'/sandboxes/{box}/proxy/{port}{rest}', {}),
            'proxy below /v1': (f'/v1/sandboxes/{box}/proxy/{port}{rest}', {}),
            'uri': (f'/{box}/{port}{rest}', {}),
            'header': (rest, {'OpenSandbox-Ingress-To': name}),
            'host': (rest, {'Host': f'{name}.localhost'})}


class Daemon(tenants_test.TenantsDaemon):
    """A daemon whose keys root makes and revokes by the API."""

    def as_root(self, method, path, body=None):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(self.run_dir / 'admin.sock'))
            connection = http.client.HTTPConnection('localhost')
            connection.sock = sock
            connection.request(method, path, json.dumps(body) if body else None)
            response = connection.getresponse()
            text = response.read().decode()
        assert response.status < 300, text
        return json.loads(text) if text else None

    def new_key(self, role, tenant='red', **options):
        keys = f'/v1/tenants/{tenant}/keys' if role in ('viewer', 'developer') else '/v1/keys'
        return self.as_root('POST', keys, {'role': role, **options})['key']

    def revoke(self, key_id):
        self.as_root('DELETE', f'/v1/tenants/red/keys/{key_id}')


class Ingress(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = cls.enterClassContext(Daemon())
        cls.admin = cls.daemon.key = cls.daemon.new_key('admin')
        cls.image = shell_image(cls.daemon)
        cls.keys = {role: cls.daemon.new_key(role) for role in tenants_test.ROLES}
        cls.keys['other'] = cls.daemon.new_key('developer', 'blue')
        cls.red, cls.blue = cls.create('developer'), cls.create('other')

    @classmethod
    def create(cls, key, *entrypoint):
        body = {'image': {'uri': cls.image}, 'resourceLimits': {},
                'entrypoint': list(entrypoint) or ['sleep', '100000']}
        status, text = cls.daemon.ask(cls.keys[key], 'POST', '/v1/sandboxes', body)
        assert status == 202, text
        return json.loads(text)['id']

    def ask(self, method, target, headers, body=None):
        """Status, fields without the date, and body."""
        connection = self.daemon.connection()
        self.addCleanup(connection.close)
        connection.request(method, target, body, {'X-Request-ID': 'fixed', **headers})
        response = connection.getresponse()
        fields = sorted((name, value) for name, value in response.getheaders() if name != 'Date')
        return response.status, fields, response.read().decode()

    def key(self, name):
        return {'OPEN-SANDBOX-API-KEY': self.keys[name]}

    def token(self, name, box, port=44772):
        status, text = self.daemon.ask(self.keys[name], 'GET', f'/v1/sandboxes/{box}/endpoints/{port}')
        self.assertEqual(status, 200, text)
        return json.loads(text)['headers']

    def test_each_form_role_and_call(self):
        calls = [('GET', 44772, '/ping', None), ('POST', 44772, '/command', '{"command": "true"}'),
                 ('GET', 44772, '/files/download?path=/etc/passwd', None), ('HEAD', 44772, '/ping', None),
                 ('GET', 44772, '/%70ing', None), ('GET', 44772, '/proxy/8000/', None),
                 ('GET', 44772, '/forward/8000', None), ('OPTIONS', 8000, '/', None),
                 ('GET', 8000, '/a%2Fb', None), ('GET', 18080, '/healthz', None)]
        shown = {**{name: self.key(name) for name in self.keys},
                 'bearer': {'Authorization': f'Bearer {self.keys["developer"]}'},
                 'other bearer': {'Authorization': f'Bearer {self.keys["other"]}'},
                 'token': {'X-EXECD-ACCESS-TOKEN': self.token('developer', self.red)['X-EXECD-ACCESS-TOKEN']},
                 'nothing': {}, 'nonsense': {'OPEN-SANDBOX-API-KEY': 'nonsense'}}
        allowed = {'developer', 'bearer', 'token'}
        for method, port, rest, body in calls:
            for form, (target, route) in forms(self.red, port, rest).items():
                for who, headers in shown.items():
                    with self.subTest(call=f'{method} {port}{rest}', form=form, who=who):
                        status, _, text = self.ask(method, target, {**headers, **route}, body)
                        # A viewer of the team may know whether the policy's service is there.
                        if who in allowed or (port == 18080 and who == 'viewer'):
                            self.assertNotIn(status, (401, 403), text)
                        elif who in ('nothing', 'nonsense'):
                            self.assertIn(status, (401, 429), text)
                        elif who.startswith('other'):
                            self.assertEqual(status, 404, text)
                        else:
                            self.assertIn(status, (403, 404), text)

    def test_a_refused_entry_of_a_known_key_is_audited(self):
        narrowed = self.daemon.new_key('developer', routes=['GET /sandboxes/{sandbox_id}/endpoints/{port}'])
        keys = {**{role: self.keys[role] for role in ('viewer', 'auditor', 'admin')}, 'developer': narrowed}
        shown = {role: {'OPEN-SANDBOX-API-KEY': key} for role, key in keys.items() if role != 'developer'}
        path = f'/v1/sandboxes/{self.red}/endpoints/44772'
        # An endpoint's token alone names its key, too.
        shown['developer'] = json.loads(self.daemon.ask(narrowed, 'GET', path)[1])['headers']

        def refused(method, target, headers, request):
            """The line of a refusal. A second has twenty at most, so that it may need another one."""
            def line():
                status, _, text = self.ask(method, target, {**headers, 'X-Request-ID': request})
                self.assertEqual(status, 403, text)
                lines = self.daemon.ask(self.keys['auditor'], 'GET', '/v1/audit?action=authz.denied&limit=1000')[1]
                found = [json.loads(line) for line in lines.splitlines() if f'"{request}"' in line]
                return found[0] if found else None
            return until(line, 20 * atoll.SLOWNESS, 'a line')

        line = refused('POST', '/v1/images/prune', shown['viewer'], 'refused-prune')
        self.assertEqual(line['what']['reason'], 'POST /images/prune')
        for form, (target, route) in forms(self.red, 44772, '/command').items():
            for role, headers in shown.items():
                line = refused('POST', target, {**route, **headers}, f'refused-{form}-{role}'.replace(' ', '-'))
                with self.subTest(form=form, role=role):
                    self.assertEqual(line['actor'], {'kind': 'key', 'id': 'k_' + keys[role].split('_')[1],
                                                     'role': role})
                    self.assertEqual((line['target']['id'], line['outcome']), (self.red, 'denied'))
                    self.assertEqual(line['what']['reason'], 'POST /proxy/44772/command')

    def test_a_sandbox_of_another_team_is_an_unknown_id(self):
        own = self.token('developer', self.red)['X-EXECD-ACCESS-TOKEN']
        for port in (44772, 18080, 8000):
            for headers in (self.key('developer'), {'Authorization': f'Bearer {self.keys["developer"]}'},
                            {'X-EXECD-ACCESS-TOKEN': own}, {},
                            {**self.key('developer'), 'Connection': 'Upgrade', 'Upgrade': 'websocket'},
                            {**self.key('developer'), 'Origin': 'https://x.example',
                             'Access-Control-Request-Method': 'GET'}):
                theirs, unknown = (forms(box, port, '/a%2Fb/ping?x') for box in (self.blue, UNKNOWN))
                for form in theirs:
                    for method in ('GET', 'POST', 'HEAD', 'OPTIONS', 'DELETE'):
                        with self.subTest(port=port, form=form, method=method, headers=headers):
                            answers = [self.ask(method, target, {**headers, **route})
                                       for target, route in (theirs[form], unknown[form])]
                            told = json.dumps(answers[0]).replace(self.blue, UNKNOWN)
                            self.assertEqual(told, json.dumps(answers[1]))

    def test_a_token_says_who_comes_and_ends_with_the_key(self):
        self.keys['short'] = self.daemon.new_key('developer')
        self.addCleanup(self.keys.pop, 'short')
        headers = {port: self.token('short', self.red, port) for port in (44772, 18080, 8000)}
        key_id = headers[44772]['X-EXECD-ACCESS-TOKEN'].split('.')[1]
        self.assertRegex(headers[44772]['X-EXECD-ACCESS-TOKEN'], rf'^e1\.{key_id}\.{self.red}\.[\w-]{{43}}$')
        paths = {44772: '/ping', 18080: '/policy', 8000: '/'}
        reach = lambda: [self.ask('GET', f'/sandboxes/{self.red}/proxy/{port}{path}', headers[port])[0]
                         for port, path in paths.items()]
        self.assertEqual(reach(), [200, 200, 502])
        self.daemon.stop()
        self.daemon.start()
        self.assertEqual(reach(), [200, 200, 502], 'tokens survive a restart')
        self.daemon.revoke(key_id)
        self.assertEqual(reach(), [401, 401, 401])

    def test_an_admin_enters_with_a_reason_that_the_team_reads(self):
        ask = lambda query: self.ask('GET', f'/sandboxes/{self.red}/proxy/44772/files/download?path=/etc/passwd{query}',
                                     self.key('admin'))
        status, _, text = ask('')
        self.assertEqual((status, json.loads(text)['needs']), (403, 'reason'))
        self.assertEqual(ask('&' + REASON)[0], 200)
        _, events = self.daemon.ask(self.keys['developer'], 'GET', f'/v1/sandboxes/{self.red}/diagnostics/events')
        self.assertIn('outage of web', events)
        self.assertNotIn('outage', self.daemon.ask(self.keys['other'], 'GET',
                                                   f'/v1/sandboxes/{self.blue}/diagnostics/events')[1])

    def stream(self, target, headers, body=None):
        """A connection whose answer has begun."""
        sock = self.raw()
        self.addCleanup(sock.close)
        more = ''.join(f'{name}: {value}\r\n' for name, value in headers.items())
        if body:
            more += f'Content-Length: {len(body)}\r\n'
        sock.sendall(f'{"POST" if body else "GET"} {target} HTTP/1.1\r\nHost: x\r\n{more}\r\n'
                     f'{body or ""}'.encode())
        return sock

    def raw(self):
        address = urllib.parse.urlsplit(self.daemon.url)
        return socket.create_connection((address.hostname, address.port), 60 * atoll.SLOWNESS)

    @staticmethod
    def read_until(sock, needle):
        seen = b''
        while needle not in seen:
            piece = sock.recv(65536)
            assert piece, seen
            seen += piece
        return seen

    @staticmethod
    def rest_of(sock):
        seen = b''
        try:
            while piece := sock.recv(65536):
                seen += piece
        except ConnectionError:  # cut, not ended
            pass
        return seen

    def test_what_a_key_has_opened_ends_with_it(self):
        script = 'echo begun; mkfifo /tmp/go; read line </tmp/go; echo marker; exec sleep 100000'
        red, blue = (self.create(who, 'sh', '-c', script) for who in ('developer', 'other'))
        key = self.keys['short'] = self.daemon.new_key('developer')
        self.addCleanup(self.keys.pop, 'short')
        token = self.token('short', red)
        base, follow = f'/sandboxes/{red}/proxy/44772', '/v1/sandboxes/{}/diagnostics/logs?follow=true'
        wait = '{"command": "echo begun; while ! [ -e /tmp/end ]; do sleep 0.1; done; echo marker"}'

        opened = {'log': self.stream(follow.format(red), self.key('short')),
                  'command': self.stream(base + '/command', token, wait),
                  'command by key': self.stream(base + '/command', self.key('short'), wait)}
        kept = {'log of the other team': self.stream(follow.format(blue), self.key('other')),
                'log by another key': self.stream(follow.format(red), self.key('developer'))}
        for name, sock in {**opened, **kept}.items():
            with self.subTest(begins=name):
                self.read_until(sock, b'begun')
        self.ask('POST', base + '/command', token,
                 json.dumps({'command': 'busybox nc -ll -p 8100 -e /srv/ws', 'background': True}))
        until(lambda: self.ask('GET', base + '/proxy/8100/', token)[0] == 200, 30 * atoll.SLOWNESS, 'the server')
        forward = self.stream(base + '/forward/8100', {**token, 'Connection': 'Upgrade', 'Upgrade': 'tcp'})
        self.assertIn(b' 101 ', self.read_until(forward, b'\r\n\r\n'))
        opened['forward'] = forward
        status, _, text = self.ask('POST', base + '/pty', token, '{}')
        self.assertEqual(status, 201, text)
        terminal = Socket(self, f'{base}/pty/{json.loads(text)["session_id"]}/ws', token)
        self.assertEqual(terminal.status, 101)
        client = subprocess.Popen([atoll.BUILD / 'atoll', 'logs', '-f', red], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True,
                                  env={'ATOLL_SERVER': self.daemon.url, 'ATOLL_API_KEY': key})
        self.addCleanup(client.kill)
        self.assertEqual(client.stdout.readline(), 'begun\n')

        self.daemon.revoke(token['X-EXECD-ACCESS-TOKEN'].split('.')[1])
        # Nothing makes the marker before all of these have ended.
        for name, sock in opened.items():
            with self.subTest(ends=name):
                self.assertNotIn(b'marker', self.rest_of(sock))
        opcode, payload = terminal.frame()
        while opcode != 8:
            opcode, payload = terminal.frame()
        self.assertEqual(payload[:2], b'\x03\xf0')
        self.assertEqual(self.rest_of(terminal.sock), b'')
        self.assertNotIn('marker', client.communicate(timeout=60 * atoll.SLOWNESS)[0])
        self.assertNotEqual(client.returncode, 0)

        for who, box in (('developer', red), ('other', blue)):
            self.ask('POST', f'/sandboxes/{box}/proxy/44772/command', self.key(who),
                     '{"command": "echo go >/tmp/go; touch /tmp/end"}')
        for name, sock in kept.items():
            with self.subTest(goes_on=name):
                self.read_until(sock, b'marker')
        self.assertEqual(self.ask('GET', base + '/ping', token)[0], 401)

    def test_the_released_sdk_works_with_a_key_of_a_team(self):
        done = subprocess.run(
            [atoll.BUILD / 'conformance/python/bin/python', '-c', SDK,
             urllib.parse.urlsplit(self.daemon.url).netloc, self.keys['developer'], self.image],
            capture_output=True, text=True, timeout=120 * atoll.SLOWNESS, check=False)
        self.assertEqual(done.stdout.split()[:2], ['hello', 'written'], done.stderr[-2000:])


if __name__ == '__main__':
    unittest.main()
