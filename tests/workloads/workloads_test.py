"""The programs of every day, each in a sandbox of its own: programs/*.toml, a case for each row."""
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / 'e2e')]

# pylint: disable=wrong-import-position
import atoll
import table
from box import Box
from programs import IMAGES, load

# A server says nothing when it is up: ask it. The command's time limit ends what never comes.
PRELUDE = """set -euo pipefail
await() { until "$@" >/dev/null 2>&1; do sleep 0.05; done; }
"""


class Programs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.images = set()

    def image(self, name):
        if name not in self.images:
            subprocess.run([atoll.BUILD / 'atoll', 'image', 'import',
                            atoll.image_archive(IMAGES / f'{name}.toml'), '--name', f'{name}:latest'],
                           check=True, stdout=subprocess.DEVNULL, env=self.daemon.client_env(),
                           timeout=600 * atoll.SLOWNESS)
            self.images.add(name)
        return f'{name}:latest'

    def show(self, program):
        box = Box(self.daemon, self.image(program.image), resourceLimits=program.limits)
        self.addCleanup(self.daemon.delete, box.id)
        for name, text in (('serve', program.serve), ('script', PRELUDE + program.script)):
            box.upload(({'path': f'/tmp/{name}.sh', 'mode': 755}, text.encode()))
        if program.serve:
            box.background('exec bash /tmp/serve.sh >/tmp/log 2>&1')
        stdout, stderr, last = box.run('bash /tmp/script.sh',
                                       timeout=program.seconds * 1000 * atoll.SLOWNESS)
        log = box.run('exec tail -n 30 /tmp/log')[0]
        told = '\n'.join([str(last), *stderr, *log])
        self.assertEqual(''.join(stdout).removesuffix('\n'), program.prints, told)
        self.assertEqual(last['type'], 'execution_complete', told)
        if program.fetches:
            answer = self.daemon.send('GET', box.port(program.fetches['port']) + program.fetches['path'])
            self.assertEqual((answer.status, answer.read().decode()), (200, program.fetches['body']))


class Table(unittest.TestCase):
    def test_the_table_says_what_was_seen(self):
        """Of rows that this run was not asked for, what was seen before."""
        self.assertEqual(table.WORKLOADS.read_text(encoding='utf-8'), table.render(),
                         'write it again: tests/workloads/table.py')


def case(program):
    def test(self):
        passed = False
        try:
            self.show(program)
            passed = True
        finally:
            program.record(passed)
    return test


for row in (row for rows in load().values() for row in rows):
    assert not hasattr(Programs, f'test_{row.key}'), row.name
    setattr(Programs, f'test_{row.key}', case(row))


if __name__ == '__main__':
    unittest.main()
