#!/usr/bin/python3
"""Compares the routes of execd with the table of rights: each has a row, and each row a route. Prints TAP.

The routes of the API are compared by the router itself and by tests/unit/api/rights_test.cc."""
import re
import sys

import tree

TABLE = 'runtime/api/gate/rights.cc'
ROW = re.compile(r'\{Service::kExecd, "([^"]+)", "([^"]+)"')
# A call that adds a route, with the receiver that says what stands before its path.
ADD = re.compile(r'(\w+)(?:\.|->)Add\(\s*("[^"]*")\s*,\s*(std::string\([\w:]+\)|"[^"]*")|'
                 r'(?<![\w.>])(add)\(\s*([^,]+?)\s*,\s*([^,]+?)\s*,')
PAIR = re.compile(r'\{"([A-Z]+)", "(/[^"]+)"\}')
# Paths that no client reaches: those that only the daemon asks for, which the proxy refuses, and those of the
# execd within an isolated session.
INTERNAL = {'"/.atoll/entrypoint/logs"', 'std::string(wire::kOutputRoute)', 'std::string(wire::kPrepareRoute)',
            'std::string(wire::kSessionRoute)', '"/run"', '"/runs/{}"', '"/runs/{}/logs"'}
# Rows without a route of their own: what execd does not have.
REST = {('*', '/{}')}
# The prefix that the function `add` of a file puts before a path.
PREFIXES = {'execd/execd.cc': ('', '/v1/filesystem/{}/{}'), 'execd/isolated/isolated.cc': ('/v1/isolated',)}
PAIR_PREFIX = {'execd/isolated/isolated.cc': '/v1/isolated/session/{}'}


def plain(pattern):
    return re.sub(r'/\*\*$', '/{}', re.sub(r'\{[^}]*\}', '{}', pattern))


def routes(path, text, complaints):
    """The (method, path) of each route that a file of execd adds."""
    found = set()
    for add in ADD.finditer(text):
        if add[4] and path not in PREFIXES:
            continue
        method, literal = (add[5], add[6]) if add[4] else (add[2], add[3])
        if literal in INTERNAL:
            continue
        if add[4] and method == 'method':
            for pair in PAIR.finditer(text):
                found.add((pair[1], plain(PAIR_PREFIX[path] + pair[2])))
            continue
        if not (method.startswith('"') and literal.startswith('"')):
            complaints.append(f'{path}: cannot read the route {add[0]!r}')
            continue
        for prefix in PREFIXES.get(path, ()) if add[4] else ('',):
            found.add((method.strip('"'), plain(prefix + literal.strip('"'))))
    return found


def check(root):
    complaints = []
    rows = {(method, plain(pattern))
            for method, pattern in ROW.findall((root / TABLE).read_text(encoding='utf-8'))}
    added = set()
    for path in tree.files(root, 'execd/*.cc'):
        text = (root / path).read_text(encoding='utf-8')
        if path != 'execd/http/router.cc':
            added |= routes(path, text, complaints)
    complaints += [f'{TABLE} has no row for execd\'s {" ".join(route)}' for route in sorted(added - rows)]
    complaints += [f'{TABLE}: execd has no {" ".join(row)}' for row in sorted(rows - added - REST)]
    return {'routes of execd': complaints}


if __name__ == '__main__':
    sys.exit(tree.report(check(tree.root_from(sys.argv))))
