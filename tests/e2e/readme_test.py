"""Types the command lines of PAGES as they are printed, in the order of the pages, and runs their Python programs.

The machine has what the pages have installed: an image is there after the line that builds it. Building
an image needs a network, which this test does not have: it imports the archive that the recipe makes
instead. tests/fresh_test.py runs tools/quickstart on a bare machine.
"""
import fcntl
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import tempfile
import termios
import time
import unittest
import urllib.parse

import atoll
from atoll import BUILD, SLOWNESS

KIT = BUILD / 'conformance/python/bin/python'

# In the order in which a new user reads them.
PAGES = ('README.md', 'docs/using.md', 'docs/operating.md')

# Lines with these beginnings, and the test that runs them.
ELSEWHERE = {
    'tools/quickstart': 'fresh_test',
    'meson setup build --prefix /usr': 'guest/systemd_test',
    'systemd-sysusers': 'guest/systemd_test',
    'atolld init-config': 'guest/systemd_test',
    'systemctl enable': 'guest/systemd_test',
    'python3 -m venv kit': 'conformance/prepare, which has a network',
}
# The images of this section are gigabytes: vscode_test, desktop_test, browser_test and agents_test run it.
WATCHED = 'Watch one work'
# Lines that run until somebody types something: what this test types.
TYPED = {
    'atoll run -it': b'echo $((6 * 7))\nexit\n',
    'atoll code kernels  ': b'a = 6\nprint(a * 7)\n\x04',
}
LEFT = ('atoll forward',)  # ends by a signal, after its first output


def blocks():
    """Yields (heading, language, lines) of each fenced block of PAGES."""
    for page in PAGES:
        heading, fence = '', None
        for line in (atoll.TOP / page).read_text(encoding='utf-8').splitlines():
            if line.startswith('```'):
                if fence is not None:
                    yield heading, *fence
                fence = (line[3:], []) if fence is None else None
            elif fence is not None:
                fence[1].append(line)
            elif line.startswith('## '):
                heading = line[3:]


class Shell:
    """One bash for all lines, like the shell of somebody who reads the pages."""

    def __init__(self, environment, folder):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(['bash', '--norc', '--noediting'], stdin=slave, stdout=slave, stderr=slave,
                                        env={**environment, 'PS1': '', 'PS2': ''}, cwd=folder, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.seen = b''

    def close(self):
        self.process.send_signal(signal.SIGHUP)
        self.process.wait()
        os.close(self.master)

    def read_until(self, wanted, seconds):
        """What is printed up to where the regular expression matches."""
        end = time.monotonic() + seconds * SLOWNESS
        while not (match := re.search(wanted, self.seen)):
            if not select.select([self.master], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(f'{wanted!r} is not seen in {self.seen!r}')
            self.seen += os.read(self.master, 65536)
        text, self.seen = self.seen[:match.end()], self.seen[match.end():]
        return text.decode(errors='replace')

    def run(self, line, typed=b'', leave=False):
        """(exit code, what the terminal shows)."""
        line = re.sub(r' +# .*$', '', line)  # bash would take what follows for the comment's, too
        os.write(self.master, line.encode() + b'; echo "ended:"$?":"\n')
        self.read_until(rb'\$\?":"\r\n', 20)  # the line itself, as it is echoed
        if typed:
            self.read_until(rb'[#>$] $|>>> ', 120)
            os.write(self.master, typed)
        if leave:
            self.read_until(rb'Ctrl-C ends it', 120)
            os.write(self.master, b'\x03')
        text = self.read_until(rb'ended:\d+:\r\n', 120)
        return int(re.search(r'ended:(\d+):\r\n$', text)[1]), text


class Readme(unittest.TestCase):
    def setUp(self):
        self.daemon = atoll.Daemon()
        self.daemon.__enter__()
        self.addCleanup(self.daemon.__exit__)
        folder = tempfile.TemporaryDirectory(dir=self.daemon.top)
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        # What a clone has.
        for name in ('build', 'tools'):
            (self.folder / name).symlink_to(BUILD if name == 'build' else atoll.TOP / name)
        (self.folder / 'kit').symlink_to(KIT.parent.parent)
        self.image('python')  # by quickstart
        self.image('plots')
        environment = {'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': str(self.folder), 'TERM': 'dumb',
                       'LC_ALL': 'C.UTF-8', 'ATOLL_RUN_DIR': str(self.daemon.run_dir)}
        self.shell = Shell(environment, self.folder)
        self.addCleanup(self.shell.close)

    def image(self, recipe):
        name = {'python': 'python:3.11'}.get(recipe, f'{recipe}:latest')
        self.daemon.import_image(atoll.image_archive(recipe), name)

    def here(self, text):
        """Replaces the address and the directory of the daemon of the pages by those of the daemon under test."""
        return (text.replace('127.0.0.1:8080', urllib.parse.urlsplit(self.daemon.url).netloc)
                .replace('/var/lib/atoll/', f'{self.daemon.data_dir}/'))

    def line(self, line):
        if any(line.startswith(begin) for begin in ELSEWHERE):
            return
        built = re.match(r'(?:apt-get install -y \S+ && )?atoll image build (\S+)( && (.*)|\s*(#.*)?)$', line)
        if built:
            self.image(built[1])
            line = built[3]
            if not line:
                return
        typed = next((text for begin, text in TYPED.items() if line.startswith(begin)), b'')
        code, shown = self.shell.run(self.here(line), typed, leave=line.startswith(LEFT))
        print(f'# {line}\n#   {shown[:300]!r}', flush=True)
        self.assertIn(code, (0, 130) if line.startswith(LEFT) else (0,), f'{line}\n{shown}')
        if typed:
            self.assertIn('42', shown)
        if line.startswith('atoll shutdown'):
            self.daemon.process.wait(60 * SLOWNESS)

    def test_every_line_in_its_order(self):
        ran = 0
        for heading, language, lines in blocks():
            if heading == WATCHED:
                continue
            if language == 'python':
                program = self.folder / 'program.py'
                program.write_text(self.here('\n'.join(lines)), encoding='utf-8')
                done = subprocess.run([KIT, program], capture_output=True, text=True, check=False,
                                      timeout=120 * SLOWNESS)
                self.assertEqual((done.returncode, done.stderr), (0, ''), done)
                self.assertRegex(done.stdout, '^(42|no way out)\n$')
                ran += 1
            for line in lines if language == '' else ():
                with self.subTest(line):
                    self.line(line)
                    ran += 1
        self.assertGreater(ran, 20)


if __name__ == '__main__':
    unittest.main()
