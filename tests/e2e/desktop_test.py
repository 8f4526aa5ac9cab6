"""The image desktop: XFCE, seen and used over noVNC through the daemon."""
import os
import pathlib
import statistics
import subprocess
import tempfile
import time
import unittest

import atoll
from atoll import SLOWNESS, until
from box import Box
from websocket_client import Socket
import rfb

HERE = pathlib.Path(__file__).resolve().parent
KIT = atoll.BUILD / 'conformance/playwright'  # tests/conformance/prepare playwright
NAME = 'opensandbox/desktop:latest'
# To a panel on the screen; several times what an idle machine needs, for one that is busy.
USABLE = 8 * SLOWNESS
# Asks the X server where the pointer is.
POINTER = '''
import ctypes as c
x = c.CDLL("libX11.so.6")
x.XOpenDisplay.restype = x.XDefaultRootWindow.restype = c.c_void_p
display = c.c_void_p(x.XOpenDisplay(None))
at = [c.c_int() for _ in range(5)]
x.XQueryPointer(display, c.c_void_p(x.XDefaultRootWindow(display)), *map(c.byref, [c.c_long(), c.c_long(), *at]))
print(at[0].value, at[1].value)
'''

# Of a screen of 1000 by 600: the menu and the clock, the icons of the desktop, and the lower panel.
PARTS = ((0, 0, 100, 26), (880, 0, 120, 26), (20, 40, 80, 80), (400, 555, 200, 40))


def drawn(screen):
    for part in PARTS:
        until(lambda part=part: len(screen.colours(*part)) > 12, 60 * SLOWNESS, f'{part} is drawn')


class Desktop(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.daemon.import_image(atoll.image_archive('desktop'), NAME)

    def box(self, **fields):
        box = Box(self.daemon, NAME, entrypoint=['/entrypoint'],
                  resourceLimits={'cpu': '2', 'memory': '2Gi', 'pids': '1000'}, **fields)
        self.addCleanup(self.daemon.delete, box.id)
        until(lambda: self.daemon.send('GET', box.port(6080) + '/vnc.html').status == 200,
              60 * SLOWNESS, 'noVNC answers')
        return box

    def screen(self, box):
        one = Socket(box, box.port(6080) + '/websockify')
        self.addCleanup(one.sock.close)
        self.assertEqual(one.status, 101)
        return rfb.over_websocket(one)

    def test_it_is_there_at_once(self):
        took = []
        for _ in range(3):
            begin = time.monotonic()
            screen = self.screen(self.box(env={'RESOLUTION': '1000x600'})).enter()
            self.assertEqual((screen.width, screen.height), (1000, 600))
            drawn(screen)
            took.append(time.monotonic() - begin)
        print('# a desktop after', ' '.join(f'{one * 1000:.0f}' for one in took), 'ms', flush=True)
        self.assertLess(statistics.median(took), USABLE)

    def test_what_is_typed_into_novnc_arrives_in_a_terminal(self):
        box = self.box(env={'VNC_PASSWORD': 'knock'})
        self.assertEqual(self.screen(box).security, [2])  # a password
        until(lambda: 'xfce4-panel' in box.processes(), 60 * SLOWNESS, 'the panel runs')
        box.background('exec xfce4-terminal --disable-server --maximize')
        until(lambda: 'xfce4-terminal' in box.processes() and 'bash' in box.processes(),
              60 * SLOWNESS, 'a terminal runs')
        opened = subprocess.run([atoll.BUILD / 'atoll', 'open', box.id, '6080'], capture_output=True, text=True,
                                env=self.daemon.client_env(), timeout=60 * SLOWNESS, check=True)
        pictures = os.environ.get('ATOLL_PICTURES') or tempfile.mkdtemp(dir=self.daemon.top)
        done = subprocess.run(['node', HERE / 'desktop.mjs', KIT, opened.stdout.strip(), 'knock',
                               'id -un | tee ~/typed', f'{pictures}/desktop.png'],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              timeout=120 * SLOWNESS)
        self.assertEqual(done.returncode, 0, done.stdout)
        until(lambda: box.out('cat ~/typed; true') == 'desktop', 60 * SLOWNESS, 'what was typed has run')
        until(lambda: box.out(f"python3 -c '{POINTER}'") == '900 600', 60 * SLOWNESS,
              'the pointer has moved')

    def test_the_icon_of_a_browser_has_one(self):
        """What the panel's icon runs shows a page of the sandbox's own."""
        box = self.box()
        until(lambda: 'xfce4-panel' in box.processes(), 60 * SLOWNESS, 'the panel runs')
        command = box.out("sed -n 's/^Exec=//p' /usr/share/applications/xfce4-web-browser.desktop")
        box.background('exec python3 -u -m http.server --bind 127.0.0.1 --directory /usr/share/novnc 8000 2>/tmp/asked')
        until(lambda: ':1F40 ' in box.out('cat /proc/net/tcp'), 30 * SLOWNESS, 'a server listens on port 8000')
        box.background('exec ' + command.replace('%u', 'http://127.0.0.1:8000/?by=icon'))
        until(lambda: 'GET /?by=icon' in box.out('cat /tmp/asked'), 60 * SLOWNESS, 'the browser has asked for the page')

    def test_programs_that_clients_start_themselves(self):
        """As OpenSandbox's own example does: another entrypoint, then these in the background."""
        box = Box(self.daemon, NAME, entrypoint=['sleep', '99999'],
                  resourceLimits={'cpu': '2', 'memory': '2Gi', 'pids': '1000'})
        self.addCleanup(self.daemon.delete, box.id)
        box.background('exec Xvfb :0 -screen 0 1000x600x24')
        until(lambda: box.out('test -S /tmp/.X11-unix/X0 && echo there; true') == 'there', 30 * SLOWNESS, 'Xvfb')
        box.background('exec dbus-launch --exit-with-session startxfce4')
        box.background('exec x11vnc -display :0 -forever -shared -rfbport 5900')
        box.background('exec /usr/share/novnc/utils/novnc_proxy --vnc localhost:5900 --listen 6080')
        until(lambda: self.daemon.send('GET', box.port(6080) + '/vnc.html').status == 200,
              60 * SLOWNESS, 'noVNC answers')
        until(lambda: ':170C ' in box.out('cat /proc/net/tcp'), 30 * SLOWNESS, 'x11vnc listens on port 5900')
        screen = self.screen(box).enter()
        self.assertEqual((screen.width, screen.height), (1000, 600))
        drawn(screen)


if __name__ == '__main__':
    unittest.main()
