"""The API from outside: shapes of answers and refusals, and the way into sandboxes."""
import http.client
import json
import pathlib
import socket
import threading
import time
import unittest
import urllib.parse
import uuid

import atoll
from atoll import SLOWNESS

# Answers every connection with the head of the request that came, as it came.
ECHO = r"""
cat >/echo <<'END'
head=
while IFS= read -r line; do
  line=${line%"$(printf '\r')"}
  [ -n "$line" ] || break
  head="$head$line
"
done
printf 'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s' ${#head} "$head"
END
nc -ll -p 8000 -e sh /echo >/dev/null 2>&1 &
until grep -q :1F40 /proc/net/tcp /proc/net/tcp6; do :; done
"""


class Api(unittest.TestCase):
    """One daemon for all cases."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.image = cls.daemon.import_busybox()

    def create(self, **fields):
        box = self.daemon.create(self.image, **fields)
        self.addCleanup(self._delete, box)
        return box

    def _delete(self, box):
        self.daemon.send('DELETE', f'/v1/sandboxes/{box}').read()

    def refused(self, method, path, body=None, headers=None):
        """(status, code) of a refusal, which must be {code, message} with a request id."""
        response = self.daemon.send(method, path, body, headers)
        text = response.read()
        self.assertGreaterEqual(response.status, 400, text)
        self.assertTrue(response.headers['X-Request-ID'])
        answer = json.loads(text)
        self.assertTrue(answer['message'])
        return response.status, answer['code']

    def refused_create(self, **fields):
        body = {'image': {'uri': self.image}, 'entrypoint': ['sleep', '1'], 'resourceLimits': {},
                **fields}
        return self.refused('POST', '/v1/sandboxes', body)

    # ---- who may

    def test_the_key_is_asked_for(self):
        for key, code in (('', 'MISSING_API_KEY'), ('wrong', 'INVALID_API_KEY')):
            for method, path in (('GET', '/v1/sandboxes'), ('POST', '/sandboxes'),
                                 ('DELETE', f'/v1/sandboxes/{uuid.uuid4()}'),
                                 ('GET', '/v1/images'), ('POST', '/v1/shutdown?all=true'),
                                 ('GET', '/v1/metrics'), ('GET', '/v1/nothing')):
                with self.subTest(path=path, key=key):
                    headers = {'OPEN-SANDBOX-API-KEY': key}
                    self.assertEqual(self.refused(method, path, headers=headers), (401, code))
        self.assertEqual(self.daemon.send('GET', '/health', headers={'OPEN-SANDBOX-API-KEY': ''})
                         .read(), b'{"status":"healthy"}')

    # ---- what is refused, and how

    def test_what_is_not_offered(self):
        self.assertEqual(self.refused_create(resourceLimits={'gpu': '1'}),
                         (400, 'SANDBOX::API_NOT_SUPPORTED'))

    def test_bad_requests(self):
        self.assertEqual(self.refused_create(image={'uri': 'no/such:image'}),
                         (400, 'DOCKER::SANDBOX_IMAGE_NOT_FOUND'))
        for limits in ({'memory': 'lots'}, {'memory': '1Mi'}, {'cpu': '0'}, {'pids': '-1'},
                       {'coffee': '1'}):
            with self.subTest(limits=limits):
                self.assertEqual(self.refused_create(resourceLimits=limits),
                                 (400, 'SANDBOX::INVALID_PARAMETER'))
        for field in ({'timeout': 59}, {'timeout': 'soon'}, {'entrypoint': []}, {'entrypoint': 'sh'},
                      {'resourceLimits': None}, {'image': {}}, {'env': {'A': 1}}):
            with self.subTest(field=field):
                self.assertEqual(self.refused_create(**field)[0], 422)
        response = self.daemon.send('POST', '/v1/sandboxes', '{"image":')
        detail = json.loads(response.read())['detail'][0]
        self.assertEqual((response.status, detail['type']), (422, 'json_invalid'))
        self.assertEqual(self.refused('POST', '/v1/sandboxes', 'x' * (5 << 20)),
                         (400, 'GENERAL::TOO_LARGE'))
        self.assertEqual(self.refused('GET', f'/v1/sandboxes/{uuid.uuid4()}'),
                         (404, 'DOCKER::SANDBOX_NOT_FOUND'))
        self.assertEqual(self.refused('GET', '/v1/sandboxes?page=0')[0], 422)
        self.assertEqual(self.refused('PUT', '/v1/sandboxes')[0], 405)

    def test_nothing_of_a_refused_create_is_left(self):
        before = self.daemon.request('GET', '/v1/sandboxes')['pagination']['totalItems']
        self.refused_create(image={'uri': 'no/such:image'})
        after = self.daemon.request('GET', '/v1/sandboxes')['pagination']['totalItems']
        self.assertEqual(after, before)

    # ---- what released clients send besides

    def test_a_clients_measurement_is_taken(self):
        event = {'eventType': 'sandbox.create', 'createDurationMs': 3, 'success': True}
        for path in ('/v1/metrics/events', '/metrics/events'):
            for body in (event, {**event, 'sandboxId': 'b', 'image': 'busybox', 'later': [1]}):
                response = self.daemon.send('POST', path, body)
                self.assertEqual((response.status, response.read()), (204, b''))
        for wrong in ({}, {'eventType': 'sandbox.delete'}, {'createDurationMs': -1},
                      {'createDurationMs': None}, {'success': 'perhaps'}, {'image': 1}):
            with self.subTest(wrong=wrong):
                body = {**event, **wrong} if wrong else {}
                self.assertEqual(self.refused('POST', '/v1/metrics/events', body)[0], 422)
        large = {**event, 'image': 'x' * (64 << 10)}
        self.assertEqual(self.refused('POST', '/v1/metrics/events', large)[0], 413)
        self.assertEqual(self.refused('POST', '/v1/metrics/events', event,
                                      {'OPEN-SANDBOX-API-KEY': ''}), (401, 'MISSING_API_KEY'))

    def test_a_sandbox_knows_its_id_and_its_extensions(self):
        extensions = {'readOnlyRootFilesystem': 'false', 'later.key': 'of nobody'}
        box = self.create(extensions=extensions, env={'OPENSANDBOX_ID': 'another'},
                          entrypoint=['sh', '-c', 'echo $OPENSANDBOX_ID >/id; sleep 100'])
        self.assertEqual(self.daemon.run(box, 'echo $OPENSANDBOX_ID; until [ -s /id ]; do :; done;'
                                              ' cat /id').stdout, f'{box}\n{box}')
        self.assertEqual(self.daemon.request('GET', f'/v1/sandboxes/{box}')['extensions'], extensions)
        mark = uuid.uuid4().hex
        created = self.daemon.request('POST', '/v1/sandboxes', {
            'image': {'uri': self.image}, 'entrypoint': ['sleep', '9'], 'resourceLimits': {},
            'extensions': {'mark': mark}})
        self.addCleanup(self._delete, created['id'])
        self.assertEqual(created['extensions'], {'mark': mark})
        plain = self.daemon.request('GET', f'/v1/sandboxes/{self.create()}')
        self.assertNotIn('extensions', plain)

    def test_a_name_of_its_own(self):
        unique = {'metadata': {'name': 'web'}, 'extensions': {'uniqueName': 'true'}}
        first = self.create(**unique)
        response = self.daemon.send('POST', '/v1/sandboxes', {
            'image': {'uri': self.image}, 'entrypoint': ['sleep', '1'], 'resourceLimits': {}, **unique})
        told = json.loads(response.read())
        self.assertEqual((response.status, told['code']), (409, 'GENERAL::ALREADY_EXISTS'))
        self.assertIn(first, told['message'])
        # Metadata that is no more than that is nobody's business.
        second = self.create(metadata={'name': 'web'})
        for box in (first, second):
            self.daemon.request('DELETE', f'/v1/sandboxes/{box}')
        self.daemon.request('DELETE', f'/v1/sandboxes/{self.create(**unique)}')

    def test_what_other_runtimes_have(self):
        self.assertEqual(self.refused_create(templateId='tpl-1', timeout=60)[0], 422)
        self.assertEqual(self.refused_create(env={'OPENSANDBOX_LIFECYCLE': '{}'})[0], 422)
        self.assertEqual(self.refused_create(resourceLimits={'gpu': 'many'}),
                         (400, 'SANDBOX::INVALID_PARAMETER'))

    def test_the_version_needs_no_key(self):
        answer = self.daemon.send('GET', '/version', headers={'OPEN-SANDBOX-API-KEY': ''})
        self.assertRegex(json.loads(answer.read())['version'], r'^\d+\.\d+\.\d+$')

    # ---- states

    def _ended(self, box):
        def state():
            status = self.daemon.request('GET', f'/v1/sandboxes/{box}')['status']
            return status if status['state'] != 'Running' else None
        return atoll.until(state, 30 * SLOWNESS, 'the end of process 1')

    def test_a_missing_entrypoint_is_a_failure_that_says_so(self):
        box = self.create(entrypoint=['/no/such/program'])
        status = self._ended(box)
        self.assertEqual(status['state'], 'Failed')
        self.assertIn('/no/such/program', status['message'])
        self.assertIn('No such file', status['message'])
        self.assertEqual(self.refused('GET', f'/sandboxes/{box}/proxy/44772/ping'),
                         (410, 'DOCKER::SANDBOX_NOT_RUNNING'))

    def test_an_entrypoint_that_ends(self):
        for command, state, reason, words in (
                ('exit 0', 'Terminated', 'CONTAINER_EXITED', 'exit code 0'),
                ('exit 7', 'Failed', 'CONTAINER_EXITED_ERROR', 'exit code 7'),
                ('kill -9 $$', 'Failed', 'CONTAINER_EXITED_ERROR', '137')):
            with self.subTest(command=command):
                status = self._ended(self.create(entrypoint=['sh', '-c', command]))
                self.assertEqual((status['state'], status['reason']), (state, reason))
                self.assertIn(words, status['message'])

    def test_list_filters_and_pages(self):
        mark = uuid.uuid4().hex
        boxes = [self.create(metadata={'mark': mark, 'n': str(n)}) for n in range(3)]
        query = '/v1/sandboxes?metadata=' + urllib.parse.quote(f'mark={mark}', safe='')
        newest_first = [item['id'] for item in self.daemon.request('GET', query)['items']]
        self.assertEqual(newest_first, boxes[::-1])
        page = self.daemon.request('GET', query + '&page=2&pageSize=2')
        self.assertEqual([item['id'] for item in page['items']], boxes[:1])
        self.assertEqual(page['pagination'], {'page': 2, 'pageSize': 2, 'totalItems': 3,
                                              'totalPages': 2, 'hasNextPage': False})
        self.assertEqual(self.daemon.request('GET', query + '&state=failed')['items'], [])
        self.assertEqual(len(self.daemon.request('GET', query + '&state=running')['items']), 3)

    # ---- the way in

    def raw(self, request):
        """The whole answer to a request that is sent as it stands."""
        address = urllib.parse.urlsplit(self.daemon.url)
        with socket.create_connection((address.hostname, address.port), 30 * SLOWNESS) as peer:
            peer.sendall(request.encode())
            answer = http.client.HTTPResponse(peer)
            answer.begin()
            return answer, answer.read().decode()

    def test_proxy_passes_what_belongs_to_the_sandbox_and_nothing_else(self):
        box = self.create()
        self.daemon.run(box, ECHO)
        path = f'/sandboxes/{box}/proxy/8000/a%2Fb//c%20d?x=1&x=%2B+&y'
        answer, head = self.raw(
            f'GET {path} HTTP/1.1\r\nHost: example.test\r\nX-Custom: kept\r\n'
            f'OPEN-SANDBOX-API-KEY: {self.daemon.key}\r\nX-Other: {self.daemon.key}\r\n'
            'Authorization: Basic x\r\nCookie: a=b\r\nX-Request-ID: mine\r\n'
            'Connection: close, X-Hop\r\nX-Hop: 1\r\n\r\n')
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.headers['X-Request-ID'], 'mine')
        self.assertIn('GET /a%2Fb//c%20d?x=1&x=%2B+&y HTTP/1.1', head)
        self.assertIn('X-Custom: kept', head)
        self.assertIn('127.0.0.1', head.lower().partition('x-forwarded-for')[2])
        for secret in (self.daemon.key, 'Basic x', 'a=b', 'X-Hop'):
            self.assertNotIn(secret, head)
        self.assertNotIn(self.daemon.execd_headers(box)['X-EXECD-ACCESS-TOKEN'], head)
        self.assertNotIn(self.daemon.execd_secret(box), head)

    def test_no_way_from_a_port_to_execds_own_paths(self):
        box = self.create()
        self.daemon.run(box, ECHO)
        for path in ('8000/../../command', '8000/%2e%2e/%2e%2e/command', '8000/..%2f..%2fcommand'):
            answer, text = self.raw(f'POST /sandboxes/{box}/proxy/{path} HTTP/1.1\r\nHost: h\r\n'
                                    'Connection: close\r\nContent-Length: 16\r\n\r\n'
                                    '{"command":"id"}')
            self.assertEqual((answer.status, 'uid=' in text), (400, False), path)

    def test_execd_asks_for_its_token(self):
        box = self.create()
        ping = f'/sandboxes/{box}/proxy/44772/ping'
        for key, status in (('', 401), ('wrong', 401), (self.daemon.key, 200)):
            response = self.daemon.send('GET', ping, headers={'OPEN-SANDBOX-API-KEY': key})
            response.read()
            # Who has the API key could ask for the token.
            self.assertEqual(response.status, status, key)
        headers = self.daemon.execd_headers(box)
        response = self.daemon.send('GET', f'/v1/sandboxes/{box}/proxy/44772/ping', headers=headers)
        self.assertEqual((response.status, response.read()), (200, b''))

    def test_a_port_where_nobody_listens(self):
        box = self.create()
        response = self.daemon.send('GET', f'/sandboxes/{box}/proxy/9/')
        self.assertEqual((response.status, json.loads(response.read())['code']),
                         (502, 'BACKEND_CONNECTION_FAILED'))

    def test_endpoints(self):
        box = self.create()
        host = urllib.parse.urlsplit(self.daemon.url).netloc
        for port in (44772, 18080, 8000):
            for prefix in ('/v1', ''):
                answer = self.daemon.request('GET', f'{prefix}/sandboxes/{box}/endpoints/{port}')
                self.assertEqual(answer['endpoint'], f'{host}{prefix}/sandboxes/{box}/proxy/{port}')
                self.assertEqual('headers' in answer, port in (44772, 18080))

    def test_who_asks_is_not_the_clients_to_say(self):
        box = self.create()
        self.daemon.run(box, ECHO)
        _, head = self.raw(
            f'GET /v1/sandboxes/{box}/proxy/8000/ HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n'
            'Forwarded: for=203.0.113.9\r\nX-Forwarded-For: 203.0.113.9\r\n'
            'x-forwarded-host: 203.0.113.9\r\nX-Forwarded-Port: 2031\r\n'
            'X-Forwarded-Proto: gopher\r\nX-Real-IP: 203.0.113.9\r\n'
            'OpenSandbox-Access-Renew: skip\r\n\r\n')
        told = dict(line.split(': ', 1) for line in head.lower().splitlines()[1:] if line)
        self.assertEqual((told['x-forwarded-for'], told['x-forwarded-host'],
                          told['x-forwarded-proto']), ('127.0.0.1', 'a.test', 'http'))
        for name in ('forwarded', 'x-forwarded-port', 'x-real-ip', 'opensandbox-access-renew'):
            self.assertNotIn(name, told)
        self.assertNotIn('203.0.113.9', head)

    def test_an_access_can_leave_the_deadline_alone(self):
        daemon = atoll.Daemon()
        with open(daemon.config, 'a', encoding='utf-8') as config:
            config.write('[renew_intent]\nenabled = true\n')
        with daemon:
            box = daemon.create(daemon.import_busybox(), timeout=60,
                                extensions={'access.renew.extend.seconds': '3600'})
            ping = f'/sandboxes/{box}/proxy/44772/ping'
            expires = lambda: daemon.request('GET', f'/v1/sandboxes/{box}')['expiresAt']
            before = expires()
            daemon.send('GET', ping, headers={'OpenSandbox-Access-Renew': 'Skip'}).read()
            self.assertEqual(expires(), before)
            # Nor does a request that is refused, whoever refuses it.
            for path, headers, status in (
                    (ping, {'X-EXECD-ACCESS-TOKEN': 'wrong'}, 401),
                    (ping, {'OPEN-SANDBOX-API-KEY': 'wrong'}, 401),
                    (ping.replace('ping', 'nope'), {}, 404),
                    (f'/sandboxes/{box}/proxy/9/', {}, 502)):
                self.assertEqual(daemon.send('GET', path, headers=headers).status, status)
                self.assertEqual(expires(), before, path)
            daemon.send('GET', ping).read()
            self.assertNotEqual(expires(), before)

    def test_one_stuck_stream_delays_nobody(self):
        box = self.create()
        path = f'/sandboxes/{box}/proxy/44772/command'
        stuck = self.daemon.send('POST', path, {'command': 'yes'}, self.daemon.execd_headers(box))
        self.addCleanup(stuck.close)
        self.assertTrue(stuck.read(1))  # and then never again
        other = self.create()
        self.assertEqual(self.daemon.run(other, 'echo free').stdout, 'free')
        self.assertEqual(self.daemon.run(box, 'echo free').stdout, 'free')

    def test_stalled_bodies_take_little_memory(self):
        def memory():
            status = pathlib.Path(f'/proc/{self.daemon.process.pid}/status').read_text(encoding='utf-8')
            return int(status.partition('VmRSS:')[2].split()[0]) << 10
        large = 4 << 20
        address = urllib.parse.urlsplit(self.daemon.url)
        head = (f'POST /v1/sandboxes HTTP/1.1\r\nHost: h\r\nOPEN-SANDBOX-API-KEY: {self.daemon.key}\r\n'
                f'Content-Length: {large}\r\n\r\n').encode()
        before = memory()
        stalled, answers = [], []
        for _ in range(60):
            client = socket.create_connection((address.hostname, address.port))
            self.addCleanup(client.close)
            client.sendall(head + bytes(large - 1))
            stalled.append(client)
            client.settimeout(0)
            try:
                answers.append(client.recv(1000))
            except BlockingIOError:
                pass
        # The last ones to come are refused, and told when to come again, by the one status of a create that says so.
        self.assertTrue(answers)
        for answer in answers:
            self.assertIn(b' 429 ', answer.partition(b'\r\n')[0])
            self.assertIn(b'retry-after', answer.lower())
        burst = memory() - before
        self.assertLess(burst, 110 << 20)
        self.create(metadata={'name': 'small'})
        for client in stalled:
            client.close()
        atoll.until(lambda: memory() - before < 24 << 20, 20 * SLOWNESS, 'the memory is given back')
        print(f'# 60 bodies of 4 MiB: {burst >> 20} MiB, after them {(memory() - before) >> 20} MiB', flush=True)

    def test_a_million_errors_hold_nobody_up(self):
        def errors(member):
            body = b'{"image": 1, "%s": [' % member + b'1,' * 2_000_000 + b'1]}'
            began = time.monotonic()
            response = self.daemon.send('POST', '/v1/sandboxes', body, {'Content-Type': 'application/json'})
            told = json.loads(response.read())
            self.assertEqual(response.status, 422)
            return len(told['detail']), time.monotonic() - began
        few, read = errors(b'unknown')
        self.assertLess(few, 20)
        many, took = errors(b'entrypoint')
        self.assertEqual(many, 20)
        # Nobody looks for more of them.
        self.assertLess(took, 10 * read)

    def test_create_and_delete_at_the_same_time(self):
        def churn():
            for _ in range(10):
                self.daemon.delete(self.daemon.create(self.image))
        threads = [threading.Thread(target=churn) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        left = self.daemon.request('GET', '/v1/sandboxes?state=pending&state=running')
        self.assertEqual(left['pagination']['totalItems'], 0)


if __name__ == '__main__':
    unittest.main()
