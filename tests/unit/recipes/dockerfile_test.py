"""What is read of a Dockerfile and a .dockerignore, without a daemon."""
import pathlib
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / 'images/recipes'))

import build_context  # pylint: disable=wrong-import-position
import dockerfile  # pylint: disable=wrong-import-position
import globs  # pylint: disable=wrong-import-position


def read(text):
    return dockerfile.parse(text.encode()).instructions


class Lines(unittest.TestCase):
    def test_continued_ones(self):
        run, cmd = read('run a \\\n  # a comment\n\n  b \\   \n c\nCMD d')
        self.assertEqual((run.word, run.text, run.line), ('RUN', 'a   b  c', 1))
        self.assertEqual((cmd.text, cmd.line), ('d', 6))

    def test_another_escape(self):
        (run,) = read('# escape=`\nRUN a `\n b\\\n')
        self.assertEqual(run.text, 'a  b\\')
        (run,) = read('# a comment\n# escape=`\nRUN a \\\n b')
        self.assertEqual(run.text, 'a  b')
        with self.assertRaisesRegex(dockerfile.DockerfileError, 'neither'):
            read('# escape=x\nRUN a')

    def test_ends_of_windows_and_a_mark(self):
        (run,) = dockerfile.parse(b'\xef\xbb\xbfRUN a\\\r\n b\r\n').instructions
        self.assertEqual(run.text, 'a b')

    def test_heredocs(self):
        copy, run, last = read('COPY <<A <<-"B" /x/\n1 $V\nA\n\t2\n\tB\nRUN cat <<EOF>/x && echo $((1<<2)) <<<z\nRUN\nEOF\nRUN z')
        self.assertEqual([(one.name, one.body, one.expand) for one in copy.heredocs],
                         [('A', '1 $V\n', True), ('B', '2\n', False)])
        self.assertEqual([one.body for one in run.heredocs], ['RUN\n'])
        self.assertEqual(last.line, 9)

    def test_the_json_form(self):
        a, b, c = read('RUN ["a", "b c"]\nRUN [ -f /x ]\nCMD ["x",]')
        self.assertEqual((a.words, b.words, c.words), (['a', 'b c'], None, None))

    def test_flags(self):
        (copy,) = read('COPY --from=x  --chown=1:2 --link a b')
        self.assertEqual((copy.flags, copy.text), ({'from': 'x', 'chown': '1:2', 'link': 'true'}, 'a b'))

    def test_refusals(self):
        for text, line, why in (
                ('', 1, 'no instruction'), ('\nFROM', 2, 'wants something'), ('RUN a\0', 1, 'zero byte'),
                ('RUN a\nRUN <<X\na\nY', 2, 'heredoc X has no end'), ('COPY --x=1 a b', 1, 'not here'),
                ('COPY --from a b', 1, 'wants a value'), ('RUN --mount=a b', 1, 'not here'),
                ('COPY --chown=1 --chown=2 a b', 1, 'said twice'), ('SHELL [a', 1, 'no JSON array'),
                ('ONBUILD RUN a', 1, 'no image keeps'), ('RUN a\n' * 1001, 1001, 'more than'),
                ('RUN ' + '<<A ' * 17 + '\n' + 'A\n' * 17, 1, 'heredocs')):
            with self.subTest(text[:30]):
                with self.assertRaisesRegex(dockerfile.DockerfileError, why) as caught:
                    read(text)
                self.assertEqual(caught.exception.line, line)
        with self.assertRaisesRegex(dockerfile.DockerfileError, 'UTF-8') as caught:
            dockerfile.parse(b'RUN a\nRUN \xff')
        self.assertEqual(caught.exception.line, 2)
        with self.assertRaisesRegex(dockerfile.DockerfileError, 'longer'):
            dockerfile.parse(b'#' * (dockerfile.MAX_BYTES + 1))


class Words(unittest.TestCase):
    KNOWN = {'A': '1', 'EMPTY': '', 'SPACE': 'a b'}

    def expand(self, text, **options):
        return dockerfile.Variables(7, '\\', self.KNOWN.get).expand(text, **options)

    def test_variables(self):
        for text, wanted in (('$A', '1'), ('${A}b', '1b'), ('$AB', ''), ('${EMPTY:-x}', 'x'), ('${EMPTY-x}', ''),
                             ('${NONE:-${A}z}', '1z'), ('${A:+y}', 'y'), ('${NONE:+y}', ''), ('${NONE+y}', ''),
                             ('${EMPTY+y}', 'y'), ('\\$A', '$A'), ("'$A'", '$A'), ('"$A \\" \\x"', '1 " \\x'), ('a$', 'a$'),
                             ('$1', '$1'), ('$SPACE', 'a b'), ("it\\'s", "it's")):
            with self.subTest(text):
                self.assertEqual(self.expand(text), wanted)
        self.assertEqual(self.expand('"$A" \'$A\' \\$A', quotes=False), '"1" \'1\' $A')

    def test_refusals(self):
        for text, why in (('${A', 'only'), ('${', 'no name'), ('${A:-b', 'no end'), ('${NONE:?say it}', 'NONE: say it'),
                          ('"a', 'has no end'), ('${A!b}', 'only'), ('${N:-' * 20 + '}' * 20, 'nested')):
            with self.subTest(text):
                with self.assertRaisesRegex(dockerfile.DockerfileError, why) as caught:
                    self.expand(text)
                self.assertEqual(caught.exception.line, 7)

    def test_a_word_does_not_grow_without_end(self):
        big = dockerfile.Variables(1, '\\', {'A': 'x' * 65536}.get)
        with self.assertRaisesRegex(dockerfile.DockerfileError, 'too long'):
            big.expand('$A' * 100)

    def test_pairs(self):
        for text, wanted in (('ENV A=1 B="2 3" C=4\\ 5', [('A', '1'), ('B', '"2 3"'), ('C', '4\\ 5')]),
                             ('ENV A some words', [('A', 'some words')])):
            self.assertEqual(dockerfile.pairs(read(text)[0], '\\'), wanted)
        for text in ('ENV A', 'ENV A=1 B', 'ENV =1'):
            with self.assertRaises(dockerfile.DockerfileError):
                dockerfile.pairs(read(text)[0], '\\')


class Patterns(unittest.TestCase):
    def test_globs(self):
        for pattern, path, fits in (
                ('*.py', 'a.py', True), ('*.py', 'd/a.py', False), ('**/x', 'a/b/x', True), ('**/x', 'x', True),
                ('a/**', 'a/b/c', True), ('a/**/c', 'a/c', True), ('a/*', 'a/b/c', False), ('[a-c]?', 'bz', True),
                ('[^a]', 'b', True), ('[^a]', 'a', False), ('a*b*c', 'aXbYc', True), ('\\*', '*', True), ('\\*', 'a', False),
                ('', 'a', False), ('**', 'a/b', True), ('[]a]', ']', True)):
            with self.subTest(f'{pattern} {path}'):
                self.assertEqual(globs.Glob(pattern).fits(tuple(path.split('/'))), fits)
        for pattern in ('[a', 'a\\', 'x' * 5000):
            with self.assertRaises(globs.GlobError):
                globs.Glob(pattern)

    def test_many_stars_take_no_exponential_time(self):
        self.assertFalse(globs.Glob('a*' * 1000 + 'b').fits(('a' * 4000,)))
        self.assertFalse(globs.Glob('**/a/' * 100 + 'b').fits(('a',) * 200))

    def test_what_is_ignored(self):
        ignored = globs.Ignored('# no pattern\n*\n!keep\n*.md\n!R.md\n/top/../a\n')
        for path, out in (('x', True), ('keep', False), ('keep/y', False), ('keep/n.md', False), ('n.md', True),
                          ('R.md', False), ('a', True)):
            with self.subTest(path):
                self.assertEqual(ignored.leaves_out(tuple(path.split('/'))), out)
        with self.assertRaises(globs.GlobError):
            globs.Ignored('a\n' * (globs.MAX_PATTERNS + 1))


class Contexts(unittest.TestCase):
    def test_links_stay_within(self):
        with tempfile.TemporaryDirectory() as top:
            top = pathlib.Path(top)
            (top / 'd/e').mkdir(parents=True)
            (top / 'd/file').write_text('x')
            for name, says in (('in', 'd/e/../file'), ('out', '../x'), ('away', '/etc/passwd'), ('round', 'round'),
                               ('d/up', '../d/file')):
                (top / name).symlink_to(says)
            context = build_context.Context(top, globs.Ignored())
            self.assertEqual(context.match('in'), [('d', 'file')])
            self.assertEqual(context.match('d/up'), [('d', 'file')])
            for name in ('out', 'away', 'round', '../x', 'nothing'):
                with self.subTest(name), self.assertRaises(build_context.ContextError):
                    context.match(name)
            self.assertEqual([entry.path for entry in context.beneath(('d',))], [('d', 'e'), ('d', 'file'), ('d', 'up')])
            context.close()


if __name__ == '__main__':
    unittest.main()
