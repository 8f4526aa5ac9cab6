#!/usr/bin/python3
"""Checks the shape of the tree: fixed top level, a README per folder, readable sizes. Prints TAP."""
import fnmatch
import re
import sys

import tree

TOP_FOLDERS = {'runtime', 'execd', 'netpolicy', 'images', 'cgroup', 'tools', 'bench', 'tests', '.ci'}
TOP_FILES = {'meson.build', 'README.md', 'CONTRIBUTING.md', 'LICENSE', '.clang-format', '.clang-tidy',
             '.gitignore'}
README_LINES = 110
# Tables of results and the first page may be longer.
LONG_READMES = {'README.md', 'bench/README.md', 'netpolicy/README.md', 'runtime/spawner/README.md'}
LONG_FILE, TOO_LONG_FILE = 600, 900


def folders_with_readme(paths):
    """Top-level folders and the parts of runtime/."""
    folders = {path.split('/')[0] for path in paths if '/' in path} - {'.ci'}
    return sorted(folders | {'/'.join(path.split('/')[:2]) for path in paths
                             if path.startswith('runtime/') and path.count('/') > 1})


def unnamed(root, paths):
    """Headers whose name stands in no README of their folder or of one above it. A `*` names several."""
    for path in paths:
        folder, _, name = path.rpartition('/')
        if not name.endswith('.h') or folder.split('/')[0] in ('tests', 'bench'):
            continue
        patterns = set()
        parts = folder.split('/')
        for depth in range(len(parts), 0, -1):
            readme = '/'.join([*parts[:depth], 'README.md'])
            if readme in paths:
                for quoted in re.findall(r'`([^`\n]+)`', (root / readme).read_text(encoding='utf-8')):
                    patterns.update(word.rpartition('/')[2] for word in re.split(r'[\s,]+', quoted))
        stem = name.removesuffix('.h')
        if not any(fnmatch.fnmatch(stem, pattern.removesuffix('.h').removesuffix('.cc'))
                   for pattern in patterns if pattern.strip('*')):
            yield f'{path}: what it is for stands in no README'


def check(root):
    paths = tree.files(root)
    lines = {path: (root / path).read_bytes().count(b'\n') for path in paths}
    cases = {'the top level holds only what belongs there': [
        path for path in paths
        if path.split('/')[0] not in (TOP_FOLDERS if '/' in path else TOP_FILES)]}
    for folder in folders_with_readme(paths):
        cases[f'{folder} has a README'] = (
            [] if lines.get(f'{folder}/README.md', 0) >= 5 else [f'{folder}/README.md says nothing'])
    cases[f'READMEs have at most {README_LINES} lines'] = [
        f'{path}: {count} lines' for path, count in lines.items()
        if path.endswith('README.md') and path not in LONG_READMES and count > README_LINES]
    cases['each header is named in a README'] = list(unnamed(root, paths))
    sources = {path: count for path, count in lines.items()
               if tree.matches(path, (*tree.CODE, '*.py', '*.sh')) or path.startswith('tools/')}
    for path, count in sources.items():
        if LONG_FILE < count <= TOO_LONG_FILE:
            print(f'# {path}: {count} lines; is it still about one thing?')
    cases[f'no source file is longer than {TOO_LONG_FILE} lines'] = [
        f'{path}: {count} lines' for path, count in sources.items() if count > TOO_LONG_FILE]
    return cases


if __name__ == '__main__':
    sys.exit(tree.report(check(tree.root_from(sys.argv))))
