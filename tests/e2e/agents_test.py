"""Coding agents: each program completes a task in a sandbox that reaches its model and nothing else.

The model is the stand-in of tools/examples/agent, which says what was written for it beforehand."""
import json
import subprocess
import unittest
import urllib.request

import agent_example
import atoll
from atoll import SLOWNESS, until
from internet import Internet


class Completes(unittest.TestCase):
    IMAGE = ''

    @classmethod
    def setUpClass(cls):
        cls.internet = Internet().__enter__()
        cls.addClassCleanup(cls.internet.__exit__)
        cls.daemon = atoll.Daemon(network_dns=[cls.internet.DNS]).__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.daemon.import_image(atoll.image_archive(cls.IMAGE), f'{cls.IMAGE}:latest')

    def completes(self, name):
        self.internet.clear()
        agent_example.mends(self, self.daemon, f'{self.IMAGE}:latest', name)
        self.assertEqual(self.internet.packets(), [])


class Claude(Completes):
    IMAGE = 'claude'

    def test_claude(self):
        self.completes('claude')


class Agents(Completes):
    IMAGE = 'agents'

    def test_claude(self):
        self.completes('claude')

    def test_codex(self):
        self.completes('codex')

    def test_gemini(self):
        self.completes('gemini')

    def test_kimi(self):
        self.completes('kimi')

    def test_qwen(self):
        self.completes('qwen')


class OpenClaw(Completes):
    IMAGE = 'openclaw'

    def test_openclaw(self):
        self.completes('openclaw')

    def test_its_gateway(self):
        """By way of atoll forward, started by the image's own entrypoint, and as OpenSandbox's example does."""
        for words in (['/entrypoint'], ['node', 'dist/index.js', 'gateway', '--bind=lan', '--port', '18789',
                                        '--allow-unconfigured', '--verbose']):
            box = self.daemon.create('openclaw:latest', entrypoint=words, env={'OPENCLAW_GATEWAY_TOKEN': 'knock'},
                                     networkPolicy={'defaultAction': 'deny', 'egress': []},
                                     resourceLimits={'cpu': '2', 'memory': '2Gi', 'pids': '500'})
            self.addCleanup(self.daemon.delete, box)
            # It serves no proxy that its settings do not name.
            until(lambda box=box: self.daemon.send('GET', f'/sandboxes/{box}/proxy/18789/').status == 403,
                  120 * SLOWNESS, 'the gateway answers')
            with subprocess.Popen([atoll.BUILD / 'atoll', 'forward', box, '18789', '0', '--json'],
                                  env=self.daemon.client_env(), stdout=subprocess.PIPE) as client:
                try:
                    port = json.loads(client.stdout.readline())['port']
                    with urllib.request.urlopen(f'http://127.0.0.1:{port}/', timeout=60 * SLOWNESS) as page:
                        self.assertIn(b'OpenClaw', page.read())
                finally:
                    client.terminate()


if __name__ == '__main__':
    unittest.main()
