"""What the client has for shells and pagers, in those themselves: completion is typed with the tab
key, and the manual page is read by groff."""
import os
import pathlib
import pty
import select
import shutil
import subprocess
import tempfile
import unittest

import atoll
from atoll import BUILD, SLOWNESS

PROMPT = b'ready> '
# How each is started with files of this test alone, and what those are. The installed completion of
# zsh and fish is found by its name, that of bash is read when it is asked for.
SHELLS = {
    'bash': (('bash', '--noprofile', '--rcfile', '{home}/bashrc', '-i'), {
        'bashrc': 'PS1="ready> "; source <(atoll completion bash)\n'}),
    'zsh': (('zsh', '-d', '-i'), {
        '.zshrc': 'PS1="ready> "; fpath=(~/functions $fpath); autoload -Uz compinit; compinit -u -D\n',
        'functions/_atoll': None}),
    'fish': (('fish', '-i'), {
        '.config/fish/config.fish': 'function fish_prompt; echo -n "ready> "; end\n',
        '.config/fish/completions/atoll.fish': None,
        # Without this folder it reads all manuals of the host, and goes on when it has ended.
        '.local/share/fish/generated_completions/none.fish': '#\n'}),
}


class Shell:
    """One that somebody types into."""

    def __init__(self, name, environment):
        words, files = SHELLS[name]
        self.home = pathlib.Path(tempfile.mkdtemp())
        for path, text in files.items():
            file = self.home / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text or subprocess.run([BUILD / 'atoll', 'completion', name], check=True,
                                                   capture_output=True, text=True).stdout,
                            encoding='utf-8')
        self.seen = b''
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execvpe(words[0], [word.format(home=self.home) for word in words], {
                **environment, 'HOME': str(self.home), 'TERM': 'xterm', 'LC_ALL': 'C.UTF-8'})
        self.await_text(PROMPT)

    def await_text(self, text):
        """All that comes to and with it."""
        while text not in self.seen:
            ready, _, _ = select.select([self.terminal], [], [], 20 * SLOWNESS)
            assert ready, (text, self.seen)
            self.seen += os.read(self.terminal, 4096)
        seen, _, self.seen = self.seen.partition(text)
        return seen

    def type(self, text):
        os.write(self.terminal, text)

    def close(self):
        self.type(b'exit\n')
        os.close(self.terminal)
        os.waitpid(self.pid, 0)
        shutil.rmtree(self.home)


class Shells(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.sandbox = cls.daemon.create(cls.daemon.import_busybox(), metadata={'name': 'known'})
        cls.environment = {'PATH': f'{BUILD}:{os.environ["PATH"]}',
                           'ATOLL_RUN_DIR': str(cls.daemon.run_dir)}

    def completes(self, name):
        shell = Shell(name, self.environment)
        self.addCleanup(shell.close)
        # The verb, an option of it and the sandbox's name: what the sandbox says came of all three.
        shell.type(b'atoll exe\t--workd\t/tmp kno\tsh -c \'echo "<$(pwd) $OPENSANDBOX_ID>"\'\n')
        shell.await_text(f'</tmp {self.sandbox}>'.encode())
        shell.await_text(PROMPT)
        # What the client has no words for are files.
        (shell.home / 'a-file').write_text('what is in it', encoding='utf-8')
        shell.type(b'cd ~\n')
        shell.await_text(PROMPT)
        shell.type(b'atoll cp a-f\tknown:/tmp && atoll exec known cat /tmp/a-file\n')
        shell.await_text(b'what is in it')
        shell.await_text(PROMPT)
        return shell

    def test_bash(self):
        shell = self.completes('bash')
        # It parts words at colons: a tag, and a sandbox's path, which is no file of this host.
        shell.type(b'atoll run busybox:la\techo of-$((1+1))\n')
        shell.await_text(b'of-2')
        shell.await_text(PROMPT)
        shell.type(b'atoll cp kno\t/tmp/a-f\t')
        shell.await_text(b'known:/tmp/a-f')
        shell.type(b'ile back && cat back && echo of-$((1+2))\n')
        shell.await_text(b'what is in it')
        shell.await_text(b'of-3')

    def test_zsh(self):
        self.completes('zsh')

    def test_fish(self):
        self.completes('fish')


class Manual(unittest.TestCase):
    def test_groff_has_nothing_to_say_against_it(self):
        page = subprocess.run([BUILD / 'atoll', 'man'], check=True, capture_output=True).stdout
        read = subprocess.run(['groff', '-k', '-ww', '-man', '-Tutf8', '-P-cbou'], input=page, check=True,
                              capture_output=True)
        self.assertEqual(read.stderr, b'')
        shown = read.stdout.decode()
        for text in ('ATOLL(1)', '\n   atoll exec [OPTIONS] ID COMMAND', '--network NAME\n',
                     "  atoll run -m 256m -e DEBUG=1 alpine sh -c 'echo $DEBUG; nproc'\n"):
            self.assertTrue(text in shown, text)


if __name__ == '__main__':
    unittest.main()
