#!/usr/bin/python3
"""Writes WORKLOADS.md from what the last run of workloads_test.py has left in BUILD/workloads."""
from programs import HERE, load

WORKLOADS = HERE / 'WORKLOADS.md'
HEAD = """# The programs of every day in a sandbox

Made by [table.py](table.py) from the results of [workloads_test.py](workloads_test.py); do not edit. Each program
is as Debian ships it, alone in a sandbox of one processor, 512 MiB and 512 processes, without a network beyond it;
where it has other limits they are told. *Runs*: it did what the row says, and printed what only that gives.
"""


def outcome(program):
    passed = program.passed()
    if passed is None:
        return 'not run'
    if not passed:
        return '**fails**'
    return f'refused: {program.refused}' if program.refused else 'runs'


def render():
    lines = [HEAD.rstrip()]
    for title, programs in load().items():
        lines += ['', f'## {title}', '', '| Program | What it does | Limits | Seen |', '|---|---|---|---|']
        for program in programs:
            limits = ', '.join(f'{key} {value}' for key, value in program.limits.items())
            lines.append(f'| {program.name} | {program.does} | {limits} | {outcome(program)} |')
    return '\n'.join(lines) + '\n'


if __name__ == '__main__':
    WORKLOADS.write_text(render(), encoding='utf-8')
    print(WORKLOADS)
