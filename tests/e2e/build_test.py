"""'atoll image build': recipes of a user's own, made for real from what needs no network. Debian's
packages, pip's and npm's are in the recipes whose images other tests run."""
import os
import pathlib
import subprocess
import sys
import unittest

import atoll
from atoll import BUILD, SLOWNESS

RECIPE = '''
from = "busybox"
name = "own:1"
aliases = ["own/alias:2"]
entrypoint = ["/opt/tool/hello.sh", "from"]
cmd = ["here"]
workdir = "/srv/data"
user = "1000:1000"
[env]
COLOUR = "light blue"
[files]
"tool" = "/opt/tool"
"data.txt" = "/srv/data/data.txt"
'''


class Build(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.work = cls.daemon.top / 'work'
        (cls.work / 'tool').mkdir(parents=True)
        script = cls.work / 'tool/hello.sh'
        script.write_text('#!/bin/sh\necho "$* $COLOUR $(id -u) $(pwd) $(cat data.txt link)"\n')
        script.chmod(0o755)
        (cls.work / 'tool/secret').write_text('x')
        (cls.work / 'tool/secret').chmod(0o600)
        (cls.work / 'tool/link').symlink_to('hello.sh')
        (cls.work / 'data.txt').write_text('data')

    def recipe(self, text, name='own.toml'):
        (self.work / name).write_text(text)
        return self.work / name

    def atoll(self, *words, expect=0, **environment):
        done = subprocess.run([BUILD / 'atoll', *words], capture_output=True, text=True,
                              env={**self.daemon.client_env(), 'TMPDIR': str(self.work),
                                   **environment},
                              timeout=60 * SLOWNESS, check=False, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout if expect == 0 else done.stderr

    def names(self):
        return [image['name'] for image in self.daemon.request('GET', '/v1/images')['items']]

    def test_an_image_of_ones_own(self):
        said = self.atoll('image', 'build', self.recipe(RECIPE))
        self.assertIn('imported own:1', said)
        self.assertEqual(self.names(), ['own/alias:2', 'own:1'])
        shown = self.atoll('run', 'own:1')
        self.assertEqual(shown, 'from here light blue 1000 /srv/data data' + '\n', shown)
        self.assertEqual(self.atoll('run', 'own/alias:2').split()[:2], ['from', 'here'])
        seen = self.atoll('run', '--user', '0', '--entrypoint', 'stat', 'own:1', '--', '-c', '%u %g %a %N',
                          '/opt/tool/secret', '/opt/tool/link', '/opt/tool/hello.sh')
        self.assertEqual([line.split()[:3] for line in seen.splitlines()],
                         [['0', '0', '600'], ['0', '0', '777'], ['0', '0', '755']])
        # Under a name of the command line it has that name alone.
        self.atoll('image', 'build', self.recipe(RECIPE), '--name', 'other')
        self.assertEqual(self.names(), ['other:latest', 'own/alias:2', 'own:1'])
        for name in self.names():
            self.atoll('image', 'rm', name)
        self.assertFalse(list(self.work.glob('atoll.*')), 'what it needed is gone')

    def test_a_recipe_from_a_recipe(self):
        """Environment is added to, what processes get is replaced, files have a layer of each."""
        self.recipe(RECIPE)
        top = self.recipe('from = "own.toml"\ncmd = ["there"]\n[env]\nCOLOUR = "red"\n'
                          '[files]\n"data.txt" = "/top"\n'
                          '[links]\n"/opt/tool/link" = "/etc/x"\n"/new/link" = "../top"\n', 'top.toml')
        self.atoll('image', 'build', top, '--name', 'top')
        self.assertEqual(self.atoll('run', 'top').split()[:3], ['from', 'there', 'red'])
        self.assertEqual(self.atoll('run', '--entrypoint', 'sh', 'top', '-c',
                                    'readlink /opt/tool/link; readlink /new/link; cat /new/link'), '/etc/x\n../top\ndata')
        self.assertEqual(len(self.daemon.request('GET', '/v1/images/top')['rootfs']), 3)
        self.atoll('image', 'rm', 'top')
        # Another program has no use for the words of the one before.
        self.atoll('image', 'build', self.recipe('from = "own.toml"\nentrypoint = ["/bin/echo", "own"]\n'
                                                 '[files]\n"data.txt" = "/top"\n', 'top.toml'), '--name', 'top')
        self.assertEqual(self.atoll('run', 'top').split(), ['own'])
        self.atoll('image', 'rm', 'top')

    def test_a_recipe_from_several(self):
        """The later one wins; what two are made from is there once."""
        self.recipe(RECIPE)
        self.recipe('from = "own.toml"\ncmd = ["left"]\n[env]\nCOLOUR = "left"\nLEFT = "1"\n'
                    '[files]\n"data.txt" = "/left"\n', 'left.toml')
        self.recipe('from = "own.toml"\ncmd = ["right"]\n[env]\nCOLOUR = "right"\n'
                    '[files]\n"data.txt" = "/right"\n', 'right.toml')
        both = self.recipe('from = ["left.toml", "right.toml"]\n', 'both.toml')
        self.atoll('image', 'build', both, '--name', 'both')
        self.assertEqual(self.atoll('run', 'both').split()[:3], ['from', 'right', 'right'])
        self.assertEqual(self.atoll('run', '--entrypoint', 'sh', 'both', '-c', 'echo $LEFT; cat /left /right'),
                         '1\ndatadata')
        self.assertEqual(len(self.daemon.request('GET', '/v1/images/both')['rootfs']), 4)
        self.atoll('image', 'rm', 'both')

    def test_what_a_recipe_runs(self):
        """In a sandbox of the image so far; a failure leaves nothing."""
        self.recipe('from = "busybox"\nrun = ["echo $COLOUR >/proof; id -u >>/proof", "cat /proc/1/comm >>/proof"]\n'
                    '[env]\nCOLOUR = "red"\n', 'lower.toml')
        top = self.recipe('from = "lower.toml"\nrun = ["cat /srv/data.txt >>/proof; echo $SSL_CERT_FILE >/dev/null"]\n'
                          '[files]\n"data.txt" = "/srv/data.txt"\n', 'top.toml')
        self.atoll('image', 'build', top, '--name', 'ran')
        self.assertEqual(self.atoll('run', 'ran', 'cat', '/proof'), 'red\n0\nexecd\ndata')
        self.assertEqual(self.atoll('run', 'ran', 'sh', '-c', 'echo $COLOUR$SSL_CERT_FILE; ls /dev/shm'), 'red\n')
        self.assertEqual(len(self.daemon.request('GET', '/v1/images/ran')['rootfs']), 3)
        self.atoll('image', 'rm', 'ran')
        failing = self.recipe('from = "busybox"\nrun = ["false; true"]\n', 'failing.toml')
        self.atoll('image', 'build', failing, expect=1)
        self.assertEqual(self.names(), [])

    def test_the_same_input_gives_the_same_bytes(self):
        made = []
        for number, epoch in ((1, '1700000000'), (2, '1700000000')):
            for path in (self.work / 'tool', *(self.work / 'tool').iterdir()):
                os.utime(path, (1800000000 + number, 1800000000 + number), follow_symlinks=False)
            out = self.work / f'made{number}.tar'
            self.atoll('image', 'build', self.recipe(RECIPE), '-o', out, SOURCE_DATE_EPOCH=epoch)
            made.append(out.read_bytes())
        self.assertEqual(made[0], made[1])
        self.assertEqual(self.names(), [])

    def test_memory_that_is_short_is_left_alone(self):
        """Without a TMPDIR, where /dev/shm has no room for an image."""
        env = {name: value for name, value in self.daemon.client_env().items() if name != 'TMPDIR'}
        done = subprocess.run(['unshare', '--mount', 'sh', '-c', 'mount -t tmpfs -o size=64m none /dev/shm && exec "$@"',
                               'sh', BUILD / 'atoll', 'image', 'build', self.recipe(RECIPE), '--name', 'short'],
                              env=env, capture_output=True, text=True, check=True, timeout=60 * SLOWNESS)
        self.assertRegex(done.stderr, r'(?m)^/var/tmp/atoll\.\w+/image\.tar: ')
        self.atoll('image', 'rm', 'short')

    def test_refusals(self):
        """Each says what is wrong and what to type; nothing is made, nothing is left."""
        out = self.work / 'refused.tar'
        for text, why in (
                ('from = "base"\nnpm_folders = ["/srv"]', 'say npm = […], too'),
                ('from = "busybox"\npackage = ["git"]', 'did you mean packages?'),
                ('from = "busybox"\npackages = ["git"]', 'say from = "base"'),
                ('from = "busybox"\nunpacked = ["git"]', 'say from = "base"'),
                ('from = "base"\nunpacked = ["-o=x"]', "'-o=x' is not the name"),
                ('from = "busybox"\npip = ["six"]', 'say from = "base"'),
                ('from = "base"\npackages = ["--hook=reboot"]', "'--hook=reboot' is not the name"),
                ('from = "base"\nusers = ["me; reboot"]', "'me; reboot' is not the name of one"),
                ('from = "busybox"\nusers = ["me"]', 'say from = "base"'),
                ('from = "base"\npip = ["--index-url=http://x"]', 'is not the name of one'),
                ('from = "base"\npackages = "git"', 'packages: must be a list of strings'),
                ('from = "base"\nsuite = "sid"', "'sid' is none of bookworm, trixie"),
                ('from = "buzybox"', "no recipe 'buzybox', but busybox"),
                ('from = "own.toml"', 'is made from itself'),
                ('from = ["busybox", "own.toml"]', 'is made from itself'),
                ('from = ["busybox", 1]', 'from: must be a string or a list of strings'),
                ('[files]\n"data.txt" = "srv"', 'must be a path in the image'),
                ('[files]\n"data.txt" = "/../srv"', 'must be a path in the image'),
                ('[files]\n"absent" = "/srv"', 'there is no such file'),
                ('[links]\n"srv" = "/x"', 'must be a path in the image'),
                ('[links]\n"/../x" = "/x"', 'must be a path in the image'),
                ('[files]\n"tool" = "/srv"\n[links]\n"/srv" = "/x"', 'links: /srv: is a folder'),
                ('[env]\n"A B" = "c"', "'A B' is not the name of a variable"),
                ('from = ', 'own.toml: ')):
            with self.subTest(text):
                self.assertIn(why, self.atoll('image', 'build', self.recipe(text), '-o', out,
                                              expect=1))
                self.assertFalse(out.exists())
        self.assertFalse([path.name for path in self.work.glob('.atoll-build.*')])
        self.assertIn(' base, busybox, ', self.atoll('image', 'build', 'nothing', expect=1))

    def test_what_is_missing_is_named(self):
        programs = self.work / 'programs'
        programs.mkdir()
        (programs / 'python3').symlink_to(sys.executable)  # not a wrapper, which wants a shell
        said = self.atoll('image', 'build', self.recipe('from = "base"'), expect=1, PATH=str(programs))
        self.assertIn("'apt-get' is missing: an image with Debian in it is made on Debian", said)
        said = self.atoll('image', 'build', 'busybox', expect=1, PATH=str(programs), ATOLL_BUSYBOX='/absent')
        self.assertIn('apt-get install --no-install-recommends busybox-static', said)
        (programs / 'python3').unlink()
        said = self.atoll('image', 'build', 'busybox', expect=1, PATH=str(programs))
        self.assertIn("'python3' is missing; install it with: apt-get install", said)

    def test_an_interrupt_leaves_nothing(self):
        """The one who waits for a slow program of the build is told, and the build ends, with all that it has started."""
        programs = self.work / 'slow'
        programs.mkdir()
        (self.work / 'open').mkdir()
        (self.work / 'open').chmod(0o777)  # apt is nobody
        told = self.work / 'open/told'
        (programs / 'apt-get').write_text(f'#!/bin/sh\nsleep 600 &\necho $! >{told}\nwait\n')
        (programs / 'apt-get').chmod(0o755)
        client = subprocess.Popen(
            [BUILD / 'atoll', 'image', 'build', self.recipe('from = "base"')],
            env={**self.daemon.client_env(), 'TMPDIR': str(self.work),
                 'PATH': f'{programs}:{os.environ["PATH"]}'}, stderr=subprocess.DEVNULL)
        atoll.until(lambda: told.exists() and told.read_text().endswith('\n'), 20 * SLOWNESS,
                    'the build has begun')
        client.terminate()
        self.assertNotEqual(client.wait(20 * SLOWNESS), 0)
        atoll.until(lambda: not pathlib.Path('/proc', told.read_text().strip()).exists(),
                    20 * SLOWNESS, 'what it has started is gone')
        self.assertFalse(list(self.work.glob('atoll.*')))


if __name__ == '__main__':
    unittest.main()
