"""Images to and from a registry: Debian's, on loopback, which asks who one is and shows a certificate of
an authority of its own."""
import os
import pathlib
import shutil
import signal
import subprocess
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

    def atoll(self, *words, expect=0, ways=True, **environment):
        ways = ['--authfile', self.authfile, '--cert-dir', self.certificates] if ways else []
        done = subprocess.run([BUILD / 'atoll', 'image', *words, *ways], capture_output=True,
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
        self.assertIn('--dest-authfile auth.json', told.read_text())
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
        self.atoll('push', 'absent', f'{self.host}/x:1', expect=1)
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
