"""Attacks on the real execd from inside a real sandbox, and on the host through it."""
import json
import pathlib
import re
import socket
import struct
import unittest

import atoll
from atoll import SLOWNESS, until
from box import Box, pack, shell_image
from exec_contract_test import Contract

# CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE, SYS_CHROOT
CAPABILITIES = sum(1 << number for number in (0, 1, 3, 4, 5, 6, 7, 8, 10, 18))


class Attack(Contract):
    def attack(self, *names, **members):
        out = self.s.out('/bin/attack ' + ' '.join(names), **members)
        return dict(line.split(': ') for line in out.splitlines())

    def descriptor(self):
        """A connection straight to execd, as only the daemon has it."""
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(f'{self.daemon.run_dir}/sandboxes/{self.s.id}.sock')
        peer.settimeout(30 * SLOWNESS)
        return peer


class ProcessOne(Attack):
    """execd's program, memory, environment and descriptors."""

    def test_program_cannot_be_read_or_replaced(self):
        for uid in (0, 1000):
            self.assertEqual(self.attack('exe-1-read', 'exe-1-write', uid=uid),
                             {'exe-1-read': 'EACCES', 'exe-1-write': 'EACCES'})

    def test_interpreter_that_is_the_caller(self):
        root = self.daemon.top / 'shebang'
        (root / 'bin').mkdir(parents=True)
        (root / 'evil').write_text('#!/proc/self/exe\n', encoding='ascii')
        (root / 'evil').chmod(0o755)
        archive = self.daemon.top / 'shebang.tar'
        pack(root, 'shebang:latest', archive)
        self.daemon.import_image(archive, 'shebang:latest')
        box = self.daemon.create('shebang:latest', entrypoint=['/evil'])
        state = lambda: self.daemon.request('GET', f'/v1/sandboxes/{box}')['status']['state']
        until(lambda: state() == 'Failed', 30 * SLOWNESS, 'nothing runs')
        self.assertEqual(self.s.out('echo others are well'), 'others are well')

    def test_memory_and_descriptors(self):
        names = ('ptrace-1', 'mem-1', 'environ-1', 'fd-1', 'maps-1', 'cwd-1', 'root-1', 'vm-read-1',
                 'pidfd-getfd-1', 'prlimit-1')
        for uid in (0, 1000):
            for name, result in self.attack(*names, uid=uid).items():
                self.assertIn(result, ('EPERM', 'EACCES'), (uid, name))

    def test_children_on_their_way(self):
        """What is between clone and exec shows nothing of execd either."""
        token = self.daemon.execd_secret(self.s.id)
        # It counts if the reader's prey is still execd's afterwards: meanwhile it may have become sh.
        spy = self.s.background(
            'still() { [ "$(cat $p/comm 2>/dev/null)" = execd ]; }; '
            'while :; do for p in /proc/[0-9]*; do [ $p != /proc/$$ ] && still || continue; '
            '(: <$p/mem) 2>/dev/null && still && echo mem $p; '
            'head -c1 $p/maps $p/auxv >/dev/null 2>&1 && still && echo mem $p; '
            'ls $p/task/*/fd >/dev/null 2>&1 && still && echo fd $p; '
            'tr "\\0" " " <$p/environ 2>/dev/null; done; done', uid=0)
        for _ in range(60):
            self.s.out('true')
        self.s.call('DELETE', f'/command?id={spy}')
        seen = self.s.call('GET', f'/command/{spy}/logs').body.decode()
        self.assertEqual([l for l in seen.splitlines() if l.split()[:1] in (['mem'], ['fd'])], [])
        self.assertNotIn(token, seen)

    def test_its_environment_is_empty_and_the_token_nowhere(self):
        token = self.daemon.execd_secret(self.s.id)
        found = self.s.out('for f in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do '
                           f'grep -l "$(printf %s {token[:9]})" $f 2>/dev/null; done | '
                           'grep -v "/proc/$$/" || true')
        # The searching shell itself has it on its command line.
        self.assertEqual([l for l in found.splitlines() if 'environ' in l], [])

    def test_no_socket_leads_to_it(self):
        self.assertNotIn('.sock', self.s.out('cat /proc/net/unix'))
        self.assertEqual(self.s.out("find / -xdev -type s 2>/dev/null | head; "
                                    "grep -i ' 0A ' /proc/net/tcp /proc/net/tcp6 | head"), '')
        self.assertIn(self.attack('vsock')['vsock'], ('EAFNOSUPPORT', 'EPERM', 'EACCES'))


class Inheritance(Attack):
    """What a program gets from execd, by each way to start one."""

    def ways(self, box, script):
        session = box.call('POST', '/session').json['session_id']
        for path, member in (('/command', 'command'), (f'/session/{session}/run', 'command'),
                             ('/code', 'code')):
            events = box.events(path, {member: script})
            yield path, '\n'.join(e['text'].removesuffix('\n') for e in events
                                  if e['type'] == 'stdout')
        for query in ('', '?pty=0'):
            terminal = box.call('POST', '/pty', {'command': script + '; echo end'}).json['session_id']
            ws = box.websocket(f'/pty/{terminal}/ws{query}')
            output = ws.until(lambda o: isinstance(o, bytes) and b'end' in o).decode()
            yield 'pty' + query, output.replace('\r', '').partition('\nend')[0]
            box.call('DELETE', f'/pty/{terminal}')
        box.out(f'{script} >/tmp/way', background=False)
        command = box.background(script)
        until(lambda: not box.status(command)['running'], 30 * SLOWNESS)
        yield 'background', box.call('GET', f'/command/{command}/logs').body.decode().strip()

    def test_descriptors(self):
        for way, out in self.ways(self.s, 'ls -1 /proc/self/fd'):
            # One more is the directory that ls reads.
            self.assertEqual(out.split(), ['0', '1', '2', '3'], way)

    def test_streams_can_be_opened_by_name(self):
        """nginx and httpd log to /dev/stdout; cron's jobs in containers to /proc/1/fd/1."""
        script = ('echo a >/dev/stdout; echo b >>/proc/self/fd/1; : >/dev/stderr && echo c; '
                  ': </dev/stdin && echo d')
        for user in ('root', 'dev'):
            box = Box(self.daemon, shell_image(self.daemon, f'streams-{user}:latest', user=user),
                      entrypoint=['sh', '-c', script + '; sleep 1000'])
            log = lambda: box.call('GET', '/.atoll/entrypoint/logs').body.decode()
            until(lambda: log() == 'a\nb\nc\nd\n', 30 * SLOWNESS, 'the entrypoint has printed')
            for way, out in self.ways(box, script):
                self.assertEqual(out.split(), ['a', 'b', 'c', 'd'], (user, way))
            for uid in (0, 1000, 4242):
                self.assertEqual(box.out(script, uid=uid).split(), ['a', 'b', 'c', 'd'], (user, uid))
            box.out('echo cron >/proc/1/fd/1; echo job >>/proc/1/fd/2', uid=0)
            until(lambda: sorted(log().split()[4:]) == ['cron', 'job'], 30 * SLOWNESS, 'the log has it')
            self.assertEqual(box.out('ls -A /proc/1/fd', uid=0).split(), ['0', '1', '2'])
            self.assertEqual(box.run('echo no >/proc/1/fd/1', uid=4242)[2]['type'], 'error')
            self.assertEqual(box.run('touch /proc/1/fd/3 || rm /proc/1/fd/1', uid=0)[2]['type'], 'error')
            self.daemon.delete(box.id)

    def test_working_directory_is_no_way_to_execds_descriptors(self):
        self.s.out('ln -s /proc/self/fd/5 /tmp/link; ln -s /proc/1/root /tmp/root')
        for cwd in [f'/proc/self/fd/{n}' for n in range(3, 16)] + ['/tmp/link', '/tmp/root',
                                                                   '/proc/self/fd/5/..']:
            answer = self.s.call('POST', '/command', {'command': 'pwd', 'cwd': cwd})
            self.assertEqual(answer.status, 400, (cwd, answer.body))
            answer = self.s.call('POST', '/pty', {'cwd': cwd})
            self.assertEqual(answer.status, 400, cwd)

    def test_identity_and_capabilities(self):
        script = ("grep -E '^(Uid|Gid|Groups|Cap...|NoNewPrivs|Seccomp):' /proc/self/status | "
                  "tr '\\t' ' '")
        users = {'root': ('0 0 0 0', '0 0 0 0', '', CAPABILITIES),
                 'dev': ('1000 ' * 4, '1000 ' * 4, '29 44 1000', 0),
                 'other:audio': ('1001 ' * 4, '29 ' * 4, '', 0),
                 '4242:4243': ('4242 ' * 4, '4243 ' * 4, '', 0)}
        for user, (uids, gids, groups, mask) in users.items():
            image = shell_image(self.daemon, f'user{len(user)}:latest', user=user)
            box = Box(self.daemon, image)
            for way, out in self.ways(box, script):
                got = dict(line.split(':', 1) for line in out.splitlines())
                got = {name: value.strip() for name, value in got.items()}
                where = (user, way)
                self.assertEqual((got['Uid'], got['Gid']), (uids.strip(), gids.strip()), where)
                self.assertEqual(sorted(set(got['Groups'].split()) - {gids.split()[0]}),
                                 sorted(set(groups.split()) - {gids.split()[0]}), where)
                for name in ('CapEff', 'CapPrm'):
                    self.assertEqual(int(got[name], 16), mask, where)
                for name in ('CapInh', 'CapAmb'):
                    self.assertEqual(int(got[name], 16), 0, where)
                self.assertEqual(int(got['CapBnd'], 16), CAPABILITIES, where)
                self.assertEqual((got['NoNewPrivs'], got['Seccomp']), ('1', '2'), where)
            # The same by a request's own uid and gid, and the file calls.
            self.assertEqual(box.upload(({'path': '/tmp/by-file-call'}, b'')).status, 200)
            info = box.out('stat -c "%u %g" /tmp/by-file-call')
            self.assertEqual(info, f'{uids.split()[0]} {gids.split()[0]}', user)
            self.daemon.delete(box.id)

    def test_requested_ids(self):
        for members, uid, gid, groups in (({'uid': 1000}, '1000', '1000', '29 44 1000'),
                                          ({'uid': 1000, 'gid': 44}, '1000', '44', '29 44'),
                                          ({'uid': 0}, '0', '0', '0'), ({'uid': 77}, '77', '77', '77')):
            out = self.s.out("id -u; id -g; id -G; grep CapEff /proc/self/status | cut -f2", **members)
            got = out.splitlines()
            self.assertEqual((got[0], got[1]), (uid, gid))
            self.assertEqual(set(got[2].split()), set(groups.split()) | {gid})
            self.assertEqual(int(got[3], 16), CAPABILITIES if uid == '0' else 0)

    def test_no_injection_into_execd(self):
        """Nothing that the dynamic linker or the name service would load is loaded by execd."""
        with open(atoll.BUILD / 'atoll-execd', 'rb') as file:
            image = file.read()
        offset, size, count = (struct.unpack_from('<Q', image, 32)[0],
                               *struct.unpack_from('<HH', image, 54))
        types = [struct.unpack_from('<I', image, offset + i * size)[0] for i in range(count)]
        self.assertNotIn(3, types)  # PT_INTERP: static
        box = Box(self.daemon, self.image, env={'LD_PRELOAD': '/opt/evil.so', 'LD_AUDIT': '/opt/evil.so',
                                                'GCONV_PATH': '/opt', 'MALLOC_TRACE': '/opt/trace'})
        box.out('echo "passwd: evil files" >/etc/nsswitch.conf; echo /opt/evil.so >/etc/ld.so.preload; '
                'mkfifo /opt/evil.so')
        self.assertEqual(box.upload(({'path': '/tmp/f', 'owner': 'dev', 'group': 'audio'}, b'x')).status,
                         200)
        self.assertEqual(box.get('/files/info', path='/tmp/f').json['/tmp/f']['owner'], 'dev')
        self.assertEqual(box.get('/files/info', path='/opt').status, 200)


class Terminal(Attack):
    def test_nothing_can_be_typed_for_the_operator(self):
        terminal = self.s.call('POST', '/pty', {'command': '/bin/attack tiocsti; ps -o pid,sid,tty | '
                                                'grep "$$ .*$$"; tty; echo end'}).json['session_id']
        output = self.s.websocket(f'/pty/{terminal}/ws').until(
            lambda o: isinstance(o, bytes) and b'end' in o).decode()
        self.assertNotIn('ALLOWED', output)
        self.assertRegex(output, r'tiocsti: E(IO|PERM|ACCES)')
        self.assertRegex(output, r'/dev/pts/\d+')

    def test_terminals_do_not_run_out_for_others(self):
        made = []
        while len(made) < 80:
            answer = self.s.call('POST', '/pty')
            if answer.status != 201:
                break
            made.append(answer.json['session_id'])
        self.refused(answer, 500, 'RUNTIME_ERROR')
        self.assertTrue(32 <= len(made) <= 64)
        other = Box(self.daemon, self.image)
        self.assertEqual(other.call('POST', '/pty').status, 201)
        for terminal in made:
            self.s.call('DELETE', f'/pty/{terminal}')


def socket_memory():
    """Bytes that the host's TCP and UDP sockets hold, those of all network namespaces."""
    stat = pathlib.Path('/proc/net/sockstat').read_text()
    return [int(re.search(rf'^{kind}: .*\bmem (\d+)', stat, re.M)[1]) * 4096
            for kind in ('TCP', 'UDP')]


class Exhaustion(Attack):
    def small(self, **fields):
        box = Box(self.daemon, self.image, resourceLimits={'memory': '64Mi', 'pids': '40'}, **fields)
        self.addCleanup(self.daemon.delete, box.id)
        return box

    def test_fork_bomb(self):
        box = self.small()
        before = until(box.processes, 30 * SLOWNESS, 'its program has started')
        bomb = box.background('b() { b | b & }; b; sleep 99')
        until(lambda: len(box.pids()) >= 40, 30 * SLOWNESS, 'the limit is reached')
        # execd, process 1, has pids of its own.
        self.assertLessEqual(max(len(box.pids()) for _ in range(5)), 40 + 1)
        self.assertEqual(box.call('GET', '/ping').status, 200)
        self.assertEqual(box.upload(({'path': '/tmp/f'}, b'x')).status, 200)
        box.call('DELETE', f'/command?id={bomb}')
        until(lambda: box.processes() == before, 30 * SLOWNESS, 'the bomb is gone')
        self.assertEqual(box.out('echo alive'), 'alive')

    def test_a_full_sandbox_says_so_and_takes_commands(self):
        """The first process of a command comes out of a reserve, which nothing that runs inside can reach."""
        box = self.small()
        session = box.call('POST', '/session').json['session_id']
        in_session = lambda command: box.events(f'/session/{session}/run', {'command': command})[-1]
        self.assertEqual(in_session('true')['type'], 'execution_complete')
        hits = self.daemon.metric('sandbox_pids_limit_hits_total')
        # Not bash, which tries again for 15 s.
        box.background('exec sh -c "while :; do sleep 99 & done"')
        path = f'/v1/sandboxes/{box.id}/diagnostics/events?scope=runtime'
        events = lambda: self.daemon.request('GET', path)['content'].splitlines()
        until(events, 30 * SLOWNESS, 'it is told')
        (told,) = events()
        self.assertRegex(told, r'^\S+ runtime Warning PidsLimit PIDS_LIMIT: a process was not started: the sandbox has '
                               r'as many as its limit \(pids\) allows$')
        until(lambda: self.daemon.metric('sandbox_pids_limit_hits_total') > hits, 30 * SLOWNESS, 'it is counted')
        self.assertGreaterEqual(len(box.pids()), 40)
        self.assertEqual(box.out('echo alive'), 'alive')
        last = box.run('exec sh -c "ls / | cat"')[2]
        self.assertRegex(last['error']['traceback'][0],
                         r"^exit status \d+ \(the sandbox's limit of processes was reached: one could not be started\)$")
        # A failure beside it, of another kind, says nothing of it.
        self.assertEqual(box.run('exit 3')[2]['error']['traceback'], ['exit status 3'])
        self.assertEqual(in_session('exit 3')['error']['traceback'], ['exit status 3'])
        # Commands that came out of the reserve cannot use it up for good, nor start another process.
        commands = 0
        while True:
            status = box.status(box.background('exec sleep 99'))
            if not status['running']:
                break
            commands += 1
        self.assertIn('clone3', status['error'])
        self.assertIn('as many processes as its limit allows', status['error'])
        self.assertGreater(commands, 3)
        self.assertLessEqual(len(box.pids()), 40 + 16)
        # execd answers all the same.
        self.assertEqual(box.call('POST', '/entrypoint/signal', {'signal': 9}).status, 200)

    def test_sockets_that_nobody_reads(self):
        """What they hold is the kernel's memory; neither layout of cgroups lets it grow past the limit."""
        for number, protocol in enumerate(('tcp', 'udp')):
            with self.subTest(protocol):
                box = self.small()
                before = socket_memory()[number]
                box.background(f'attack queue {protocol} > /tmp/said; echo ended >> /tmp/said')
                until(lambda: box.out('cat /tmp/said 2>/dev/null || :'), 60 * SLOWNESS, 'no more goes in')
                self.assertLess(socket_memory()[number] - before, 64 << 20)
                self.assertEqual(box.out('echo alive'), 'alive')

    def test_entrypoint_that_floods_its_log(self):
        box = self.small(entrypoint=['yes', 'x' * 200])
        for _ in range(20):
            self.assertEqual(box.out('echo alive'), 'alive')
        until(lambda: len(box.call('GET', '/.atoll/entrypoint/logs').body) >= 64 << 10,
              30 * SLOWNESS, 'the log is full')
        self.assertEqual(len(box.call('GET', '/.atoll/entrypoint/logs').body), 64 << 10)
        self.assertLess(box.memory_kib(), 1024)

    def test_client_that_does_not_read(self):
        box = self.small()
        stuck = [box.open('POST', '/command', {'command': 'yes'}) for _ in range(4)]
        self.assertTrue(all(response.read(1) for response in stuck))
        self.assertEqual(box.out('echo alive'), 'alive')
        self.assertLess(box.memory_kib(), 4096)
        for response in stuck:
            response.close()

    def test_slow_client_loses_nothing(self):
        response = self.s.open('POST', '/command', {'command': 'seq 200000'})
        response.read(1000)
        self.assertEqual(self.s.out('echo beside'), 'beside')  # and the other one waits
        texts = [json.loads(part).get('text') for part in response.read().split(b'\n\n')[-300:-2]
                 if part.startswith(b'{"type":"stdout"')]
        self.assertEqual(texts[-1], '200000\n')

    def test_inotify_and_descriptors(self):
        streams = [self.s.open('GET', '/files/watch?path=/tmp') for _ in range(40)]
        self.assertTrue(all(stream.readline() for stream in streams if stream.status == 200))
        self.s.run('ulimit -n 4096; i=0; while [ $i -lt 4000 ]; do eval "exec $((i+10))</dev/null" '
                   '|| break; i=$((i+1)); done 2>/dev/null', timeout=20000)
        self.assertEqual(self.s.out('echo alive'), 'alive')
        other = Box(self.daemon, self.image)
        self.assertEqual(other.open('GET', '/files/watch?path=/tmp').status, 200)
        for stream in streams:
            stream.close()

    def test_cgroup_files_are_read_only(self):
        read_only = ('cgroup-procs', 'cgroup-mkdir', 'cgroup-v1-limit', 'cgroup-v1-quota',
                     'cgroup-v1-procs')
        results = self.attack(*read_only, 'cgroup-v1-remount', 'release-agent', 'oom-down')
        for attack in read_only:
            self.assertIn(results[attack], ('EROFS', 'EACCES'), attack)
        self.assertNotIn('ALLOWED', results.values())

    def test_big_json_and_deep_json(self):
        # More than execve takes: bash itself would need minutes for as many that fit.
        last = self.s.run('true', envs={f'N{i}': 'v' * 30 for i in range(100000)})[2]
        self.assertIn('Argument list too long', last['error']['evalue'])
        self.assertEqual(self.s.call('POST', '/command', '[' * 100000).status, 400)
        self.assertEqual(self.s.call('POST', '/command', b'x' * (9 << 20)).status, 413)
        until(lambda: self.s.memory_kib() < 2048, 30 * SLOWNESS, 'the memory comes back')


class Peers(Attack):
    """Straight at execd's socket, which the daemon's proxy would spare it."""

    def raw(self, data):
        with self.descriptor() as peer:
            try:
                peer.sendall(data)
                peer.shutdown(socket.SHUT_WR)
                return b''.join(iter(lambda: peer.recv(65536), b''))
            except OSError:
                return b''

    def tearDown(self):
        self.assertEqual(self.s.out('echo alive'), 'alive')

    def test_half_and_malformed_requests(self):
        for data in (b'', b'G', b'GET /ping HTTP/1.1\r\nHost: x\r\n', b'\x16\x03\x01\x02\0\x01\0',
                     b'POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{',
                     b'POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n',
                     b'GET /ping HTTP/1.1\r\nHost: x\r\nA: ' + b'x' * 100000 + b'\r\n\r\n',
                     b'GET /ping HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n'):
            self.assertNotIn(b'200 OK', self.raw(data), data[:60])

    def test_no_token_no_answer(self):
        for path in ('/ping', '/command', '/proxy/1/', '/files/info', '/metrics'):
            self.assertIn(b' 401 ', self.raw(b'GET %s HTTP/1.1\r\nHost: x\r\n\r\n' % path.encode()))

    def test_many_connections_and_slow_ones(self):
        peers = [self.descriptor() for _ in range(300)]
        for peer in peers[:150]:
            peer.sendall(b'POST /comm')
        self.assertEqual(self.s.out('echo served'), 'served')
        for peer in peers:
            peer.close()


if __name__ == '__main__':
    unittest.main()
