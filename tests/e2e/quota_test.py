#!/usr/bin/python3
"""Quotas of tenants over the wire: what is refused and how, and that a kill of the daemon neither
loses nor gives away anything. And what a flood of one tenant leaves to another."""
import json
import resource
import threading
import unittest

import atoll
import tenants_test
from until import until

TENANTS = '''
[[tenants]]
name = "red"
api_keys = ["the-key-of-red-team"]
max = { sandboxes = 3, memory = "1Gi", timeout_seconds = 600 }
images = ["busybox"]
egress_ceiling = ["*.example.org", "192.0.2.0/24"]

[[tenants]]
name = "blue"
api_keys = ["the-key-of-blue-team"]

[[tenants]]
name = "green"
api_keys = ["the-key-of-green-team"]
max = { creates_per_second = 0.02 }

[[tenants]]
name = "slow"
api_keys = ["the-key-of-slow-team"]
max = { requests_per_second = 0.02 }

[[tenants]]
name = "grey"
api_keys = ["the-key-of-grey-team"]
max = { volumes = 1, snapshots = 1, pools = 1 }

[[tenants]]
name = "flood"
api_keys = ["the-key-of-flood-team"]
'''
RED, BLUE, GREEN, SLOW, GREY, FLOOD = (
    f'the-key-of-{name}-team' for name in ('red', 'blue', 'green', 'slow', 'grey', 'flood'))
LIMITS = {'memory': '64Mi', 'cpu': '100m', 'pids': '32'}


def pool(name):
    return {'name': name, 'image': {'uri': 'busybox:latest'},
            'capacitySpec': {'bufferMin': 0, 'bufferMax': 1, 'poolMin': 0, 'poolMax': 1}}


class Quotas(unittest.TestCase):
    def setUp(self):
        self.daemon = self.enterContext(tenants_test.TenantsDaemon(
            TENANTS, runtime_overcommit=0, runtime_build_queue=8))
        self.admin = self.daemon.new_key('admin')
        with open(atoll.image_archive('busybox'), 'rb') as archive:
            headers = {'OPEN-SANDBOX-API-KEY': self.admin}
            answer = self.daemon.send('POST', '/v1/images?name=busybox:latest', archive, headers)
            self.assertEqual(answer.status, 201)

    def ask(self, key, headers=(), **fields):
        """Status, body and Retry-After of a create."""
        body = {'image': {'uri': 'busybox:latest'}, 'entrypoint': ['sleep', '100000'], 'timeout': 300,
                'resourceLimits': LIMITS, **fields}
        answer = self.daemon.send('POST', '/v1/sandboxes', body,
                                  {'OPEN-SANDBOX-API-KEY': key, **dict(headers)})
        return answer.status, json.loads(answer.read()), answer.headers.get('Retry-After')

    def made(self, key, **fields):
        status, body, _ = self.ask(key, **fields)
        self.assertEqual(status, 202, body)
        return body['id']

    def test_a_quota_outlives_kills_of_the_daemon(self):
        boxes = [self.made(RED) for _ in range(3)]
        for _ in range(2):
            status, body, _ = self.ask(RED)
            self.assertEqual((status, body['code'], body['quota'], body['limit'], body['used'], body['asked']),
                             (403, 'KUBERNETES::QUOTA_EXCEEDED', 'sandboxes', '3', '3', '1'))
            self.daemon.kill()
            self.daemon.start()
        status, body = self.daemon.ask(RED, 'POST', f'/v1/sandboxes/{boxes[0]}/fork')
        self.assertEqual((status, json.loads(body)['quota']), (403, 'sandboxes'), body)
        self.made(BLUE)
        # Deleted once, and given back once, also if the daemon dies in between.
        self.assertEqual(self.daemon.ask(RED, 'DELETE', f'/v1/sandboxes/{boxes[0]}')[0], 204)
        self.daemon.kill()
        self.daemon.start()
        until(lambda: self.ask(RED)[0] == 202, 20 * atoll.SLOWNESS, 'the place of the deleted one')
        self.assertEqual(self.ask(RED)[1]['used'], '3')

    def test_sums_lifetimes_images_and_policies(self):
        status, body, _ = self.ask(RED, resourceLimits={**LIMITS, 'memory': '2Gi'})
        self.assertEqual((status, body['quota'], body['asked']), (403, 'memory', '2Gi'))
        for fields, says in (({'timeout': 601}, 'at most 600 s'), ({'timeout': None}, 'at most 600 s'),
                             ({'image': {'uri': 'python:3'}}, 'it may use busybox'),
                             ({'networkPolicy': {'egress': [{'action': 'allow', 'target': 'evil.test'}]}},
                              'it may allow *.example.org')):
            status, body, _ = self.ask(RED, **fields)
            self.assertEqual((status, body['code']), (403, 'TENANT::NOT_ALLOWED'), body)
            self.assertIn(says, body['message'])
        self.assertEqual(self.ask(BLUE, timeout=100000)[0], 202)

    def test_rates_say_when_to_come_again(self):
        self.made(GREEN)
        status, body, after = self.ask(GREEN)
        self.assertEqual((status, body['code']), (429, 'SANDBOX::TOO_MANY'), body)
        self.assertIn(int(after), range(1, 51))
        answers = [self.daemon.ask(SLOW, 'GET', '/v1/sandboxes')[0] for _ in range(3)]
        self.assertEqual(answers, [200, 429, 429])
        self.assertEqual([self.daemon.ask(BLUE, 'GET', '/v1/sandboxes')[0] for _ in range(3)], [200] * 3)

    def test_what_is_stored_counts_after_a_kill(self):
        box = self.made(GREY)
        objects = [
            ('volumes', '/v1/volumes', {'name': 'one'}, {'name': 'two'}),
            ('snapshots', f'/v1/sandboxes/{box}/snapshots', {'name': 'one'}, {'name': 'two'}),
            ('pools', '/v1/pools', pool('one'), pool('two'))]
        for _, path, first, _ in objects:
            self.assertIn(self.daemon.ask(GREY, 'POST', path, first)[0], (201, 202), path)
        def ready():
            listed = json.loads(self.daemon.ask(GREY, 'GET', '/v1/snapshots')[1])['items']
            return [one['status']['state'] for one in listed] == ['Ready']
        until(ready, 20 * atoll.SLOWNESS, 'the snapshot')
        for again in (False, True):
            if again:
                self.daemon.kill()
                self.daemon.start()
            for quota, path, _, second in objects:
                status, body = self.daemon.ask(GREY, 'POST', path, second)
                self.assertEqual((status, json.loads(body).get('quota')), (403, quota), body)
        # A create that would make the volume is refused alike, and its key stays free.
        mount = {'name': 'data', 'pvc': {'claimName': 'two', 'createIfNotExists': True}, 'mountPath': '/data'}
        key = {'Idempotency-Key': 'once'}
        status, body, _ = self.ask(GREY, key, volumes=[mount])
        self.assertEqual((status, body.get('quota')), (403, 'volumes'), body)
        self.assertEqual(self.daemon.ask(GREY, 'DELETE', '/v1/volumes/one')[0], 204)
        def asked():
            status, body, _ = self.ask(GREY, key, volumes=[mount])
            self.assertIn(status, (202, 403), body)
            return status == 202
        until(asked, 20 * atoll.SLOWNESS, 'the place of the volume')
        self.assertEqual(json.loads(self.daemon.ask(GREY, 'GET', '/v1/volumes')[1])['items'][0]['name'], 'two')

    def test_a_flood_of_creates_refuses_nobody_else(self):
        over, refused = threading.Event(), []

        def flood():
            while not over.is_set():
                status, body, _ = self.ask(FLOOD)
                if status == 429:
                    refused.append(body)
                elif status == 202:
                    self.daemon.ask(FLOOD, 'DELETE', f'/v1/sandboxes/{body["id"]}')

        threads = [threading.Thread(target=flood) for _ in range(24)]
        for thread in threads:
            thread.start()
        try:
            until(lambda: refused, 60 * atoll.SLOWNESS, 'a create that found the queue full')
            for _ in range(10):
                box = self.made(BLUE)
                self.assertEqual(self.daemon.ask(BLUE, 'DELETE', f'/v1/sandboxes/{box}')[0], 204)
        finally:
            over.set()
            for thread in threads:
                thread.join()

    def in_flight(self):
        text = self.daemon.ask(self.admin, 'GET', '/v1/metrics')[1]
        return int(next(line for line in text.splitlines()
                        if line.startswith('atoll_http_in_flight ')).split()[1])

    def test_slow_requests_keep_nobody_else_out(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        box = self.made(RED)
        head = ('POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n'
                f'OPEN-SANDBOX-API-KEY: {FLOOD}\r\n\r\n').encode()
        slow = []
        self.addCleanup(lambda: [one.close() for one in slow])
        for _ in range(1024):
            slow.append(self.daemon.connection())
            slow[-1].connect()
            slow[-1].sock.sendall(head)
        until(lambda: self.in_flight() > 1024, 60 * atoll.SLOWNESS, '1,024 requests in flight')
        status, body = self.daemon.ask(FLOOD, 'GET', '/v1/sandboxes')
        self.assertEqual((status, json.loads(body)['code']), (503, 'GENERAL::OVERLOADED'), body)
        self.assertEqual(self.daemon.ask(RED, 'GET', '/v1/sandboxes')[0], 200)
        self.assertEqual(self.daemon.ask(RED, 'GET', f'/v1/sandboxes/{box}/proxy/44772/ping')[0], 200)
        self.made(RED)
        for one in slow:
            one.close()
        until(lambda: self.daemon.ask(FLOOD, 'GET', '/v1/sandboxes')[0] == 200, 20 * atoll.SLOWNESS,
              'the places of the closed connections')


if __name__ == '__main__':
    unittest.main()
