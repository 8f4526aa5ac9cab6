"""Patterns of paths in the syntax of .dockerignore and COPY. The time is bounded by the product of the lengths."""

MAX_PATTERNS = 10000
MAX_PATTERN = 4096


class GlobError(Exception):
    """Says which pattern is invalid, and why."""


def _class(pattern, at):
    """Parses the class whose content begins at `at`, after its [. Returns (whether it is negated, ranges, its end).
    """
    negated = pattern.startswith('^', at)
    at += negated
    ranges = []
    while at < len(pattern) and (pattern[at] != ']' or not ranges):
        low = pattern[at]
        if low == '\\' and at + 1 < len(pattern):
            at += 1
            low = pattern[at]
        high = low
        if pattern.startswith('-', at + 1) and at + 2 < len(pattern) and pattern[at + 2] != ']':
            high = pattern[at + 2]
            at += 2
        ranges.append((low, high))
        at += 1
    if at >= len(pattern):
        raise GlobError(f"'{pattern[:80]}': a [ has no end")
    return negated, ranges, at + 1


def _tokens(pattern):
    """Returns '*', None for any single character, (c,) for a character, or a class."""
    tokens, at = [], 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == '*':
            if not tokens or tokens[-1] != '*':
                tokens.append('*')
        elif char == '?':
            tokens.append(None)
        elif char == '[':
            negated, ranges, at = _class(pattern, at)
            tokens.append((negated, ranges))
        elif char == '\\':
            if at == len(pattern):
                raise GlobError(f"'{pattern[:80]}': ends with \\")
            tokens.append((pattern[at],))
            at += 1
        else:
            tokens.append((char,))
    return tokens


def _fits(token, char):
    if token is None:
        return True
    if len(token) == 1:
        return token[0] == char
    negated, ranges = token
    return negated != any(low <= char <= high for low, high in ranges)


def _part_fits(tokens, name):
    """Matches one component. It is enough to backtrack to the last *."""
    at, i, star, back = 0, 0, -1, 0
    while at < len(name):
        if i < len(tokens) and tokens[i] == '*':
            star, back = i, at
            i += 1
        elif i < len(tokens) and _fits(tokens[i], name[at]):
            at, i = at + 1, i + 1
        elif star >= 0:
            back += 1
            at, i = back, star + 1
        else:
            return False
    return all(token == '*' for token in tokens[i:])


class Glob:
    """Matches components. `**` matches any number of directories."""

    def __init__(self, pattern):
        if len(pattern) > MAX_PATTERN:
            raise GlobError(f"'{pattern[:80]}…': is too long")
        self.parts = [part for part in pattern.split('/') if part not in ('', '.')]
        self._tokens = ['**' if part == '**' else _tokens(part) for part in self.parts]

    def fits(self, path):
        """`path`: its components."""
        reached = {0}
        for i in range(len(self._tokens)):
            if self._tokens[i] == '**' and i in reached:
                reached.add(i + 1)
        for name in path:
            now = set()
            for i in reached:
                if i < len(self._tokens):
                    if self._tokens[i] == '**':
                        now.add(i)
                    elif _part_fits(self._tokens[i], name):
                        now.add(i + 1)
            for i in sorted(now):
                while i < len(self._tokens) and self._tokens[i] == '**':
                    i += 1
                    now.add(i)
            reached = now
            if not reached:
                return False
        return len(self._tokens) in reached


class Ignored:
    """The patterns of a .dockerignore. The last one that matches decides."""

    def __init__(self, text=''):
        self._patterns = []
        for line in text.splitlines():
            line = line.strip()
            if not line or line.startswith('#'):
                continue
            negated = line.startswith('!')
            pattern = line.removeprefix('!').strip()
            parts = []
            for part in pattern.split('/'):
                if part == '..':
                    parts = parts[:-1]
                elif part not in ('', '.'):
                    parts.append(part)
            if not parts:
                continue
            self._patterns.append((negated, Glob('/'.join(parts))))
            if len(self._patterns) > MAX_PATTERNS:
                raise GlobError(f'more than {MAX_PATTERNS} patterns')
        self._exceptions = any(negated for negated, _ in self._patterns)

    def leaves_out(self, path):
        """`path`: its components, relative to the context. An entry is excluded together with its directory."""
        out = False
        for negated, glob in self._patterns:
            if out == negated and any(glob.fits(path[:end]) for end in range(1, len(path) + 1)):
                out = not negated
        return out

    def leaves_out_all(self, path):
        """Returns True if nothing within an excluded directory can be included again."""
        return not self._exceptions and self.leaves_out(path)
