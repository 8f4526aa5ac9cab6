"""The image aio: a desktop with a browser, an editor and code contexts in one, each seen from outside."""
import json
import subprocess
import unittest
import urllib.parse

import atoll
from atoll import SLOWNESS, until
from box import Box
from websocket_client import Socket
import rfb

NAME = 'ghcr.io/agent-infra/sandbox:latest'
FOREIGN = {'Origin': 'http://evil.example'}
# As OpenSandbox's own example does, with the released client of the image's API.
EXAMPLE = """
import sys, agent_sandbox
client = agent_sandbox.Sandbox(base_url=sys.argv[1])
home = client.sandbox.get_context().home_dir
print(home, client.shell.exec_command(command='echo $((6 * 7)); pwd; id -un', timeout=10).data.output.split())
client.file.write_file(file=f'{home}/notes', content='one\\ntwo\\nthree', trailing_newline=True)
print(repr(client.file.read_file(file=f'{home}/notes', start_line=1).data.content))
assert client.browser.get_info().data.viewport.width == 1280
open(sys.argv[2], 'wb').write(b''.join(client.browser.screenshot()))
"""


class Aio(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.daemon.import_image(atoll.image_archive('aio'), NAME)

    def box(self, **fields):
        box = Box(self.daemon, NAME, entrypoint=['/opt/gem/run.sh'],
                  resourceLimits={'cpu': '2', 'memory': '3Gi', 'pids': '1500'}, **fields)
        self.addCleanup(self.daemon.delete, box.id)
        for path in ('/', '/v1/shell/sessions', '/json/version', '/code-server/healthz'):
            until(lambda path=path: self.get(box, path).status == 200, 120 * SLOWNESS, f'{path} answers')
        return box

    def get(self, box, path, **headers):
        return self.daemon.send('GET', box.port(8080) + path, headers=headers)

    def screen(self, box):
        one = Socket(box, box.port(8080) + '/websockify')
        self.addCleanup(one.sock.close)
        self.assertEqual(one.status, 101)
        return rfb.over_websocket(one)

    def test_what_is_there(self):
        page = '<body style="margin: 0; background: #00c000">'
        box = self.box(env={'DISPLAY_WIDTH': '1000', 'DISPLAY_HEIGHT': '700', 'TZ': 'Asia/Singapore',
                            'HOMEPAGE': f'data:text/html,{urllib.parse.quote(page)}'})
        self.assertIn(b'code-server/', self.get(box, '/').read())
        for path in ('/vnc/index.html?autoconnect=true', '/vnc/core/rfb.js', '/code-server/?folder=/home/gem'):
            self.assertEqual(self.get(box, path).status, 200, path)
        # The browser, on the screen and for programs, by way of the page and by its own port.
        screen = self.screen(box).enter()
        self.assertEqual((screen.width, screen.height), (1000, 700))
        until(lambda: screen.share(0, 0xc0, 0) > 0.3, 60 * SLOWNESS, 'the window is green')
        for port in (8080, 9222):
            told = json.loads(self.daemon.send('GET', box.port(port) + '/json/version').read())
            self.assertEqual(Socket(box, urllib.parse.urlsplit(told['webSocketDebuggerUrl']).path).status, 101)
        # The editor's own port; the VNC server's, as `atoll forward` would bring it.
        self.assertEqual(self.daemon.send('GET', box.port(8200) + '/healthz').status, 200)
        self.assertIn(':170C ', box.out('cat /proc/net/tcp'))
        # All of it is the user's, whose time zone is the one that was asked for.
        self.assertEqual(box.out('stat -c %U /proc/[2-9] /proc/[0-9]?* 2>/dev/null | sort -u'), 'gem')
        self.assertEqual(box.out('date +%Z'), '+08')
        # What the browser fetches is where commands find it.
        context = json.loads(box.call('POST', '/code/context', {'language': 'python'}).body)['id']
        events = box.events('/code', {'context': {'id': context, 'language': 'python'},
                                      'code': 'import os, numpy; print(numpy.arange(4).sum(), os.getcwd())'})
        self.assertIn('6 /home/gem', ''.join(event.get('text', '') for event in events))

    def test_the_client_of_its_api(self):
        box = self.box()
        picture = self.daemon.top / 'screen.png'
        done = subprocess.run([atoll.BUILD / 'conformance/browser/bin/python', '-c', EXAMPLE,
                               self.daemon.url + box.port(8080), picture],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              timeout=120 * SLOWNESS)
        self.assertEqual(done.returncode, 0, done.stdout)
        ran, read = done.stdout.splitlines()
        self.assertEqual(ran, "/home/gem ['42', '/home/gem', 'gem']")
        self.assertEqual(read, repr('two\nthree\n'))
        self.assertEqual(picture.read_bytes()[:8], b'\x89PNG\r\n\x1a\n')
        # DevTools, where the port has a name of its own.
        name = f'{box.id}-8080.localhost:{urllib.parse.urlsplit(self.daemon.url).port}'
        told = json.loads(self.daemon.send('GET', '/v1/browser/info', headers={'Host': name}).read())['data']
        self.assertTrue(told['cdp_url'].startswith(f'ws://{name}/devtools/browser/'), told)
        # What is refused says what there is; what fails, why.
        post = lambda path, body: json.loads(self.daemon.send('POST', box.port(8080) + path, body).read())
        self.assertIn('/v1/file/read', post('/v1/browser/actions', {})['message'])
        self.assertIn('No such file', post('/v1/file/read', {'file': '/none'})['message'])
        slow = post('/v1/shell/exec', {'command': 'echo before; sleep 1000', 'timeout': 1})['data']
        self.assertEqual((slow['status'], slow['output'], slow['exit_code']), ('hard_timeout', 'before\n', -9))
        self.assertNotIn('sleep', box.processes())

    def test_a_page_in_its_browser_runs_nothing(self):
        """Nor types: what it reaches on loopback asks where a request comes from."""
        box = self.box()
        body = {'command': 'touch /tmp/pwned'}
        for port in (8080, 8091):
            self.assertEqual(self.daemon.send('POST', box.port(port) + '/v1/shell/exec', body, FOREIGN).status, 403)
        for port, path in ((8080, '/websockify'), (8080, '/devtools/browser/x'), (8200, '/stable-0')):
            self.assertEqual(Socket(box, box.port(port) + path, FOREIGN).status, 403, (port, path))
        fetches = "fetch('http://127.0.0.1:%d/v1/shell/exec', {method: 'POST', mode: 'no-cors', body: '%s'})"
        page = '; '.join(fetches % (port, json.dumps(body)) for port in (8080, 8091))
        box.out('HOME=/tmp timeout 60 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage '
                "--user-data-dir=/tmp/other --virtual-time-budget=5000 --dump-dom 'data:text/html,<script>"
                f"{urllib.parse.quote(page)}</script>'")
        self.assertEqual(box.out('ls /tmp/pwned 2>&1; true'),
                         "ls: cannot access '/tmp/pwned': No such file or directory")
        # Port 6080, where VNC would ask no page where it comes from.
        self.assertNotIn(':17C0 ', box.out('cat /proc/net/tcp'))

    def test_passwords(self):
        box = self.box(env={'PASSWORD': 'knock', 'VNC_PASSWORD': 'not for all'})
        self.assertEqual(self.screen(box).security, [2])  # a password
        self.assertEqual(self.get(box, '/code-server/').status, 302)
        self.assertNotIn('vscode-workbench', self.get(box, '/code-server/?folder=/').read().decode())
        self.assertNotIn('not for all', box.out('cat /proc/[0-9]*/cmdline | tr "\\0" " "'))
        # Nor does what the browser or the desktop starts have it; commands have what the sandbox was given.
        have = box.out('for one in /proc/[0-9]*; do grep -qa "not for all" $one/environ && cat $one/comm; done 2>/dev/null'
                       ' | sort -u')
        self.assertLessEqual(set(have.split()), {'bash', 'cat', 'grep', 'sort'})


if __name__ == '__main__':
    unittest.main()
