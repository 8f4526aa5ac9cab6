#!/usr/bin/env python3
"""Compares our grammar of HTTP with foreign parsers: llhttp (Node.js) and Go's net/http.

  http_difference.py [--rounds N] [--seed N] VERDICT

VERDICT is build/tests/support/http-verdict. First the table of odd heads (tests/e2e/odd_heads.py),
then N mutated streams of requests. What we take, the others must take too and read in the same way,
or two parties could disagree on where a request ends; but for what EXCUSED names. What they take and
we refuse is counted by our reason: it is where we are stricter. Output: TAP.
"""
import argparse
import collections
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / 'e2e'))
import odd_heads  # noqa: E402

# Where a foreign parser refuses what we take: parser, its words, the message, why that is no danger.
EXCUSED = (
    ('llhttp', 'Invalid method encountered', '', 'it has a list of methods, the grammar has tokens'),
    ('llhttp', 'Expected space after method', '', 'it has a list of methods, the grammar has tokens'),
    ('llhttp', 'another protocol', '', 'it stops behind an upgrade, whose framing is the caller\'s'),
    ('llhttp', 'Invalid character in Content-Length', '', 'it takes no tab behind a value'),
    ('llhttp', 'Request has invalid `Transfer-Encoding`', '', 'it takes no tab behind a value'),
    ('llhttp', 'Invalid character in chunk ext', '', 'we read nothing in them but their end'),
    ('net/http', '400 Bad Request', r'\S+ \S*%(?![0-9A-Fa-f]{2})', 'it also decodes the target'),
)


class Reader:
    """A program that says what it makes of the bytes of a connection."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def read(self, data):
        """The messages that were whole, and why nothing more was read ('' if all was)."""
        self.process.stdin.write(struct.pack('<I', len(data)) + data)
        self.process.stdin.flush()
        *messages, end = self.process.stdout.readline().decode('latin-1').rstrip('\n').split('\t')
        assert end == 'ok' or end.startswith('refused: '), f'{self.process.args}: {end!r}'
        return [normal(message) for message in messages], end[len('refused: '):]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def normal(message):
    """An absolute target is its path, as we give it."""
    method, target, body = re.fullmatch('(.*?) (.*) (.*)', message).groups()
    absolute = re.fullmatch(r'(?i:http://)[^/?]*(.*)', target)
    if absolute:
        target = absolute[1] if absolute[1].startswith('/') else '/' + absolute[1]
    return f'{method} {target} {body}'


class Comparison:
    def __init__(self, ours, foreign):
        self.ours, self.foreign = ours, foreign
        self.stricter = {name: collections.Counter() for name in foreign}
        self.excused = collections.Counter()
        self.wrong = []

    def compare(self, data):
        mine, reason = self.ours.read(data)
        for name, reader in self.foreign.items():
            theirs, refusal = reader.read(data)
            common = min(len(mine), len(theirs))
            if mine[:common] != theirs[:common]:
                self.wrong.append(f'{name} reads {theirs} where we read {mine}: {data!r}')
            elif len(mine) > common:
                excuse = next((why for who, words, message, why in EXCUSED
                               if who == name and refusal.startswith(words)
                               and re.match(message, mine[common])), None)
                if excuse is None:
                    self.wrong.append(f'{name} refuses ({refusal}) what we take: {data!r}')
                else:
                    self.excused[f'{name}: {refusal}: {excuse}'] += 1
            elif reason and (len(theirs) > common or not refusal):
                self.stricter[name][reason] += 1
        return reason


# Mostly good ones: a mutation is about to make them odd.
SEEDS = [odd_heads.message(template, '/x', 'h') for template in
         (*list(odd_heads.TAKEN.values()) * 30, *odd_heads.REFUSED.values())]
PIECES = [b'\r\n', b'\n', b'\r', b' ', b'\t', b':', b';', b',', b'\0', b'\x0b', b'0', b'1', b'5',
          b'a', b'+', b'-', b'"', b'\xe4', b'HTTP/1.1', b'HTTP/1.0', b'Host: h\r\n', b'Host: i\r\n',
          b'Content-Length: 1\r\n', b'Content-Length: 0\r\n', b'Transfer-Encoding: chunked\r\n',
          b'Transfer-Encoding: gzip\r\n', b'X: y\r\n', b'\r\n\r\n', b'0\r\n\r\n', b'1\r\nx\r\n',
          b'Connection: close\r\n', b'GET / HTTP/1.1\r\nHost: h\r\n\r\n', b'http://h', b'chunked']


def mutated(chance):
    """Some messages behind each other, a few of their bytes changed."""
    data = bytearray(b''.join(chance.choice(SEEDS) for _ in range(chance.randint(1, 3))))
    for _ in range(chance.choice((0, 1, 1, 1, 2, 2, 3, 6))):
        at = chance.randrange(len(data) + 1)
        if data and chance.random() < 0.5:
            at = chance.choice([i for i, byte in enumerate(data) if byte in b'\r\n:; ,'] or [0])
        until = min(len(data), at + chance.choice((0, 0, 1, 1, 2, 8)))
        data[at:until] = chance.choice((
            b'', chance.choice(PIECES), bytes([chance.randrange(256)]), bytes(data[at:until]) * 2))
    return bytes(data)


def table(comparison):
    """The verdict that the table says, from ours."""
    for verdict, messages in (('refused', odd_heads.REFUSED), ('taken', odd_heads.TAKEN)):
        for name, template in messages.items():
            data = odd_heads.message(template, '/x', 'h') + odd_heads.next_request()
            taken = comparison.ours.read(data)[0][-1:] == ['GET /?next ']
            if taken != (verdict == 'taken'):
                comparison.wrong.append(f'{name}: it should be {verdict}')
            others = ', '.join(
                f'{who} {"takes" if reader.read(data)[0][-1:] == ["GET /?next "] else "refuses"}'
                for who, reader in comparison.foreign.items())
            print(f'# {verdict}: {name} ({others} it)')
            comparison.compare(data)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--rounds', type=int, default=200_000)
    parser.add_argument('--seed', type=int, default=random.randrange(1 << 32))
    parser.add_argument('verdict')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='atoll-http-') as scratch:
        go = pathlib.Path(scratch) / 'net_http'
        subprocess.run([shutil.which('go') or 'go', 'build', '-o', go,
                        HERE / 'http_peers/net_http.go'], check=True)
        readers = {'llhttp': Reader('node', str(HERE / 'http_peers/llhttp.js')),
                   'net/http': Reader(str(go))}
        comparison = Comparison(Reader(options.verdict), readers)
        table(comparison)
        chance = random.Random(options.seed)
        taken = sum(not comparison.compare(mutated(chance)) for _ in range(options.rounds))
        for reader in (comparison.ours, *readers.values()):
            reader.close()
    print(f'# {options.rounds} streams, seed {options.seed}: {taken} taken in full')
    for name, reasons in comparison.stricter.items():
        for reason, count in reasons.most_common():
            print(f'# {name} takes, we refuse: {count} {reason}')
    for excuse, count in comparison.excused.most_common():
        print(f'# excused: {count} {excuse}')
    for wrong in comparison.wrong[:20]:
        print(f'# {wrong}')
    print(f'1..1\n{"not ok" if comparison.wrong else "ok"} 1 - {len(comparison.wrong)} differences')
    return bool(comparison.wrong)


if __name__ == '__main__':
    sys.exit(main())
