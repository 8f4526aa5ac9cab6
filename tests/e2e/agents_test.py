"""The image agents: each program completes a task in a sandbox that reaches its model and nothing else.

The model is the stand-in of tools/examples/agent, which says what was written for it beforehand."""
import subprocess
import unittest
import urllib.parse

import atoll
from atoll import SLOWNESS
from internet import Internet


class Agents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.internet = Internet().__enter__()
        cls.addClassCleanup(cls.internet.__exit__)
        cls.daemon = atoll.Daemon(network_dns=[cls.internet.DNS]).__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.daemon.import_image(atoll.image_archive('agents'), 'agents:latest')

    def completes(self, name):
        self.internet.clear()
        done = subprocess.run([atoll.BUILD / 'conformance/python/bin/python',
                               atoll.TOP / 'tools/examples/agent/agent.py', name],
                              env={'SANDBOX_DOMAIN': urllib.parse.urlsplit(self.daemon.url).netloc,
                                   'SANDBOX_API_KEY': self.daemon.key, 'SANDBOX_IMAGE': 'agents:latest',
                                   'PATH': '/usr/bin:/bin', 'HOME': str(self.daemon.top)},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              timeout=180 * SLOWNESS)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn('it is the mean of the two in the middle now, and the tests pass', done.stdout)
        # Of the repository, asked by the example itself and not by the agent.
        self.assertRegex(done.stdout, r'median\.py \| 2 \+-\n 1 file changed[^\n]*\n\.\.\n-+\nRan 2 tests[^\n]*\n\nOK\n$')
        self.assertEqual(self.internet.packets(), [])
        self.assertEqual(self.daemon.request('GET', '/v1/sandboxes')['items'], [])

    def test_claude(self):
        self.completes('claude')

    def test_codex(self):
        self.completes('codex')

    def test_gemini(self):
        self.completes('gemini')

    def test_qwen(self):
        self.completes('qwen')


if __name__ == '__main__':
    unittest.main()
