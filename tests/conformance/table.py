#!/usr/bin/python3
"""Writes FEATURES.md from what tests/conformance/run has left in BUILD/conformance/results.

    tests/conformance/table.py            after a run of clients; the others stay as they were
    tests/conformance/table.py --check    are the claims still true? for the clients just run

A cell says that a passing case of that client used the route and was answered with success; which
cases those were is in the results. Nothing in the file is written by hand.
"""
import json
import re
import sys

from clients_list import CLIENTS, HERE, RESULTS
from routes import load

FEATURES = HERE / 'FEATURES.md'
YES = '✓'
PARTS = {
    'lifecycle': 'The lifecycle API',
    'execd': 'Inside a sandbox: the exec API behind port 44772',
    'egress': 'The egress API behind port 18080',
}


def results():
    """Client → what run wrote, in the order of the list."""
    found = {}
    for name in CLIENTS:
        path = RESULTS / f'{name}.json'
        if path.exists():
            found[name] = json.loads(path.read_text(encoding='utf-8'))
    return found


def earlier():
    """Client → what the file says of it: of one whose registry was out of reach this time."""
    text = FEATURES.read_text(encoding='utf-8')
    return {name: {'what': what, 'version': version,
                   'cases': [{'case': '', 'passed': True, 'open': None}] * int(passed),
                   'routes': {route for client, route in claims(text) if client == name}}
            for name, what, version, passed in
            re.findall(r'^\| ([\w-]+) \| (.+), (.+) \| (\d+) of \4 \| 0 \|$', text, re.M)}


def rows(part, clients):
    """Route → the set of clients that verified it."""
    return {f'{method} {path}': {name for name, told in clients.items()
                                 if f'{part} {method} {path}' in told['routes']}
            for owner, method, path in load() if owner == part}


def render(clients):
    lines = ['# What which client has verified', '',
             'Made by [table.py](table.py) from the results of [run](run); do not edit. ✓: a passing '
             'case of this released, unmodified', 'client used the route, and the answer was a '
             'success. Empty: this client does not use the route, or it is not there yet.',
             'Of C# the requests were replayed; the client did not run.', '',
             '| Column | Client | Cases passed | Open |', '|---|---|---|---|']
    for name, told in clients.items():
        cases = told['cases']
        lines.append(f'| {name} | {told["what"]}, {told["version"]} | '
                     f'{sum(case["passed"] for case in cases)} of {len(cases)} | '
                     f'{sum(not case["passed"] for case in cases)} |')
    for part, title in PARTS.items():
        lines += ['', f'## {title}', '', '| Route | ' + ' | '.join(clients) + ' |',
                  '|---|' + '---|' * len(clients)]
        for route, verified in rows(part, clients).items():
            cells = [YES if name in verified else '' for name in clients]
            lines.append(f'| `{route}` | ' + ' | '.join(cells) + ' |')
    still_open = {}
    for name, told in clients.items():
        for case in told['cases']:
            if not case['passed']:
                still_open.setdefault(case['open'] or 'not explained', []).append(
                    f'`{name}/{case["case"]}`')
    if still_open:
        lines += ['', '## Open', '']
        lines += [f'- {why}: {", ".join(names)}' for why, names in still_open.items()]
    return '\n'.join(lines) + '\n'


def claims(text):
    """(client, route) for each ✓ of the file."""
    found, columns, part = set(), [], None
    titles = {f'## {title}': part for part, title in PARTS.items()}
    for line in text.splitlines():
        part = titles.get(line, None if line.startswith('## ') else part)
        cells = [cell.strip() for cell in line.strip('|').split('|')]
        if line.startswith('| Route |'):
            columns = cells[1:]
        elif part and line.startswith('| `'):
            found |= {(name, f'{part} {cells[0].strip("`")}')
                      for name, cell in zip(columns, cells[1:]) if cell == YES}
    return found


def broken_claims(names):
    """What the file says of these clients and the last run did not show."""
    clients = results()
    return sorted(f'{name}: {route}' for name, route in claims(FEATURES.read_text(encoding='utf-8'))
                  if name in names and route not in clients.get(name, {'routes': ()})['routes'])


def main(arguments):
    if arguments == ['--check']:
        broken = broken_claims(list(results()))
        print('\n'.join(broken))
        return 1 if broken else 0
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    run, before = results(), earlier()
    told = {name: run.get(name) or before[name] for name in CLIENTS if name in run or name in before}
    FEATURES.write_text(render(told), encoding='utf-8')
    print(f'{FEATURES}: {len(run)} of {len(CLIENTS)} clients; as before: '
          f'{", ".join(name for name in told if name not in run) or "none"}')
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
