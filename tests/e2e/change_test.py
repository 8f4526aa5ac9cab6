"""What changes about a sandbox that lives: pause and resume, labels, deadline, ways in."""
import http.client
import json
import re
import time
import unittest
import urllib.parse

import atoll
from atoll import SLOWNESS, until
from box import Box, shell_image

# Writes the time it is, by the host's monotonic clock, as often as it can.
CLOCK = 'while :; do cut -d" " -f1 /proc/uptime; done >/tmp/{0} & '
PAUSE = 0.4


def uptime():
    with open('/proc/uptime', encoding='ascii') as file:
        return float(file.read().split()[0])


class Change(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.image = shell_image(cls.daemon)

    def box(self, **fields):
        box = Box(self.daemon, self.image, **fields)
        self.addCleanup(self.gone, box.id)
        return box

    def gone(self, box):
        response = self.daemon.send('DELETE', f'/v1/sandboxes/{box}')
        self.assertIn(response.status, (204, 404))

    def get(self, box):
        return self.daemon.request('GET', f'/v1/sandboxes/{box.id}')

    def state(self, box):
        return self.get(box)['status']['state']

    def post(self, box, what, status=202):
        response = self.daemon.send('POST', f'/v1/sandboxes/{box.id}/{what}')
        text = response.read().decode()
        self.assertEqual(response.status, status, text)
        return json.loads(text)['code'] if text else ''

    def ticks(self, box, name, more_than):
        count = lambda: int(box.out(f'cat /tmp/{name} 2>/dev/null | wc -l'))
        until(lambda: count() > more_than, 30 * SLOWNESS, f'{name} goes on')

    def stood_still(self, box, name, since, until_then):
        """No tick between the two, and ticks after them. The clock has a resolution of 10 ms."""
        self.ticks(box, name, int(box.out(f'wc -l </tmp/{name}')))
        times = [float(line) for line in box.out(f'cat /tmp/{name}').split()]
        self.assertGreater(times[-1], until_then - 0.01)
        self.assertEqual([t for t in times if since + 0.01 < t < until_then - 0.01], [], name)

    def test_a_pause_stops_every_process(self):
        box = self.box()
        # A child of a command, one that has left it for good, and one that tries not to be caught.
        box.background(CLOCK.format('child') + 'wait')
        box.out(f"setsid sh -c '({CLOCK.format('orphan')}) &' </dev/null >/dev/null 2>&1 &")
        box.background("trap '' TERM INT TSTP CONT HUP; " + CLOCK.format('deaf') + 'wait')
        for name in ('child', 'orphan', 'deaf'):
            self.ticks(box, name, 3)
        self.post(box, 'pause')
        began = uptime()
        self.assertEqual(self.state(box), 'Paused')
        self.assertEqual(self.get(box)['status']['reason'], 'CONTAINER_PAUSED')
        # At once, not after some timeout.
        answer = box.call('GET', '/ping')
        self.assertEqual((answer.status, answer.json['code']),
                         (409, 'DOCKER::SANDBOX_NOT_RUNNING'))
        self.assertEqual(self.post(box, 'pause', 409), 'DOCKER::SANDBOX_NOT_RUNNING')
        until(lambda: uptime() - began > PAUSE, 10, 'some time has passed')
        ended = uptime()
        self.post(box, 'resume')
        self.assertEqual(self.post(box, 'resume', 409), 'DOCKER::SANDBOX_NOT_PAUSED')
        self.assertEqual(self.state(box), 'Running')
        for name in ('child', 'orphan', 'deaf'):
            self.stood_still(box, name, began, ended)

    def test_a_command_goes_on_after_its_pause(self):
        box = self.box()
        box.out('mkfifo /tmp/go')
        response = box.open('POST', '/command', {'command': 'echo one; cat /tmp/go; exit 5'})
        while b'"stdout"' not in response.readline():
            pass
        self.post(box, 'pause')
        self.post(box, 'resume')
        box.out('echo two >/tmp/go')
        rest = response.read().decode()
        self.assertIn(r'"two\n"', rest)
        self.assertIn('"5"', rest)

    def test_a_fork_bomb_is_paused_too(self):
        box = self.box(resourceLimits={'pids': '64', 'cpu': '1'})
        box.background('f() { f | f & }; f; wait')
        until(lambda: self.count_processes(box) > 30, 30 * SLOWNESS, 'it multiplies')
        self.post(box, 'pause')
        self.assertEqual(self.state(box), 'Paused')

    def count_processes(self, box):
        try:
            return int(box.call('GET', '/metrics').json.get('process_count', 64))
        except (AssertionError, ValueError):
            return 64

    def test_a_restart_keeps_it_paused(self):
        box = self.box()
        box.background(CLOCK.format('t') + 'wait')
        self.ticks(box, 't', 3)
        self.post(box, 'pause')
        began = uptime()
        self.daemon.kill()
        self.daemon.start()
        self.assertEqual(self.state(box), 'Paused')
        until(lambda: uptime() - began > PAUSE, 10, 'some time has passed')
        ended = uptime()
        self.post(box, 'resume')
        self.stood_still(box, 't', began, ended)

    def test_a_deadline_ends_what_is_paused(self):
        box = self.box(timeout=60)
        self.post(box, 'pause')
        soon = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + 2))
        self.daemon.request('POST', f'/v1/sandboxes/{box.id}/renew-expiration', {'expiresAt': soon})
        until(lambda: self.daemon.send('GET', f'/v1/sandboxes/{box.id}').status == 404,
              30 * SLOWNESS, 'it has expired')

    def test_what_is_paused_can_be_deleted(self):
        box = self.box()
        self.post(box, 'pause')
        self.daemon.delete(box.id)

    def test_labels(self):
        box = self.box(metadata={'a': '1', 'b': '2'})
        path = f'/v1/sandboxes/{box.id}/metadata'
        self.assertEqual(self.daemon.request('PATCH', path, {'a': None, 'c': '3'})['metadata'],
                         {'b': '2', 'c': '3'})
        self.daemon.kill()
        self.daemon.start()
        self.daemon.request('PATCH', path, {'b': '4'})
        self.assertEqual(self.get(box)['metadata'], {'b': '4', 'c': '3'})
        listed = self.daemon.request('GET', '/v1/sandboxes?metadata=' + urllib.parse.quote('b=4&c=3'))
        self.assertEqual([item['id'] for item in listed['items']], [box.id])

    def test_a_readonly_root(self):
        box = self.box(extensions={'readOnlyRootFilesystem': 'true'})
        for place in ('/x', '/tmp/x', '/etc/x', '/opt/opensandbox/x'):
            _, stderr, last = box.run(f'echo >{place}')
            self.assertEqual(last['type'], 'error', place)
            self.assertIn('Read-only file system', '\n'.join(stderr))
        box.out('echo >/dev/shm/x')
        self.assertNotEqual(box.run('mount -o remount,rw /')[2]['type'], 'execution_complete')

    def serve(self, box):
        box.background('httpd -f -p 127.0.0.1:8080 -h /srv')
        until(lambda: box.call('GET', '/proxy/8080/ws').status == 200, 30 * SLOWNESS,
              'a server listens')

    def endpoint(self, box, port, query=''):
        told = self.daemon.request('GET', f'/v1/sandboxes/{box.id}/endpoints/{port}{query}')
        return told['endpoint'].partition('/')[2], told.get('headers', {})

    def fetch(self, path, headers=None):
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(self.daemon.url).netloc)
        connection.request('GET', path, headers=headers or {})
        response = connection.getresponse()
        response.read()
        return response.status

    def test_secure_access(self):
        box = Box.__new__(Box)
        box.daemon, box.id = self.daemon, self.daemon.create(self.image, secureAccess=True)
        self.addCleanup(self.gone, box.id)
        box.headers, box.base = self.daemon.execd_headers(box.id), f'/sandboxes/{box.id}/proxy/44772'
        self.serve(box)
        path, headers = self.endpoint(box, 8080)
        self.assertEqual(self.fetch(f'/{path}/ws'), 401)
        self.assertEqual(self.fetch(f'/{path}/ws', {'OpenSandbox-Secure-Access': 'x'}), 401)
        self.assertEqual(self.fetch(f'/{path}/ws', headers), 200)
        # execd's own token alone is not enough.
        token = {'X-EXECD-ACCESS-TOKEN': box.headers['X-EXECD-ACCESS-TOKEN']}
        self.assertEqual(self.fetch(f'{box.base}/ping', token), 401)
        expires = int(time.time()) + 3600
        path, headers = self.endpoint(box, 8080, f'?expires={expires}')
        self.assertEqual(headers, {})
        self.assertEqual(self.fetch(f'/{path}/ws'), 200)
        other = re.sub('/8080/', '/8081/', path)
        self.assertEqual(self.fetch(f'/{other}/ws'), 401)
        # The keys outlive the daemon.
        self.daemon.kill()
        self.daemon.start()
        self.assertEqual(self.fetch(f'/{path}/ws'), 200)

    def test_uri_and_header_forms(self):
        box = self.box()
        self.serve(box)
        self.assertEqual(self.fetch(f'/{box.id}/8080/ws'), 200)
        self.assertEqual(self.fetch('/ws', {'OpenSandbox-Ingress-To': f'{box.id}-8080'}), 200)
        self.assertEqual(self.fetch(f'/{box.id}/8080/nothing'), 404)

    def test_a_repeated_create_makes_one(self):
        body = {'image': {'uri': self.image}, 'entrypoint': ['sleep', '1000'], 'resourceLimits': {}}
        key = {'Idempotency-Key': 'once-and-for-all'}
        first = self.daemon.request('POST', '/v1/sandboxes', body, key)
        self.addCleanup(self.gone, first['id'])
        self.assertEqual(self.daemon.request('POST', '/v1/sandboxes', body, key), first)
        self.daemon.kill()
        self.daemon.start()
        self.assertEqual(self.daemon.request('POST', '/v1/sandboxes', body, key)['id'], first['id'])
        body['entrypoint'] = ['sleep', '2000']
        with self.assertRaises(atoll.ApiError) as refused:
            self.daemon.request('POST', '/v1/sandboxes', body, key)
        self.assertEqual(refused.exception.status, 409)

    def test_more_memory_than_the_host_has(self):
        with self.assertRaises(atoll.ApiError) as refused:
            self.daemon.create(self.image, resourceLimits={'memory': '4Pi'})
        self.assertEqual(refused.exception.status, 400)
