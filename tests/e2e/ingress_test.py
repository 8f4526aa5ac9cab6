"""The ways into a sandbox's ports, in every form that a configuration can tell clients."""
import json
import time
import unittest
import urllib.parse

import atoll
from atoll import SLOWNESS, until
from box import Box, shell_image

DOMAIN = 'boxes.example.org'
WILDCARD = {'ingress_mode': 'gateway', 'ingress_gateway.address': f'*.{DOMAIN}:8443',
            'ingress_gateway.route.mode': 'wildcard'}
# How to reach a port: what stands before the path, and what is sent along. With NEVER in place of
# the id it is a way to what never was.
NEVER = '3f2504e0-4f89-41d3-9a0c-0305e82c3301'
UPGRADE = {'Connection': 'Upgrade', 'Upgrade': 'websocket', 'Sec-WebSocket-Version': '13',
           'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ=='}


def ways(box, port):
    return {'proxy': (f'/sandboxes/{box}/proxy/{port}', {}),
            'proxy below /v1': (f'/v1/sandboxes/{box}/proxy/{port}', {}),
            'uri': (f'/{box}/{port}', {}),
            'header': ('', {'OpenSandbox-Ingress-To': f'{box}-{port}'}),
            'host': ('', {'Host': f'{box}-{port}.{DOMAIN}'})}


def way(told):
    """What a client of an endpoint does: the host of it is the daemon's by DNS."""
    address, slash, path = told['endpoint'].partition('/')
    return slash + path, {'Host': address, **told.get('headers', {})}


class Reach(unittest.TestCase):
    """A daemon, an open and a secure sandbox, and what every way to them must carry."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon(**WILDCARD).__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.image = shell_image(cls.daemon)
        cls.open = cls.serve(Box(cls.daemon, cls.image))
        # Through the server proxy its commands need no header beyond those that are told.
        cls.secure = cls.serve(Box(cls.daemon, cls.image, secureAccess=True))

    @classmethod
    def serve(cls, box):
        box.out('busybox httpd -p 127.0.0.1:8001 -h /srv; mkfifo /tmp/go')
        box.background('busybox nc -ll -p 8100 -e /srv/ws')
        until(lambda: box.call('GET', '/proxy/8100/').status == 200, 30 * SLOWNESS,
              'the echo listens')
        return box

    def told(self, box, port, query=''):
        return self.daemon.request('GET', f'/v1/sandboxes/{box.id}/endpoints/{port}{query}')

    def ask(self, reach, path, method='GET', body=None, **headers):
        """As a client without an API key does."""
        before, sent = reach
        connection = self.daemon.connection()
        connection.request(method, before + path, body, {**sent, **headers})
        response = connection.getresponse()
        response.text = response.read().decode()
        connection.close()
        return response

    def check(self, reach, echo):
        """That `reach` and `echo`, ways to ports 8001 and 8100, lead there and carry everything."""
        answer = self.ask(reach, '/cgi-bin/show?a=b%20c&d', 'POST', b'12345')
        self.assertEqual(answer.status, 200, answer.text)
        lines = answer.text.splitlines()
        self.assertEqual((lines[0], lines[-1]), ('POST /cgi-bin/show?a=b%20c&d', 'body 5'))
        for name in ('OPENSANDBOX_INGRESS_TO', 'OPENSANDBOX_SECURE_ACCESS', 'X_EXECD'):
            self.assertNotIn(f'HTTP_{name}', answer.text)
        self.stream(reach)
        self.upgrade(echo)

    def stream(self, reach):
        before, sent = reach
        box = self.secure if self.secure.id in f'{before}{sent}' else self.open
        connection = self.daemon.connection()
        connection.request('GET', before + '/cgi-bin/show?stream', headers=sent)
        response = connection.getresponse()
        self.assertEqual(response.readline(), b'first\n')
        # The rest is written only after the first line has been read here.
        box.out('echo second >/tmp/go')
        self.assertEqual(response.read(), b'second\n')
        connection.close()

    def upgrade(self, reach):
        before, sent = reach
        headers = {'Host': 'x', **UPGRADE, **sent}
        head = ''.join(f'{name}: {value}\r\n' for name, value in headers.items())
        with self.open.raw() as peer:
            peer.sendall(f'GET {before}/ HTTP/1.1\r\n{head}\r\n'.encode())
            answer = b''
            while b'\r\n\r\n' not in answer:
                piece = peer.recv(4096)
                self.assertTrue(piece, answer)
                answer += piece
            self.assertIn(b' 101 ', answer)
            peer.sendall(b'bytes as they are')
            self.assertEqual(peer.recv(100), b'bytes as they are')

    def signed(self):
        """Ways to 8001 and 8100 of the secure sandbox, signed, as the configured form has them."""
        query = f'?expires={int(time.time()) + 300}'
        return [way(self.told(self.secure, port, query)) for port in (8001, 8100)]

    @staticmethod
    def slashes(name):
        return '/' + name[:36] + name[36:].replace('-', '/')


class Ways(Reach):
    def test_every_form_leads_there(self):
        for form, reach in ways(self.open.id, 8001).items():
            with self.subTest(form):
                self.check(reach, ways(self.open.id, 8100)[form])

    def test_a_wildcard_endpoint(self):
        told = self.told(self.open, 8001)
        self.assertEqual(told, {'endpoint': f'{self.open.id}-8001.{DOMAIN}:8443'})
        self.check(way(told), way(self.told(self.open, 8100)))
        self.assertEqual(self.told(self.open, 8001, '?use_server_proxy=true')['endpoint'],
                         f'{urllib.parse.urlsplit(self.daemon.url).netloc}'
                         f'/v1/sandboxes/{self.open.id}/proxy/8001')
        # Commands go the same way.
        reach = way(self.told(self.open, 44772))
        answer = self.ask(reach, '/command', 'POST', json.dumps({'command': 'echo via $((6*7))'}))
        self.assertIn('via 42', answer.text)

    def test_the_host_form_is_an_origin_of_its_own(self):
        cookie = {'Cookie': 'session=mine', 'Authorization': 'Basic bWluZQ=='}
        for form, reach in ways(self.open.id, 8001).items():
            with self.subTest(form):
                answer = self.ask(reach, '/cgi-bin/show', **cookie)
                self.assertEqual('session=mine' in answer.text, form == 'host')

    def test_other_names_of_the_domain_are_the_api(self):
        for host in (f'api.{DOMAIN}', DOMAIN, f'{self.open.id}.{DOMAIN}',
                     f'{self.open.id}-8001.{DOMAIN}.evil.test', f'{self.open.id}-8001.evil.test'):
            with self.subTest(host):
                self.assertEqual(self.ask(('', {'Host': host}), '/v1/sandboxes').status, 401)

    def test_secure_access(self):
        for form, reach in ways(self.secure.id, 8001).items():
            with self.subTest(form):
                self.assertEqual(self.ask(reach, '/which').status, 401)
        told = self.told(self.secure, 8001)
        token = told['headers']['OpenSandbox-Secure-Access']
        for form, (before, sent) in ways(self.secure.id, 8001).items():
            with self.subTest(form, token=True):
                sent = {**sent, 'OpenSandbox-Secure-Access': token}
                self.check((before, sent), (ways(self.secure.id, 8100)[form][0], {
                    **ways(self.secure.id, 8100)[form][1], 'OpenSandbox-Secure-Access': token}))
                sent['OpenSandbox-Secure-Access'] = token[::-1]
                self.assertEqual(self.ask((before, sent), '/cgi-bin/show').status, 401)

    def test_signed_forms(self):
        reach, echo = self.signed()
        self.check(reach, echo)
        name = reach[1]['Host'].split('.')[0]
        self.check(('', {'OpenSandbox-Ingress-To': name}),
                   ('', {'OpenSandbox-Ingress-To': echo[1]['Host'].split('.')[0]}))
        slashes = [self.slashes(part[1]['Host'].split('.')[0]) for part in (reach, echo)]
        self.check(*[(path, {}) for path in slashes])
        # Of another port, or cut.
        for wrong in (name.replace('-8001-', '-8002-'), name[:-1], name[:-2] + name[-1]):
            with self.subTest(wrong):
                for other in (('', {'OpenSandbox-Ingress-To': wrong}), (self.slashes(wrong), {}),
                              ('', {'Host': f'{wrong}.{DOMAIN}'})):
                    self.assertEqual(self.ask(other, '/cgi-bin/show').status, 401, other)


class Forms(Reach):
    """The same daemon, configured anew; its sandboxes live on."""

    def again(self, **settings):
        self.daemon.stop()
        kept = [line for line in self.daemon.config.read_text().splitlines(True)
                if not line.startswith(('mode', 'gateway.', '[ingress]'))]
        told = ''.join(f'{key} = {json.dumps(value)}\n' for key, value in settings.items())
        self.daemon.config.write_text(''.join(kept) + '[ingress]\n' + told)
        self.daemon.start()

    def test_a_uri_endpoint(self):
        self.again(**{'mode': 'gateway', 'gateway.address': 'in.example.org',
                      'gateway.route.mode': 'uri'})
        told = self.told(self.open, 8001)
        self.assertEqual(told, {'endpoint': f'in.example.org/{self.open.id}/8001'})
        self.check(way(told), way(self.told(self.open, 8100)))
        self.check(*self.signed())

    def test_a_header_endpoint(self):
        self.again(**{'mode': 'gateway', 'gateway.address': 'in.example.org:80',
                      'gateway.route.mode': 'header'})
        told = self.told(self.open, 8001)
        self.assertEqual(told, {'endpoint': 'in.example.org:80',
                                'headers': {'OpenSandbox-Ingress-To': f'{self.open.id}-8001'}})
        self.check(way(told), way(self.told(self.open, 8100)))
        self.check(*self.signed())
        # No domain: a name of the old one is only a name.
        self.assertEqual(self.ask(ways(self.open.id, 8001)['host'], '/which').status, 401)

    def test_a_direct_endpoint(self):
        self.again(mode='direct')
        told = self.told(self.open, 8001)
        self.assertEqual(told['endpoint'], f'{urllib.parse.urlsplit(self.daemon.url).netloc}'
                                           f'/v1/sandboxes/{self.open.id}/proxy/8001')
        self.check(way(told), way(self.told(self.open, 8100)))
        self.check(*self.signed())


class TheGone(unittest.TestCase):
    """A route dies with its sandbox."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon(**WILDCARD).__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.image = cls.daemon.import_busybox()

    def statuses(self, box, path='/ping'):
        """Of every way to execd."""
        found = {}
        for form, (before, sent) in ways(box, 44772).items():
            connection = self.daemon.connection()
            connection.request('GET', before + path, headers=sent)
            response = connection.getresponse()
            body = json.loads(response.read() or '{}')
            found[form] = (response.status, body.get('code'))
            connection.close()
        return set(found.values()), found

    def gone(self, box):
        self.assertEqual(self.statuses(box)[0], {(404, 'DOCKER::SANDBOX_NOT_FOUND')})
        # The API's own routes keep their answers.
        for method, path in (('GET', ''), ('DELETE', ''), ('GET', '/endpoints/80')):
            with self.assertRaises(atoll.ApiError) as caught:
                self.daemon.request(method, f'/v1/sandboxes/{box}{path}')
            self.assertEqual((caught.exception.status, caught.exception.code),
                             (404, 'DOCKER::SANDBOX_NOT_FOUND'))

    def test_what_never_was(self):
        self.assertEqual(self.statuses(NEVER)[0], {(404, 'DOCKER::SANDBOX_NOT_FOUND')})

    def test_the_deleted(self):
        box = self.daemon.create(self.image)
        self.assertEqual(self.daemon.run(box, 'echo alive').stdout, 'alive')
        self.daemon.delete(box)
        self.gone(box)
        # And once nothing of it is left, and to daemons that never knew it.
        socket = self.daemon.run_dir / 'sandboxes' / f'{box}.sock'
        until(lambda: not socket.exists(), 30 * SLOWNESS, 'its socket is gone')
        self.gone(box)
        self.daemon.stop()
        self.daemon.start()
        self.gone(box)
        self.daemon.kill()
        self.daemon.start()
        self.gone(box)

    def test_the_expired(self):
        box = self.daemon.create(self.image, timeout=60)
        moment = time.time() + 1
        self.daemon.request('POST', f'/v1/sandboxes/{box}/renew-expiration', {
            'expiresAt': time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(moment + 1))})
        until(lambda: self.statuses(box)[0] == {(404, 'DOCKER::SANDBOX_NOT_FOUND')}, 20 * SLOWNESS,
              'it has expired')
        self.gone(box)

    def test_those_of_a_shutdown(self):
        box = self.daemon.create(self.image)
        self.daemon.shutdown()
        self.daemon.start()
        self.gone(box)

    def test_what_has_ended_does_not_come_back(self):
        box = self.daemon.create(self.image, entrypoint=['true'])
        path = f'/v1/sandboxes/{box}'
        until(lambda: self.daemon.request('GET', path)['status']['state'] == 'Terminated',
              30 * SLOWNESS, 'the entrypoint has ended')
        self.assertEqual(self.statuses(box)[0], {(410, 'DOCKER::SANDBOX_NOT_RUNNING')})
        # Paused is not gone.
        other = self.daemon.create(self.image)
        self.daemon.request('POST', f'/v1/sandboxes/{other}/pause')
        self.assertEqual(self.statuses(other)[0], {(409, 'DOCKER::SANDBOX_NOT_RUNNING')})


if __name__ == '__main__':
    unittest.main()
