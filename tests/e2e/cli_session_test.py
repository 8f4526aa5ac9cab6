"""Runs the session that docs/using.md shows, at a terminal, and compares what both show.

    python3 tests/e2e/cli_session_test.py write     # records it anew, with the lines typed as they are
"""
import os
import pathlib
import pty
import re
import subprocess
import sys
import unittest

import atoll
from atoll import BUILD, SLOWNESS

PAGE = atoll.TOP / 'docs/using.md'
FENCE = '```console\n'

# What is another one each time.
CHANGING = ((r'[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}', 'ID'),
            (r'20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ', 'TIME'),
            (r'127\.0\.0\.1:\d+', '127.0.0.1:8080'),
            (r'\d+\.\d [KM]iB', 'SIZE'),
            (r' +\n', '\n'))


def parts():
    """Returns the page before the session, the session, and the page after it."""
    before, session = PAGE.read_text(encoding='utf-8').split(FENCE)
    session, end, behind = session.partition('```\n')
    return before + FENCE, session, end + behind


def typed(session):
    return [line[2:] for line in session.splitlines() if line.startswith('$ ')]


def run(line, environment):
    """What a terminal shows of it."""
    master, slave = pty.openpty()
    shell = subprocess.Popen(['bash', '-c', line], stdin=slave, stdout=slave, stderr=slave,
                             env=environment)
    os.close(slave)
    seen = b''
    try:
        while chunk := os.read(master, 4096):
            seen += chunk
    except OSError:  # nobody holds the other end any more
        pass
    os.close(master)
    shell.wait(60 * SLOWNESS)
    return re.sub(r'\x1b\[[0-9;]*m', '', seen.decode().replace('\r\n', '\n'))


def play(session):
    """The session as it is now, in a daemon with one image."""
    with atoll.Daemon() as daemon:
        daemon.import_busybox()
        environment = {'PATH': f'{BUILD}:{os.environ["PATH"]}', 'LC_ALL': 'C.UTF-8', 'TERM': 'xterm',
                       'ATOLL_RUN_DIR': str(daemon.run_dir)}
        return ''.join(f'$ {line}\n{run(line, environment)}' for line in typed(session))


def plain(session):
    for pattern, word in CHANGING:
        session = re.sub(pattern, word, session)
    return session


class Session(unittest.TestCase):
    def test_the_page_shows_what_is_seen(self):
        self.maxDiff = None
        session = parts()[1]
        self.assertGreater(len(typed(session)), 5)
        self.assertEqual(plain(play(session)), plain(session))


if __name__ == '__main__':
    if sys.argv[1:] == ['write']:
        head, recorded, tail = parts()
        recorded = re.sub(*CHANGING[2], play(recorded))
        pathlib.Path(PAGE).write_text(head + recorded + tail, encoding='utf-8')
    else:
        unittest.main()
