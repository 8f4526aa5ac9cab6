"""A browser and a coding agent, small: what every run of the tests shows of the long suite's chrome and agents.

Their programs are the test machine's and one package of npm's: an image of them takes seconds, one of a
recipe a minute."""
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import urllib.parse

import agent_example
import atoll
from atoll import SLOWNESS, until
from box import Box, pack, shared_libraries

HERE = pathlib.Path(__file__).resolve().parent
KIT = atoll.BUILD / 'conformance'  # tests/conformance/prepare python playwright claude
NAME = 'watch:latest'
CHROMIUM = '/usr/lib/chromium/chromium'
PROGRAMS = ['/bin/bash', '/usr/bin/curl', '/usr/bin/git', '/usr/bin/python3.11', CHROMIUM]
# What they open by name: certificates' modules, fonts, Python's own library.
FOLDERS = ['/usr/lib/chromium', '/usr/lib/x86_64-linux-gnu/nss', '/etc/fonts', '/usr/share/fonts/truetype/dejavu',
           '/usr/lib/python3.11']
LEFT_OUT = shutil.ignore_patterns('__pycache__', 'test', 'config-3*')
GREEN = '<body style="margin: 0; background: #00c000"><h1>thank you</h1>'
RED = ('<title>seen inside</title><body style="margin: 0; background: #c00000">'
       f'<button onclick="document.body.outerHTML = decodeURIComponent(`{urllib.parse.quote(GREEN)}`)">press</button>')


def make_image(daemon):
    with tempfile.TemporaryDirectory(dir=daemon.top) as work:
        root = pathlib.Path(work, 'root')
        for folder in ('dev', 'proc', 'sys', 'tmp', 'root', 'etc', 'bin', 'usr/bin', 'usr/local/bin', 'srv'):
            (root / folder).mkdir(parents=True)
        (root / 'tmp').chmod(0o1777)
        for folder in FOLDERS:
            shutil.copytree(folder, root / folder[1:], symlinks=True, ignore=LEFT_OUT)
        claude, = KIT.glob('claude/node_modules/@anthropic-ai/claude-code-linux-*/claude')
        shutil.copy(claude, root / 'usr/local/bin/claude')
        libraries = {file for program in [*PROGRAMS, claude] for file in shared_libraries(program)}
        for file in {*PROGRAMS, *libraries}:
            target = root / file.lstrip('/')
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(pathlib.Path(file).resolve(), target)
        shutil.copy('/bin/busybox', root / 'bin/busybox')
        for applet in subprocess.run(['/bin/busybox', '--list'], check=True, stdout=subprocess.PIPE,
                                     text=True).stdout.split():
            if not (root / 'bin' / applet).exists():
                (root / 'bin' / applet).symlink_to('busybox')
        (root / 'usr/bin/python3').symlink_to('python3.11')
        (root / 'etc/passwd').write_text('root:x:0:0:root:/root:/bin/sh\ndev:x:1000:1000::/tmp:/bin/bash\n',
                                         encoding='utf-8')
        (root / 'srv/index.html').write_text(RED, encoding='utf-8')
        (root / 'srv/clicked.html').write_text(GREEN, encoding='utf-8')
        archive = pathlib.Path(work, 'image.tar')
        pack(root, NAME, archive, '--no-gzip', '--user', 'dev', '--env', 'HOME=/tmp')
        daemon.import_image(archive, NAME)


class Watch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        make_image(cls.daemon)

    def test_a_browser(self):
        box = Box(self.daemon, NAME, resourceLimits={'cpu': '2', 'memory': '1Gi', 'pids': '500'},
                  entrypoint=[CHROMIUM, '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
                              '--remote-debugging-port=9222', '--user-data-dir=/tmp/profile', 'about:blank'])
        self.addCleanup(self.daemon.delete, box.id)
        box.background('exec httpd -f -p 8000 -h /srv')
        until(lambda: self.daemon.send('GET', box.port(9222) + '/json/version').status == 200, 60 * SLOWNESS,
              'DevTools answers')
        done = subprocess.run(['node', HERE / 'chrome.mjs', KIT / 'playwright', f'{self.daemon.url}{box.port(9222)}',
                               'http://127.0.0.1:8000', self.daemon.top], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False, timeout=60 * SLOWNESS)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(json.loads(done.stdout), {'title': 'seen inside', 'before': False, 'after': True})

    def test_an_agent(self):
        agent_example.mends(self, self.daemon, NAME, 'claude')


if __name__ == '__main__':
    unittest.main()
