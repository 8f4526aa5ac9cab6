"""Lines that people who come from docker type, and what becomes of them: a table, read top down."""
import datetime
import json
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import unittest

import atoll
import box
from atoll import BUILD, SLOWNESS, at_a_terminal, until

# What is typed after "atoll", as a shell reads it; the exit code; what stdout and stderr hold, as
# regular expressions ('' matches nothing but nothing). {image}: one with users, busybox has none.
TABLE = [
    # What runs, and how it ends.
    ('run busybox echo hello', 0, '^hello\n$', ''),
    ('run --rm busybox:latest -- echo hello', 0, '^hello\n$', ''),
    ('run busybox ls -d /tmp --color=never', 0, '^/tmp\n$', ''),
    ('run busybox', 0, '', ''),
    ('run started', 0, '^one two\n$', ''),
    ('run started three four', 0, '^one three four\n$', ''),
    ('run --entrypoint /bin/echo started five', 0, '^five\n$', ''),
    # What is behind the image is the command's, though it looks like one of ours.
    ('run --entrypoint sh busybox -c "echo ep"', 0, '^ep\n$', ''),
    ('run --entrypoint echo busybox -d -e A=1 --version --help word', 0, '^-d -e A=1 --version --help word\n$', ''),
    ('run --entrypoint echo busybox -- -n', 0, '^$', ''),
    ('run busybox printf %s "$(printf \'\\377\')"', 2, '', 'is not UTF-8'),
    ('run busybox echo hi >/dev/full', 125, '', 'cannot be written here: .*No space left'),
    ('run busybox echo hi | true', 0, '', ''),
    ('run --timeout 2 --json busybox true', 2, '', '^{"error":'),
    ('run busybox:1.2 true', 125, '', "did you mean 'busybox:latest'"),
    ('run busybox sh -c "echo out; echo err >&2; exit 3"', 3, '^out\n$', '^err\n$'),
    ('run busybox no-such-program', 127, '', '^atoll: command not found: exec no-such-program: No such'),
    ('run busybox /tmp', 126, '', '^atoll: command is no program: exec /tmp: '),
    ('run -i busybox no-such-program', 127, '', '^atoll: command not found'),
    # An image of one static program, which is its ENTRYPOINT and not a shell.
    ('run bare', 0, '^bare\n$', ''),
    ('run -e A=b -w / bare again', 0, '^again\n$', ''),
    ('echo piped | atoll run -i --entrypoint /cat bare', 0, '^piped\n$', ''),
    ('run --keep --name still bare', 0, '^bare\n$', 'is kept'),
    ('exec still /echo once more', 0, '^once more\n$', ''),
    ('exec -i still /nothing', 127, '', 'not found: exec /nothing'),
    ('top still', 0, r'PID .*\n1 +0 +\w +\S+ \w+ +\S*execd\S*\n$', ''),
    ('kill -s USR2 still', 0, '.', ''),
    ('kill still', 0, '.', ''),
    ('wait still', 0, '^143\n$', 'SIGTERM'),
    ('rm still', 0, '.', ''),
    ('run -d --name asleep --entrypoint /sleep bare 1000', 0, '.', ''),
    # The create answers before its program has executed.
    ('until atoll top asleep | grep -qw sleep; do :; done', 0, '^$', ''),
    ('top --json asleep', 0, '"memoryBytes":[1-9].*"name":"sleep"', ''),
    ('kill -s STOP asleep', 2, '', 'signal 19: is not passed on'),
    ('stop asleep', 0, '.', ''),
    ('wait asleep', 0, '^143\n$', 'SIGTERM'),
    ('rm asleep', 0, '.', ''),
    ('run -d --name killed --entrypoint /sleep bare 1000', 0, '.', ''),
    ('exec --detach killed /sleep 1000', 0, '.', ''),
    ('kill killed', 0, '.', ''),
    ('wait killed', 0, '^137\n$', 'SIGKILL'),
    ('rm killed', 0, '.', ''),
    # One that was kept has no command of its own; a signal that would end that ends it.
    ('run --keep --name kept-1 busybox true', 0, '', 'is kept'),
    ('stop kept-1', 0, '.', ''),
    ('wait kept-1', 0, '^143\n$', 'SIGTERM'),
    ('run --keep --name kept-2 busybox true', 0, '', 'is kept'),
    ('kill kept-2', 0, '.', ''),
    ('wait kept-2', 0, '^143\n$', 'SIGTERM'),
    ('rm kept-1 kept-2', 0, '.', ''),
    ('run busybox sh -c "kill -SEGV \\$\\$"', 139, '', '^atoll: command killed by SIGSEGV\n$'),
    ('run --json busybox sh -c "kill -9 \\$\\$"', 137, '',
     r'^\{"exitCode":137,"reason":"killed by SIGKILL"\}\n$'),
    ('run --json busybox false', 1, '', r'^\{"exitCode":1\}\n$'),
    ('run -m 16m busybox sh -c "x=a; while :; do x=\\$x\\$x; done"', 137, '',
     'SIGKILL .out of memory: .* the limit is 16Mi'),
    ('run --pids 16 busybox sh -c "while :; do sleep 9 & done"', 2, '',
     'limit of processes was reached: .* the limit is 16, more is asked for with run --pids'),
    # Options.
    ('run -e A="x y" -e FROM_US --env-file env busybox sh -c \'echo "$A" $FROM_US $IN_FILE\'', 0,
     '^x y ours filed\n$', ''),
    ('run -w /usr/bin busybox pwd', 0, '^/usr/bin\n$', ''),
    ('run -u 7 {image} sh -c "id -u; id -g"', 0, '^7\n0\n$', ''),
    # The group is passwd's, as docker has it, and a group that is given is that one.
    ('run -u 1000 grouped sh -c "id -u; id -g"', 0, '^1000\n4242\n$', ''),
    ('run -u 1000:7 grouped sh -c "id -u; id -g"', 0, '^1000\n7\n$', ''),
    ('run --rm -u dev {image} whoami', 0, '^dev\n$', ''),
    ('echo piped | atoll run -i busybox cat', 0, '^piped\n$', ''),
    ('echo piped | atoll run -i -u dev {image} sh -c "cat; id -u"', 0, '^piped\n1000\n$', ''),
    ('run --network none busybox cat /proc/self/status', 0, 'Name:', ''),
    ('run --network host busybox true', 125, '', "host's network"),
    ('run --pids 64 --cpus 0.5 --shm-size 8m busybox cat /sys/fs/cgroup/nothing', 1, '', 'No such'),
    ('run --read-only busybox touch /x', 1, '', 'Read-only'),
    ('volume create kept', 0, '^kept\n$', ''),
    ('run -v kept:/srv busybox sh -c "echo stays >/srv/file"', 0, '', ''),
    ('run -v kept:/srv:ro busybox cat /srv/file', 0, '^stays\n$', ''),
    ('run -v kept busybox true', 125, '', 'VOLUME:PATH'),
    ('run -p 0.0.0.0:8080:80 busybox true', 125, '', 'on 127.0.0.1 alone'),
    ('run -p 8080-8090:80 busybox true', 125, '', 'HOST:PORT or 127.0.0.1:HOST:PORT is expected'),
    ('run -p 53:53/udp busybox true', 125, '', 'is expected'),
    ('run -t busybox true', 125, '', '-t needs a terminal'),
    ('run -dit busybox sh', 125, '', 'atoll exec -it ID sh'),
    ('run --privileged busybox true', 2, '', 'no sandbox gets privileges'),
    # One that stays.
    ('run -d --name web -l job=7 -p 80 -e A=1 -w /tmp busybox sh -c "pwd; exec sleep 1000"', 0,
     '^[0-9a-f-]{36}\n$', 'port 80 is reached at http://127.0.0.1'),
    ('run -d --name web busybox true', 125, '', "the name 'web' is taken by sandbox"),
    ('ps', 0, 'web .*busybox:latest .*Running', ''),
    ('ps -a --filter name=we --filter label=job=7 --format "{{{{.Name}}}}: {{{{.State}}}}"', 0,
     '^web: Running\n$', ''),
    ('ps -q --filter status=exited', 0, '', ''),
    ('ps --format "{{{{.Nmae}}}}"', 2, '', 'there is no {{.Nmae}}; there are ID, Name'),
    ('exec web -- sh -c \'echo $A\' ignored', 0, '^1\n$', ''),
    ('exec -u 7 -w /usr -e B=2 web sh -c \'echo $A$B; pwd; id -u\'', 0, '^12\n/usr\n7\n$', ''),
    # Exit codes: 2 where something else has to be typed.
    ('rm nosuch', 2, '', "there is no sandbox 'nosuch'"),
    ('rm', 2, '', 'name sandboxes, or --all'),
    ('kill -s NOPE web', 2, '', 'NOPE: not a signal'),
    ('ps --filter nope=1', 2, '', 'use name=, id=, image=, status= or label='),
    ('volume rm nosuch', 2, '', 'nosuch'),
    # Durations: as people write them, everywhere.
    ('renew web 2h', 0, r'^20\d\d-', ''),
    ('renew --timeout 1h30m web', 0, r'^20\d\d-', ''),
    ('renew web 5x', 2, '', "^atoll: DURATION '5x': a duration from 1s to 3650d is expected, such as 90s"),
    ('run --timeout 5m busybox true', 0, '', ''),
    ('run --timeout 59s busybox true', 2, '', "--timeout: '59s': a duration from 1m to 3650d is expected"),
    ('run --idle soon busybox true', 125, '', '--idle soon: a duration is expected'),
    ('logs --since 10m web', 0, '^/tmp\n$', ''),
    ('logs --since soon web', 2, '', '--since soon: a duration is expected'),
    ('run --help', 0, r'--timeout DURATION(.|\n)*default: 1d', ''),
    # Formats: the same for all lists.
    ('ps --format json', 0, r'^\{"Command":.*"Created":"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ".*"Expires":"20[-0-9T:]+Z",.*\}\n$', ''),
    ('ps --format "{{{{json .}}}}"', 0, r'^\{"Command":', ''),
    ('stats --no-stream --format json', 0, r'^\{"CPU":"[\d.]+%",.*"Name":"web",.*\}\n$', ''),
    ('stats --no-stream --format "{{{{.Name}}}} {{{{.MemPerc}}}}"', 0, r'^web [\d.]+%\n$', ''),
    ('stats --no-stream', 0, '^ID +NAME +CPU +MEMORY +OF +MEM PERC +DISK\n', ''),
    ('volume ls --format json', 0, r'(?m)^\{"Created":"20[-0-9T:]+Z","Name":"kept","UsedBy":""\}$', ''),
    ('volume ls', 0, '^NAME +CREATED +USED BY\n', ''),
    ('snapshot ls --format json', 0, '', ''),
    ('pool ls --format json', 0, '', ''),
    ('template ls --format json', 0, '', ''),
    ('exec wbe true', 125, '', "no sandbox 'wbe'; did you mean 'web'"),
    ('logs web', 0, '^/tmp\n$', ''),
    ('logs --tail all web', 0, '^/tmp\n$', ''),
    ('logs --tail few web', 2, '', "--tail: 'few': a whole number from 1 to 10000 is expected"),
    ('logs -t web', 0, r'^20\d\d-\S+Z /tmp\n$', ''),
    ('top web', 0, 'PID .*\n1 .*execd\n(.|\n)*sleep', ''),
    ('port web 80', 0, 'http://127.0.0.1:.*80\n', ''),
    ('inspect web', 0, '"A": "1"(.|\n)*"memory": "512Mi"', ''),
    ('inspect busybox', 0, '"digest": "sha256:', ''),
    ('inspect --json nosuch', 2, r'^\[\]\n$', r'^\{"error":"there is no sandbox .nosuch.'),
    ('image rm busybox', 1, '', r'in use by sandbox \S+ \(web\)'),
    ('pause web', 0, '^[0-9a-f-]{36}\n$', ''),
    ('unpause web', 0, '^[0-9a-f-]{36}\n$', ''),
    ('kill -s USR1 web', 0, '^[0-9a-f-]{36}\n$', ''),
    ('wait web', 0, '^138\n$', 'SIGUSR1'),
    ('attach web', 138, '^(/tmp\n)?$', 'SIGUSR1'),
    ('ps -q', 0, '', ''),
    ('ps -aq --filter status=exited', 0, '^[0-9a-f-]{36}\n$', ''),
    ('events web', 0, 'Running(.|\n)*Failed CONTAINER_EXITED_ERROR: exit code 138', ''),
    ('run -d --name asked busybox sh -c "trap \'exit 5\' TERM; >/tmp/set; while :; do sleep 0.02; done"', 0,
     '^[0-9a-f-]{36}\n$', ''),
    ('exec asked sh -c "until [ -e /tmp/set ]; do :; done"', 0, '', ''),
    ('stop asked', 0, '^[0-9a-f-]{36}\n$', ''),
    ('wait asked', 0, '^5\n$', ''),
    ('run -d --name deaf busybox sh -c "trap : TERM; >/tmp/set; while :; do sleep 0.02; done"', 0, '.',
     ''),
    ('exec deaf sh -c "until [ -e /tmp/set ]; do :; done"', 0, '', ''),
    ('stop -t 0 deaf', 0, '^[0-9a-f-]{36}\n$', ''),
    ('wait --json deaf', 0, '"exitCode":137', ''),
    # Whoever stops a sandbox has not made it fail.
    ('ps -a', 0, r'STATE +EXIT +CREATED(.|\n)*Failed +138(.|\n)*', ''),
    ('ps -a --format "{{{{.Name}}}} {{{{.State}}}} {{{{.Exit}}}}"', 0,
     '^(?=(.|\n)*asked Terminated 5\n)(?=(.|\n)*deaf Terminated 137\n)(.|\n)*web Failed 138\n', ''),
    ('events deaf', 0, 'Terminated CONTAINER_STOPPED: exit code 137', ''),
    # An ended sandbox has given its name up; the name means the sandbox that took it.
    ('run -d --name deaf busybox sleep 1000', 0, '.', ''),
    ('exec deaf echo another', 0, '^another\n$', ''),
    ('run -d --name deaf busybox true', 125, '', "the name 'deaf' is taken by sandbox"),
    ('rm deaf', 0, '.', ''),
    ('wait deaf', 0, '^137\n$', 'SIGKILL'),
    ('run -d --rm --name short busybox sleep 1000', 0, '.', ''),
    ('stop short', 0, '^[0-9a-f-]{36}\n$', ''),
    ('ps -aq --filter name=short', 0, '', ''),
    ('run -d --rm --name short busybox sh -c "exit 3"', 0, '.', ''),
    ('wait short', 0, '^3\n$', ''),
    ('ps -aq --filter name=short', 0, '', ''),
    ('run -d --rm --name short busybox sleep 1000', 0, '.', ''),
    ('kill short', 0, '.', ''),
    ('ps -aq --filter name=short', 0, '', ''),
    ('prune -f', 0, '^([0-9a-f-]{36}\n){3}$', ''),
    ('ps -aq', 0, '', ''),
    # Images.
    ('images', 0, 'NAME .*\n(.|\n)*busybox:latest', ''),
    ('images -q busybox', 0, '^busybox:latest\n$', ''),
    ('images -q busybox:latest', 0, '^busybox:latest\n$', ''),
    ('images -q busy', 0, '', ''),
    ('images -q nosuch', 0, '', ''),
    ('image inspect busybox', 0, '"cmd": ', ''),
    ('run busyboy true', 125, '', "^atoll: image 'busyboy:latest' is not imported; did you mean 'busybox:latest'\\?.* image tag "),
    ('run nosuch', 125, '', '^atoll: image .nosuch:latest. is not imported; to fetch it .* image pull nosuch:latest, or images.pull'),
    ('load -i {archive}', 0, '^imported busybox:latest', ''),
    ('cat {archive} | atoll load', 0, '^imported busybox:latest', ''),
    ('echo none | atoll load', 1, '', '.'),
    ('tag busybox mine:2', 0, '^busybox:latest is mine:2, too\n$', ''),
    ('image tag busyboy x', 2, '', "did you mean 'busybox:latest'"),
    ('image tag busybox ../x', 2, '', "image name '../x'"),
    ('image inspect mine:2', 0, '"rootfs": (.|\n)*"diffId": "sha256:(.|\n)*"sandboxes": ', ''),
    ('rmi mine:2', 0, '^removed mine:2\n$', ''),
    ('image prune -f', 0, '^freed 0 B of 0 layers\n$', ''),
    # What there is not.
    ('fetch alpine', 2, '', 'atoll image pull'),
    ('build .', 2, '', 'docker save'),
    ('create busybox', 2, '', 'atoll run -d'),
    ('start web', 2, '', 'atoll resume'),
    ('imgaes', 2, '', "did you mean 'images'"),
    ('--version', 0, r'^atoll \d', ''),
    ('help run', 0, 'Usage: atoll run (.|\n)*Examples:', ''),
    ('doctor --server http://127.0.0.1:1', 1, 'nobody answers at http://127.0.0.1:1', ''),
]


def ended(pid):
    """Or waits to be reaped: it is nobody's child any more."""
    try:
        stat = pathlib.Path(f'/proc/{pid}/stat').read_text(encoding='utf-8')
    except OSError:
        return True
    return stat.rpartition(')')[2].split()[0] == 'Z'


class Docker(unittest.TestCase):
    """One daemon; the lines of the table follow on one another."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        work = tempfile.TemporaryDirectory()
        cls.addClassCleanup(work.cleanup)
        cls.work = pathlib.Path(work.name)
        (cls.work / 'env').write_text('# comment\n\nIN_FILE=filed\n', encoding='utf-8')
        (cls.work / 'bin').mkdir()
        (cls.work / 'bin/atoll').symlink_to(BUILD / 'atoll')
        cls.environment = {'PATH': f"{cls.work / 'bin'}:{os.environ['PATH']}", 'FROM_US': 'ours',
                           'ATOLL_RUN_DIR': str(cls.daemon.run_dir), 'LC_ALL': 'C.UTF-8'}
        cls.image = box.shell_image(cls.daemon)
        cls.daemon.import_busybox()
        archive = cls.work / 'started.tar'
        root = cls.work / 'root'
        subprocess.run(['mkdir', '-p', root / 'bin', root / 'proc', root / 'dev', root / 'tmp',
                        root / 'sys'], check=True)
        subprocess.run(['cp', '/bin/busybox', root / 'bin/busybox'], check=True)
        for name in ('sh', 'echo', 'kill'):
            (root / 'bin' / name).symlink_to('busybox')
        bare = cls.work / 'bare'
        bare.mkdir()
        # busybox goes by the name that it is called by.
        for name in ('echo', 'cat', 'sleep'):
            subprocess.run(['cp', '/bin/busybox', bare / name], check=True)
        box.pack(bare, 'bare:latest', cls.work / 'bare.tar', '--entrypoint',
                 json.dumps(['/echo']), '--cmd', json.dumps(['bare']))
        cls.daemon.import_image(cls.work / 'bare.tar', 'bare')
        box.pack(root, 'started:latest', archive, '--entrypoint', json.dumps(['/bin/echo', 'one']),
                 '--cmd', json.dumps(['two']))
        cls.daemon.import_image(archive, 'started')
        (root / 'etc').mkdir()
        (root / 'etc/passwd').write_text('root:x:0:0::/:/bin/sh\nnotes:x:1000:4242::/:/bin/sh\n',
                                         encoding='ascii')
        (root / 'bin/id').symlink_to('busybox')
        box.pack(root, 'grouped:latest', cls.work / 'grouped.tar')
        cls.daemon.import_image(cls.work / 'grouped.tar', 'grouped')

    def shell(self, line, **options):
        return subprocess.run(['bash', '-c', line], env=self.environment, cwd=self.work,
                              capture_output=True, timeout=60 * SLOWNESS, check=False, **options)

    def sandboxes(self):
        return self.shell('atoll ps -aq').stdout.split()

    def test_the_table(self):
        archive = atoll.image_archive('busybox')
        for line, code, out, err in TABLE:
            typed = line.format(image=self.image, archive=archive)
            done = self.shell(typed if 'atoll ' in typed.split('"')[0] else 'atoll ' + typed)
            told = (done.stdout.decode(), done.stderr.decode())
            with self.subTest(typed):
                self.assertEqual(done.returncode, code, told)
                for wanted, got in zip((out, err), told):
                    self.assertRegex(got, wanted or '^$', told)

    def test_it_needs_few_libraries(self):
        """Each takes its time at every start; libarchive alone would bring eleven others."""
        told = subprocess.run(['readelf', '-d', BUILD / 'atoll'], check=True, capture_output=True, text=True).stdout
        needed = {line.split('[')[1].split('.')[0] for line in told.splitlines() if '(NEEDED)' in line}
        self.assertLessEqual(needed, {'libssl', 'libcrypto', 'libstdc++', 'libgcc_s', 'libc', 'libm'})

    def test_one_of_many_at_once_gets_the_name(self):
        typed = [subprocess.Popen([BUILD / 'atoll', 'run', '-d', '--name', 'wanted', 'busybox',
                                   'sleep', '1000'], env=self.environment, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(8)]
        told = [(client.communicate(timeout=60 * SLOWNESS), client.returncode) for client in typed]
        (winner,) = [out.strip() for (out, _), code in told if code == 0]
        for (out, err), code in told:
            if code != 0:
                self.assertEqual((out, code), ('', 125))
                self.assertIn(f"the name 'wanted' is taken by sandbox {winner}", err)
        ps = "atoll ps -aq --filter name=wanted"
        self.assertEqual(self.shell(ps).stdout.decode().split(), [winner])
        self.shell('atoll rm wanted')
        again = self.shell('atoll run -d --name wanted busybox sleep 1000 && atoll rm wanted')
        self.assertEqual((again.returncode, again.stderr), (0, b''))

    def test_every_byte_passes_both_ways_at_once(self):
        """More than every buffer on the way holds, of a command that answers while it reads."""
        data = random.Random(7).randbytes(64 << 20)
        done = self.shell('atoll run -i busybox cat', input=data)
        self.assertEqual((done.returncode, done.stderr), (0, b''))
        self.assertTrue(done.stdout == data)

    def test_a_command_that_says_more_than_it_is_told(self):
        """Its output fills every buffer on the way while there is input to send."""
        data = random.Random(8).randbytes(16 << 20)
        done = self.shell('atoll run -i busybox tee' + ' /dev/stderr' * 8, input=data)
        self.assertEqual(done.returncode, 0)
        self.assertTrue(done.stdout == data)
        self.assertEqual(len(done.stderr), 8 * len(data))

    def test_a_terminal_of_a_user_tells_the_signal(self):
        seen, shell = at_a_terminal(b'id -u; tty; kill -9 $$\n', 'run', '-it', '-u', 'dev',
                                    self.image, 'sh', env=self.environment, stderr=subprocess.PIPE)
        told = shell.stderr.read()
        shell.stderr.close()
        self.assertEqual(shell.wait(20 * SLOWNESS), 128 + signal.SIGKILL)
        self.assertIn(b'1000\r\n/dev/pts/', seen)
        self.assertEqual(told, b'atoll: command killed by SIGKILL\n')

    def test_colours_are_for_terminals(self):
        for more, told in (({}, b'\x1b[31matoll:\x1b[0m '), ({'NO_COLOR': '1'}, b'atoll: ')):
            seen, client = at_a_terminal(b'', 'inspect', 'nosuch', env={**self.environment, **more})
            self.assertEqual(client.wait(20 * SLOWNESS), 2)
            self.assertIn(told + b'there is no sandbox', seen)
        self.assertTrue(self.shell('atoll inspect nosuch').stderr.startswith(b'atoll: there is no'))

    def test_a_terminal_without_a_shell(self):
        seen, client = at_a_terminal(b'', 'run', '-it', '-e', 'A=b', 'bare', 'no  shell', '$A',
                                     env=self.environment)
        self.assertEqual(client.wait(20 * SLOWNESS), 0)
        self.assertEqual(seen, b'no  shell $A\r\n')

    def guard_of(self, client):
        """The process that goes on when `client` is killed: its child, which has let go of it."""
        children = pathlib.Path(f'/proc/{client.pid}/task/{client.pid}/children').read_text(
            encoding='utf-8').split()
        (guard,) = [int(child) for child in children]
        until(lambda: pathlib.Path(f'/proc/{guard}/comm').read_text(encoding='utf-8') ==
              'atoll-guard\n', 20 * SLOWNESS, 'it is detached')
        return guard

    def start_long_run(self):
        client = subprocess.Popen([BUILD / 'atoll', 'run', 'busybox', 'sh', '-c',
                                   'echo begun; exec sleep 1000'], env=self.environment,
                                  stdout=subprocess.PIPE)
        self.addCleanup(client.stdout.close)
        self.assertEqual(client.stdout.readline(), b'begun\n')
        return client

    def test_a_killed_client_takes_its_sandbox_along(self):
        before = set(self.sandboxes())
        client = self.start_long_run()
        self.assertEqual(len(set(self.sandboxes()) - before), 1)
        guard = self.guard_of(client)
        client.kill()
        client.wait()
        until(lambda: set(self.sandboxes()) == before, 20 * SLOWNESS, 'the sandbox is gone')
        until(lambda: ended(guard), 20 * SLOWNESS, 'the guard has ended')

    def test_what_nobody_guards_ends_soon(self):
        """Client and guard killed at once, as by the loss of their host."""
        before = set(self.sandboxes())
        client = self.start_long_run()
        guard = self.guard_of(client)
        os.kill(guard, signal.SIGKILL)
        client.kill()
        client.wait()
        (left,) = set(self.sandboxes()) - before
        (told,) = json.loads(self.shell(f'atoll inspect {left.decode()}').stdout)
        created, expires = (datetime.datetime.fromisoformat(told[name][:19])
                            for name in ('createdAt', 'expiresAt'))
        self.assertLessEqual((expires - created).total_seconds(), 301)
        self.shell(f'atoll rm {left.decode()}')

    def test_an_expired_run_is_told_so(self):
        client = subprocess.Popen([BUILD / 'atoll', 'run', '--name', 'short', 'busybox', 'sh', '-c',
                                   'echo begun; exec sleep 1000'], env=self.environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(client.stdout.readline(), b'begun\n')
        self.shell('atoll renew --timeout 1 short')
        told = client.communicate(timeout=60 * SLOWNESS)[1]
        self.assertEqual(client.returncode, 125)
        self.assertIn(b'has expired or was deleted before the command ended', told)

    def test_events_are_followed_to_the_end(self):
        (first,) = self.shell('atoll run -d --name seen busybox sleep 1000').stdout.split()
        follow = subprocess.Popen([BUILD / 'atoll', 'events', '-f', 'seen'], env=self.environment,
                                  stdout=subprocess.PIPE, text=True)
        self.addCleanup(follow.stdout.close)
        for wanted in ('Created CONTAINER_CREATED', 'Running'):
            self.assertIn(wanted, follow.stdout.readline())
        self.shell('atoll pause seen && atoll resume seen && atoll kill seen')
        seen = follow.stdout.readline()
        while 'Terminated' not in seen.splitlines()[-1]:
            seen += follow.stdout.readline()
        self.assertEqual(seen.count(' Paused '), 1, seen)
        self.shell('atoll rm seen')
        self.assertRegex(follow.stdout.read(),
                         f'^{first.decode()} \\S+ lifecycle Normal Deleted USER_DELETE: .*\n$')
        self.assertEqual(follow.wait(20 * SLOWNESS), 0)

    def test_short_lives_are_followed_too(self):
        follow = subprocess.Popen([BUILD / 'atoll', 'events', '-f', '--json'], env=self.environment,
                                  stdout=subprocess.PIPE, text=True)
        self.addCleanup(follow.stdout.close)
        self.addCleanup(follow.wait)
        self.addCleanup(follow.terminate)
        (first,) = self.shell('atoll run -d busybox sleep 1000').stdout.decode().split()
        seen = [json.loads(follow.stdout.readline())]
        while seen[-1]['id'] != first:
            seen.append(json.loads(follow.stdout.readline()))
        greedy = "atoll run -m 16m busybox sh -c 'x=a; while :; do x=$x$x; done'"
        lives = 'for i in 1 2 3 4 5 6 7 8 9 10; do atoll run busybox true; done'
        self.shell(f'{greedy}; {lives}; atoll rm {first}')
        while seen[-1]['id'] != first or not seen[-1]['text'].startswith('Deleted'):
            seen.append(json.loads(follow.stdout.readline()))
        begun = {one['id'] for one in seen if one['text'].startswith('Running')} - {first}
        gone = {one['id'] for one in seen if one['text'].startswith('Deleted')} - {first}
        self.assertEqual(len(begun), 11)
        self.assertEqual(gone, begun)
        self.assertEqual(len([one for one in seen if one['text'].startswith('OutOfMemory')]), 1)

    def test_completion_knows_images_names_and_verbs(self):
        self.shell('atoll run -d --name known busybox sleep 1000')
        self.addCleanup(self.shell, 'atoll rm known')
        for words, offered in (('', 'run'), ('run', 'busybox:latest'), ('exec', 'known'),
                               ('image rm', 'busybox:latest'), ('run -v', 'kept-here'),
                               ('help', 'exec'), ('run --net', '--network'), ('cp', 'known:')):
            if offered == 'kept-here':
                self.shell('atoll volume create kept-here')
            found = self.shell(f'atoll complete -- {words}').stdout.decode().split()
            self.assertIn(offered, found, words)
        self.assertEqual(self.shell('atoll complete -- run busybox').stdout, b'')

    def test_the_manual_has_every_command(self):
        page = self.shell('atoll man').stdout.decode()
        for name in ('run', 'exec', 'image import', 'prune'):
            self.assertIn(f'.SS atoll {name}', page)
        self.assertNotIn('.SS atoll rmi', page)


if __name__ == '__main__':
    unittest.main()
