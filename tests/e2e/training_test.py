"""The training loop of tools/examples/rl with the released SDK: small, and with ATOLL_TRAINING as large as it says."""
import os
import re
import subprocess
import unittest

import atoll
from atoll import SLOWNESS

KIT = atoll.BUILD / 'conformance/python'
COUNT = os.environ.get('ATOLL_TRAINING', '8')


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        # It has Python, and is made before the tests.
        cls.daemon.import_image(atoll.image_archive('kernels'), 'kernels:latest')

    def train(self):
        """What it prints of two rounds; it leaves no sandbox."""
        done = subprocess.run([KIT / 'bin/python', atoll.TOP / 'tools/examples/rl/train.py', COUNT, '2', 'pole'],
                              env=self.daemon.example_env('kernels:latest'),
                              capture_output=True, text=True, timeout=240 * SLOWNESS, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.daemon.request('GET', '/v1/sandboxes')['items'], [])
        return done.stdout

    def test_it_learns_and_goes_on(self):
        first = self.train()
        self.assertRegex(first, rf'\A{COUNT} sandboxes in [\d.]+ s, \d+ a second\nround 1: ')
        then = self.train()
        # What was learned is on the volume.
        self.assertIn('\ngoes on after round 2\nround 3: ', then)
        means = [int(mean) for mean in re.findall(r'mean (\d+)', first + then)]
        self.assertEqual(len(means), 4)
        self.assertGreater(means[-1], 2 * means[0], 'it learns')
        self.assertGreater(int(then.split()[-1]), 1000, 'what it has learned holds for a new start')
        self.daemon.request('DELETE', '/v1/volumes/pole')


if __name__ == '__main__':
    unittest.main()
