#!/usr/bin/python3
"""Checks every #include against include_rules.txt. Prints TAP: one case per folder."""
import pathlib
import re
import sys

import tree

RULES = pathlib.Path(__file__).with_name('include_rules.txt')
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


class Rules:
    """The table: folder → what it may include; library header → which files may include it."""

    def __init__(self, text):
        self.folders, self.headers, self.system = {}, {}, []
        for line in text.splitlines():
            line = line.split('#')[0].strip()
            if not line:
                continue
            left, _, right = line.partition(':')
            kind, *names = left.split()
            if kind == 'system':
                self.system += right.split()
            elif kind in ('folder', 'header') and names:
                for name in names:
                    (self.folders if kind == 'folder' else self.headers)[name] = right.split()
            else:
                raise ValueError(f'include_rules.txt: cannot read "{line}"')

    def folder_of(self, path):
        """The longest folder of the table that `path` lies in, or None."""
        inside = [name for name in self.folders if path.startswith(name + '/')]
        return max(inside, key=len, default=None)

    def complaint(self, path, bracket, header):
        """Why `path` may not include `header`, or None."""
        if bracket == '"':
            return self.project_complaint(path, header)
        for pattern, allowed in self.headers.items():
            if tree.matches(header, [pattern]):
                if tree.matches(path, allowed):
                    return None
                return f'<{header}> is only for {" ".join(allowed)}'
        # Headers of the C++ library have no dot.
        if '.' not in header or tree.matches(header, self.system):
            return None
        return f'<{header}> is in no line of the table'

    def project_complaint(self, path, header):
        folder, target = self.folder_of(path), self.folder_of(header)
        if target is None:
            return f'"{header}" is not a path from the top of the tree'
        if folder == target:
            return None
        for allowed in self.folders[folder]:
            if allowed == '*' or header.startswith(allowed + '/') or tree.matches(header, [allowed]):
                return None
        return f'{folder} may not include "{header}"'


def circles(arrows):
    """Folders that include each other, directly or by way of others: [folder...] each, sorted."""
    def reach(start):
        seen, ahead = set(), [start]
        while ahead:
            for other in arrows.get(ahead.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    ahead.append(other)
        return seen
    reached = {folder: reach(folder) for folder in arrows}
    return sorted({tuple(sorted(other for other in reached[folder]
                                if folder in reached.get(other, ())))
                   for folder in arrows if folder in reached[folder]})


def check(root, rules):
    cases = {f'includes of {folder}': [] for folder in rules.folders}
    cases['every source file is in a folder of the table'] = outside = []
    arrows = {}
    for path in tree.files(root, *tree.CODE):
        folder = rules.folder_of(path)
        if folder is None:
            outside.append(path)
            continue
        text = (root / path).read_text(encoding='utf-8')
        for found in INCLUDE.finditer(text):
            target = rules.folder_of(found[2]) if found[1] == '"' else None
            # Tests and measurements stand beside the tree, not in it.
            if target not in (None, folder) and '*' not in rules.folders[folder]:
                arrows.setdefault(folder, set()).add(target)
            why = rules.complaint(path, found[1], found[2])
            if why:
                line = text.count('\n', 0, found.start(1)) + 1
                cases[f'includes of {folder}'].append(f'{path}:{line}: {why}')
    cases['includes between folders go one way'] = [
        'these include each other: ' + ' '.join(circle) for circle in circles(arrows)]
    return cases


if __name__ == '__main__':
    sys.exit(tree.report(check(tree.root_from(sys.argv), Rules(RULES.read_text(encoding='utf-8')))))
