#!/usr/bin/python3
"""Counts single test cases in meson's JSON logs and prints "N passed, N failed" as the last line.

    tools/tally.py LOG.json...
    tools/tally.py --failed LOG.json     prints the programs that failed, by the names that `meson test` takes

meson counts programs; a program holds dozens of cases. Each line of a log is one program with its
output, in which GoogleTest and TAP name every case. The rules err towards red:
  - a program that failed without naming a failed case (crash, time-out, sanitizer report) is one failure;
  - a program that names no case is one case itself;
  - a skipped case is a failure: here everything that a test needs is installed first;
  - a log that is missing or empty is a failure.

Beside X.json may lie X-again.json: programs of X.json that failed and were run once more, alone. A program
that passed then is green and named by a line "FLAKY: NAME". Otherwise its second run counts.
"""
import json
import pathlib
import re
import sys

GTEST = re.compile(r'^\[ *(OK|FAILED|SKIPPED) *\] ([^\s,]+)(?:, where .*)? \(\d+ ms\)$', re.M)
TAP = re.compile(r'^(ok|not ok) \d+(?: - | )?([^#\n]*)(#\s*(?:skip|todo))?', re.M | re.I)
RAISED = re.compile(r'^[\w.]*(?:Error|Exception|Expired)\b.*$', re.M)


def cases(output):
    """Yields (name, passed) for every case that the output names."""
    for verdict, name in GTEST.findall(output):
        yield name, verdict == 'OK'
    for verdict, name, directive in TAP.findall(output):
        yield name.strip(), verdict.lower() == 'ok' and not directive


def reason(name, errors):
    """The exception that tests/tap.py printed of a case: who reads from afar may have only the last lines."""
    case = re.escape(name.partition(' ')[0])
    text = re.search(rf'^---- \S*{case}\b.*\n((?:(?!---- ).*\n)*)', errors, re.M)
    raised = RAISED.findall(text[1]) if text else []
    return f': {raised[-1][:300]}' if raised else ''


def tally(program):
    """Returns (passed, [names of failed cases]) for one line of a log."""
    found = list(cases(program.get('stdout') or ''))
    passed = sum(1 for _, ok in found if ok)
    failed = [f'{program["name"]}: {name}{reason(name, program.get("stderr") or "")}' for name, ok in found if not ok]
    if program['result'] != 'OK' and not failed:
        failed = [f'{program["name"]}: {program["result"]}, exit status {program.get("returncode")}']
    elif not found:
        passed = 1
    return passed, failed


def read(path):
    """The programs of one log. Raises OSError, ValueError."""
    with open(path, encoding='utf-8') as log:
        return [json.loads(line) for line in log if line.strip()]


def second_runs(path):
    """The programs of `path` that were run once more, by name."""
    again = pathlib.Path(path).with_suffix('').as_posix() + '-again.json'
    return {program['name']: program for program in read(again)} if pathlib.Path(again).exists() else {}


def count(path):
    """Returns (passed, [failed cases], [flaky cases]) for one log and the second runs beside it."""
    passed, failed, flaky = 0, [], []
    try:
        programs, again = read(path), second_runs(path)
    except (OSError, ValueError) as error:
        return 0, [f'{path}: {error}'], []
    if not programs:
        failed.append(f'{path}: no test ran')
    # build-asan/meson-logs/unit.json: the folder tells a sanitizer's finding from the others.
    build = path.partition('/')[0]
    for program in programs:
        ok, bad = tally(program)
        if bad and program['name'] in again:
            first = bad
            ok, bad = tally(again[program['name']])
            if not bad:
                flaky += [f'{build}: {name}' for name in first]
        passed += ok
        failed += [f'{build}: {name}' for name in bad]
    return passed, failed, flaky


def main(paths):
    if paths[:1] == ['--failed']:
        try:
            for program in read(paths[1]):
                if tally(program)[1]:
                    print(program['name'].rpartition(' / ')[2])  # "atoll:e2e / x_test"
        except (OSError, ValueError):
            pass  # a log that is missing names nobody; it counts as a failure in the end
        return 0
    passed, failed, flaky = 0, [], []
    for path in paths:
        green, red, unsteady = count(path)
        passed += green
        failed += red
        flaky += unsteady
    for name in failed:
        print(f'FAILED {name}')
    for name in flaky:
        print(f'FLAKY: {name}')
    print(f'{passed} passed, {len(failed)} failed')
    return 1 if failed or not passed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
