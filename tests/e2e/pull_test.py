"""Creates whose image is not here, and that the operator lets the daemon fetch."""
import json
import os
import pwd
import subprocess
import threading
import time
import unittest

import atoll
import registry
from atoll import BUILD, SLOWNESS, until
from registry import INDEX, MANIFEST, PASSWORD, USER


class Pull(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        """Debian's registry with the busybox image as team/box:1, and an odd one."""
        port = registry.free_port()
        cls.daemon = atoll.Daemon()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.authority = registry.Authority(cls.daemon.top / 'registry')
        cls.registry = registry.DebiansRegistry(cls.authority, port)
        cls.addClassCleanup(cls.registry.close)
        cls.odd = registry.OddRegistry(cls.authority)
        cls.addClassCleanup(cls.odd.close)
        cls.elsewhere = registry.OddRegistry(cls.authority)
        cls.addClassCleanup(cls.elsewhere.close)
        cls.elsewhere.blobs = cls.odd.blobs
        # As the daemon's user may read it.
        cls.authfile = cls.daemon.top / 'auth.json'
        cls.authfile.write_text(cls.registry.authfile.read_text())
        cls.authfile.chmod(0o600)
        os.chown(cls.authfile, pwd.getpwnam('atoll').pw_uid, 0)
        cls.settings = {'images_pull': [f'{cls.registry.host}/team/*', f'{cls.odd.host}/*'],
                        'images_pull_auth': str(cls.authfile),
                        'images_pull_ca': str(cls.authority.ca)}
        cls.configure()
        cls.daemon.start()
        cls.daemon.import_busybox()
        subprocess.run([BUILD / 'atoll', 'image', 'push', 'busybox', f'{cls.registry.host}/team/box:1',
                        '--authfile', cls.registry.authfile, '--cert-dir',
                        cls.authority.certificates],
                       check=True, capture_output=True, env=cls.daemon.client_env())

    @classmethod
    def configure(cls, **changed):
        # pylint: disable=protected-access
        cls.daemon._write_config({
            'server_port': 0, 'storage_data_dir': str(cls.daemon.data_dir),
            'runtime_run_dir': str(cls.daemon.run_dir), **cls.settings, **changed})

    def setUp(self):
        # What other tests have pulled is not what this one does without.
        self.odd.renew()
        for one in (self.odd, self.elsewhere):
            one.heard.clear()
            one.odd = lambda handler, path: False
        self.before = self.names()
        self.release = threading.Event()
        self.addCleanup(self.release.set)

    def names(self):
        return [image['name'] for image in self.daemon.request('GET', '/v1/images')['items']]

    def create(self, image, **image_fields):
        """The answer of a create that was accepted."""
        return self.daemon.request('POST', '/v1/sandboxes', {
            'image': {'uri': image, **image_fields}, 'entrypoint': ['sleep', '1000'],
            'resourceLimits': {}})

    def status(self, box):
        return self.daemon.request('GET', f'/v1/sandboxes/{box}')['status']

    def becomes(self, box, state):
        until(lambda: self.status(box)['state'] != 'Pending', 30 * SLOWNESS, f'{box} is settled')
        status = self.status(box)
        self.assertEqual(status['state'], state, status)
        return status

    def runs(self, box):
        self.becomes(box, 'Running')
        self.assertEqual(self.daemon.run(box, 'echo here').stdout, 'here')
        self.daemon.delete(box)

    def fails(self, image, *words, **image_fields):
        """The create is accepted, then fails and says why; nothing is left of it."""
        box = self.create(image, **image_fields)['id']
        status = self.becomes(box, 'Failed')
        self.assertEqual(status['reason'], 'PROVISIONING_ERROR')
        for word in words:
            self.assertIn(word, status['message'])
        self.daemon.delete(box)
        self.assertEqual(self.names(), self.before)
        until(lambda: not os.listdir(self.daemon.data_dir / 'state/images/tmp'), 30 * SLOWNESS,
              'nothing is left of the archive')
        return status['message']

    def hold_layers(self):
        """Layers do not come until `release` is set; half of the first does."""
        def odd(handler, path):
            if path.rpartition('/')[2] not in self.odd.layers:
                return False
            content = self.odd.blobs[path.rpartition('/')[2]]
            handler.send_response(200)
            handler.send_header('Content-Length', str(len(content)))
            handler.end_headers()
            half = len(content) // 2
            handler.wfile.write(content[:half])
            handler.wfile.flush()
            self.release.wait(60 * SLOWNESS)
            handler.wfile.write(content[half:])
            return True
        self.odd.odd = odd

    def layers_asked_for(self):
        return [path for path, _ in self.odd.heard if path.rpartition('/')[2] in self.odd.layers]

    def test_it_is_fetched_once_and_then_here(self):
        name = f'{self.registry.host}/team/box:1'
        made = self.create(name)
        self.assertEqual((made['status']['state'], made['status']['reason']),
                         ('Pending', 'IMAGE_IMPORTING'))
        self.assertIn(name, made['status']['message'])
        self.runs(made['id'])
        self.assertIn(name, self.names())
        self.assertEqual(self.create(name)['status']['state'], 'Running')
        self.daemon.request('DELETE', f'/v1/images/{name}')

    def test_all_that_want_it_share_a_pull_and_see_how_far_it_is(self):
        self.hold_layers()
        name = f'{self.odd.host}/shared:1'
        boxes = [self.create(name)['id'] for _ in range(5)]
        for box in boxes:
            until(lambda box=box: ' of ' in self.status(box)['message'], 30 * SLOWNESS, 'how far')
        until(lambda: ': 1 MiB of 2 MiB have arrived' in self.status(boxes[0])['message'], 30 * SLOWNESS,
              'half of it is here')
        # Nobody else waits for it.
        other = self.daemon.create('busybox')
        self.assertEqual(self.daemon.run(other, 'echo meanwhile').stdout, 'meanwhile')
        self.release.set()
        for box in boxes:
            self.runs(box)
        self.assertEqual(len(self.layers_asked_for()), len(self.odd.layers))
        self.daemon.request('DELETE', f'/v1/images/{name}')

    def test_what_is_here_is_not_fetched(self):
        """A layer of another image; and what that image takes along while it is being relied on."""
        first, second = (f'{self.odd.host}/{name}:1' for name in ('first', 'second'))
        layers = self.daemon.data_dir / 'store/fs/layers'
        there = len(os.listdir(layers))
        self.runs(self.create(first)['id'])
        self.runs(self.create(second)['id'])
        self.assertEqual(len(self.layers_asked_for()), len(self.odd.layers))
        self.daemon.request('DELETE', f'/v1/images/{second}')
        held, config = self.odd.odd, json.loads(self.odd.manifest)['config']['digest']

        def odd(handler, path):
            if path.endswith(config):
                self.release.wait(60 * SLOWNESS)
            return held(handler, path)
        self.odd.odd = odd
        self.odd.heard.clear()
        box = self.create(second)['id']
        until(lambda: any(path.endswith(config) for path, _ in self.odd.heard), 30 * SLOWNESS,
              'the config is asked for')
        self.daemon.request('DELETE', f'/v1/images/{first}')
        until(lambda: len(os.listdir(layers)) == there, 30 * SLOWNESS, 'the layers have gone')
        self.assertEqual(self.layers_asked_for(), [])
        self.release.set()
        self.runs(box)
        self.assertEqual(len(self.layers_asked_for()), len(self.odd.layers))
        self.daemon.request('DELETE', f'/v1/images/{second}')

    def test_a_transfer_that_breaks_off_goes_on(self):
        def send(handler, status, said, part):
            handler.send_response(status)
            handler.send_header('Content-Length', str(said))
            handler.end_headers()
            handler.wfile.write(part)
            handler.close_connection = True
            return True

        layer = self.odd.layers[0]
        content = self.odd.blobs[layer]
        third = len(content) // 3
        # What is sent of it, each time: from where, to where, and whether it is said to be a part.
        # A server says how much comes before it breaks off.
        sent = [(0, third, False), (third, 2 * third, True), (0, len(content), False)]
        wanted = []

        def odd(handler, path):
            if not path.endswith(layer):
                return False
            begin, end, part = sent[len(wanted)]
            wanted.append(handler.headers.get('Range'))
            return send(handler, 206 if part else 200, len(content) - begin, content[begin:end])
        self.odd.odd = odd
        name = f'{self.odd.host}/broken:1'
        self.runs(self.create(name)['id'])
        self.assertEqual(wanted, [None, f'bytes={third}-', f'bytes={2 * third}-'])
        self.daemon.request('DELETE', f'/v1/images/{name}')
        until(lambda: self.names() == self.before, 30 * SLOWNESS, 'it has gone')
        self.odd.renew()
        layer = self.odd.layers[0]
        content = self.odd.blobs[layer]

        def wrong(handler, path):
            """Another part than the one that is missing, wherever that begins."""
            if not path.endswith(layer):
                return False
            missing = handler.headers.get('Range')
            if missing is None:
                return send(handler, 200, len(content), content[:third])
            begin = int(missing.removeprefix('bytes=').removesuffix('-'))
            return send(handler, 206, len(content) - begin, content[begin - 1:-1])
        self.odd.odd = wrong
        self.fails(name, 'digest mismatch')

    def test_what_nobody_allowed_is_not_asked_for(self):
        for name in (f'{self.registry.host}/other/box:1', f'{self.elsewhere.host}/team/box:1',
                     'absent:1', f'{self.registry.host}/team:1'):
            with self.assertRaises(atoll.ApiError) as refused:
                self.create(name)
            self.assertEqual(refused.exception.status, 400)
        # Nor for a request that is refused for something else.
        with self.assertRaises(atoll.ApiError):
            self.daemon.request('POST', '/v1/sandboxes', {
                'image': {'uri': f'{self.odd.host}/x:1'}, 'entrypoint': ['true'],
                'resourceLimits': {'memory': '1'}})
        self.assertEqual(self.odd.heard + self.elsewhere.heard, [])

    def test_failures_say_why(self):
        self.fails(f'{self.registry.host}/team/absent:1', 'has no team/absent:1', '404')
        self.fails(f'{self.registry.host}/team/box:1', 'denies access to team/box', '401',
                   'password', auth={'username': USER, 'password': 'wrong'})
        self.authfile.chmod(0o604)
        try:
            self.fails(f'{self.registry.host}/team/box:1', 'other users may read', 'chmod 600')
        finally:
            self.authfile.chmod(0o600)
        self.odd.odd = lambda handler, path: handler.give(500) or True
        self.fails(f'{self.odd.host}/box:1', 'status 500')

    def test_a_registry_that_nobody_vouches_for(self):
        self.daemon.stop()
        self.configure(images_pull_ca='')
        self.daemon.start()
        try:
            self.fails(f'{self.odd.host}/box:1', 'certificate')
            self.assertEqual(self.odd.heard, [])
        finally:
            self.daemon.stop()
            self.configure()
            self.daemon.start()

    def test_who_asks_is_told_to_the_registry_alone(self):
        """The request's own name and password; a token for them; and none of it where layers are."""
        secret = 'request-password'
        known = 'Basic ' + registry.basic('guest', secret)

        def odd(handler, path):
            said = handler.headers.get('Authorization')
            if path == '/token':
                handler.give(200 if said == known else 401, b'{"token": "the-token"}')
            elif said != 'Bearer the-token':
                handler.give(401, WWW_Authenticate=f'Bearer realm="https://{self.odd.host}/token",'
                                                   'service="a service",scope="repository:all:*"')
            elif path.rpartition('/')[2] in self.odd.layers:
                handler.give(307, Location=f'https://{self.elsewhere.host}/kept{path}?signed=yes')
            else:
                return False
            return True
        self.odd.odd = odd
        name = f'{self.odd.host}/guests/box:1'
        self.fails(name, '401')
        self.odd.heard.clear()
        self.runs(self.create(name, auth={'username': 'guest', 'password': secret})['id'])
        self.assertIn(('/token?service=a%20service&scope=repository%3Aguests%2Fbox%3Apull', known),
                      self.odd.heard)
        self.assertEqual(self.elsewhere.heard, [
            (f'/kept/v2/guests/box/blobs/{layer}?signed=yes', None) for layer in self.odd.layers])
        self.daemon.request('DELETE', f'/v1/images/{name}')
        kept = [self.daemon.log, *(self.daemon.data_dir / 'state').glob('*.db*')]
        for file in kept:
            for word in (secret, PASSWORD, 'the-token', registry.basic('guest', secret)):
                self.assertNotIn(word.encode(), file.read_bytes(), file)

    def test_an_image_of_many_platforms(self):
        def entry(content, architecture):
            return {'mediaType': MANIFEST, 'digest': registry.digest_of(content),
                    'size': len(content), 'platform': {'os': 'linux', 'architecture': architecture}}
        index = {'schemaVersion': 2, 'mediaType': INDEX,
                 'manifests': [entry(b'{}', 's390x'), entry(self.odd.manifest, 'amd64'),
                               entry(self.odd.manifest, 'arm64')]}

        def odd(handler, path):
            if not path.endswith('/manifests/many'):
                return False
            handler.give(200, json.dumps(index).encode(), Content_Type=INDEX)
            return True
        self.odd.odd = odd
        name = f'{self.odd.host}/box:many'
        self.runs(self.create(name)['id'])
        self.assertEqual(self.daemon.request('GET', f'/v1/images/{name}')['digest'],
                         registry.digest_of(self.odd.manifest))
        self.daemon.request('DELETE', f'/v1/images/{name}')
        del index['manifests'][1:]
        self.before = self.names()
        self.fails(name, 'no image for linux/', 'only for linux/s390x')

    def test_what_a_registry_sends_is_not_believed(self):
        layer = self.odd.layers[0]
        content = self.odd.blobs[layer]

        def answer(for_layer=None, for_manifest=None, **headers):
            def odd(handler, path):
                given = (for_layer if path.endswith(layer) else
                         for_manifest if '/manifests/' in path else None)
                if given is None:
                    return False
                status, body = given
                handler.give(status, body, **headers)
                return True
            self.odd.odd = odd
            self.odd.heard.clear()

        name = f'{self.odd.host}/box:1'
        forged = content[:-1] + bytes([content[-1] ^ 1])
        answer(for_layer=(200, forged))
        self.fails(name, 'digest mismatch')
        for other in (content + b'x', content[:-1]):
            answer(for_layer=(200, other))
            self.fails(name, 'another number of bytes')
        answer(for_manifest=(200, b'{' * (5 << 20)))
        self.fails(name, 'larger than')
        answer(for_manifest=(200, b'{"config": 1, "config": 2}'))
        self.fails(name)
        huge = json.loads(self.odd.manifest)
        for size, why in ((1 << 40, '65536 MiB'), ((1 << 64) - 1, '65536 MiB')):
            huge['layers'][0]['size'] = size
            answer(for_manifest=(200, json.dumps(huge).encode()))
            self.fails(name, why)
        self.assertEqual(self.layers_asked_for(), [])
        # Neither in the clear, nor round and round.
        for location in (f'http://{self.elsewhere.host}/x', 'file:///etc/passwd', '//evil/x',
                         f'https://user@{self.elsewhere.host}/x'):
            answer(for_layer=(307, b''), Location=location)
            self.fails(name, 'redirects to')
        answer(for_layer=(307, b''), Location=f'/v2/box/blobs/{layer}')
        self.fails(name, 'redirects too many times')
        self.assertEqual(len(self.layers_asked_for()), 6)
        for realm in ('http://127.0.0.1/token', 'ftp://x'):
            answer(for_manifest=(401, b''), WWW_Authenticate=f'Bearer realm="{realm}"')
            self.fails(name, 'redirects to')
        for challenge in ('Bearer', 'Digest realm="x"', 'Bearer realm="x', ''):
            answer(for_manifest=(401, b''), WWW_Authenticate=challenge)
            self.fails(name, 'unknown authentication')
        self.assertEqual(self.elsewhere.heard, [])

    def test_a_daemon_that_is_killed_meanwhile(self):
        self.hold_layers()
        name = f'{self.odd.host}/cut:1'
        box = self.create(name)['id']
        until(self.layers_asked_for, 30 * SLOWNESS, 'it has begun')
        self.daemon.kill()
        self.daemon.start()
        status = self.status(box)
        self.assertEqual(status['state'], 'Failed')
        self.assertIn('the daemon ended', status['message'])
        self.daemon.delete(box)
        self.assertEqual(os.listdir(self.daemon.data_dir / 'state/images/tmp'), [])
        self.assertEqual(self.names(), self.before)
        self.release.set()
        self.runs(self.create(name)['id'])
        self.daemon.request('DELETE', f'/v1/images/{name}')

    def test_a_daemon_that_ends_waits_for_no_registry(self):
        self.hold_layers()
        boxes = [self.create(f'{self.odd.host}/slow:{n}')['id'] for n in range(3)]
        until(lambda: len(self.layers_asked_for()) == 2, 30 * SLOWNESS, 'two are under way')
        begun = time.monotonic()
        self.daemon.stop()
        self.assertLess(time.monotonic() - begun, 5 * SLOWNESS)
        self.daemon.start()
        for box in boxes:
            self.assertEqual(self.status(box)['state'], 'Failed')
            self.daemon.delete(box)

    def test_there_is_an_end_to_what_waits(self):
        self.hold_layers()
        boxes = [self.create(f'{self.odd.host}/slow:{n}')['id'] for n in range(16)]
        with self.assertRaises(atoll.ApiError) as refused:
            self.create(f'{self.odd.host}/slow:16')
        self.assertEqual(refused.exception.status, 429)
        # Who wants one of those waits with the others.
        boxes.append(self.create(f'{self.odd.host}/slow:15')['id'])
        self.release.set()
        for box in boxes:
            self.runs(box)
        for n in range(16):
            self.daemon.request('DELETE', f'/v1/images/{self.odd.host}/slow:{n}')


if __name__ == '__main__':
    unittest.main()
