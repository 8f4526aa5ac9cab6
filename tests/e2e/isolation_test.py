"""The isolation of sandboxes: who chooses it, who sees it, and what a host without it says."""
import json
import subprocess
import unittest

import atoll
from atoll import SLOWNESS


def with_rules(daemon, lines):
    daemon.config.write_text(daemon.config.read_text() + '[secure_runtime]\n' + lines)
    return daemon


def refused(daemon, image, isolation):
    try:
        daemon.create(image, extensions={'isolation': isolation})
    except atoll.ApiError as error:
        return error
    raise AssertionError(f'isolation {isolation} was granted')


class IsolationTest(unittest.TestCase):

    def atoll(self, *words):
        return subprocess.run([atoll.BUILD / 'atoll', *words], env=self.daemon.client_env(), text=True,
                              capture_output=True, check=False, timeout=60 * SLOWNESS)

    @classmethod
    def setUpClass(cls):
        cls.daemon = with_rules(atoll.Daemon(), 'type = "namespace"\n')
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.daemon.start()
        cls.image = cls.daemon.import_busybox()

    def test_the_answers_name_it(self):
        box = self.daemon.create(self.image, extensions={'isolation': 'namespace'})
        plain = self.daemon.create(self.image)
        told = self.daemon.request('GET', f'/v1/sandboxes/{box}')
        self.assertEqual(told['extensions'], {'isolation': 'namespace'})
        items = self.daemon.request('GET', '/v1/sandboxes')['items']
        self.assertEqual({item['id']: item.get('extensions') for item in items},
                         {box: {'isolation': 'namespace'}, plain: None})
        self.assertEqual(self.daemon.request('GET', '/health'),
                         {'status': 'healthy',
                          'isolation': {'type': 'namespace', 'available': ['namespace']}})
        listed = self.atoll('ps', '--format', '{{.ID}} {{.Isolation}}').stdout.splitlines()
        self.assertEqual(sorted(listed), sorted([f'{box} namespace', f'{plain} namespace']))
        for each in (box, plain):
            self.assertEqual(json.loads(self.atoll('inspect', each).stdout)[0]['isolation'],
                             'namespace')

    def test_the_record_keeps_it(self):
        box = self.daemon.create(self.image, extensions={'isolation': 'namespace'})
        self.daemon.kill()
        self.daemon.start()
        self.assertEqual(self.daemon.request('GET', f'/v1/sandboxes/{box}')['extensions'],
                         {'isolation': 'namespace'})
        self.assertEqual(self.daemon.run(box, 'echo on').stdout, 'on')

    def test_what_this_host_has_not(self):
        for word, tier in (('gvisor', 'gvisor'), ('microvm', 'microvm'), ('kata', 'microvm'),
                           ('firecracker', 'microvm')):
            said = refused(self.daemon, self.image, word)
            # The API names no 501 for a create.
            self.assertEqual((said.status, said.code), (400, 'SANDBOX::API_NOT_SUPPORTED'))
            self.assertIn(f'isolation {tier} is not available on this host, only: namespace', said.message)
        said = refused(self.daemon, self.image, 'runc')
        self.assertEqual((said.status, said.code), (400, 'SANDBOX::INVALID_PARAMETER'))
        self.assertEqual(self.daemon.request('GET', '/v1/sandboxes')['items'], [])

    def tearDown(self):
        for item in self.daemon.request('GET', '/v1/sandboxes')['items']:
            self.daemon.delete(item['id'])

    def test_run(self):
        ran = self.atoll('run', '--isolation', 'namespace', self.image, 'echo', 'in')
        self.assertEqual((ran.returncode, ran.stdout), (0, 'in\n'), ran.stderr)
        ran = self.atoll('run', '--isolation', 'microvm', self.image, 'echo', 'in')
        self.assertEqual((ran.returncode, ran.stdout), (125, ''))
        self.assertIn('isolation microvm is not available', ran.stderr)


class StartTest(unittest.TestCase):

    def test_without_the_configured_one_the_daemon_does_not_start(self):
        for kind, tier in (('gvisor', 'gvisor'), ('kata', 'microvm'), ('microvm', 'microvm')):
            daemon = atoll.Daemon()
            self.addCleanup(daemon.__exit__)
            # The spawner may still be on its way out, and the end of the test starts a daemon to end it.
            self.addCleanup(daemon.config.write_text, daemon.config.read_text())
            with_rules(daemon, f'type = "{kind}"\n')
            with self.assertRaises(AssertionError) as failed:
                daemon.start()
            self.assertIn(f'cannot build sandboxes with isolation {tier}, only with: namespace',
                          str(failed.exception))

    def test_outside_of_the_list(self):
        daemon = with_rules(atoll.Daemon(), 'allow = ["namespace"]\n')
        self.addCleanup(daemon.__exit__)
        daemon.start()
        image = daemon.import_busybox()
        said = refused(daemon, image, 'gvisor')
        self.assertEqual((said.status, said.code), (403, 'SANDBOX::ISOLATION_NOT_ALLOWED'))
        self.assertIn('not allowed by this server: namespace', said.message)
        self.assertEqual(daemon.request('GET', '/health'), {'status': 'healthy'})


if __name__ == '__main__':
    unittest.main()
