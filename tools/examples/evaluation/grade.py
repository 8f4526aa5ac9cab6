"""Grades candidate programs, each in a sandbox of its own, and prints a table.

    SANDBOX_DOMAIN=127.0.0.1:8080 SANDBOX_API_KEY=… grade.py TESTS.json CANDIDATE.py...
"""
import asyncio
import datetime
import json
import os
import pathlib
import shlex
import sys

from opensandbox import Sandbox
from opensandbox.config import ConnectionConfig
from opensandbox.models.execd import RunCommandOpts

SECONDS, MEMORY = 2, '64Mi'  # of one run, of one candidate
AT_ONCE = 16
CONFIG = ConnectionConfig(domain=os.environ['SANDBOX_DOMAIN'],
                          api_key=os.environ.get('SANDBOX_API_KEY', ''))


async def grade(box, test):
    """One word: the outcome. The expected answer never enters the sandbox."""
    done = await box.commands.run(
        f"printf %s {shlex.quote(test['input'])} | python3 /tmp/candidate.py",
        opts=RunCommandOpts(timeout=datetime.timedelta(seconds=SECONDS)))
    said = ''.join(line.text for line in done.logs.stdout).strip()
    if not done.error:
        return 'ok' if said == test['output'] else 'wrong'
    # Told by Atoll, who ended it; the program's own words are in done.logs.
    why = ' '.join(done.error.traceback)
    return ('time' if why == 'signal: killed (timeout)' else
            'memory' if '(out of memory: ' in why else 'failed')


async def grade_all(candidate, tests, turn):
    async with turn:
        box = await Sandbox.create(os.environ.get('SANDBOX_IMAGE', 'python:3.11'),
                                   connection_config=CONFIG, timeout=datetime.timedelta(minutes=5),
                                   resource={'cpu': '1', 'memory': MEMORY, 'pids': '32'},
                                   entrypoint=['sleep', 'infinity'])
        try:
            await box.files.write_file('/tmp/candidate.py', candidate.read_text(encoding='utf-8'))
            return [await grade(box, test) for test in tests]
        finally:
            await box.kill()
            await box.close()


async def main(tests, candidates):
    tests = json.loads(tests.read_text(encoding='utf-8'))
    turn = asyncio.Semaphore(AT_ONCE)
    rows = await asyncio.gather(*(grade_all(one, tests, turn) for one in candidates))
    wide = max(len(one.stem) for one in candidates)
    print(' ' * wide, *(f'{test["name"]:>8}' for test in tests), '   score')
    for candidate, row in zip(candidates, rows):
        print(f'{candidate.stem:{wide}}', *(f'{outcome:>8}' for outcome in row),
              f'{row.count("ok"):>5}/{len(row)}')


if __name__ == '__main__':
    asyncio.run(main(pathlib.Path(sys.argv[1]), [pathlib.Path(one) for one in sys.argv[2:]]))
