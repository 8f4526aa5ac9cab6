"""Attacks at the daemon's edge: web pages against the API, answers of sandboxes against browsers,
guesses of signatures. A real browser is in browser_test.py."""
import contextlib
import json
import resource
import time
import unittest
import urllib.parse

import atoll
from atoll import SLOWNESS, until
from box import Box, shell_image
import pages

KEYLESS = {'server_insecure_no_api_key': True}


def ask(daemon, path, headers=None, method='GET', body=None):
    """As a stranger without a key."""
    connection = daemon.connection()
    connection.request(method, path, body, headers or {})
    response = connection.getresponse()
    response.text = response.read().decode(errors='replace')
    connection.close()
    return response


class WithoutAKey(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon(**KEYLESS).__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.image = cls.daemon.import_busybox()
        cls.port = urllib.parse.urlsplit(cls.daemon.url).port

    def statuses(self, headers):
        """Of what a page would like: to see, to create, to end."""
        body = json.dumps({'image': {'uri': self.image}, 'resourceLimits': {},
                           'entrypoint': ['sleep', '9']})
        return {ask(self.daemon, path, headers, method, body if method == 'POST' else None).status
                for method, path in (('GET', '/v1/sandboxes'), ('POST', '/v1/sandboxes'),
                                     ('DELETE', '/v1/images/' + self.image),
                                     ('POST', '/shutdown?all=true'))}

    def test_names_that_lead_here_by_dns(self):
        for host in ('127.evil.example', '127.0.0.1.evil.example', 'localhost.evil.example', 'evil.example',
                     '0.0.0.0', '', '127.0.0.1:x', 'a.localhost'):
            self.assertEqual(self.statuses({'Host': host}), {403}, host)
        for host in (f'127.0.0.1:{self.port}', f'localhost:{self.port}', '[::1]', 'localhost'):
            self.assertEqual(ask(self.daemon, '/v1/sandboxes', {'Host': host}).status, 200, host)

    def test_whatever_a_browser_sends(self):
        here = f'http://127.0.0.1:{self.port}'
        browser = {'User-Agent': 'Mozilla/5.0 (X11; Linux x86_64) Firefox/60.0'}
        for sent in ({'Origin': 'https://evil.example'}, {'Origin': 'null'}, {'Origin': here},
                     {'Origin': 'http://localhost:3000'}, {'Sec-Fetch-Site': 'cross-site'},
                     {'Sec-Fetch-Site': 'same-site'}, {'Sec-Fetch-Site': 'same-origin'}, browser,
                     {**browser, 'Sec-Fetch-Site': 'same-origin', 'Sec-Fetch-Mode': 'navigate'},
                     {**browser, 'Content-Type': 'text/plain', 'Referer': here},
                     {**browser, 'Connection': 'Upgrade', 'Upgrade': 'websocket', 'Origin': here}):
            self.assertEqual(self.statuses(sent), {403}, sent)
        preflight = ask(self.daemon, '/v1/sandboxes', {'Origin': here,
                                                       'Access-Control-Request-Method': 'POST'}, 'OPTIONS')
        self.assertEqual(preflight.status, 403)
        self.assertIsNone(preflight.getheader('Access-Control-Allow-Origin'))

    def test_programs_are_answered(self):
        box = self.daemon.create(self.image)
        self.assertEqual(self.daemon.run(box, 'echo works').stdout, 'works')
        for sent in ({'User-Agent': 'curl/7.88.1'}, {'User-Agent': 'node', 'Sec-Fetch-Mode': 'cors'},
                     {'User-Agent': 'Mozilla/5.0', 'Sec-Fetch-Site': 'none'}):
            self.assertEqual(ask(self.daemon, '/v1/sandboxes', sent).status, 200, sent)


class Answers(unittest.TestCase):
    """Of a hostile server in sandbox `a`."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon(server_limit_concurrency=50).__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.image = shell_image(cls.daemon)
        cls.a = Box(cls.daemon, cls.image)
        pages.serve(cls.a, 8000, 'page')
        until(lambda: ask(cls.daemon, f'/{cls.a.id}/8000/').status == 200, 30 * SLOWNESS, 'it listens')

    def forms(self):
        named = f'{self.a.id}-8000'
        port = urllib.parse.urlsplit(self.daemon.url).port
        return {'proxy': (f'/sandboxes/{self.a.id}/proxy/8000', {}),
                'v1': (f'/v1/sandboxes/{self.a.id}/proxy/8000', {}),
                'uri': (f'/{self.a.id}/8000', {}),
                'execd': (f'/sandboxes/{self.a.id}/proxy/44772/proxy/8000', self.a.headers),
                'header': ('', {'OpenSandbox-Ingress-To': named}),
                'host': ('', {'Host': f'{named}.localhost:{port}'})}

    def ask(self, form, path, headers=None, method='GET'):
        prefix, more = self.forms()[form]
        return ask(self.daemon, prefix + path, {**more, **(headers or {})}, method)

    def test_nothing_holds_beyond_the_sandbox(self):
        for form in self.forms():
            answer = self.ask(form, '/evil')
            self.assertEqual((answer.status, answer.getheader('X-Kept')), (200, 'yes'), form)
            for name in ('Strict-Transport-Security', 'Clear-Site-Data', 'Public-Key-Pins', 'Alt-Svc', 'NEL',
                         'Report-To'):
                self.assertIsNone(answer.getheader(name), (form, name))
            policy, cookies = answer.getheader('Content-Security-Policy') or '', answer.getheader('Set-Cookie')
            self.assertIsNotNone(answer.getheader('X-Request-ID'), form)
            if form == 'host':
                self.assertNotIn('sandbox', policy)
                self.assertEqual(cookies, 'a=b; Path=/, c=d')
                continue
            self.assertIn('sandbox allow-', policy, form)
            self.assertNotIn('allow-same-origin', policy, form)
            self.assertIsNone(cookies, form)
            self.assertIsNone(answer.getheader('Service-Worker-Allowed'), form)
            prefix = self.forms()[form][0]
            # execd's own proxy has no path of its own for us: below the sandbox's, all the same.
            self.assertTrue(answer.getheader('Refresh').startswith('0; url=' + prefix.partition('/proxy/8000')[0]
                                                                   + '/' if prefix else '0; url=/'), form)
        self.assertIn('OpenSandbox-Ingress-To', self.ask('header', '/').getheader('Vary'))

    def test_redirects_stay(self):
        port = urllib.parse.urlsplit(self.daemon.url).port
        for form in ('proxy', 'v1', 'uri'):
            prefix = self.forms()[form][0]
            for to in ('/v1/sandboxes', '/../../v1/sandboxes', '../../../../../v1/sandboxes', 'v1/sandboxes',
                       r'\v1\sandboxes', 'http://localhost:8000/v1/sandboxes', '%2e%2e/%2e%2e/v1/sandboxes',
                       f'http://127.0.0.1:{port}/v1/sandboxes', f'//127.0.0.1:{port}/v1/sandboxes'):
                # The page's printf(1) takes one of two away.
                answer = self.ask(form, '/away?' + to.replace('\\', '\\\\').replace('%', '%%'))
                self.assertEqual((answer.status, answer.getheader('Location')),
                                 (307, prefix + '/v1/sandboxes'), (form, to))
            for to in ('http:/v1/sandboxes', '///evil.example/', 'http:v1'):
                self.assertIsNone(self.ask(form, '/away?' + to).getheader('Location'), to)
            self.assertEqual(self.ask(form, '/away?https://login.example/').getheader('Location'),
                             'https://login.example/')
        self.assertEqual(self.ask('host', '/away?http://localhost:8000/x').getheader('Location'),
                         f'//{self.forms()["host"][1]["Host"]}/x')
        # Whoever sent the API key along is not sent elsewhere with it.
        self.assertIsNone(self.ask('execd', '/away?https://evil.example/').getheader('Location'))

    def test_its_cors_is_its_own(self):
        evil = {'Origin': 'https://evil.example', 'Access-Control-Request-Method': 'PUT'}
        for form in self.forms():
            for method in ('GET', 'OPTIONS'):
                answer = self.ask(form, '/cors', evil, method)
                if form == 'header' and method == 'OPTIONS':
                    continue  # no browser sends the header with a preflight
                self.assertEqual(answer.getheader('Access-Control-Allow-Origin'), 'https://app.example',
                                 (form, method))
                self.assertIsNone(answer.getheader('Access-Control-Allow-Credentials'))
        self.assertIn('OPTIONS /cors https://evil.example', self.a.out('cat /tmp/seen'))
        # Of the API, whose authority is a header that pages must know, it is ours.
        answer = ask(self.daemon, '/v1/sandboxes', evil, 'OPTIONS')
        self.assertEqual(answer.getheader('Access-Control-Allow-Origin'), 'https://evil.example')

    def test_errors_tell_no_paths(self):
        self.daemon.request('GET', '/health')
        seen = [ask(self.daemon, f'/{self.a.id}/9/').text]
        with open(self.daemon.log, encoding='utf-8') as log:
            before = len(log.read())
        other = Box(self.daemon, self.image)
        # Its socket taken away: execd cannot be reached, and why is the host's business.
        (self.daemon.run_dir / 'sandboxes' / f'{other.id}.sock').rename(self.daemon.top / 'sock')
        refused = ask(self.daemon, f'/{other.id}/8000/', {'X-Request-ID': 'told-1'})
        (self.daemon.top / 'sock').rename(self.daemon.run_dir / 'sandboxes' / f'{other.id}.sock')
        self.assertEqual(refused.status, 502)
        self.assertIn('request told-1', refused.text)
        seen.append(refused.text)
        for text in seen:
            self.assertNotIn(str(self.daemon.top), text)
        log = self.daemon.log.read_text(encoding='utf-8')[before:]
        self.assertRegex(log, f'request=told-1 .*{other.id}.sock')


class Connections(unittest.TestCase):
    MOST = 4096

    def setUp(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        self.daemon = self.enterContext(atoll.Daemon())

    def test_a_flood_of_idle_ones_keeps_nobody_out(self):
        whole = b'GET /version HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'
        for sent in (b'', whole[:-2], whole):
            with self.subTest(sent=sent), contextlib.ExitStack() as flood:
                for _ in range(self.MOST):
                    connection = flood.enter_context(contextlib.closing(self.daemon.connection()))
                    connection.connect()
                    connection.sock.sendall(sent)
                for _ in range(100):
                    self.assertEqual(ask(self.daemon, '/version').status, 200)


class Guesses(unittest.TestCase):
    """Of the signature of a sandbox with secure access, in upstream's 32 bits."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon(**{'ingress_secure_access.short_signatures': True}).__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.image = cls.daemon.import_busybox()
        cls.a, cls.b = [cls.daemon.create(cls.image, secureAccess=True) for _ in range(2)]

    def signed(self, box):
        told = self.daemon.request('GET', f'/v1/sandboxes/{box}/endpoints/8000?expires={int(time.time()) + 3600}')
        return '/' + told['endpoint'].partition('/')[2]

    def memory_kib(self):
        with open(f'/proc/{self.daemon.process.pid}/smaps_rollup', encoding='ascii') as file:
            return int([line for line in file if line.startswith('Anonymous:')][0].split()[1])

    def test_they_are_few_and_lock_nobody_out(self):
        mine, fresh = self.signed(self.a), self.signed(self.b)
        self.assertRegex(mine, r'/[0-9a-f]{8}[0-9a-z]$')
        self.assertEqual(ask(self.daemon, mine).status, 502)  # admitted; nobody listens
        prefix, _, key = mine.rpartition('/')
        connection, statuses = self.daemon.connection(), {}
        before = self.memory_kib()
        for number in range(5000):
            connection.request('GET', f'{prefix}/{number:08x}{key[-1]}/')
            answer = connection.getresponse()
            answer.read()
            statuses[answer.status] = statuses.get(answer.status, 0) + 1
            if answer.status == 429:
                self.assertGreaterEqual(int(answer.getheader('Retry-After')), 1)
        connection.close()
        self.assertEqual(set(statuses), {401, 429}, statuses)
        self.assertLess(statuses[401], 60, statuses)
        self.assertLess(self.memory_kib() - before, 1024)
        # Who was in stays in; another sandbox's guests do not notice; the token is no guess.
        self.assertEqual(ask(self.daemon, mine).status, 502)
        self.assertEqual(ask(self.daemon, fresh).status, 502)
        told = self.daemon.request('GET', f'/v1/sandboxes/{self.a}/endpoints/8000')['headers']
        self.assertEqual(ask(self.daemon, f'/{self.a}/8000/', told).status, 502)
        # The answer to a right guess does not tell it from a wrong one.
        time_left = self.daemon.request(
            'GET', f'/v1/sandboxes/{self.a}/endpoints/8001?expires={int(time.time()) + 3600}')
        self.assertEqual(ask(self.daemon, '/' + time_left['endpoint'].partition('/')[2]).status, 429)


if __name__ == '__main__':
    unittest.main()
