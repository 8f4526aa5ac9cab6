"""Templates: what is started ahead, what a claim brings, and that nobody gets what was another's."""
import threading
import unittest

import atoll
from atoll import SLOWNESS

UNTIL = 60 * SLOWNESS
# What a member can tell of how it came to be, and that it goes on.
PROGRAM = ['sh', '-c', 'head -c 8 /dev/urandom | od -An -tx1 >/seed; echo $WHO $OPENSANDBOX_ID >/said;'
           ' sleep 100000 & echo up >/up; wait']


def make(daemon, image, **fields):
    return daemon.request('POST', '/v1/templates', {'image': image, 'entrypoint': PROGRAM, **fields})


def view(daemon, template):
    return daemon.request('GET', f'/v1/templates/{template}')


def phase(daemon, template):
    return view(daemon, template)['status']['phase']


def filled(daemon, template, ready=1):
    atoll.until(lambda: view(daemon, template)['status']['ready'] == ready, UNTIL,
                f'{ready} sandboxes of {template} are ready')


def claim(daemon, template, **fields):
    return daemon.request('POST', '/v1/sandboxes', {'templateId': template, 'timeout': 600, **fields})


class TemplateTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon(runtime_parked_sandboxes=6)
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.daemon.start()
        cls.image = cls.daemon.import_busybox()

    def setUp(self):
        self.addCleanup(self.clean)

    def clean(self):
        for box in self.daemon.request('GET', '/v1/sandboxes?pageSize=100')['items']:
            self.daemon.delete(box['id'])
        for one in self.daemon.request('GET', '/v1/templates')['items']:
            self.daemon.request('DELETE', f'/v1/templates/{one["templateId"]}')

    def made(self, ready=1, **fields):
        template = make(self.daemon, self.image, **fields)['templateId']
        filled(self.daemon, template, ready)
        return template

    def refused(self, method, path, body=None):
        with self.assertRaises(atoll.ApiError) as caught:
            self.daemon.request(method, path, body)
        return caught.exception.status, caught.exception.code

    def test_it_is_made_found_and_removed(self):
        told = make(self.daemon, self.image, publish='s3://bucket/x', env={'WHO': 'them'},
                    metadata={'mark': 'this one'.replace(' ', '-')}, format='native',
                    resourceLimits={'memory': '128Mi', 'cpu': '1'},
                    readiness={'probe': 'cmd://test -s /up', 'warmupSeconds': 3})
        template = told['templateId']
        self.assertRegex(template, r'^tpl-[0-9a-f-]{36}$')
        self.assertIn(told['status']['phase'], ('Pending', 'Building'))
        filled(self.daemon, template)
        shown = view(self.daemon, template)
        self.assertEqual(shown['status'], {'phase': 'Succeeded', 'ready': 1, 'building': 0, 'waiting': 0})
        for name in ('image', 'publish', 'format', 'env', 'metadata', 'entrypoint', 'resourceLimits',
                     'readiness', 'createdAt'):
            self.assertEqual(shown[name], told[name], name)
        other = self.made()
        listed = self.daemon.request('GET', '/v1/templates?metadata=mark%3Dthis-one')
        self.assertEqual([one['templateId'] for one in listed['items']], [template])
        page = self.daemon.request('GET', '/templates?pageSize=1')
        self.assertEqual((page['items'][0]['templateId'], page['pagination']['totalItems']), (other, 2))
        self.assertEqual(self.refused('DELETE', f'/v1/images/{self.image}'), (409, 'IMAGE::IN_USE'))
        self.daemon.request('DELETE', f'/v1/templates/{template}')
        gone = (404, 'FSB::TEMPLATE_NOT_FOUND')
        self.assertEqual(self.refused('GET', f'/v1/templates/{template}'), gone)
        self.assertEqual(self.refused('DELETE', f'/v1/templates/{template}'), gone)
        self.assertEqual(self.refused('POST', '/v1/sandboxes', {'templateId': template, 'timeout': 60}),
                         (400, gone[1]))

    def test_what_is_refused_has_no_effect(self):
        wrong = ((422, {'image': None}), (422, {'image': ''}), (422, {'entrypoint': []}),
                 (422, {'unknown': 1}), (422, {'format': 'tar'}), (422, {'stock': 0}),
                 (422, {'readiness': {'probe': 'http://x'}}), (422, {'readiness': {'probe': 'cmd:// '}}),
                 (422, {'readiness': {'probe': 'tcp://10.0.0.1:80'}}), (422, {'readiness': {'probes': 1}}),
                 (422, {'readiness': {'probe': 'tcp://127.0.0.1:70000'}}),
                 (422, {'readiness': {'warmupSeconds': -1}}), (422, {'warmup': {'command': []}}),
                 (400, {'resourceLimits': {'coffee': '1'}}), (400, {'resourceLimits': {'memory': 'x'}}),
                 (400, {'env': {'A-B': 'c'}}), (400, {'metadata': {'-': 'x'}}),
                 (404, {'image': 'no/such:image'}), (400, {'stock': 7}))
        for expected, fields in wrong:
            with self.subTest(fields=fields):
                body = {'image': self.image, **fields}
                self.assertEqual(self.refused('POST', '/v1/templates', body)[0], expected)
        self.assertEqual(self.daemon.request('GET', '/v1/templates')['items'], [])
        template = self.made()
        for expected, fields in (
                (422, {'image': {'uri': self.image}}), (422, {'entrypoint': ['x']}), (422, {'env': {'A': 'b'}}),
                (422, {'resourceLimits': {}}), (422, {'secureAccess': True}), (422, {'timeout': None}),
                (422, {'extensions': {'poolRef': 'p'}}), (422, {'extensions': {'network': 'n'}}),
                (422, {'extensions': {'readOnlyRootFilesystem': 'true'}}), (400, {'metadata': {'-': 'x'}}),
                (400, {'networkPolicy': {'defaultAction': 'x'}})):
            with self.subTest(fields=fields):
                body = {'templateId': template, 'timeout': 60, **fields}
                self.assertEqual(self.refused('POST', '/v1/sandboxes', body)[0], expected)
        self.assertEqual(view(self.daemon, template)['status']['ready'], 1)

    def test_a_claim_finds_it_started_and_brings_the_rest(self):
        template = self.made(env={'WHO': 'them'}, readiness={'probe': 'cmd://test -s /up'},
                             warmup={'command': ['sh', '-c', 'echo warm $(cat /up) >/warmed']})
        self.assertEqual(self.daemon.request('GET', '/v1/sandboxes')['items'], [])
        before = self.daemon.metric('template_creates_total{result="claimed"}')
        policy = {'defaultAction': 'deny', 'egress': []}
        told = claim(self.daemon, template, metadata={'mark': 'here', 'name': 'mine'},
                     extensions={'uniqueName': 'true', 'idle.after': '500'}, networkPolicy=policy)
        self.assertEqual(self.daemon.metric('template_creates_total{result="claimed"}'), before + 1)
        box = told['id']
        self.assertEqual((told['status']['state'], told['entrypoint'], told['metadata']['mark']),
                         ('Running', PROGRAM, 'here'))
        shown = self.daemon.request('GET', f'/v1/sandboxes/{box}')
        self.assertEqual(shown['templateId'], template)
        self.assertIn('expiresAt', shown)
        said = self.daemon.run(box, 'cat /said /warmed; hostname').stdout.split()
        self.assertEqual(said, ['them', box, 'warm', 'up', box.replace('-', '')[:12]])
        endpoint = self.daemon.send('GET', f'/v1/sandboxes/{box}/endpoints/44772')
        self.assertEqual(endpoint.getheader('OPEN-SANDBOX-ORIGIN'), 'template')
        policy = self.daemon.request('GET', f'/v1/sandboxes/{box}/networkpolicy')['policy']
        self.assertEqual(policy['defaultAction'], 'deny')
        self.assertNotEqual(self.daemon.run(box, 'nslookup -timeout=2 example.com').exit_code, 0)
        self.assertEqual(self.refused('POST', '/v1/sandboxes', {
            'templateId': template, 'timeout': 60, 'metadata': {'name': 'mine'},
            'extensions': {'uniqueName': 'true'}})[0], 409)

    def test_nobody_gets_what_was_anothers(self):
        template = self.made(2, stock=2)
        sockets = self.daemon.waiting()
        self.assertEqual(len(sockets), 2)
        for box in sockets:
            self.assertEqual(self.refused('GET', f'/v1/sandboxes/{box}')[0], 404)
            for verb in ('pause', 'resume', 'fork', 'snapshots'):
                self.assertEqual(self.refused('POST', f'/v1/sandboxes/{box}/{verb}')[0], 404)
            self.assertEqual(self.refused('DELETE', f'/v1/sandboxes/{box}')[0], 404)
            self.assertEqual(self.daemon.send('GET', f'/sandboxes/{box}/proxy/44772/ping').status, 404)
        told = []
        threads = [threading.Thread(target=lambda: told.append(claim(self.daemon, template)['id']))
                   for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertTrue(sockets < set(told))
        seeds = {self.daemon.run(box, 'until test -s /seed; do sleep 0.05; done; cat /seed').stdout
                 for box in told}
        tokens = {self.daemon.execd_headers(box)['X-EXECD-ACCESS-TOKEN'] for box in told}
        self.assertEqual((len(set(told)), len(seeds), len(tokens)), (5, 5, 5))

    def test_a_port_that_opens_late(self):
        template = make(self.daemon, self.image, readiness={'probe': 'tcp://127.0.0.1:8000'},
                        entrypoint=['sh', '-c', 'until [ -e /go ]; do :; done; exec httpd -f -p 8000'],
                        warmup={'command': ['true']})['templateId']
        atoll.until(lambda: view(self.daemon, template)['status']['building'] == 1, UNTIL, 'it is built')
        self.assertEqual(self.refused('POST', '/v1/sandboxes', {'templateId': template, 'timeout': 60}),
                         (400, 'FSB::TEMPLATE_NOT_FOUND'))
        self.assertEqual(phase(self.daemon, template), 'Building')
        opened = self.made(readiness={'probe': 'tcp://localhost:8000'},
                           entrypoint=['sh', '-c', 'exec httpd -f -p 8000'])
        box = claim(self.daemon, opened)['id']
        self.assertEqual(self.daemon.send('GET', f'/sandboxes/{box}/proxy/8000/').status, 404)

    def test_what_fails_says_why(self):
        for fields, expected in (
                ({'readiness': {'probe': 'cmd://echo still not; exit 3', 'timeoutSeconds': 1}},
                 r'readiness probe: not done after 1 s; the last try: exit status 3: still not'),
                ({'warmup': {'command': ['sh', '-c', 'echo broken >&2; exit 7']}},
                 r'warm-up: exit status 7: broken'),
                ({'warmup': {'kernel': 'python'}}, r'kernel of python: .*python'),
                ({'entrypoint': ['/nope']}, r'the entrypoint cannot be run: .*/nope.*No such file'),
                ({'entrypoint': ['sh', '-c', 'exit 5'], 'readiness': {'probe': 'cmd://false'}},
                 r'exit code 5')):
            with self.subTest(fields=fields):
                template = make(self.daemon, self.image, **fields)['templateId']
                atoll.until(lambda template=template: phase(self.daemon, template) == 'Failed', UNTIL,
                            'it fails')
                self.assertRegex(view(self.daemon, template)['status']['message'], expected)
                self.assertEqual(self.refused('POST', '/v1/sandboxes',
                                              {'templateId': template, 'timeout': 60}),
                                 (400, 'FSB::TEMPLATE_NOT_FOUND'))
                self.daemon.request('DELETE', f'/v1/templates/{template}')
        self.assertEqual(self.daemon.request('GET', '/health'), {'status': 'healthy'})

    def test_a_daemon_that_dies_finds_its_stock(self):
        template = self.made(2, stock=2, readiness={'probe': 'cmd://test -s /up'})
        self.daemon.kill()
        self.daemon.start()
        shown = view(self.daemon, template)
        self.assertEqual((shown['status']['phase'], shown['status']['ready']), ('Succeeded', 2))
        self.assertEqual(self.daemon.request('GET', '/v1/sandboxes')['items'], [])
        box = claim(self.daemon, template)['id']
        self.assertEqual(self.daemon.run(box, 'cat /up').stdout, 'up')
        self.assertEqual(self.daemon.metric('template_creates_total{result="claimed"}'), 1)
        self.daemon.kill()
        self.daemon.start()
        self.assertEqual(self.daemon.request('GET', f'/v1/sandboxes/{box}')['status']['state'], 'Running')


if __name__ == '__main__':
    unittest.main()
