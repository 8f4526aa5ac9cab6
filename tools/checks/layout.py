#!/usr/bin/python3
"""Checks the shape of the tree: fixed top level, a README per folder, readable sizes. Prints TAP."""
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
