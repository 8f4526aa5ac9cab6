"""Images to and from a registry: Debian's, on loopback, which asks who one is and shows a certificate of
an authority of its own."""
import os
import pathlib
import pty
import shutil
import signal
import subprocess
import threading
import unittest

import atoll
import registry
from atoll import BUILD, SLOWNESS, until
from registry import PASSWORD

# Stands in the place of skopeo, says how it was called, and is it.
SKOPEO = '''#!/bin/sh
{ id -u; id -G; grep CapEff /proc/self/status; stat -c '%a %u' auth.json; printf '%s ' "$@"; env; } >>TOLD
exec REAL "$@"
'''


class Registry(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.daemon.import_busybox()
        cls.top = cls.daemon.top / 'registry'
        cls.work = cls.daemon.top / 'work'
        cls.work.mkdir()
        authority = registry.Authority(cls.top)
        cls.certificates = authority.certificates
        cls.registry = registry.DebiansRegistry(authority)
        cls.addClassCleanup(cls.registry.close)
        cls.authfile, cls.host = cls.registry.authfile, cls.registry.host
        cls.odd = registry.OddRegistry(authority)
        cls.addClassCleanup(cls.odd.close)

    def setUp(self):
        # What other tests have pulled is not here.
        self.odd.renew()
        self.odd.heard.clear()
        self.odd.odd = lambda handler, path: False
        self.release = threading.Event()
        self.addCleanup(self.release.set)

    def asked_for(self):
        """The layers that the odd registry was asked for."""
        return [layer for layer in self.odd.layers
                if any(path.endswith(layer) for path, _ in self.odd.heard)]

    def hold(self, layer, sent=0):
        """Of that layer comes only so much until `release` is set."""
        def odd(handler, path):
            if not path.endswith(layer):
                return False
            content = self.odd.blobs[layer]
            handler.send_response(200)
            handler.send_header('Content-Length', str(len(content)))
            handler.end_headers()
            handler.wfile.write(content[:sent])
            handler.wfile.flush()
            self.release.wait(60 * SLOWNESS)
            handler.wfile.write(content[sent:])
            return True
        self.odd.odd = odd

    def command(self, *words, **environment):
        return {'args': [BUILD / 'atoll', 'image', *words, '--cert-dir', self.certificates],
                'env': {**self.daemon.client_env(), 'TMPDIR': str(self.work), **environment}}

    def atoll(self, *words, expect=0, ways=True, group='image', **environment):
        ways = ['--authfile', self.authfile, '--cert-dir', self.certificates] if ways else []
        done = subprocess.run([BUILD / 'atoll', group, *words, *ways], capture_output=True,
                              text=True, timeout=60 * SLOWNESS, check=False,
                              stdin=subprocess.DEVNULL,
                              env={**self.daemon.client_env(), 'TMPDIR': str(self.work),
                                   'HOME': str(self.top), **environment})
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        self.assertEqual(list(self.work.iterdir()), [])
        return done.stdout if expect == 0 else done.stderr

    def names(self):
        return [image['name'] for image in self.daemon.request('GET', '/v1/images')['items']]

    def test_there_and_back(self):
        there = f'{self.host}/team/box:7'
        self.atoll('push', 'busybox', there)
        said = self.atoll('pull', there)
        self.assertIn(f'imported {there}', said)
        self.atoll('pull', there, '--name', 'mine')
        for name in (there, 'mine:latest'):
            box = self.daemon.create(name)
            self.assertEqual(self.daemon.run(box, 'echo here').stdout, 'here')
            self.daemon.delete(box)
            self.daemon.request('DELETE', f'/v1/images/{name}')

    def test_layers_that_are_here_are_not_fetched(self):
        """Neither all of them, nor those of another image that has one more."""
        names = [f'{self.odd.host}/box:{n}' for n in range(3)]
        self.atoll('pull', names[0])
        self.assertEqual(self.asked_for(), self.odd.layers)
        for name, more in ((names[1], []), (names[2], ['more'])):
            for content in more:
                self.odd.stack(content.encode())
            self.odd.heard.clear()
            self.atoll('pull', name)
            self.assertEqual(self.asked_for(), self.odd.layers[-1:] if more else [])
            box = self.daemon.create(name)
            self.assertEqual(self.daemon.run(box, 'cat /stacked || echo none').stdout,
                             more[0] if more else 'none')
            self.daemon.delete(box)
        for name in names:
            self.daemon.request('DELETE', f'/v1/images/{name}')

    def test_an_interrupted_pull_goes_on(self):
        self.odd.stack(b'more')
        *whole, last = self.odd.layers
        kept = self.work / 'atoll-pull-0'
        self.hold(last)
        name = f'{self.odd.host}/broken:1'
        client = subprocess.Popen(**self.command('pull', name), stderr=subprocess.PIPE, text=True)

        def come():
            place = f'atoll.*/layout/blobs/sha256/{whole[-1].removeprefix("sha256:")}'
            return any(file.stat().st_size == len(self.odd.blobs[whole[-1]])
                       for file in self.work.glob(place))
        until(come, 20 * SLOWNESS, 'a layer has come')
        until(lambda: last in self.asked_for(), 20 * SLOWNESS, 'another is on its way')
        client.send_signal(signal.SIGINT)
        said = client.communicate(timeout=20 * SLOWNESS)[1]
        self.assertNotEqual(client.returncode, 0)
        self.assertIn(f'kept in {kept}', said)
        self.assertEqual(list(self.work.iterdir()), [kept])
        self.assertEqual(kept.stat().st_mode & 0o777, 0o700)
        self.assertEqual({f'sha256:{file.name}' for file in kept.iterdir()}, set(whole))
        self.odd.odd = lambda handler, path: False
        self.odd.heard.clear()
        self.assertIn(f'imported {name}', self.atoll('pull', name))
        self.assertEqual(self.asked_for(), [last])
        self.daemon.request('DELETE', f'/v1/images/{name}')

    def test_what_others_have_kept_is_not_taken(self):
        """Nor is anything believed: what was kept and is another is refused, and then gone."""
        kept = self.work / 'atoll-pull-0'
        layer = self.odd.layers[0]
        name = f'{self.odd.host}/forged:1'

        def forge(mode):
            kept.mkdir()
            kept.chmod(mode)
            (kept / layer.removeprefix('sha256:')).write_bytes(bytes(len(self.odd.blobs[layer])))
        forge(0o777)
        try:
            done = subprocess.run(**self.command('pull', name), check=True, capture_output=True)
            self.assertIn(b'imported', done.stdout)
            self.assertIn(layer, self.asked_for())
        finally:
            shutil.rmtree(kept)
        self.daemon.request('DELETE', f'/v1/images/{name}')
        self.odd.heard.clear()
        forge(0o700)
        self.assertIn('digest mismatch', self.atoll('pull', name, expect=1))
        self.assertNotIn(layer, self.asked_for())
        self.atoll('pull', name)
        self.daemon.request('DELETE', f'/v1/images/{name}')

    def test_through_a_proxy(self):
        proxy = registry.Proxy(int(self.odd.host.rpartition(':')[2]))
        self.addCleanup(proxy.close)
        name = f'{registry.ELSEWHERE}/team/box:1'
        self.atoll('pull', name, HTTPS_PROXY=proxy.url)
        self.assertEqual(set(proxy.asked), {f'{registry.ELSEWHERE}:443'})
        proxy.asked.clear()
        self.atoll('pull', name, expect=1, HTTPS_PROXY=proxy.url, NO_PROXY=registry.ELSEWHERE)
        self.assertEqual(proxy.asked, [])
        self.daemon.request('DELETE', f'/v1/images/{name}')

    def test_how_far_it_is(self):
        """A terminal sees how much of how much has come, how fast, and how long it will take."""
        self.odd.stack(os.urandom(3 << 20))
        self.hold(self.odd.layers[-1], 2 << 20)
        name = f'{self.odd.host}/slow:1'
        master, slave = pty.openpty()
        client = subprocess.Popen(**self.command('pull', name), stdin=slave, stdout=slave,
                                  stderr=slave)
        os.close(slave)
        seen = b''
        try:
            while True:
                seen += os.read(master, 65536)
                if b' left' in seen:
                    self.release.set()
        except OSError:  # its end
            pass
        os.close(master)
        self.assertEqual(client.wait(20 * SLOWNESS), 0, seen)
        self.assertRegex(seen, rb'pulling \S+ \[#+\.+\] \d\d%  [23]\.\d MiB of [34]\.\d MiB, '
                               rb'[\d.]+ [KM]iB/s, \d+ s left')
        self.daemon.request('DELETE', f'/v1/images/{name}')

    def test_a_snapshot_there_and_back(self):
        box = self.daemon.create('busybox', metadata={'team': 'ml'})
        self.daemon.run(box, 'echo mine > /file; rm -r /var')
        there = f'{self.host}/team/kept:1'
        taken = self.atoll('create', box, '--name', 'kept', ways=False, group='snapshot').strip()
        self.atoll('push', taken, there, group='snapshot')
        pulled = self.atoll('pull', there, group='snapshot').strip()
        self.assertNotEqual(pulled, taken)
        shown = self.daemon.request('GET', f'/v1/snapshots/{pulled}')
        self.assertEqual((shown['name'], shown['sandboxId']), ('kept', box))
        copy = self.daemon.request('POST', '/v1/sandboxes', {
            'snapshotId': pulled, 'entrypoint': ['sleep', '100000'], 'resourceLimits': {}})['id']
        self.assertEqual(self.daemon.run(copy, 'cat /file; ls -d /var').stdout, 'mine')
        # What is no snapshot does not become one.
        self.atoll('push', 'busybox', f'{self.host}/team/plain:1')
        self.assertIn('atoll image import', self.atoll('pull', f'{self.host}/team/plain:1',
                                                       group='snapshot', expect=1))
        for sandbox in (copy, box):
            self.daemon.delete(sandbox)

    def test_secrets_are_in_no_words_and_nobody_is_root(self):
        told, programs = self.top / 'told', self.top / 'programs'
        programs.mkdir()
        (programs / 'skopeo').write_text(SKOPEO.replace('TOLD', str(told)).replace(
            'REAL', shutil.which('skopeo')))
        (programs / 'skopeo').chmod(0o755)
        told.touch()
        told.chmod(0o666)
        # Passed through on the way.
        self.daemon.top.chmod(0o755)
        self.atoll('push', 'busybox', f'{self.host}/told:1', PATH=f'{programs}:{os.environ["PATH"]}')
        lines = told.read_text().splitlines()
        user = lines[0]
        self.assertGreater(int(user), 65536)
        self.assertEqual(lines[1:4], [user, 'CapEff:\t0000000000000000', f'600 {user}'])
        self.assertIn('--dest-authfile=auth.json', told.read_text())
        for secret in (PASSWORD, registry.basic(registry.USER, PASSWORD)):
            self.assertNotIn(secret, told.read_text())

    def test_refusals(self):
        """Whom it does not know, whom it does not trust, what others may read, what is not there."""
        before = self.names()
        name = f'{self.host}/absent:1'
        self.assertIn('manifest unknown', self.atoll('pull', name, expect=1))
        self.assertIn('certificate', self.atoll('pull', name, '--authfile', self.authfile,
                                                expect=1, ways=False))
        self.assertIn('authentication required', self.atoll(
            'pull', name, '--cert-dir', self.certificates, expect=1, ways=False))
        self.registry.write_auth('wrong')
        try:
            self.assertIn('unauthorized', self.atoll('push', 'busybox', f'{self.host}/x:1', expect=1))
        finally:
            self.registry.write_auth(PASSWORD)
        self.authfile.chmod(0o640)
        try:
            self.assertIn('chmod 600', self.atoll('pull', name, expect=1))
        finally:
            self.authfile.chmod(0o600)
        self.atoll('push', 'absent', f'{self.host}/x:1', expect=2)
        self.assertIn('apt-get install --no-install-recommends skopeo',
                      self.atoll('pull', name, expect=1, PATH=str(self.top)))
        self.assertEqual(self.names(), before)

    def test_an_interrupt(self):
        """Ends skopeo, and leaves nothing."""
        programs, told = self.top / 'slow', self.top / 'slow-told'
        programs.mkdir()
        told.touch()
        told.chmod(0o666)
        (programs / 'skopeo').write_text(f'#!/bin/sh\necho $$ >{told}\nexec sleep 600\n')
        (programs / 'skopeo').chmod(0o755)
        client = subprocess.Popen([BUILD / 'atoll', 'image', 'pull', f'{self.host}/x:1'],
                                  env={**self.daemon.client_env(), 'TMPDIR': str(self.work),
                                       'PATH': f'{programs}:{os.environ["PATH"]}'},
                                  stderr=subprocess.DEVNULL)
        until(lambda: told.read_text().endswith('\n'), 20 * SLOWNESS, 'it has begun')
        client.send_signal(signal.SIGINT)
        self.assertNotEqual(client.wait(20 * SLOWNESS), 0)
        until(lambda: not pathlib.Path('/proc', told.read_text().strip()).exists(), 20 * SLOWNESS,
              'skopeo has ended')
        self.assertEqual(list(self.work.iterdir()), [])


if __name__ == '__main__':
    unittest.main()
