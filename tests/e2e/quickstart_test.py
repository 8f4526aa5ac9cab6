"""What tools/quickstart says where it cannot start a daemon, at once and before it installs anything.

That it works is fresh_test's, on a bare machine.
"""
import contextlib
import ctypes
import fcntl
import json
import os
import pathlib
import socket
import subprocess
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUN_DIR = pathlib.Path('/run/atoll')
DATA_DIR = pathlib.Path('/var/lib/atoll')
NAMESPACES = 0x00020000 | 0x40000000  # CLONE_NEWNS, CLONE_NEWNET


class Beside(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        """The host's own directories stay as they are, and nobody else is on loopback."""
        if ctypes.CDLL(None, use_errno=True).unshare(NAMESPACES) != 0:
            raise OSError(ctypes.get_errno(), 'unshare')
        for command in ('mount --make-rprivate /', 'mount -t tmpfs tmpfs /run', 'mount -t tmpfs tmpfs /var/lib',
                        'ip link set lo up'):
            subprocess.run(command.split(), check=True)

    def refused(self):
        began = time.monotonic()
        done = subprocess.run([ROOT / 'tools/quickstart'], text=True, capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1, done)
        self.assertNotIn('[1/', done.stdout, 'no step has begun')
        self.assertLess(time.monotonic() - began, 10)
        return done.stderr

    @contextlib.contextmanager
    def held(self, directory):
        """As by a daemon that is not of this build."""
        directory.mkdir(parents=True, exist_ok=True)
        with open(directory / 'lock', 'w', encoding='ascii') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def test_beside_another_atoll(self):
        for directory in (RUN_DIR, DATA_DIR / 'state'):
            with self.subTest(directory=directory), self.held(directory):
                RUN_DIR.mkdir(exist_ok=True)
                (RUN_DIR / 'daemon.json').write_text(json.dumps(
                    {'pid': os.getpid(), 'url': 'http://127.0.0.1:9999'}, separators=(',', ':')), encoding='ascii')
                said = self.refused()
                self.assertIn(f'an Atoll runs already: process {os.getpid()} ', said)
                self.assertIn('at http://127.0.0.1:9999, with /run/atoll and /var/lib/atoll', said)
                self.assertIn(f'kill {os.getpid()}', said)

    def test_beside_another_server(self):
        with socket.create_server(('127.0.0.1', 8080)):
            said = self.refused()
        self.assertIn('something else listens at 127.0.0.1:8080', said)
        self.assertIn('--server-port PORT', said)


if __name__ == '__main__':
    unittest.main()
