#!/usr/bin/python3
"""Refuses comments that open with a bare preposition or relative word: they name no subject. Prints TAP."""
import re
import sys

import tree

OPENING = re.compile(
    '(?:of|in|at|by|for|from|on|to|with|into|onto|upon|under|beneath|within|through|per|than'
    "|what|who|whom|whose|which|that|where|as)(?:'s)?(?=[ ,:;.]|$)", re.I)
# Literals first, so that "//" inside one starts no comment. A ' between digits is part of a number.
TOKEN = re.compile(
    r'R"(?P<delimiter>[^\s()\\]{0,16})\(.*?\)(?P=delimiter)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])*'"
    r'|(?P<line>//[^\n]*)'
    r'|(?P<block>/\*.*?\*/)', re.S)


def openings(text):
    """Yields (line, first line of the comment) of each comment. Adjacent lines of // are one comment."""
    number, at = 1, 0
    above = None  # line and column of the last // comment
    for token in TOKEN.finditer(text):
        number += text.count('\n', at, token.start())
        at = token.start()
        comment = token['line'] or token['block']
        if comment is None:
            continue
        column = at - text.rfind('\n', 0, at)
        starts_line = not text[at - column + 1:at].strip()
        continues = token['line'] and starts_line and above == (number - 1, column)
        above = (number, column) if token['line'] else None
        if not continues:
            yield number, comment.lstrip('/*!< \n').partition('\n')[0].removesuffix('*/').strip()


def check(root):
    cases = {}
    for path in tree.files(root, *tree.CODE):
        complaints = cases.setdefault(f'comments of {path.split("/")[0]}', [])
        text = (root / path).read_bytes().decode('utf-8', 'replace')
        complaints += [f'{path}:{number}: begin with the thing that the comment is about: "{opening}"'
                       for number, opening in openings(text) if OPENING.match(opening)]
    return cases


if __name__ == '__main__':
    sys.exit(tree.report(check(tree.root_from(sys.argv))))
