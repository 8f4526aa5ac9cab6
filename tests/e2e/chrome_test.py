"""The image chrome: a browser that somebody else steers through the daemon, whose window VNC shows."""
import contextlib
import json
import os
import pathlib
import socket
import statistics
import subprocess
import tempfile
import time
import unittest
import urllib.parse

import atoll
from atoll import SLOWNESS, until
from box import Box
import rfb

HERE = pathlib.Path(__file__).resolve().parent
KIT = atoll.BUILD / 'conformance/playwright'  # tests/conformance/prepare playwright browser
NAME = 'opensandbox/chrome:latest'
# To the first answer on 9222; several times what an idle machine needs, for one that is busy.
ANSWERS = 5 * SLOWNESS
GREEN = '<body style="margin: 0; background: #00c000"><h1>thank you</h1>'
PAGE = ('<title>seen inside</title><body style="margin: 0; background: #c00000">'
        '<button onclick="document.body.outerHTML = decodeURIComponent(`%s`)">press</button>')


class Browser(unittest.TestCase):
    SETTINGS = {}

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon(**cls.SETTINGS).__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.daemon.import_image(atoll.image_archive('chrome'), NAME)

    def box(self, kept=True, **fields):
        box = Box(self.daemon, NAME, entrypoint=['/entrypoint'],
                  resourceLimits={'cpu': '2', 'memory': '2Gi', 'pids': '1000'}, **fields)
        if kept:
            self.addCleanup(self.daemon.delete, box.id)
        until(lambda: self.daemon.send('GET', box.port(9222) + '/json/version').status == 200,
              60 * SLOWNESS, 'DevTools answers')
        return box

    def pictures(self):
        """A folder for them; ATOLL_PICTURES keeps them, to be looked at."""
        return os.environ.get('ATOLL_PICTURES') or tempfile.mkdtemp(dir=self.daemon.top)

    def serve(self, box):
        """The pages, at http://127.0.0.1:8000 inside."""
        box.upload(*[({'path': f'/tmp/site/{name}', 'mode': mode}, data) for name, mode, data in (
            ('index.html', 644, (PAGE % urllib.parse.quote(GREEN)).encode()),
            ('clicked.html', 644, GREEN.encode()),
            ('busybox', 755, pathlib.Path('/bin/busybox').read_bytes()))])
        box.background('exec /tmp/site/busybox httpd -f -p 8000 -h /tmp/site')
        until(lambda: self.daemon.send('GET', box.port(8000) + '/index.html').status == 200,
              30 * SLOWNESS, 'the site is there')

    def steer(self, base, *before):
        """Playwright, connected to `base`, presses the button and sees what comes of it."""
        done = subprocess.run([*before, 'node', HERE / 'chrome.mjs', KIT, base, 'http://127.0.0.1:8000',
                               self.pictures()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, timeout=120 * SLOWNESS)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(json.loads(done.stdout), {'title': 'seen inside', 'before': False, 'after': True},
                         base)


class Gateway(Browser):
    """Each port has a name of its own."""
    DOMAIN = 'boxes.example.org'
    SETTINGS = {'ingress_mode': 'gateway', 'ingress_gateway.address': f'*.{DOMAIN}',
                'ingress_gateway.route.mode': 'wildcard'}

    def test_playwright_steers_it_by_its_name(self):
        box = self.box()
        self.serve(box)
        port = urllib.parse.urlsplit(self.daemon.url).port
        told = self.daemon.request('GET', f'/v1/sandboxes/{box.id}/endpoints/9222')['endpoint']
        self.assertEqual(told, f'{box.id}-9222.{self.DOMAIN}')
        # A name server of the domain's would say so of all names.
        names = [told, f'{box.id}-9222.localhost']
        hosts = pathlib.Path(self.daemon.top, 'hosts')
        hosts.write_text(f'127.0.0.1 localhost {" ".join(names)}\n', encoding='ascii')
        for name in names:
            self.steer(f'http://{name}:{port}', 'unshare', '-m', 'sh', '-c',
                       'mount --bind "$0" /etc/hosts && exec "$@"', hosts)
            answer = self.daemon.send('GET', '/json/version', headers={'Host': f'{name}:{port}'})
            self.assertTrue(json.loads(answer.read())['webSocketDebuggerUrl'].startswith(
                f'ws://{name}:{port}/devtools/browser/'))


class Chrome(Browser):
    @contextlib.contextmanager
    def screen(self, box):
        """Its VNC server, as `atoll forward` brings it."""
        client = subprocess.Popen([atoll.BUILD / 'atoll', 'forward', box.id, '5901', '0', '--json'],
                                  env=self.daemon.client_env(), stdout=subprocess.PIPE)
        try:
            port = json.loads(client.stdout.readline())['port']
            with socket.create_connection(('127.0.0.1', port), 60 * SLOWNESS) as one:
                yield rfb.over_socket(one)
        finally:
            client.terminate()
            client.communicate()

    def test_playwright_steers_it_through_the_daemon(self):
        box = self.box(env={'RESOLUTION': '1000x600'})
        self.serve(box)
        for base in (f'{self.daemon.url}{box.port(9222)}', f'{self.daemon.url}/v1{box.port(9222)}'):
            self.steer(base)
        # What was clicked is what the window shows.
        with self.screen(box) as screen:
            screen.enter()
            self.assertEqual((screen.width, screen.height), (1000, 600))
            until(lambda: screen.share(0, 0xc0, 0) > 0.5, 30 * SLOWNESS, 'the window is green')
            pathlib.Path(self.pictures(), 'chrome.png').write_bytes(screen.png())
        address = urllib.parse.urlsplit(self.daemon.url)
        tabs = json.loads(self.daemon.send('GET', box.port(9222) + '/json/list').read())
        self.assertTrue(tabs and all(tab['webSocketDebuggerUrl'].startswith(
            f'ws://{address.netloc}{box.port(9222)}/devtools/page/') for tab in tabs), tabs)

    def test_a_nested_sandbox_is_refused_in_so_many_words(self):
        """docs/decisions/004-no-namespaces-in-a-sandbox.md says why. Chromium's own is one, and it runs without."""
        box = self.box()
        for attempt in ('unshare -r true', 'unshare -Um true', 'unshare -n true', 'unshare -p true'):
            self.assertEqual(box.out(f'{attempt} 2>&1; echo "=$?"', uid=1000),
                             'unshare: unshare failed: Operation not permitted\n=1', attempt)
        page = "'data:text/html,<p>dr</p><script>document.body.append(6 * 7)</script>'"
        browser = ('HOME=/tmp timeout 50 chromium --headless --disable-gpu --disable-dev-shm-usage '
                   f'--dump-dom {page}')
        refused = box.out(f'{browser} --user-data-dir=/tmp/a 2>&1; echo "=$?"', uid=1000)
        self.assertRegex(refused, '(?i)no usable sandbox')
        self.assertNotRegex(refused, '</script>42|=0$')
        seen = box.out(f'{browser} --no-sandbox --user-data-dir=/tmp/b 2>/dev/null; echo "=$?"', uid=1000)
        self.assertRegex(seen, '<p>dr</p>(.|\n)*</script>42(.|\n)*=0$')

    def test_the_example(self):
        picture = pathlib.Path(self.pictures(), 'shop.png')
        done = subprocess.run([atoll.BUILD / 'conformance/browser/bin/python',
                               atoll.TOP / 'tools/examples/browser/shop.py', picture],
                              env=self.daemon.example_env(NAME),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              timeout=120 * SLOWNESS)
        self.assertEqual((done.returncode, done.stdout), (0, 'shop\nto pay: 42\n'))
        self.assertEqual(picture.read_bytes()[:8], b'\x89PNG\r\n\x1a\n')
        self.assertEqual(self.daemon.request('GET', '/v1/sandboxes')['items'], [])

    def test_a_password_and_a_user(self):
        box = self.box(env={'VNC_PASSWORD': 'not for all'})
        with self.screen(box) as screen:
            self.assertEqual(screen.security, [2])  # a password
        self.assertNotIn('not for all', box.out('cat /proc/[0-9]*/cmdline | tr "\\0" " "'))
        self.assertEqual(box.out('stat -c %a ~/.vncpasswd'), '600')
        # Nothing runs as root but process 1.
        self.assertEqual(box.out('stat -c %U /proc/[2-9] /proc/[0-9]?* 2>/dev/null | sort -u'), 'chrome')

    def test_it_is_there_at_once(self):
        took = []
        for _ in range(5):
            begin = time.monotonic()
            box = self.box(kept=False)
            took.append(time.monotonic() - begin)
            self.daemon.delete(box.id)
        print('# answering on 9222 after', ' '.join(f'{one * 1000:.0f}' for one in took), 'ms', flush=True)
        self.assertLess(statistics.median(took), ANSWERS)


if __name__ == '__main__':
    unittest.main()
