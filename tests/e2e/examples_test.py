"""The programs of tools/examples with the released SDKs, as somebody would type them."""
import os
import pathlib
import struct
import subprocess
import tempfile
import unittest

import atoll
from atoll import SLOWNESS

EXAMPLES = atoll.TOP / 'tools/examples'
KIT = atoll.BUILD / 'conformance'


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        # It has Python, and is made before the tests.
        cls.daemon.import_image(atoll.image_archive('kernels'), 'kernels:latest')

    def example(self, kit, program, *words):
        """What it prints; it leaves no sandbox."""
        done = subprocess.run([KIT / kit / 'bin/python', EXAMPLES / program, *words],
                              env=self.daemon.example_env('kernels:latest'),
                              capture_output=True, text=True, timeout=120 * SLOWNESS, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.daemon.request('GET', '/v1/sandboxes')['items'], [])
        return done.stdout

    def test_frameworks(self):
        for name in ('langgraph', 'deep', 'adk', 'agno'):
            with self.subTest(name):
                self.assertEqual(self.example('frameworks', f'frameworks/{name}_agent.py').splitlines(),
                                 ['median() was wrong for an even count; it is the mean of the two in the '
                                  'middle now, and the tests pass.', 'OK'])

    def test_evaluation(self):
        said = self.example('python', 'evaluation/grade.py', EXAMPLES / 'evaluation/tests.json',
                            *sorted((EXAMPLES / 'evaluation/candidates').glob('*.py')))
        self.assertEqual([line.split() for line in said.splitlines()],
                         [['small', 'empty', 'signs', 'score'],
                          ['as_text', 'ok', 'ok', 'wrong', '2/3'],
                          ['breaks', 'ok', 'failed', 'ok', '2/3'],
                          ['hoards', 'memory', 'ok', 'memory', '1/3'],
                          ['sorts', 'ok', 'ok', 'ok', '3/3'],
                          ['waits', 'time', 'ok', 'time', '1/3']])

    def test_pipeline(self):
        said = self.example('python', 'pipeline/pipeline.py')
        self.assertEqual(said.splitlines(), ['fetch: done', 'clean: done', 'report: done', 'oslo 5.0', 'rome 21.0'])
        for kind in ('volumes', 'snapshots'):
            self.assertEqual(self.daemon.request('GET', f'/v1/{kind}')['items'], [], 'nothing is left')

    def test_plots(self):
        with tempfile.TemporaryDirectory(dir=self.daemon.top) as folder:
            folder = os.environ.get('ATOLL_PICTURES', folder)  # kept, to be looked at
            said = self.example('code-interpreter', 'plots/plot.py', folder)
            self.assertEqual(said.splitlines(), ['118.3', f'{folder}/visits.png'])
            picture = pathlib.Path(folder, 'visits.png').read_bytes()
        self.assertEqual(picture[:8], b'\x89PNG\r\n\x1a\n')
        self.assertGreater(min(struct.unpack('>II', picture[16:24])), 200)


if __name__ == '__main__':
    unittest.main()
