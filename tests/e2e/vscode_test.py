"""The image vscode: an editor in a page, seen and used through the daemon."""
import os
import pathlib
import subprocess
import tempfile
import time
import unittest
import urllib.parse

import atoll
from atoll import SLOWNESS, until
from box import Box

HERE = pathlib.Path(__file__).resolve().parent
KIT = atoll.BUILD / 'conformance/playwright'  # tests/conformance/prepare playwright
NAME = 'opensandbox/vscode:latest'


class Vscode(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.daemon.import_image(atoll.image_archive('vscode'), NAME)

    def box(self, entrypoint=('/entrypoint',), **fields):
        box = Box(self.daemon, NAME, entrypoint=list(entrypoint),
                  resourceLimits={'cpu': '2', 'memory': '2Gi', 'pids': '1000'}, **fields)
        self.addCleanup(self.daemon.delete, box.id)
        return box

    def answers(self, box, status):
        until(lambda: self.daemon.send('GET', box.port(8443) + '/').status == status,
              60 * SLOWNESS, 'the editor answers')

    def test_a_file_is_edited_and_run_in_the_terminal(self):
        box = self.box(env={'PASSWORD': 'knock'})
        self.answers(box, 302)  # to where it asks for the password
        box.out('echo "echo 42" >~/hello')
        port = urllib.parse.urlsplit(self.daemon.url).port
        pictures = os.environ.get('ATOLL_PICTURES') or tempfile.mkdtemp(dir=self.daemon.top)
        with open(f'{pictures}/said', 'w+', encoding='utf-8') as said:
            browser = subprocess.Popen(['node', HERE / 'vscode.mjs', KIT, f'http://{box.id}-8443.localhost:{port}/',
                                        'knock', 'hello',
                                        # No bracket nor quote, which the editor closes by itself, or not yet.
                                        'echo from the editor', 'sh hello | tee /tmp/ran; echo "password $PASSWORD" | tee /tmp/env',
                                        f'{pictures}/vscode.png'],
                                       stdin=subprocess.PIPE, stdout=said, stderr=subprocess.STDOUT, text=True)
            try:
                ran = until(lambda: box.out('cat /tmp/env 2>/dev/null; true') and box.out('cat /tmp/ran')
                            or browser.poll() is not None, 120 * SLOWNESS, 'the terminal has run it')
            finally:
                browser.communicate(timeout=60 * SLOWNESS)
            said.seek(0)
            self.assertEqual((browser.returncode, said.read()), (0, 'typed\n'))
        self.assertEqual(ran, '42\nfrom the editor')
        self.assertEqual(box.out('cat ~/hello'), 'echo 42\necho from the editor')
        # What it asks for is not told to what runs in it.
        self.assertEqual(box.out('cat /tmp/env'), 'password ')

    def test_without_the_password_there_is_no_editor(self):
        box = self.box(env={'PASSWORD': 'knock'})
        self.answers(box, 302)
        for path in ('/', '/?folder=/', '/vscode-remote-resource?path=/etc/passwd'):
            said = self.daemon.send('GET', box.port(8443) + path)
            self.assertIn(said.status, (302, 401), path)
            self.assertNotIn(b'root:', said.read())

    def test_that_clients_start_themselves(self):
        """As OpenSandbox's own example does."""
        box = self.box(['sleep', '99999'])
        begin = time.monotonic()
        box.background('exec code-server --bind-addr 0.0.0.0:8443 --auth none /tmp')
        self.answers(box, 302)  # to the folder
        print(f'# answering on 8443 after {(time.monotonic() - begin) * 1000:.0f} ms', flush=True)
        self.assertIn(b'vscode-workbench-web-configuration',
                      self.daemon.send('GET', box.port(8443) + '/?folder=/tmp').read())


if __name__ == '__main__':
    unittest.main()
