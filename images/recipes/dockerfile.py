"""Parses a Dockerfile into a list of instructions: lines, heredocs, flags, words and variables. Reads no file.

The input is hostile. All of it is bounded, and whatever is not understood is a DockerfileError with its line.
"""
import dataclasses
import json
import re

MAX_BYTES = 1 << 20
MAX_INSTRUCTIONS = 1000
MAX_HEREDOCS = 16
MAX_EXPANDED = 1 << 20  # size of one word with its variables expanded
MAX_NESTING = 16  # depth of ${A:-${B:-…}}

WORDS = ('ADD', 'ARG', 'CMD', 'COPY', 'ENTRYPOINT', 'ENV', 'EXPOSE', 'FROM', 'LABEL', 'MAINTAINER', 'RUN', 'SHELL',
         'STOPSIGNAL', 'USER', 'VOLUME', 'WORKDIR')
# Docker's other instructions, each with the reason for its refusal.
NOT_HERE = {
    'HEALTHCHECK': 'nothing here asks for the health of a sandbox; leave it out, and let who runs it ask',
    'ONBUILD': 'no image keeps instructions for later builds; write them where they are to run',
}
# The flags of each instruction.
FLAGS = {'FROM': ('platform',), 'RUN': ('network',), 'COPY': ('from', 'chown', 'chmod', 'link'),
         'ADD': ('chown', 'chmod', 'link')}
_JSON = ('ADD', 'CMD', 'COPY', 'ENTRYPOINT', 'RUN', 'SHELL', 'VOLUME')
_HEREDOC = re.compile(r'(?<!\S)\d*<<(-?)([\'"]?)([A-Za-z_][A-Za-z0-9_]*)\2(?=\s|$|[;|&<>)])')
_NAME = re.compile(r'[A-Za-z_][A-Za-z0-9_]*')


class DockerfileError(Exception):
    """An error for the author of the file."""

    def __init__(self, line, why):
        super().__init__(why)
        self.line = line


@dataclasses.dataclass
class Heredoc:
    name: str
    body: str
    expand: bool  # true if its name was not quoted


@dataclasses.dataclass
class Instruction:
    line: int  # line on which it begins, from 1
    word: str
    flags: dict
    text: str  # everything after the flags
    words: list | None  # words of the JSON form
    heredocs: list


@dataclasses.dataclass
class Dockerfile:
    instructions: list
    escape: str


def _directives(lines):
    """Returns the escape character, which a comment at the top may set."""
    known = {}
    for number, line in enumerate(lines, 1):
        said = re.fullmatch(r'\s*#\s*([A-Za-z]+)\s*=\s*(.*?)\s*', line)
        if not said:
            break
        name = said[1].lower()
        if name not in ('escape', 'syntax', 'check'):
            break  # an ordinary comment
        if name in known:
            raise DockerfileError(number, f'a second directive {name}')
        known[name] = said[2]
        if name == 'escape' and said[2] not in ('\\', '`'):
            raise DockerfileError(number, f"escape: '{said[2][:20]}' is neither \\ nor `")
    return known.get('escape', '\\')


def _split_flags(line, word, text):
    flags = {}
    while True:
        given = re.match(r'--([A-Za-z][A-Za-z-]*)(?:=(\S*))?(?:\s+|$)', text)
        if not given:
            if text.startswith('--'):
                raise DockerfileError(line, f'{word} {text.split()[0][:60]}: no such flag')
            return flags, text
        name, value = given[1], given[2]
        if name not in FLAGS.get(word, ()):
            raise DockerfileError(line, f'{word} --{name[:40]}: not here; there is ' + (
                ', '.join(f'--{one}' for one in FLAGS[word]) if word in FLAGS else 'no flag'))
        if name in flags:
            raise DockerfileError(line, f'{word} --{name} is said twice')
        if name == 'link':
            value = value or 'true'  # changes only how layers are stored, not the image
        if not value:
            raise DockerfileError(line, f'{word} --{name}: wants a value, --{name}=VALUE')
        flags[name] = value
        text = text[given.end():]


def _json_words(line, word, text):
    """Parses the form ["a", "b"]. Returns None for any other form."""
    if word not in _JSON or not text.startswith('['):
        return None
    try:
        words = json.loads(text)
    except (ValueError, RecursionError):
        if word == 'SHELL':
            raise DockerfileError(line, 'SHELL: is no JSON array of strings') from None
        return None  # docker treats this as a shell form
    if not isinstance(words, list) or not all(isinstance(one, str) and '\0' not in one for one in words):
        return None
    return words


def parse(data):
    """Returns the instructions of a Dockerfile, given as bytes."""
    if len(data) > MAX_BYTES:
        raise DockerfileError(1, f'is longer than {MAX_BYTES} bytes')
    try:
        text = data.decode('utf-8-sig')
    except UnicodeDecodeError as error:
        raise DockerfileError(data.count(b'\n', 0, error.start) + 1, 'is not UTF-8') from None
    if '\0' in text:
        raise DockerfileError(text.count('\n', 0, text.index('\0')) + 1, 'holds a zero byte')
    lines = text.replace('\r\n', '\n').split('\n')
    escape = _directives(lines)
    continued = re.compile(re.escape(escape) + r'[ \t]*$')
    instructions, at = [], 0
    while at < len(lines):
        if not lines[at].strip() or lines[at].lstrip().startswith('#'):
            at += 1
            continue
        first, parts = at + 1, []
        while at < len(lines):
            line = lines[at]
            at += 1
            # Skips comments and empty lines between the lines of one instruction.
            if parts and (not line.strip() or line.lstrip().startswith('#')):
                continue
            goes_on = continued.search(line)
            parts.append(line[:goes_on.start()] if goes_on else line)
            if not goes_on:
                break
        instruction, at = _instruction(first, ''.join(parts).strip(), lines, at)
        instructions.append(instruction)
        if len(instructions) > MAX_INSTRUCTIONS:
            raise DockerfileError(first, f'has more than {MAX_INSTRUCTIONS} instructions')
    if not instructions:
        raise DockerfileError(1, 'has no instruction')
    return Dockerfile(instructions, escape)


def _instruction(first, text, lines, at):
    word, _, rest = text.replace('\t', ' ', 1).partition(' ') if '\t' in text.split(' ')[0] else text.partition(' ')
    name = word.upper()
    if name in NOT_HERE:
        raise DockerfileError(first, f'{name}: {NOT_HERE[name]}')
    if name not in WORDS:
        raise DockerfileError(first, f"'{word[:40]}' is no instruction; there are {', '.join(WORDS)}")
    flags, rest = _split_flags(first, name, rest.strip())
    heredocs = []
    if name in ('RUN', 'COPY', 'ADD') and not rest.startswith('['):
        for strip, quote, end in _HEREDOC.findall(rest):
            if len(heredocs) == MAX_HEREDOCS:
                raise DockerfileError(first, f'{name}: has more than {MAX_HEREDOCS} heredocs')
            body = []
            while True:
                if at == len(lines):
                    raise DockerfileError(first, f'{name}: the heredoc {end[:40]} has no end')
                line = lines[at].lstrip('\t') if strip else lines[at]
                at += 1
                if line == end:
                    break
                body.append(line + '\n')
            heredocs.append(Heredoc(end, ''.join(body), not quote))
    if not rest:
        raise DockerfileError(first, f'{name}: wants something behind it')
    return Instruction(first, name, flags, rest, _json_words(first, name, rest), heredocs), at


class Variables:
    """Expands $NAME and ${NAME} in one instruction."""

    def __init__(self, line, escape, look_up):
        self._line, self._escape, self._look_up = line, escape, look_up

    def expand(self, text, quotes=True):
        """Removes quotes, and expands nothing within single quotes. In the body of a heredoc quotes stay."""
        out, at, quote, size = [], 0, '', 0
        while at < len(text):
            char = text[at]
            if char == self._escape and quote != "'" and at + 1 < len(text):
                following = text[at + 1]
                keep = not quotes or (quote == '"' and following not in ('"', '$', self._escape))
                if not quotes and following == '$':
                    keep = False
                out.append((char if keep else '') + following)
                at += 2
            elif quotes and char in '\'"' and quote in ('', char):
                quote = '' if quote else char
                at += 1
            elif char == '$' and quote != "'":
                value, at = self._variable(text, at + 1, 0)
                out.append(value)
            else:
                out.append(char)
                at += 1
            size += len(out[-1]) if out else 0
            if size > MAX_EXPANDED:
                raise DockerfileError(self._line, 'a word is too long once its variables are in it')
        if quote:
            raise DockerfileError(self._line, f'a {quote} has no end')
        return ''.join(out)

    def _variable(self, text, at, depth):
        if depth > MAX_NESTING:
            raise DockerfileError(self._line, f'variables are nested more than {MAX_NESTING} deep')
        name = _NAME.match(text, at)
        if name:
            return self._look_up(name[0]) or '', name.end()
        if not text.startswith('{', at):
            return '$', at
        name = _NAME.match(text, at + 1)
        if not name:
            raise DockerfileError(self._line, f"'${text[at:at + 20]}': no name of a variable")
        at = name.end()
        value = self._look_up(name[0])
        if text.startswith('}', at):
            return value or '', at + 1
        operator = re.compile(r':?[-+?]').match(text, at)
        if not operator:
            raise DockerfileError(self._line, f"'${{{name[0][:40]}…': only :-, :+ and :? go with a variable")
        word, at = self._until_brace(text, operator.end(), depth)
        is_set = bool(value) if operator[0][0] == ':' else value is not None
        if operator[0][-1] == '+':
            return (word if is_set else ''), at
        if is_set:
            return value, at
        if operator[0][-1] == '?':
            raise DockerfileError(self._line, f'{name[0][:40]}: {word[:200] or "is not set"}')
        return word, at

    def _until_brace(self, text, at, depth):
        out, size = [], 0
        while at < len(text):
            char = text[at]
            if char == '}':
                return ''.join(out), at + 1
            if char == self._escape and at + 1 < len(text):
                out.append(text[at + 1])
                at += 2
            elif char == '$':
                value, at = self._variable(text, at + 1, depth + 1)
                out.append(value)
            else:
                out.append(char)
                at += 1
            size += len(out[-1])
            if size > MAX_EXPANDED:
                raise DockerfileError(self._line, 'a word is too long once its variables are in it')
        raise DockerfileError(self._line, 'a ${ has no end')


def split(line, text, escape):
    """Splits into words, with their quotes. A space within quotes or after the escape does not end a word."""
    words, word, quote, at = [], '', '', 0
    while at < len(text):
        char = text[at]
        if char == escape and quote != "'" and at + 1 < len(text):
            word += text[at:at + 2]
            at += 2
            continue
        if char in '\'"' and quote in ('', char):
            quote = '' if quote else char
        if char in ' \t' and not quote:
            if word:
                words.append(word)
            word = ''
        else:
            word += char
        at += 1
    if quote:
        raise DockerfileError(line, f'a {quote} has no end')
    return [*words, word] if word else words


def pairs(instruction, escape):
    """Parses NAME=VALUE …, or the older NAME VALUE, of ENV and LABEL. Returns unexpanded (name, value) pairs."""
    words = split(instruction.line, instruction.text, escape)
    if '=' not in words[0]:
        name, _, value = instruction.text.partition(' ')
        if not value.strip():
            raise DockerfileError(instruction.line, f'{instruction.word} {name[:40]}: wants a value')
        return [(name, value.strip())]
    found = []
    for word in words:
        name, equals, value = word.partition('=')
        if not equals or not name:
            raise DockerfileError(instruction.line, f"{instruction.word}: '{word[:40]}' is not NAME=VALUE")
        found.append((name, value))
    return found
