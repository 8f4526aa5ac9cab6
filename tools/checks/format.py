#!/usr/bin/python3
"""Checks that every source file is as clang-format leaves it. Prints TAP: one case.

To mend what it finds: clang-format -i FILE...
"""
import subprocess
import sys

import tree


def check(root):
    sources = tree.files(root, *tree.CODE)
    run = subprocess.run(['clang-format', '--dry-run', '--Werror', *sources], cwd=root, text=True,
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    complaints = sorted({line.split(':')[0] for line in run.stderr.splitlines()
                         if ': error:' in line})
    if run.returncode and not complaints:
        complaints = run.stderr.splitlines() or [f'clang-format: exit status {run.returncode}']
    return {'sources are formatted': complaints}


if __name__ == '__main__':
    sys.exit(tree.report(check(tree.root_from(sys.argv))))
