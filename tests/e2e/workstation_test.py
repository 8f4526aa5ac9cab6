"""Programs that people start by hand, as Debian ships them: sshd, and a browser that somebody
else steers through the daemon. What they need of the kernel is told in runtime/spawner."""
import json
import pathlib
import subprocess
import unittest
import urllib.parse

import atoll
from atoll import SLOWNESS, until
from box import Box

HERE = pathlib.Path(__file__).resolve().parent
KIT = atoll.BUILD / 'conformance/playwright'  # tests/conformance/prepare playwright
# Its own sandbox makes namespaces, which nobody in here can.
CHROMIUM = ('chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run '
            '--user-data-dir=/tmp/profile --remote-debugging-port=9222 about:blank')


class Workstation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.daemon.import_image(atoll.image_archive('workstation'), 'workstation:latest')

    def box(self, **fields):
        box = Box(self.daemon, 'workstation:latest', entrypoint=['sleep', '99999'],
                  resourceLimits={'cpu': '2', 'memory': '1Gi', 'pids': '1000'}, **fields)
        self.addCleanup(self.daemon.delete, box.id)
        return box

    def test_sshd_logs_somebody_in(self):
        box = self.box()
        box.out('mkdir -p /run/sshd && useradd -m -s /bin/bash dev && '
                'ssh-keygen -q -t ed25519 -N "" -f /tmp/key && '
                'install -d -o dev -m 700 ~dev/.ssh && '
                'install -o dev -m 600 /tmp/key.pub ~dev/.ssh/authorized_keys && '
                'mkdir -p /srv/jail/pub && echo jailed >/srv/jail/pub/file')
        box.background('exec /usr/sbin/sshd -D -e -p 2222')
        ssh = ('ssh -p 2222 -i /tmp/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null '
               '-o LogLevel=ERROR dev@127.0.0.1 ')
        until(lambda: box.out(ssh + 'id -un; true').splitlines()[-1:] == ['dev'], 30 * SLOWNESS, 'a login')
        self.assertEqual(box.out(ssh + "'echo $((6 * 7)); exit 0'"), '42')
        self.assertIn('/dev/pts/', box.out(ssh.replace('ssh ', 'ssh -tt ', 1) + 'tty'))
        # One that is confined sees its directory and nothing else.
        box.background('exec /usr/sbin/sshd -D -e -p 2223 -o ChrootDirectory=/srv/jail '
                       '-o ForceCommand=internal-sftp')
        sftp = ('echo "ls /" | sftp -b - -P 2223 -i /tmp/key -o StrictHostKeyChecking=no '
                '-o UserKnownHostsFile=/dev/null -o LogLevel=ERROR dev@127.0.0.1 2>&1; true')
        until(lambda: '/pub' in box.out(sftp), 30 * SLOWNESS, 'a confined login')
        self.assertNotIn('etc', box.out(sftp))

    def test_playwright_steers_a_browser_through_the_daemon(self):
        box = self.box()
        box.upload(({'path': '/tmp/page.html', 'mode': 644}, b'<title>seen inside</title>'))
        box.background(f'exec {CHROMIUM} >/tmp/chromium.log 2>&1')
        url = f'{self.daemon.url}{box.port(9222)}'
        until(lambda: self.daemon.send('GET', box.port(9222) + '/json/version').status == 200,
              60 * SLOWNESS, 'DevTools answers')
        address = urllib.parse.urlsplit(self.daemon.url)
        for base in (url, f'{self.daemon.url}/v1{box.port(9222)}'):
            done = subprocess.run(['node', HERE / 'workstation.mjs', KIT, base, 'file:///tmp/page.html'],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                                  timeout=120 * SLOWNESS)
            self.assertEqual((done.returncode, done.stdout.strip()), (0, 'seen inside'), base)
        tabs = json.loads(self.daemon.send('GET', box.port(9222) + '/json/list').read())
        self.assertTrue(all(tab['webSocketDebuggerUrl'].startswith(
            f'ws://{address.netloc}{box.port(9222)}/devtools/page/') for tab in tabs), tabs)

    def test_a_nested_sandbox_is_refused_in_so_many_words(self):
        """runtime/spawner/README.md says why. Chromium's own is one, and it runs without."""
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


if __name__ == '__main__':
    unittest.main()
