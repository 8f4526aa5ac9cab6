"""A new user's machine: a Debian 12 with nothing on it, then one with some packages of the user's own."""
import os
import pathlib
import subprocess
import unittest

FRESH = pathlib.Path(__file__).with_name('fresh')
SETUP = 'meson setup {} --unity=on'
# In the long run all of it; else as far as a build asks for what is not there.
FIRST, SECOND = (('tools/quickstart --disk-limits && tools/quickstart', f'{SETUP} && ninja -C {{}} programs')
                 if 'ATOLL_FRESH_BUILDS' in os.environ else
                 (f'tools/deps build && {SETUP.format("build")}', SETUP))
# Of the tests' packages, those that somebody has who tests C++ of their own.
OTHERS = 'DEBIAN_FRONTEND=noninteractive apt-get -q install -y libgtest-dev libgmock-dev'


class Fresh(unittest.TestCase):
    def test_a_build_needs_its_own_packages_only(self):
        script = ' && '.join([FIRST, OTHERS, SECOND.replace('{}', 'beside'), 'echo both'])
        done = subprocess.run([FRESH, 'sh', '-c', script], text=True, errors='replace', check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1:]), (0, ['both']),
                         done.stdout[-4000:])


if __name__ == '__main__':
    unittest.main()
