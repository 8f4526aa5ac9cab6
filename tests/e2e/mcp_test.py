"""Sandboxes over MCP: the lines by which agents are told of the released server, each to the agent that it is for."""
import json
import re
import shlex
import subprocess
import tomllib
import unittest
import urllib.parse

import atoll
from atoll import SLOWNESS
from box import Box

EXAMPLE = atoll.TOP / 'tools/examples/mcp'
KIT = atoll.BUILD / 'conformance/mcp/bin'  # tests/conformance/prepare mcp
NAME = 'agents:latest'


class Mcp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.daemon.import_image(atoll.image_archive('agents'), NAME)

    def line(self, agent):
        """What the README says to type, for this daemon."""
        text = (EXAMPLE / 'README.md').read_text(encoding='utf-8')
        line = re.search(f'^ +({agent} mcp add .*)$', text, re.MULTILINE)[1]
        key_file = json.loads((self.daemon.run_dir / 'daemon.json').read_text(encoding='utf-8'))['key_file']
        for stands, here in (('/var/lib/atoll/state/api_key', key_file),
                             ('127.0.0.1:8080', urllib.parse.urlsplit(self.daemon.url).netloc)):
            self.assertIn(stands, line)
            line = line.replace(stands, here)
        return line

    def told(self, agent, file):
        """That it writes down."""
        box = Box(self.daemon, NAME, networkPolicy={'defaultAction': 'deny', 'egress': []})
        self.addCleanup(self.daemon.delete, box.id)
        box.out(f'cd /tmp && {self.line(agent)}')
        return box.out(f'cat {file}')

    def serves(self, server):
        words = [server['command'], *server['args']]
        self.assertNotIn(self.daemon.key, shlex.join(words))
        done = subprocess.run([KIT / 'python', EXAMPLE / 'session.py', *words],
                              env={'PATH': f'{KIT}:/usr/bin:/bin', 'HOME': str(self.daemon.top),
                                   'SANDBOX_IMAGE': NAME},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                              timeout=120 * SLOWNESS)
        self.assertEqual((done.returncode, done.stdout), (0, '19 tools\n42\n'), done.stderr)

    def test_claude(self):
        told = json.loads(self.told('claude', '~/.claude.json'))
        self.serves(told['projects']['/tmp']['mcpServers']['sandbox'])

    def test_codex(self):
        self.serves(tomllib.loads(self.told('codex', '~/.codex/config.toml'))['mcp_servers']['sandbox'])

    def test_gemini(self):
        self.serves(json.loads(self.told('gemini', '~/.gemini/settings.json'))['mcpServers']['sandbox'])

    def test_qwen(self):
        self.serves(json.loads(self.told('qwen', '~/.qwen/settings.json'))['mcpServers']['sandbox'])


if __name__ == '__main__':
    unittest.main()
