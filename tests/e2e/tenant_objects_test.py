"""Two tenants of one daemon, each with its key: what one of them has is no more than a name that
does not exist to the other, over the wire and in the kernel."""

import json
import pathlib
import unittest

import atoll
from tenants_test import TenantsDaemon

RED, BLUE = 'red-key-0123456789', 'blue-key-0123456789'
NOBODY = '00000000-0000-4000-8000-00000000ffff'

TENANTS = f'''
[[tenants]]
name = "red"
api_keys = ["{RED}"]
host_paths = ["HOST/red"]

[[tenants]]
name = "blue"
api_keys = ["{BLUE}"]
host_paths = ["HOST/blue"]
'''


class TenantObjects(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.host = pathlib.Path('/var/tmp', f'{atoll.host_state.OWN}tenants')
        for tenant in ('red', 'blue'):
            (cls.host / tenant).mkdir(parents=True)
            (cls.host / tenant).chmod(0o777)
            atoll.os.chown(cls.host / tenant, 1000, 1000)
        cls.addClassCleanup(atoll.shutil.rmtree, cls.host)
        cls.daemon = cls.enterClassContext(TenantsDaemon(
            TENANTS.replace('HOST', str(cls.host)), storage_allowed_host_paths=[str(cls.host)]))
        # An image of each tenant under one name.
        archive = atoll.image_archive('busybox')
        for key in (RED, BLUE):
            with open(archive, 'rb') as file:
                answer = cls.daemon.send('POST', '/v1/images?name=busybox', file,
                                         {'OPEN-SANDBOX-API-KEY': key})
                assert answer.status == 201, answer.read()

    def ask(self, key, method, path, body=None):
        """(status, text)"""
        response = self.daemon.send(method, path, body, {'OPEN-SANDBOX-API-KEY': key})
        return response.status, response.read().decode()

    def have(self, key, method, path, body=None):
        status, text = self.ask(key, method, path, body)
        self.assertLess(status, 400, f'{method} {path}: {text}')
        return json.loads(text) if text else None

    def create(self, key, **fields):
        made = self.have(key, 'POST', '/v1/sandboxes',
                         {'image': {'uri': 'busybox'}, 'entrypoint': ['sleep', '100000'],
                          'resourceLimits': {}, **fields})
        self.addCleanup(self.ask, key, 'DELETE', f'/v1/sandboxes/{made["id"]}')
        return made['id']

    def run_in(self, key, box, command):
        headers = {'OPEN-SANDBOX-API-KEY': key}
        path = f'/v1/sandboxes/{box}/endpoints/44772?use_server_proxy=true'
        endpoint = json.loads(self.daemon.send('GET', path, headers=headers).read())
        answer = self.daemon.send('POST', f'/sandboxes/{box}/proxy/44772/command',
                                  {'command': command}, {**headers, **(endpoint.get('headers') or {})})
        text = answer.read().decode()
        self.assertLess(answer.status, 400, text)
        return atoll.Done([json.loads(line) for line in text.splitlines() if line])

    def unknown(self, key, method, path, hidden, none, body=None):
        """Asks for what another has and for what nobody has: nothing but the name differs."""
        def one(name):
            text = None if body is None else json.loads(json.dumps(body).replace('@', name))
            status, answer = self.ask(key, method, path.replace('@', name), text)
            return status, answer.replace(name, '*')
        other, nobody = one(hidden), one(none)
        self.assertGreaterEqual(other[0], 400, f'{method} {path}: {other}')
        self.assertEqual(other, nobody, f'{method} {path}')

    def test_sandboxes(self):
        box = self.create(RED)
        for method, below, body in (
                ('GET', '', None), ('DELETE', '', None), ('POST', '/pause', None),
                ('POST', '/resume', None), ('PATCH', '/metadata', {'a': 'b'}),
                ('POST', '/fork', None), ('POST', '/snapshots', None),
                ('POST', '/rollback', {'snapshotId': NOBODY}), ('GET', '/diff', None),
                ('GET', '/disk', None), ('GET', '/endpoints/8080', None), ('GET', '/network', None),
                ('PUT', '/networkpolicy', {'defaultAction': 'deny'}),
                ('GET', '/diagnostics/logs', None), ('GET', '/diagnostics/events', None),
                ('GET', '/diagnostics/inspect', None), ('GET', '/diagnostics/summary', None)):
            with self.subTest(method=method, below=below):
                self.unknown(BLUE, method, '/v1/sandboxes/@' + below, box, NOBODY, body)
        self.assertEqual(self.have(BLUE, 'GET', '/v1/sandboxes')['pagination']['totalItems'], 0)
        self.have(RED, 'DELETE', f'/v1/sandboxes/{box}')
        # Its remains are red's as well.
        self.unknown(BLUE, 'GET', '/v1/sandboxes/@/diagnostics/logs', box, NOBODY)
        events = self.have(BLUE, 'GET', '/v1/events?after=0')
        self.assertNotIn(box, json.dumps(events))
        self.assertIn(box, json.dumps(self.have(RED, 'GET', '/v1/events?after=0')))

    def test_an_attempt_is_a_line_of_who_tries(self):
        """By its log nobody learns which ids there are, or who has tried to reach what it has."""
        box = self.create(RED)
        for target in (box, NOBODY):
            for method, below in (('POST', '/pause'), ('POST', '/fork'), ('DELETE', ''), ('GET', '/endpoints/80')):
                self.assertEqual(self.ask(BLUE, method, f'/v1/sandboxes/{target}{below}')[0], 404)

        def told(key, target):
            lines = [json.loads(line) for line in
                     self.ask(key, 'GET', f'/v1/audit?limit=1000&target={target}')[1].splitlines()]
            return [(line['action'], line['outcome'], line['tenant'], sorted(line['target'])) for line in lines]
        self.assertEqual(told(BLUE, box), told(BLUE, NOBODY))
        self.assertEqual([line[0] for line in told(BLUE, box)],
                         ['sandbox.pause', 'sandbox.fork', 'sandbox.delete', 'endpoint.issue'])
        self.assertEqual(told(RED, box), [('sandbox.create', 'success', 'red', ['id', 'image', 'kind'])])

    def test_names_and_keys_of_requests(self):
        name = {'metadata': {'name': 'web'}, 'extensions': {'uniqueName': 'true'}}
        self.create(RED, **name)
        self.create(BLUE, **name)
        status, text = self.ask(RED, 'POST', '/v1/sandboxes',
                                {'image': {'uri': 'busybox'}, 'entrypoint': ['true'],
                                 'resourceLimits': {}, **name})
        self.assertEqual(status, 409, text)

    def test_networks(self):
        """Networks of one name: they do not reach each other, and no name leads across."""
        def member(key, host):
            return self.create(key, extensions={'network': 'n', 'network.hostname': host})
        red, peer, blue = member(RED, 'db'), member(RED, 'web'), member(BLUE, 'db')
        address = {}
        for box, key, word in ((red, RED, 'of red'), (blue, BLUE, 'of blue')):
            done = self.run_in(key, box, f'nc -ll -p 80 -e echo {word} >/dev/null 2>&1 & '
                               'until netstat -ltn | grep -q :80; do :; done')
            self.assertEqual(done.exit_code, 0, vars(done))
            address[box] = self.have(key, 'GET', f'/v1/sandboxes/{box}/network')['addresses'][0]

        def fetch(key, box, host):
            return self.run_in(key, box, f'nc -w 3 {host} 80 </dev/null').stdout

        def addresses(key, box, name):
            return self.run_in(key, box, f'nslookup -type=a {name} 2>&1').stdout
        self.assertEqual(fetch(RED, peer, address[red]), 'of red')
        self.assertEqual(fetch(BLUE, blue, address[blue]), 'of blue')
        self.assertEqual(fetch(RED, peer, address[blue]), '')
        self.assertEqual(fetch(BLUE, blue, address[red]), '')
        # One name, and each tenant's own sandbox behind it.
        self.assertIn(address[red], addresses(RED, peer, 'db'))
        self.assertNotIn(address[blue], addresses(RED, peer, 'db'))
        self.assertIn(address[blue], addresses(BLUE, blue, 'db'))
        self.assertNotIn(address[red], addresses(BLUE, blue, 'db'))
        # Names that only the other tenant has.
        peers = self.have(RED, 'GET', f'/v1/sandboxes/{peer}/network')['addresses'][0]
        self.assertIn(peers, addresses(RED, red, 'web'))
        self.assertNotIn(peers, addresses(BLUE, blue, 'web'))
        self.assertNotIn(address[red], addresses(BLUE, blue, red))

    def test_volumes(self):
        def mounted(key):
            return self.create(key, volumes=[{'name': 'v', 'pvc': {'claimName': 'data'},
                                              'mountPath': '/data'}])
        red, blue = mounted(RED), mounted(BLUE)
        self.run_in(RED, red, 'echo secret > /data/file')
        self.assertEqual(self.run_in(BLUE, blue, 'ls -A /data').stdout, '')
        self.run_in(BLUE, blue, 'echo other > /data/file')
        self.assertEqual(self.run_in(RED, red, 'cat /data/file').stdout, 'secret')
        self.assertEqual(self.have(BLUE, 'GET', '/v1/volumes/data')['usedBy'], [blue])
        self.have(RED, 'POST', '/v1/volumes', {'name': 'mine'})
        for name, none in (('mine', 'none'), ('red.mine', 'red.none')):
            for method in ('GET', 'DELETE'):
                self.unknown(BLUE, method, '/v1/volumes/@', name, none)
        self.assertEqual([one['name'] for one in self.have(BLUE, 'GET', '/v1/volumes')['items']],
                         ['data'])
        # A client cannot name the directory.
        status, _ = self.ask(BLUE, 'POST', '/v1/sandboxes',
                             {'image': {'uri': 'busybox'}, 'resourceLimits': {},
                              'volumes': [{'name': 'v', 'pvc': {'claimName': 'red.data'},
                                           'mountPath': '/data'}]})
        self.assertIn(status, (400, 422))
        self.have(RED, 'DELETE', '/v1/volumes/mine')

    def test_host_paths(self):
        def mount(key, path):
            return self.ask(key, 'POST', '/v1/sandboxes',
                            {'image': {'uri': 'busybox'}, 'entrypoint': ['sleep', '100000'],
                             'resourceLimits': {},
                             'volumes': [{'name': 'v', 'host': {'path': path},
                                          'mountPath': '/data'}]})
        (self.host / 'blue/file').write_text('secret', encoding='utf-8')
        for path in (self.host, self.host / 'blue'):
            self.assertEqual(mount(RED, str(path))[0], 400)
        status, text = mount(RED, str(self.host / 'red'))
        self.assertEqual(status, 202, text)
        box = json.loads(text)['id']
        self.addCleanup(self.ask, RED, 'DELETE', f'/v1/sandboxes/{box}')
        # The link lies within what the operator allows, and leads out of what red has.
        (self.host / 'red/out').symlink_to('../blue')
        status, text = mount(RED, str(self.host / 'red/out'))
        self.assertGreaterEqual(status, 400, text)

    def test_snapshots(self):
        red, blue = self.create(RED), self.create(BLUE)
        self.run_in(RED, red, 'echo secret > /file')
        snapshot = self.have(RED, 'POST', f'/v1/sandboxes/{red}/snapshots')['id']
        atoll.until(lambda: self.have(RED, 'GET', f'/v1/snapshots/{snapshot}')['status']['state']
                    == 'Ready', 20, 'the snapshot is ready')
        for method, path, body in (
                ('GET', '/v1/snapshots/@', None), ('GET', '/v1/snapshots/@?archive=oci', None),
                ('GET', '/v1/snapshots/@/disk', None), ('DELETE', '/v1/snapshots/@', None),
                ('POST', '/v1/sandboxes', {'snapshotId': '@', 'resourceLimits': {}}),
                ('POST', f'/v1/sandboxes/{blue}/rollback', {'snapshotId': '@'}),
                ('GET', f'/v1/sandboxes/{blue}/diff?against=@', None),
                ('POST', '/v1/images/commit?name=x&snapshot=@', {})):
            with self.subTest(method=method, path=path):
                self.unknown(BLUE, method, path, snapshot, NOBODY, body)
        self.assertEqual(self.have(BLUE, 'GET', '/v1/snapshots')['pagination']['totalItems'], 0)

    def test_pools_and_templates(self):
        self.have(RED, 'POST', '/v1/pools',
                  {'name': 'warm', 'image': {'uri': 'busybox'},
                   'capacitySpec': {'bufferMin': 1, 'bufferMax': 1, 'poolMin': 0, 'poolMax': 4}})
        atoll.until(lambda: self.have(RED, 'GET', '/v1/pools/warm')['status']['available'] == 1, 20,
                    'a member')
        for method, path, body in (
                ('GET', '/v1/pools/@', None), ('DELETE', '/v1/pools/@', None),
                ('PUT', '/v1/pools/@', {'capacitySpec': {'bufferMin': 0, 'bufferMax': 1,
                                                          'poolMin': 0, 'poolMax': 1}}),
                ('POST', '/v1/sandboxes', {'image': {'uri': 'busybox'}, 'resourceLimits': {},
                                           'extensions': {'poolRef': '@'}})):
            self.unknown(BLUE, method, path, 'warm', 'none', body)
        self.assertEqual(self.have(BLUE, 'GET', '/v1/pools')['items'], [])
        template = self.have(RED, 'POST', '/v1/templates',
                             {'image': 'busybox', 'env': {'SECRET': 'x'}})['templateId']
        atoll.until(lambda: self.have(RED, 'GET', f'/v1/templates/{template}')['status']['ready']
                    == 1, 30, 'a member of the template')
        for method, path, body in (('GET', '/v1/templates/@', None),
                                   ('DELETE', '/v1/templates/@', None),
                                   ('POST', '/v1/sandboxes', {'templateId': '@', 'timeout': 60})):
            self.unknown(BLUE, method, path, template, f'tpl-{NOBODY}', body)
        claimed = self.have(RED, 'POST', '/v1/sandboxes', {'templateId': template, 'timeout': 60})
        self.addCleanup(self.ask, RED, 'DELETE', f'/v1/sandboxes/{claimed["id"]}')
        self.unknown(BLUE, 'GET', '/v1/sandboxes/@', claimed['id'], NOBODY)
        self.have(RED, 'DELETE', f'/v1/templates/{template}')
        self.have(RED, 'DELETE', '/v1/pools/warm')

    def test_images(self):
        self.have(RED, 'POST', '/v1/images?from=busybox&name=tool')
        for method, path, body in (
                ('GET', '/v1/images/@', None), ('GET', '/v1/images/@?archive=oci', None),
                ('DELETE', '/v1/images/@', None), ('POST', '/v1/images?from=@&name=y', None),
                ('POST', '/v1/images/commit?name=y&image=@', {}),
                ('POST', '/v1/sandboxes', {'image': {'uri': '@'}, 'resourceLimits': {}})):
            with self.subTest(method=method, path=path):
                self.unknown(BLUE, method, path, 'tool:latest', 'none:latest', body)
        self.assertEqual([one['name'] for one in self.have(BLUE, 'GET', '/v1/images')['items']],
                         ['busybox:latest'])
        # Each has its own of the name; the answers to the imports were equal, layer for layer.
        box = self.create(RED)
        told = self.have(BLUE, 'GET', '/v1/images/busybox')
        self.assertNotIn(box, json.dumps(told))
        self.have(RED, 'DELETE', '/v1/images/tool')


if __name__ == '__main__':
    unittest.main()
