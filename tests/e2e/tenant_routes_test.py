#!/usr/bin/python3
"""Generated from docs/roles.md: each route, by each role, by each form of proxy, and with what another team has, in
every spelling. What another team has gets the answer of what nobody has, byte for byte."""
import itertools
import json
import re
import unittest

import atoll
import roles_page
import tenants_test
from atoll import SLOWNESS, until
from tenant_ingress_test import Daemon, forms

UPGRADE = {'Connection': 'Upgrade', 'Upgrade': 'websocket', 'Sec-WebSocket-Version': '13',
           'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ=='}
PREFLIGHT = {'Origin': 'https://x.example', 'Access-Control-Request-Method': 'POST'}
PORTS = {44772: 'Port 44772', 18080: 'Port 18080', 8000: 'Every other port'}
# For each kind, a name that nobody has, in the form of one that another team has.
NOBODYS = {'sandbox': '00000000-0000-4000-8000-000000000000', 'snapshot': '00000000-0000-4000-8000-000000000000',
           'template': 'tpl-00000000-0000-4000-8000-000000000000', 'key': 'k_aaaaaaaa', 'volume': 'nonesuch-volume',
           'pool': 'nonesuch-pool', 'image': 'nonesuch-image', 'tenant': 'nonesuch'}
OTHERS = 'cerulean'
TENANTS = tenants_test.TENANTS.replace('"blue"', f'"{OTHERS}"')


def spellings(target):
    """The same way, written so that a router and a check might read it differently."""
    path, question, query = target.partition('?')
    head, _, tail = path.rpartition('/')
    odd = {'plain': path, 'a slash at the end': path + '/', 'two slashes': path.replace('/', '//'),
           'two slashes before': '/' + path, 'a dot': f'/.{path}', 'dots': f'/x/..{path}',
           'dots at the end': f'{path}/x/..', 'coded dots': f'/x/%2e%2e{path}', 'a coded slash': f'{head}%2F{tail}',
           'a coded slash before': f'/%2F{path[1:]}', 'a coded letter': f'{head}/%{ord(tail[0]):02x}{tail[1:]}',
           'upper case': path.upper(), 'a parameter': f'{path};x=1', 'a backslash': path.replace('/', '\\'),
           'a coded NUL': f'{path}%00'}
    return {name: text + question + query for name, text in odd.items()}


class Routes(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.daemon = cls.enterClassContext(Daemon(TENANTS))
        cls.admin = cls.daemon.key = cls.daemon.new_key('admin')
        cls.image = cls.daemon.import_busybox()
        cls.keys = {role: cls.daemon.new_key(role) for role in roles_page.ROLES}
        cls.keys['other'] = cls.daemon.new_key('developer', OTHERS)
        cls.red = cls.have('developer', 'POST', '/v1/sandboxes', cls.body())['id']
        cls.theirs = cls.make_theirs()

    @classmethod
    def body(cls):
        return {'image': {'uri': cls.image}, 'entrypoint': ['sleep', '100000'], 'resourceLimits': {}}

    @classmethod
    def have(cls, who, method, path, body=None):
        status, text = cls.daemon.ask(cls.keys[who], method, path, body)
        assert status < 300, f'{method} {path}: {text}'
        return json.loads(text) if text else None

    @classmethod
    def make_theirs(cls):
        """One thing of each kind."""
        have = lambda *asked: cls.have('other', *asked)
        box = have('POST', '/v1/sandboxes', cls.body())['id']
        snapshot = have('POST', f'/v1/sandboxes/{box}/snapshots', {})['id']
        until(lambda: have('GET', f'/v1/snapshots/{snapshot}')['status']['state'] == 'Ready', 30 * SLOWNESS, snapshot)
        have('POST', '/v1/volumes', {'name': f'{OTHERS}-volume'})
        have('POST', '/v1/pools', {'name': f'{OTHERS}-pool', 'image': {'uri': cls.image}, 'capacitySpec': {
            'bufferMin': 0, 'bufferMax': 1, 'poolMin': 0, 'poolMax': 1}})
        have('POST', f'/v1/images?from={cls.image}&name={OTHERS}-image')
        template = have('POST', '/v1/templates', {'image': cls.image})['templateId']
        key = cls.daemon.as_root('POST', f'/v1/tenants/{OTHERS}/keys', {'role': 'viewer'})['id']
        return {'sandbox': box, 'snapshot': snapshot, 'template': template, 'key': key, 'volume': f'{OTHERS}-volume',
                'pool': f'{OTHERS}-pool', 'image': f'{OTHERS}-image', 'tenant': OTHERS}

    def answer(self, method, target, headers, body=None):
        """Status, fields without the date, and the beginning of the body: some answers have no end."""
        connection = self.daemon.connection()
        self.addCleanup(connection.close)
        connection.putrequest(method, target, skip_host='Host' in headers, skip_accept_encoding=True)
        text = json.dumps(body).encode() if body is not None else b''
        fields = {'X-Request-ID': 'fixed', **headers, **({'Content-Length': len(text)} if body is not None else {})}
        for name, value in fields.items():
            connection.putheader(name, str(value))
        connection.endheaders(text)
        response = connection.getresponse()
        fields = sorted(field for field in response.getheaders() if field[0] != 'Date')
        text = response.read().decode() if response.status >= 400 else ''
        connection.close()
        return response.status, fields, text

    def key(self, who):
        return {'OPEN-SANDBOX-API-KEY': self.keys[who]} if who in self.keys else {}

    def same(self, kind, method, target, headers, body=None):
        theirs, nobodys = self.theirs[kind], NOBODYS[kind]
        told = [json.dumps(self.answer(method, target.replace('@', name),
                                       {field: value.replace('@', name) for field, value in headers.items()}, body))
                # The spelling may have the name in capitals.
                .replace(name, '*').replace(name.upper(), '*') for name in (theirs, nobodys)]
        lengths = [re.sub(r'\["Content-Length", "\d+"\]', '', one) for one in told]
        self.assertEqual(*(told if len(theirs) == len(nobodys) else lengths))

    def test_each_route_with_what_another_team_has(self):
        """In each spelling, below both prefixes, also as HEAD, as a preflight and as a WebSocket."""
        count = itertools.count()
        for method, pattern, kind, body in roles_page.named_routes():
            for spelling, target in spellings(pattern).items():
                for prefix in ('', '/v1'):
                    for who in ('viewer', 'developer'):
                        with self.subTest(route=f'{method} {prefix}{target}', spelling=spelling, who=who):
                            self.same(kind, method, prefix + target, self.key(who), body)
                            next(count)
            for verb, more in (('HEAD', {}), ('OPTIONS', {}), ('OPTIONS', PREFLIGHT), ('GET', UPGRADE),
                               ('get', {}), ('PROPFIND', {})):
                for prefix in ('', '/v1'):
                    with self.subTest(route=f'{verb} {prefix}{pattern}', more=more):
                        self.same(kind, verb, prefix + pattern, {**self.key('developer'), **more})
                        next(count)
        self.assertGreater(next(count), 2000)

    def test_each_route_of_each_port_by_each_role(self):
        """docs/roles.md says what the daemon does, by each form of proxy."""
        count = itertools.count()
        for port, section in PORTS.items():
            for method, pattern, may in roles_page.rows(section):
                method = 'GET' if method == '*' else method
                rest = re.sub(r'^/proxy/1$', '/', re.sub(r'\{[^}]*\}', '1', pattern))
                for form, (target, route) in forms(self.red, port, rest).items():
                    for who in (*roles_page.ROLES, 'other', 'nobody'):
                        with self.subTest(route=f'{method} {port}{rest}', form=form, who=who):
                            status, _, text = self.answer(method, target, {**route, **self.key(who)})
                            self.judge(may.get(who), who, status, text, may)
                            next(count)
        self.assertGreater(next(count), 2000)

    def judge(self, cell, who, status, text, may):
        if who == 'nobody':
            self.assertIn(status, (401, 429), text)
        elif who == 'other':
            self.assertEqual(status, 404, text)
        elif cell == '–':
            self.assertIn(status, (403, 404), text)
        elif cell == 'own, all with a reason':
            self.assertEqual((status, json.loads(text)['needs']), (403, 'reason'))
        else:
            self.assertNotIn(status, (401, 403), (cell, text, may))

    def test_each_route_of_each_port_of_another_team(self):
        """By each form, with a key, with a token of one's own, and with nothing."""
        token = self.have('developer', 'GET', f'/v1/sandboxes/{self.red}/endpoints/44772')['headers']
        own = {'key': self.key('developer'), 'token': {'X-EXECD-ACCESS-TOKEN': token['X-EXECD-ACCESS-TOKEN']},
               'websocket': {**self.key('developer'), **UPGRADE}, 'nothing': {}}
        for port, section in PORTS.items():
            for method, pattern, _ in roles_page.rows(section):
                method = 'POST' if method == '*' else method
                rest = re.sub(r'\{[^}]*\}', '1', pattern)
                for form, (target, route) in forms('@', port, rest).items():
                    for how, headers in own.items():
                        with self.subTest(route=f'{method} {port}{rest}', form=form, how=how):
                            self.same('sandbox', method, target, {**headers, **route})

    def test_each_spelling_of_a_way_into_another_teams_sandbox(self):
        for port, rest in ((44772, '/ping'), (44772, '/files/download?path=/etc/passwd'), (18080, '/policy'),
                           (8000, '/a')):
            for form, (target, route) in forms('@', port, rest).items():
                for spelling, odd in spellings(target).items():
                    for verb, more in (('GET', {}), ('HEAD', {}), ('OPTIONS', PREFLIGHT), ('GET', UPGRADE)):
                        with self.subTest(form=form, spelling=spelling, target=odd, verb=verb):
                            self.same('sandbox', verb, odd, {**self.key('developer'), **route, **more})
                if 'Host' in route:
                    for host in (f'@-{port}.LOCALHOST', f'@-{port}.localhost.', f'@-{port}.localhost:80',
                             f'x.@-{port}.localhost'):
                        with self.subTest(host=host):
                            self.same('sandbox', 'GET', target, {**self.key('developer'), 'Host': host})


if __name__ == '__main__':
    unittest.main()
