"""The released SDKs, unmodified, against a daemon."""
import os
import subprocess
import unittest

import atoll

SDK_DIR = atoll.BUILD / 'sdk'
CLIENTS = atoll.TOP / 'tests/e2e/sdk'


class Sdk(unittest.TestCase):
    """Each case is one client program."""

    @classmethod
    def setUpClass(cls):
        # Nothing to do after tools/test, which has prepared it: there is no network here.
        subprocess.run([CLIENTS / 'prepare', SDK_DIR], check=True)
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.image = cls.daemon.import_busybox()

    def run_client(self, *command):
        domain = self.daemon.url.removeprefix('http://')
        done = subprocess.run([*command, domain, self.daemon.key, self.image], check=False,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, 'SDK_DIR': str(SDK_DIR)})
        self.assertEqual(done.returncode, 0, done.stdout)
        left = self.daemon.request('GET', '/v1/sandboxes')['items']
        self.assertEqual([item['id'] for item in left], [])
        return done.stdout.strip()

    def test_python(self):
        self.assertEqual(self.run_client(SDK_DIR / 'venv/bin/python', CLIENTS / 'client.py'),
                         'from python')

    def test_javascript(self):
        self.assertEqual(self.run_client('node', CLIENTS / 'client.mjs'), 'from javascript')


if __name__ == '__main__':
    unittest.main()
