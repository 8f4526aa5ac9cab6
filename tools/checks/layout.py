#!/usr/bin/python3
"""Checks the shape of the tree: fixed top level, a README per folder, readable sizes. Prints TAP."""
import fnmatch
import posixpath
import re
import sys

import tree

TOP_FOLDERS = {'runtime', 'execd', 'netpolicy', 'images', 'cgroup', 'tools', 'bench', 'tests', 'docs', '.ci'}
TOP_FILES = {'meson.build', 'README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'SECURITY.md', 'LICENSE',
             '.clang-format', '.clang-tidy', '.gitignore'}
RULES = 'tools/checks/include_rules.txt'
ARROWS_IN_WORDS = {'its rooms', 'all of these', 'all of runtime', 'nothing', 'everything'}
# A room's README fits on a screen. The README of a folder of rooms is an overview.
ROOM_LINES, OVERVIEW_LINES = 40, 110
FIRST_PAGE_LINES = 80
# It holds the tables of results.
LONG_READMES = {'bench/README.md'}
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


def readme_lines(path, paths):
    """Returns how many lines a README may have."""
    folder = path.rpartition('/')[0]
    if folder == '':
        return FIRST_PAGE_LINES
    if path in LONG_READMES:
        return sys.maxsize
    rooms = any(other.startswith(f'{folder}/') and other.endswith('/README.md') and other != path for other in paths)
    return OVERVIEW_LINES if rooms or '/' not in folder else ROOM_LINES


def folders_of(paths):
    return {'/'.join(path.split('/')[:depth]) for path in paths for depth in range(1, path.count('/') + 1)}


def anchors_of(text):
    """Returns the anchors of a document's headings, as GitHub makes them."""
    titles = re.findall(r'^#+ (.*)$', re.sub(r'^```.*?^```', '', text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r'[^\w\- ]', '', title.lower()).replace(' ', '-') for title in titles}


def dead_links(root, paths):
    """Yields the links of documents to files, folders or headings that are not there."""
    known = {*paths, *folders_of(paths)}
    for path in paths:
        if not path.endswith('.md'):
            continue
        text = re.sub(r'^```.*?^```|`[^`\n]*`', '', text_of(root, paths, path), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r'\]\(([^)\s]+)\)', text):
            name, _, anchor = target.partition('#')
            if ':' in name:
                continue
            file = posixpath.normpath(posixpath.join(posixpath.dirname(path), name)) if name else path
            if file not in known or anchor and anchor not in anchors_of(text_of(root, paths, file)):
                yield f'{path}: {target} leads nowhere'


def dead_paths(root, paths):
    """Yields the paths in backticks, from the top of the tree, that lead to no file or folder."""
    known = folders_of(paths) | {path.rpartition('.')[0] for path in paths} | set(paths)
    tops = '|'.join(sorted(TOP_FOLDERS - {'.ci', 'images'}))  # images/ is a folder of the data directory, too
    for path in paths:
        if path.endswith('.md'):
            for named in re.findall(rf'`((?:{tops})/[\w./-]+)`', text_of(root, paths, path)):
                if named.rstrip('/') not in known:
                    yield f'{path}: {named} is not there'


def text_of(root, paths, path):
    return (root / path).read_text(encoding='utf-8') if path in paths else ''


def rules_of(text):
    """Returns what each folder of include_rules.txt may include."""
    return {name: words.split() for name, words in re.findall(r'^folder (\S+) *:(.*)$', text, re.MULTILINE)}


def misdrawn(drawing, rules):
    """Yields how the folders of ARCHITECTURE.md differ from the rules, and arrows that the rules forbid."""
    block = drawing.partition('<!-- folders: begin -->')[2].partition('<!-- folders: end -->')[0]
    drawn = {name: words for name, words in re.findall(r'^  (\S+) +→ (.+?)(?:  .*)?$', block, re.MULTILINE)}
    for name in sorted(rules.keys() ^ drawn.keys()):
        yield f'{name}: only in {"include_rules.txt" if name in rules else "ARCHITECTURE.md"}'
    for name in sorted(rules.keys() & drawn.keys()):
        allowed = {word.rpartition('/')[2] for word in rules[name]}
        if drawn[name] not in ARROWS_IN_WORDS:
            yield from (f'{name} → {word}: include_rules.txt forbids it'
                        for word in drawn[name].split() if word not in allowed)


def check(root):
    paths = tree.files(root)
    lines = {path: (root / path).read_bytes().count(b'\n') for path in paths}
    cases = {'the top level holds only what belongs there': [
        path for path in paths
        if path.split('/')[0] not in (TOP_FOLDERS if '/' in path else TOP_FILES)]}
    for folder in folders_with_readme(paths):
        cases[f'{folder} has a README'] = (
            [] if lines.get(f'{folder}/README.md', 0) >= 5 else [f'{folder}/README.md says nothing'])
    cases['READMEs are short'] = [
        f'{path}: {count} lines, {limit} are enough' for path, count in lines.items()
        if path.endswith('README.md') and count > (limit := readme_lines(path, paths))]
    cases['each header is named in a README'] = list(unnamed(root, paths))
    cases['links of documents lead somewhere'] = list(dead_links(root, paths))
    cases['paths in documents lead somewhere'] = list(dead_paths(root, paths))
    cases['ARCHITECTURE.md draws the folders of include_rules.txt'] = list(
        misdrawn(text_of(root, paths, 'ARCHITECTURE.md'), rules_of(text_of(root, paths, RULES))))
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
