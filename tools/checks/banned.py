#!/usr/bin/python3
"""Searches the tree for what banned.txt forbids. Prints TAP: one case per ban."""
import pathlib
import re
import sys

import tree

BANS = pathlib.Path(__file__).with_name('banned.txt')
# Comments and string literals may name what the code must not call. Literals first, so that
# "//" inside one starts no comment.
NOT_CODE = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.S)


def parse(text):
    """Stanzas of "key value" lines → a list of dicts."""
    bans = []
    for stanza in re.split(r'\n\s*\n', text):
        lines = [line for line in stanza.splitlines() if line and not line.startswith('#')]
        if lines:
            bans.append(dict(line.split(maxsplit=1) for line in lines))
    return bans


def blank(match):
    return re.sub(r'[^\n]', ' ', match[0])


def check(root, bans):
    texts = {path: (root / path).read_bytes().decode('utf-8', 'replace')
             for path in tree.files(root) if not path.startswith('tools/checks/')}
    code = {path: NOT_CODE.sub(blank, text) for path, text in texts.items()
            if tree.matches(path, tree.CODE)}
    cases = {}
    for ban in bans:
        complaints = cases[ban['reason']] = []
        pattern = re.compile(ban['pattern'])
        excepted = ban.get('except', '').split()
        for path, text in (texts if ban['in'] == 'text' else code).items():
            if not tree.matches(path, excepted):
                complaints += [f'{path}:{text.count(chr(10), 0, found.start()) + 1}: '
                               f'"{found[0].strip()}": {ban["reason"]}'
                               for found in pattern.finditer(text)]
    return cases


if __name__ == '__main__':
    sys.exit(tree.report(check(tree.root_from(sys.argv), parse(BANS.read_text(encoding='utf-8')))))
