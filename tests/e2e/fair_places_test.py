"""Places that all tenants of a daemon share: a tenant that takes as many as it gets leaves some to another, which
comes later. Each case fills them over the wire, until it is refused."""
import contextlib
import http.client
import json
import os
import pathlib
import socket
import tempfile
import threading
import unittest
import urllib.parse

import atoll
import registry
from atoll import SLOWNESS, until
from box import pack
from freezer import Freezer
from tenants_test import TenantsDaemon

FLOOD, BLUE = 'the-key-of-flood-team', 'the-key-of-blue-team'
TENANTS = f'''
[[tenants]]
name = "flood"
api_keys = ["{FLOOD}"]

[[tenants]]
name = "blue"
api_keys = ["{BLUE}"]
'''
VAULT = {'credentials': [{'name': 'token', 'source': {'type': 'inline', 'value': 'sk-one'}}],
         'bindings': [{'name': 'api', 'match': {'hosts': ['good.example']},
                       'auth': {'type': 'bearer', 'credential': 'token'}}]}
SAFE = {'networkPolicy': {'defaultAction': 'deny', 'egress': [{'action': 'allow', 'target': 'good.example'}]},
        'credentialProxy': {'enabled': True}}
# What a case tries to take. More than there is of anything but vaults.
MANY = 24


class FairPlaces(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        directory = cls.enterClassContext(tempfile.TemporaryDirectory(dir='/var/tmp'))
        os.chmod(directory, 0o755)
        authority = registry.Authority(pathlib.Path(directory, 'registry'))
        cls.registry = registry.OddRegistry(authority)
        cls.addClassCleanup(cls.registry.close)
        cls.daemon = cls.enterClassContext(TenantsDaemon(
            TENANTS, images_pull=[f'{cls.registry.host}/*'], images_pull_ca=str(authority.ca), runtime_overcommit=0))
        cls.admin = cls.daemon.new_key('admin')
        cls.archives = cls.daemon.top / 'archives'
        cls.archives.mkdir()
        # Each is another image, and larger than what the sockets between two programs hold.
        for number in range(5):
            root = cls.archives / f'root{number}'
            root.mkdir()
            (root / 'file').write_bytes(os.urandom(16 << 20))
            pack(root, f'large{number}', cls.archives / f'{number}.tar')
        # It takes seconds to unpack.
        root = cls.archives / 'root'
        root.mkdir()
        with open(root / 'file', 'wb') as file:
            file.truncate(1 << 30)
        pack(root, 'long', cls.archives / 'long.tar')
        for key in (FLOOD, BLUE):
            assert cls.bring(key, atoll.image_archive('busybox'), 'busybox') == 201

    @classmethod
    def bring(cls, key, archive, name):
        """The status of an import."""
        with open(archive, 'rb') as file:
            answer = cls.daemon.send('POST', f'/v1/images?name={name}', file, {'OPEN-SANDBOX-API-KEY': key})
            answer.read()
            return answer.status

    def ask(self, key, method, path, body=None):
        status, text = self.daemon.ask(key, method, path, body)
        return status, json.loads(text) if text.startswith('{') else text

    def create(self, key, image='busybox', **fields):
        """(status, answer)"""
        status, answer = self.ask(key, 'POST', '/v1/sandboxes', {
            'image': {'uri': image}, 'entrypoint': ['sleep', '100000'], 'resourceLimits': {}, **fields})
        if status == 202:
            self.addCleanup(self.ask, key, 'DELETE', f'/v1/sandboxes/{answer["id"]}')
        return status, answer

    def in_flight(self):
        text = self.daemon.ask(self.admin, 'GET', '/v1/metrics')[1]
        return int(next(line for line in text.splitlines() if line.startswith('atoll_http_in_flight ')).split()[1])

    def test_pulls(self):
        release = threading.Event()
        self.addCleanup(release.set)

        def held(_, path):
            if path.rpartition('/')[2] in self.registry.layers:
                release.wait(120 * SLOWNESS)
            return False
        self.registry.odd = held
        waiting = []
        for number in range(MANY):
            status, answer = self.create(FLOOD, f'{self.registry.host}/flood{number}:1')
            if status == 429:
                self.assertIn('images are being pulled', answer['message'])
                break
            self.assertEqual((status, answer['status']['state']), (202, 'Pending'))
            waiting.append((FLOOD, answer['id']))
        else:
            self.fail('nothing was refused')
        status, answer = self.create(BLUE, f'{self.registry.host}/blue:1')
        self.assertEqual(status, 202, answer)
        waiting.append((BLUE, answer['id']))
        release.set()
        for key, box in waiting:
            state = lambda key=key, box=box: self.ask(key, 'GET', f'/v1/sandboxes/{box}')[1]['status']
            until(lambda state=state: state()['state'] != 'Pending', 60 * SLOWNESS)
            self.assertEqual(state()['state'], 'Running', state())

    @staticmethod
    def unpackers():
        return [int(pid) for pid in os.listdir('/proc') if pid.isdigit() and atoll.comm(pid) == 'atoll-unpack']

    def test_imports(self):
        statuses = {FLOOD: [], BLUE: []}

        def one(key, number):
            statuses[key].append(self.bring(key, atoll.image_archive('busybox'), f'import{number}'))
        threads = [threading.Thread(target=one, args=(FLOOD, number)) for number in range(MANY)]
        # The first one is held while it is unpacked, so the others wait.
        freezer = Freezer(self)
        first = threading.Thread(target=self.bring, args=(self.admin, self.archives / 'long.tar', 'long'))
        first.start()
        until(self.unpackers, 60 * SLOWNESS, 'it is unpacked')
        freezer.freeze(*self.unpackers())
        self.assertTrue(first.is_alive())
        for thread in threads:
            thread.start()
        until(lambda: statuses[FLOOD], 60 * SLOWNESS, 'one is refused')
        come = lambda: len(statuses[FLOOD]) + self.in_flight()
        # With the first one, and the request that asks for the metric.
        until(lambda: come() == MANY + 2, 60 * SLOWNESS, 'all have come')
        threads.append(threading.Thread(target=one, args=(BLUE, 0)))
        threads[-1].start()
        until(lambda: statuses[BLUE] or come() == MANY + 3, 60 * SLOWNESS, 'it waits with the others')
        freezer.thaw()
        for thread in threads:
            thread.join()
        self.assertEqual(set(statuses[FLOOD]), {201, 503})
        self.assertEqual(statuses[BLUE], [201])

    def slow_export(self, key, name):
        """(status, connection): a client that reads the head and no more."""
        url = urllib.parse.urlsplit(self.daemon.url)
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60 * SLOWNESS)
        connection.sock = socket.socket()
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sock.settimeout(60 * SLOWNESS)
        connection.sock.connect((url.hostname, url.port))
        connection.request('GET', f'/v1/images/{name}?archive=oci', headers={'OPEN-SANDBOX-API-KEY': key})
        return connection.getresponse().status, connection

    def test_exports(self):
        for number in range(5):
            self.assertEqual(self.bring(FLOOD, self.archives / f'{number}.tar', f'large{number}'), 201)
        with contextlib.ExitStack() as held:
            statuses = []
            for number in (0, 1, 2, 3, 4) * 2:
                status, connection = self.slow_export(FLOOD, f'large{number}')
                held.callback(connection.close)
                statuses.append(status)
            self.assertEqual(set(statuses), {200, 503})
            status, connection = self.slow_export(BLUE, 'busybox')
            held.callback(connection.close)
            self.assertEqual(status, 200)

    def test_vaults(self):
        def give(key):
            status, answer = self.create(key, **SAFE)
            self.assertEqual(status, 202, answer)
            box = f'/v1/sandboxes/{answer["id"]}'
            headers = self.ask(key, 'GET', f'{box}/endpoints/18080?use_server_proxy=true')[1].get('headers', {})
            said = self.daemon.send('POST', f'{box}/proxy/18080/credential-vault', VAULT,
                                    {'OPEN-SANDBOX-API-KEY': key, **headers})
            return said.status, said.read().decode()
        taken = 0
        while (said := give(FLOOD))[0] == 201:
            taken += 1
        self.assertEqual(said[0], 503, said)
        self.assertIn('its share', said[1])
        self.assertGreater(taken, 1)
        self.assertEqual(give(BLUE)[0], 201)


if __name__ == '__main__':
    unittest.main()
