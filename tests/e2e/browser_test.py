"""A real browser (Debian's chromium) opens pages that a hostile sandbox serves through the daemon.

The page reports by requests to its own server; what it reached is looked for there, at its
neighbour and at the API. That the page itself works is the control of each case."""
import json
import shutil
import signal
import subprocess
import tempfile
import unittest
import urllib.parse

import atoll
from atoll import SLOWNESS, until
from box import Box, shell_image
import pages

FLAGS = ('--headless', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking',
         '--disable-component-update', '--disable-sync', '--disable-quic', '--disable-dev-shm-usage')
NOTHING = dict.fromkeys(('api', 'preflighted', 'posted', 'neighbour', 'socket', 'framed'), False)


class Pages(unittest.TestCase):
    """Without a key, where the API would believe whoever reaches it."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon(server_insecure_no_api_key=True).__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.image = shell_image(cls.daemon)
        cls.port = urllib.parse.urlsplit(cls.daemon.url).port

    def boxes(self, address):
        """A hostile sandbox and its neighbour, which has the same page; `address` of a sandbox."""
        both = [Box(self.daemon, self.image) for _ in range(2)]
        for box, other in (both, reversed(both)):
            page = (pages.PAGE.replace('NEIGHBOUR', address(other)).replace('IMAGE', self.image)
                    .replace('API', f'http://127.0.0.1:{self.port}'))
            pages.serve(box, 8000, page)
            until(lambda box=box: box.call('GET', '/proxy/8000/').status == 200, 30 * SLOWNESS, 'it listens')
            self.addCleanup(self.daemon.delete, box.id)
        return both

    def visit(self, url, box, profile):
        """What the page at `url`, of `box`, says has worked."""
        with open(profile + '.log', 'ab') as log:
            browser = subprocess.Popen(['chromium', *FLAGS, f'--user-data-dir={profile}', url],
                                       stdin=subprocess.PIPE, stdout=log, stderr=log, process_group=0)
        try:
            report = until(lambda: [line for line in box.out('cat /tmp/seen').splitlines()
                                    if line.startswith('GET') and '/report?' in line],
                           120 * SLOWNESS, f'the page reports; {profile}.log')[0]
        finally:
            browser.send_signal(signal.SIGTERM)  # so that it writes its cookies
            browser.wait()
        return json.loads(urllib.parse.unquote(report.split('?')[1].split()[0]))

    def profile(self):
        path = tempfile.mkdtemp(dir=self.daemon.top)
        self.addCleanup(shutil.rmtree, path, ignore_errors=True)
        return path

    def check(self, address, own):
        hostile, neighbour = self.boxes(address)
        profile, there = self.profile(), {box['id'] for box in self.listed()}
        worked = self.visit(address(hostile) + '/page', hostile, profile)
        self.assertTrue(worked.pop('lib'), 'the page works')
        self.assertEqual(worked.pop('own'), 'status 200', 'the page reaches its own server')
        self.assertEqual(worked.pop('form'), 'sent')
        self.assertEqual(worked, {**NOTHING, **own})
        self.assertEqual({box['id'] for box in self.listed()}, there)
        # What the hostile one set does not come along to the neighbour.
        neighbour.out(': >/tmp/seen')
        self.visit(address(neighbour) + '/page', neighbour, profile)
        self.assertNotIn('tossed', neighbour.out('cat /tmp/seen').partition('\n')[0])
        self.assertIn('GET /page', neighbour.out('cat /tmp/seen'))

    def listed(self):
        return self.daemon.request('GET', '/v1/sandboxes?pageSize=200')['items']

    def test_of_a_path(self):
        self.check(lambda box: f'http://127.0.0.1:{self.port}/sandboxes/{box.id}/proxy/8000',
                   {'cookie': False, 'storage': False, 'worker': False})

    def test_of_an_origin_of_their_own(self):
        self.check(lambda box: f'http://{box.id}-8000.localhost:{self.port}',
                   {'cookie': True, 'storage': True, 'worker': True})


if __name__ == '__main__':
    unittest.main()
