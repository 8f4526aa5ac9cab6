"""Process 1: parking, the start message, bootstrap switches, signals, reaping, protection."""
import os
import signal
import time
import unittest

from harness import LIBC, MS_BIND, MS_REC, Sandbox, TOKEN_HEADER, mount, until


class Start(unittest.TestCase):
    def test_parks_until_the_start_message(self):
        with Sandbox(start=False) as s:
            with s.raw() as client:
                client.sendall(b'GET /ping HTTP/1.1\r\nHost: x\r\n\r\n')
                client.settimeout(0.2)
                with self.assertRaises(TimeoutError):
                    client.recv(1)
                s.start(['/bin/sleep', '100'], ['PATH=/bin'])
                client.settimeout(10)
                self.assertIn(b'200 OK', client.recv(4096))

    def test_does_not_serve_the_tree_it_was_started_in(self):
        with Sandbox(start=False, options=['--enter-root=1']) as s:
            s.control.close()  # what would park ends
            self.assertEqual(s.wait(), 126)

    def test_enters_the_root_over_its_own(self):
        def cover():
            os.mkdir('/tmp/over')
            mount('/', '/', None, MS_BIND | MS_REC)
            # From the tree below, which this process still stands in.
            mount('tmpfs', '/tmp', 'tmpfs', 0, '')
        with Sandbox(setup=cover, options=['--enter-root=1']) as s:
            self.assertEqual(s.out('ls -d /tmp/over'), '/tmp/over')
        with Sandbox(setup=cover) as s:
            self.assertNotEqual(s.out('ls -d /tmp/over || true'), '/tmp/over')

    def test_option_that_it_does_not_know(self):
        with Sandbox(start=False, options=['--enter-tree=1']) as s:
            self.assertEqual(s.wait(), 2)

    def test_closed_control_socket_before_the_start_ends_it(self):
        with Sandbox(start=False) as s:
            s.control.close()
            self.assertEqual(s.wait(), 0)

    def test_closed_control_socket_after_the_start_is_normal(self):
        with Sandbox() as s:
            s.control.close()
            self.assertEqual(s.out('echo still here'), 'still here')

    def test_malformed_start_message(self):
        with Sandbox(start=False) as s:
            s.control.sendall(b'\x03\0\0\0abc')
            s.read_report()
            self.assertEqual(s.report[0], 'failed')
            self.assertEqual(s.wait(), 126)

    def test_exit_code_of_the_entrypoint(self):
        for argv, code in ((['sh', '-c', 'exit 9'], 9), (['sh', '-c', 'kill -TERM $$'], 143),
                           (['/nope'], 127), (['/etc/passwd'], 126)):
            with self.subTest(argv=argv), Sandbox(argv=argv) as s:
                self.assertEqual(s.wait(), code)
                self.assertEqual(s.report[0], 'failed' if argv[0][0] == '/' else 'started')

    def test_failure_report_names_call_and_object(self):
        with Sandbox(argv=['/nope']) as s:
            self.assertEqual(s.report, ('failed', 'exec /nope: No such file or directory'))
        with Sandbox(user='nosuch') as s:
            self.assertEqual(s.report[0], 'failed')
            self.assertIn("user 'nosuch'", s.report[1])
        with Sandbox(cwd='/proc/self/fd/5') as s:
            self.assertEqual(s.report[0], 'failed')

    def test_signals_are_forwarded(self):
        script = 'trap "exit 42" TERM; echo ready; while :; do sleep 0.01; done'
        with Sandbox(argv=['sh', '-c', script]) as s:
            until(lambda: b'ready' in s.call('GET', '/.atoll/entrypoint/logs').body)
            os.kill(s.pid, signal.SIGTERM)
            self.assertEqual(s.wait(), 42)

    def test_user_cwd_and_environment(self):
        with Sandbox(user='dev:audio', cwd='/srv/dev/made/here',
                     env=['PATH=/usr/bin:/bin', 'A=b c']) as s:
            self.assertEqual(s.out('id -u; id -G; pwd; echo "$A $HOME"'),
                             '1000\n29\n/srv/dev/made/here\nb c /srv/dev')
        with Sandbox(user='1001:video') as s:
            self.assertEqual(s.out('id -u; id -G'), '1001\n44')
        with Sandbox(user='dev') as s:
            self.assertEqual(s.out('id -G'), '1000 29 44')
        with Sandbox(user='4242') as s:
            self.assertEqual(s.out('id -u; id -G'), '4242\n0')

    def test_bootstrap_switches(self):
        log = lambda s: s.call('GET', '/.atoll/entrypoint/logs').body.decode()
        path = 'PATH=/usr/bin:/bin'
        with Sandbox(argv=['/nope'], env=[path, 'BOOTSTRAP_CMD=echo from $0 cmd; sleep 100',
                                          'BOOTSTRAP_SHELL=/bin/sh']) as s:
            until(lambda: 'from /bin/sh cmd' in log(s))
        with Sandbox(argv=['-c', 'echo one', '&& echo two; sleep 100'], env=[path]) as s:
            until(lambda: log(s) == 'one\ntwo\n')

        def script():
            with open('/opt/pre.sh', 'w', encoding='ascii') as file:
                file.write('export FROM_PRE="it works"\n')
        with Sandbox(argv=['sh', '-c', 'echo "$FROM_PRE $1"; sleep 100', 'x', 'a  b'],
                     env=[path, 'EXECD_BOOTSTRAP_PRE_SCRIPT=/opt/pre.sh'], setup=script) as s:
            until(lambda: log(s) == 'it works a  b\n')

    def test_envs_file_is_read_for_each_command(self):
        with Sandbox(env=['PATH=/usr/bin:/bin', 'EXECD_ENVS=/opt/x/env', 'BASE=b']) as s:
            s.out("printf '# c\\nexport ONE=1\\nTWO=2\\nPATH=/mine:$PATH\\n' > /opt/x/env")
            # From execd's own environment, in which the file's are not.
            s.out("printf '%s\\n' 'THREE=${BASE}x$ONE' >> /opt/x/env")
            self.assertEqual(s.out('echo $ONE $TWO $THREE $PATH', envs={'TWO': 'over'}),
                             '1 over bx /mine:/usr/bin:/bin')

    def test_what_the_envs_file_may_hold(self):
        lines = (('A=  two words\t', 'two words'), ('A= $BASE/${BASE}x$NOPE', 'b/bx'),
                 ('A="  $BASE  "', '  b  '), ('A="a\\\\b\\"c\\nd\\te\\$f"', 'a\\b"c\nd\te\\'),
                 ("A='$BASE \"x\"'", '$BASE "x"'), ("A='one\ntwo\n\nB=3'\nC=4", 'one\ntwo\n\nB=3'),
                 ("A='kept'  \r", 'kept'), ("A=1\nA=2", '2'), ("A=it's", "it's"), ('A=', ''),
                 # Passed over: the line before counts.
                 ("A=1\nA='x' y", '1'), ('A=1\nA="x" y', '1'), ('A=1\nA="x\n', '1'),
                 ("A=1\nA='x\n", '1'), ('A=1\nA\n=2\n#A=3\n', '1'),
                 ('A=1\nA="x\nB=5', '1'), ("A=1\nA=" + '$LONG' * 1000, '1'))
        with Sandbox(env=['PATH=/usr/bin:/bin', 'EXECD_ENVS=/tmp/env', 'BASE=b',
                          'LONG=' + 'x' * 100000]) as s:
            for text, value in lines:
                with self.subTest(text=text[:40]):
                    s.out('printf %s "$TEXT" >/tmp/env', envs={'TEXT': text, 'A': ''})
                    self.assertEqual(s.run('printf %s "$A"')[0],
                                     value.splitlines(keepends=True))
            s.out('printf %s "$TEXT" >/tmp/env', envs={'TEXT': 'A=1\nA="x\nB=5\nC=\'6\nD=7'})
            self.assertEqual(s.out('echo $A $B $C $D'), '1 5 7')
            # As the SDK's set_env writes them, a thousand times over.
            s.out('i=0; while [ $i -lt 1000 ]; do echo "N$i=\'v\n\'"; i=$((i+1)); done >/tmp/env')
            self.assertEqual(s.out('echo $N0 $N999 $EXECD_ENVS'), 'v v /tmp/env')

    def test_reaps_orphans(self):
        with Sandbox() as s:
            s.out('for i in 1 2 3 4 5 6 7 8; do (sleep 0.05 &) ; done')
            until(lambda: s.out('ps ax -o stat= | grep -c Z || true') == '0')
            until(lambda: len(s.processes()) == 1)  # the entrypoint

    def test_leaves_are_used_again_and_removed(self):
        with Sandbox() as s:
            for _ in range(20):
                s.out('true')
            self.assertLessEqual(len(s.leaves()), 3)

    def test_works_without_cgroup(self):
        with Sandbox(cgroup=False) as s:
            self.assertEqual(s.out('echo hi'), 'hi')
            last = s.run('sleep 100', timeout=100)[2]
            self.assertEqual(last['error']['evalue'], '-1')


class Token(unittest.TestCase):
    def test_every_path_needs_the_token(self):
        with Sandbox(token='s3cret') as s:
            for path in ('/ping', '/command', '/proxy/80/', '/nope', '/files/info'):
                for headers in ({TOKEN_HEADER: ''}, {TOKEN_HEADER: 's3cre'},
                                {TOKEN_HEADER: 's3cretx'}, {TOKEN_HEADER: 'S3cret'}):
                    answer = s.call('GET', path, headers=headers)
                    self.assertEqual(answer.status, 401, path)
                    self.assertEqual(list(answer.json), ['error'])
            self.assertEqual(s.call('GET', '/ping').status, 200)
            self.assertEqual(s.call('GET', '/ping').headers['Content-Length'], '0')


class Protection(unittest.TestCase):
    """What a process of the sandbox, root included, can do to its own process 1: nothing."""

    def test_execd_is_untouchable(self):
        with Sandbox(env=['PATH=/usr/bin:/bin', 'SECRET=x'], token='s3cret') as s:
            for command in ('cat /proc/1/environ', 'cat /proc/1/mem', 'ls /proc/1/fd/',
                            'readlink /proc/1/exe', 'ls /proc/1/root/', 'cat /proc/1/maps',
                            'echo x > /proc/1/mem', 'cat /proc/1/exe', 'ls /proc/1/cwd/',
                            'cat /proc/1/syscall', 'echo 1000 > /proc/1/oom_score_adj',
                            'prlimit --pid 1 --nofile=1:1', 'prlimit --pid 1'):
                with self.subTest(command=command):
                    stdout, _, last = s.run(command)
                    self.assertEqual((stdout, last['type']), ([], 'error'))
            s.run('kill -9 1; kill -STOP 1; kill -SEGV 1')
            self.assertEqual(s.out('echo alive'), 'alive')

    def test_ptrace_is_refused(self):
        script = ("import ctypes; c = ctypes.CDLL(None, use_errno=True);"
                  "print(c.ptrace(16, 1, 0, 0), ctypes.get_errno())")  # PTRACE_ATTACH
        with Sandbox() as s:
            self.assertEqual(s.out(f'/usr/bin/python3 -c "{script}"'), '-1 1')

    def test_no_descriptor_leaks_into_commands(self):
        with Sandbox(user='dev') as s:
            # 3 is ls's own.
            self.assertEqual(s.out('ls /proc/self/fd'), '0\n1\n2\n3')
            s.run('sleep 100 & ls /proc/self/fd')
            self.assertEqual(s.out('ls /proc/$$/fd; true', uid=0).split(), ['0', '1', '2'])

    def test_identity_and_capabilities(self):
        def status(s, **members):
            text = s.out('cat /proc/self/status', **members)
            fields = dict(line.split(':\t', 1) for line in text.splitlines() if ':\t' in line)
            return {k: fields[k].split() for k in ('Uid', 'Gid', 'Groups', 'CapInh', 'CapPrm',
                                                   'CapEff', 'CapAmb', 'NoNewPrivs', 'SigBlk')}
        with Sandbox() as s:
            root = status(s)
            self.assertEqual(root['Uid'], ['0'] * 4)
            self.assertEqual(int(root['CapInh'][0], 16), 0)
            self.assertEqual(int(root['CapAmb'][0], 16), 0)
            self.assertEqual(int(root['SigBlk'][0], 16), 0)
            for uid, gid, gids, groups in ((1000, None, '1000', ['1000', '29', '44']),
                                           (1001, 29, '29', ['44']), (4242, None, '4242', []),
                                           (4242, 7, '7', [])):
                members = {'uid': uid, **({'gid': gid} if gid is not None else {})}
                got = status(s, **members)
                self.assertEqual(got['Uid'], [str(uid)] * 4)
                self.assertEqual(got['Gid'], [gids] * 4)
                self.assertEqual(sorted(set(got['Groups']) - {gids}), sorted(set(groups) - {gids}))
                for kind in ('CapInh', 'CapPrm', 'CapEff', 'CapAmb'):
                    self.assertEqual(int(got[kind][0], 16), 0)
                self.assertEqual(got['NoNewPrivs'], ['1'])

    def test_cwd_cannot_be_a_descriptor_of_execd(self):
        with Sandbox() as s:
            for fd in range(3, 12):
                answer = s.call('POST', '/command', {'command': 'pwd', 'cwd': f'/proc/self/fd/{fd}'})
                self.assertEqual(answer.status, 400)
            s.out('ln -s /proc/self/fd/5 /tmp/link')
            answer = s.call('POST', '/command', {'command': 'pwd', 'cwd': '/tmp/link'})
            self.assertEqual(answer.status, 400)


class Size(unittest.TestCase):
    def test_memory_and_start(self):
        with Sandbox(start=False) as s:
            begun = time.monotonic()
            s.start(['/bin/sleep', '100'], ['PATH=/bin'])
            self.assertLess(time.monotonic() - begun, 10)
            s.out('echo hi')
            with open(f'/proc/{s.pid}/smaps_rollup', encoding='ascii') as file:
                fields = dict(line.split(None, 1) for line in file.readlines()[1:])
            self.assertLess(int(fields['Anonymous:'].split()[0]), 1024)


if __name__ == '__main__':
    LIBC.prctl(1, 0)
    unittest.main()
