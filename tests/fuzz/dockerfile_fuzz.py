#!/usr/bin/env python3
"""What reads Dockerfiles and .dockerignore, on odd bytes: it answers or refuses with a line, nothing else.

    dockerfile_fuzz.py [--rounds N] [--seed N] CORPUS

Each file of the corpus as it is, then N mutations of them. Output: TAP.
"""
import argparse
import pathlib
import random
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / 'images/recipes'))

import dockerfile  # pylint: disable=wrong-import-position
import globs  # pylint: disable=wrong-import-position

PARTS = (b'\n', b'\\\n', b'<<A', b'\nA\n', b'${', b'}', b'$A', b':-', b'"', b"'", b'\0', b'\xff', b'[', b']', b'*', b'**/', b'!',
         b'RUN ', b'FROM ', b'COPY --from=', b'ENV ', b'# escape=`\n', b'\r\n', b'\t', b'["a"', b'--')


def read(data):
    """All that is read before anything is done."""
    try:
        parsed = dockerfile.parse(data)
        for one in parsed.instructions:
            assert 0 < one.line <= data.count(b'\n') + 1
            known = dockerfile.Variables(one.line, parsed.escape, {'A': 'x' * 100, 'B': ''}.get)
            for text in (one.text, *(one.words or []), *(heredoc.body for heredoc in one.heredocs)):
                try:
                    assert len(known.expand(text)) <= 2 * dockerfile.MAX_EXPANDED
                    dockerfile.split(one.line, text, parsed.escape)
                    if one.word in ('ENV', 'LABEL'):
                        dockerfile.pairs(one, parsed.escape)
                except dockerfile.DockerfileError as error:
                    assert error.line == one.line
    except dockerfile.DockerfileError as error:
        assert 0 < error.line <= data.count(b'\n') + 1
    try:
        ignored = globs.Ignored(data[:4096].decode('utf-8', 'surrogateescape'))
        ignored.leaves_out(('a', 'b', 'ab.py'))
    except globs.GlobError:
        pass


def mutate(data, chance):
    data = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        at = chance.randint(0, len(data))
        way = chance.randint(0, 3)
        if way == 0:
            data[at:at] = chance.choice(PARTS)
        elif way == 1:
            del data[at:at + chance.randint(1, 20)]
        elif way == 2 and data:
            data[at % len(data)] = chance.randint(0, 255)
        else:
            end = at + chance.randint(1, 40)
            data[at:at] = data[at:end] * chance.randint(1, 5)
    return bytes(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('corpus', type=pathlib.Path)
    parser.add_argument('--rounds', type=int, default=2000)
    parser.add_argument('--seed', type=int, default=1)
    options = parser.parse_args()
    files = sorted(options.corpus.iterdir())
    print(f'1..{len(files) + 1}')
    for number, file in enumerate(files, 1):
        read(file.read_bytes())
        print(f'ok {number} - {file.name}', flush=True)
    chance = random.Random(options.seed)
    for number in range(options.rounds):
        data = mutate(chance.choice(files).read_bytes(), chance)
        try:
            read(data)
        except BaseException:
            print(f'not ok {len(files) + 1} - {data!r}')
            raise
    print(f'ok {len(files) + 1} - {options.rounds} mutations')


if __name__ == '__main__':
    main()
