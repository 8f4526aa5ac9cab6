"""Isolated sessions: what clients are promised, and what one session must not get at."""
import contextlib
import ctypes
import os
import pathlib
import re
import threading
import time
import unittest
import uuid

import atoll
from atoll import SLOWNESS, children, comm, until
from box import Box
from exec_contract_test import TIME
from freezer import Freezer
from host_state import namespaces
from isolated import SESSION, Isolated, Session, text_of

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
EPOLL_WAITS = ('232', '281', '441')  # asm/unistd_64.h: epoll_wait, epoll_pwait, epoll_pwait2


class Contract(Isolated):
    def test_capabilities(self):
        answer = self.box.call('GET', '/v1/isolated/capabilities')
        self.assertEqual(answer.status, 200)
        self.assertEqual({k: answer.json[k] for k in ('available', 'isolator', 'setpriv_available',
                                                      'userns_available')},
                         {'available': True, 'isolator': 'atoll', 'setpriv_available': True,
                          'userns_available': True})

    def test_create_get_list_delete(self):
        session = self.session(idle_timeout_seconds=600)
        self.assertEqual(str(uuid.UUID(session.id)), session.id)
        self.assertRegex(session.created['created_at'], TIME)
        state = session.state()
        self.assertEqual({k: state[k] for k in ('status', 'profile', 'workspace', 'overlays', 'binds',
                                                'extra_writable', 'share_net', 'env_passthrough',
                                                'uid_mode', 'idle_timeout_seconds')},
                         {'status': 'active', 'profile': 'strict',
                          'workspace': {'path': '/workspace', 'mode': 'rw'},
                          'overlays': [{'path': '/workspace', 'mode': 'rw'}], 'binds': [],
                          'extra_writable': [], 'share_net': True, 'uid_mode': 'setpriv',
                          'env_passthrough': {'mode': 'deny', 'keys': []},
                          'idle_timeout_seconds': 600})
        self.assertTrue(0 < state['idle_remaining_seconds'] <= 600)
        listed = self.box.call('GET', '/v1/isolated/sessions').json['sessions']
        self.assertIn(session.id, [one['session_id'] for one in listed])
        answer = session.delete()
        self.assertEqual((answer.status, answer.body), (200, b''))
        for method, path in (('GET', ''), ('DELETE', ''), ('GET', '/runs/x'),
                             ('GET', '/files/info?path=/x')):
            self.refused(session.call(method, path), 404, 'SESSION_NOT_FOUND')
        self.refused(session.call('POST', '/run', {'code': 'true'}), 404, 'SESSION_NOT_FOUND')

    def test_refused_requests_have_no_effect(self):
        workspace = {'path': '/workspace', 'mode': 'rw'}
        for request, status, code in (
                ('{', 400, 'INVALID_REQUEST_BODY'), ({}, 400, 'INVALID_REQUEST_BODY'),
                ({'workspace': {'path': 'x'}}, 400, 'INVALID_REQUEST_BODY'),
                ({'workspace': {'path': '/a/../b'}}, 400, 'INVALID_REQUEST_BODY'),
                ({'workspace': {'path': '/a/'}}, 400, 'INVALID_REQUEST_BODY'),
                ({'workspace': {'path': '/proc/self'}}, 400, 'INVALID_REQUEST_BODY'),
                ({'workspace': {**workspace, 'mode': 'x'}}, 400, 'INVALID_REQUEST_BODY'),
                ({'workspace': workspace, 'profile': 'x'}, 400, 'RUNTIME_ERROR'),
                ({'workspace': workspace, 'profile': 1}, 400, 'INVALID_REQUEST_BODY'),
                ({'workspace': workspace, 'overlays': [workspace]}, 400, 'INVALID_REQUEST_BODY'),
                ({'overlays': [{'path': f'/o{i}'} for i in range(17)]}, 400, 'INVALID_REQUEST_BODY'),
                ({'workspace': workspace, 'uid': -1}, 400, 'INVALID_REQUEST_BODY'),
                ({'workspace': workspace, 'uid': 70000}, 400, 'RUNTIME_ERROR'),
                ({'workspace': workspace, 'extra_writable': ['/etc']}, 400, 'RUNTIME_ERROR'),
                ({'workspace': workspace, 'binds': [{'source': '/data/nope'}]}, 400, 'RUNTIME_ERROR'),
                ({'workspace': workspace, 'binds': [{'source': '/data', 'dest': '/nope'}]},
                 400, 'RUNTIME_ERROR')):
            with self.subTest(request=request):
                self.refused(self.box.call('POST', SESSION, request), status, code)
        self.assertEqual(self.box.call('GET', '/v1/isolated/sessions').json, {'sessions': []})
        self.box.out('rm -rf /o[0-9]* /proc/self/x')
        # Nothing of them keeps a number: as many as there may be can be made.
        for _ in range(16):
            self.session()
        self.refused(self.box.call('POST', SESSION, {'workspace': workspace}),
                     503, 'SERVICE_UNAVAILABLE')

    def test_runs(self):
        session = self.session()
        events = session.events('echo a; echo; echo b >&2; printf c')
        self.assertEqual([e['type'] for e in events], ['stdout'] * 3 + ['execution_complete'])
        self.assertEqual([e.get('text') for e in events[:3]], ['a', 'b', 'c'])
        # One bash: variables of all kinds, functions, options, directory.
        session.out('plain=1; export sent=2; list=(3 4); f() { echo 5; }; shopt -s nullglob; cd /tmp')
        self.assertEqual(session.out('echo $plain $sent ${list[1]} $(f) $PWD /no*where'),
                         '1 2 4 5 /tmp')
        self.assertEqual(session.out('echo $only; plain=other', envs={'only': "it's"}), "it's")
        self.assertEqual(session.out('echo "[$only]" $plain'), '[] 1')
        lines, last = session.run('echo x; false')
        self.assertEqual((lines, last['type'], last['error']['ename'], last['error']['evalue']),
                         (['x'], 'error', 'ExitError', '1'))
        for body in ({}, {'code': ''}, {'code': 'x', 'timeout_seconds': -1}, {'code': 'x', 'envs': 1}):
            self.refused(session.call('POST', '/run', body), 400, 'INVALID_REQUEST_BODY')

    def test_code_and_state_of_any_size(self):
        session = self.session()
        for size in (131072, 4 << 20):
            patch = "cat >patch <<'END'\n" + ('x' * 62 + "'\n") * (size // 64) + 'END\nwc -c <patch; size=%d' % size
            self.assertEqual(session.out(patch).split(), [str(size)])
            self.assertEqual(session.out('echo $size'), str(size))
        run = session.call('POST', '/run', {'code': patch, 'background': True}).json['run_id']
        until(lambda: not session.call('GET', f'/runs/{run}').json['running'], 20 * SLOWNESS, 'it has ended')
        self.assertEqual(session.call('GET', f'/runs/{run}/logs').body.split(), [b'%d' % size])
        session.out('big=$(head -c 3000000 /dev/zero | tr "\\0" x); small=1')
        self.assertEqual(session.out('echo ${#big} $small'), '3000000 1')
        # The run that makes the state too large says so.
        self.assertIn('more than 4 MiB', session.out('big=$(head -c 9000000 /dev/zero | tr "\\0" x); small=2'))
        self.assertEqual(session.out('echo ${#big} $small'), '3000000 1')

    def test_what_a_run_leaves(self):
        session = self.session()
        # `pkill -f` looks at the command line.
        self.assertEqual(session.out('cd /usr; export A=1; umask 027; grep -sac some-word-of-mine /proc/$$/cmdline; true'), '0')
        self.assertEqual(session.out('pwd; echo $A; umask'), '/usr\n1\n0027')
        self.assertEqual(session.out("trap 'echo bye' EXIT; A=2; cd /tmp; echo on"), 'on\nbye')
        self.assertEqual(session.out('pwd; echo $A'), '/tmp\n2')
        # Nothing of the code is in a descriptor.
        self.assertEqual(session.out('cat; ls /proc/self/fd'), '0\n1\n2\n3')
        session.out('mkdir -p /workspace/w/x; cd /workspace/w/x; B=3; rm -r /workspace/w')
        self.assertEqual(session.out('ls; touch here 2>/dev/null || echo nowhere $B'), 'nowhere 3')
        self.assertEqual(session.out('cd /usr 2>/dev/null; echo on'), 'on')
        self.assertEqual(session.out('pwd'), '/usr')

    def test_without_bash(self):
        """Exported variables and the directory are kept."""
        box = Box(self.daemon, self.daemon.import_busybox())
        self.addCleanup(self.daemon.delete, box.id)
        session = Session(box, workspace={'path': '/tmp', 'mode': 'rw'})
        self.assertEqual(session.out('cd /etc; export A="it\'s"; B=2; trap "echo bye" EXIT; echo on'), 'on\nbye')
        self.assertEqual(session.out('pwd; echo "$A$B"; cat'), "/etc\nit's")
        self.assertEqual(session.out("wc -c <<'END'\n" + 'x' * 300000 + '\nEND'), '300001')
        self.assertEqual(session.code('exit 3'), (3, ''))
        until(lambda: session.state()['status'] == 'dead', 30 * SLOWNESS, 'it is dead')

    def test_timeout_and_disconnect_spare_the_session(self):
        session = self.session()
        session.out('kept=yes')
        lines, last = session.run('echo begun; sleep 4243; echo late', timeout_seconds=1)
        self.assertEqual((lines, last['type'], last['error']['ename']),
                         (['begun'], 'error', 'RuntimeError'))
        response = self.box.open('POST', session.path + '/run', {'code': 'echo go; sleep 4244'})
        response.read1(100)
        response.close()
        self.assertEqual(session.out('echo $kept'), 'yes')
        self.assertEqual(session.state()['status'], 'active')

    def test_one_run_at_a_time(self):
        session = self.session()
        response = self.box.open('POST', session.path + '/run',
                                 {'code': 'echo on; until [ -e /workspace/go ]; do sleep 0.05; done; '
                                          'echo first >/tmp/order'})
        self.assertIn(b'on', response.read1(1000))
        said = []
        second = threading.Thread(target=lambda: said.append(session.out('cat /tmp/order')))
        second.start()
        self.box.out('touch /workspace/go')
        second.join(30 * SLOWNESS)
        self.assertEqual(said, ['first'])
        response.read()
        self.box.out('rm /workspace/go')

    def test_exit_ends_the_session(self):
        session = self.session()
        _, last = session.run('exit 7')
        self.assertEqual((last['type'], last['error']['evalue']), ('error', '7'))
        until(lambda: session.state()['status'] == 'dead', 30 * SLOWNESS, 'it is dead')
        _, last = session.run('true')
        self.assertEqual((last['type'], last['error']['ename']), ('error', 'RuntimeError'))
        # Not 503, which clients repeat: it will not come back.
        self.refused(session.call('POST', '/run', {'code': 'true', 'background': True}), 400, 'RUNTIME_ERROR')

    def test_idle_end(self):
        session = Session(self.box, idle_timeout_seconds=2)
        run = session.call('POST', '/run', {'code': 'sleep 4', 'background': True}).json['run_id']
        until(lambda: not session.call('GET', f'/runs/{run}').json.get('running', True),
              20 * SLOWNESS, 'a run in the background holds it')
        until(lambda: session.call('GET').status == 404, 20 * SLOWNESS, 'it has ended')

    def test_background_runs(self):
        session = self.session()
        answer = session.call('POST', '/run', {'code': 'echo out; echo err >&2; '
                                                       'until [ -e go ]; do sleep 0.05; done; exit 4',
                                               'background': True, 'envs': {'A': 'b'}})
        self.assertEqual(answer.status, 202)
        self.assertEqual(answer.json['session_id'], session.id)
        run = answer.json['run_id']
        logs = lambda cursor=0: session.call('GET', f'/runs/{run}/logs?cursor={cursor}')
        until(lambda: logs().body == b'out\nerr\n', 30 * SLOWNESS, 'it has printed')
        self.assertEqual(logs().headers['Execd-Isolated-Tail-Cursor'], '8')
        self.assertEqual(logs().headers['Content-Type'], 'text/plain; charset=utf-8')
        self.assertEqual((logs(4).body, logs(99).body), (b'err\n', b''))
        state = session.call('GET', f'/runs/{run}').json
        self.assertEqual((state['running'], 'exit_code' in state), (True, False))
        session.out('touch go')
        ended = until(lambda: not session.call('GET', f'/runs/{run}').json['running'],
                      30 * SLOWNESS, 'it has ended')
        self.assertTrue(ended)
        state = session.call('GET', f'/runs/{run}').json
        self.assertEqual(state['exit_code'], 4)
        self.assertRegex(state['finished_at'], TIME)
        self.assertEqual(self.box.out(f'cat /workspace/.execd/background-runs/{run}.code'), '4')
        for cursor in ('-1', 'x', ''):
            self.refused(logs(cursor), 400, 'INVALID_REQUEST_BODY')
        self.refused(session.call('GET', '/runs/nope'), 404, 'SESSION_NOT_FOUND')
        self.box.out('rm -rf /workspace/go /workspace/.execd')
        for mode in ({'mode': 'ro'}, {'mode': 'overlay', 'persist': False}):
            other = self.session(overlays=[{'path': '/data', **mode}], workspace=None)
            self.refused(other.call('POST', '/run', {'code': 'true', 'background': True}),
                         400, 'INVALID_REQUEST_BODY')

    def test_environment(self):
        show = 'env | grep -E "PLAIN|TOKEN|AWS|EXECD" | sort'
        self.assertEqual(self.session().out(show), 'PLAIN=seen')
        deny = self.session(env_passthrough={'mode': 'deny', 'keys': ['plain']})
        self.assertEqual(deny.out(show), 'AWS_REGION=hidden\nMY_TOKEN=hidden')
        allow = self.session(env_passthrough={'mode': 'allow', 'keys': ['MY_TOKEN']})
        self.assertEqual(allow.out(show), 'MY_TOKEN=hidden')

    def test_identity(self):
        session = self.session(uid=1000, gid=1001)
        self.assertEqual(session.out('id -u; id -g; id -G'), '1000\n1001\n1001')
        self.assertEqual(session.upload('/workspace/mine', b'x').status, 200)
        self.assertEqual(self.box.out('stat -c %u:%g /workspace/mine; rm /workspace/mine'),
                         '1000:1001')


class Mounts(Isolated):
    def test_modes(self):
        self.box.out('mkdir -p /w/rw /w/over /w/ro /w/scratch; for d in /w/*; do echo low >$d/f; done')
        session = self.session(workspace=None, overlays=[
            {'path': '/w/rw', 'mode': 'rw'}, {'path': '/w/over'}, {'path': '/w/ro', 'mode': 'ro'},
            {'path': '/w/scratch', 'persist': False}])
        for name, code in (('rw', 0), ('over', 0), ('ro', 1), ('scratch', 0)):
            with self.subTest(name=name):
                self.assertEqual(session.code(f'cat /w/{name}/f')[1], 'low')
                self.assertEqual(session.code(f'echo new >/w/{name}/g && rm /w/{name}/f')[0], code)
        self.assertEqual(session.out('cd /w; ls -d */*'),
                         'over/g\nro/f\nrw/g\nscratch/g')
        self.assertEqual(self.box.out('cd /w; ls -d */*'), 'over/f\nro/f\nrw/g\nscratch/f')
        self.assertEqual(session.code('echo x >/root/x')[0], 1)
        # Through its files, as it sees it.
        info = session.call('GET', '/files/info?path=/w/over/g').json['/w/over/g']
        self.assertEqual(info['size'], 4)
        self.assertEqual(session.upload('/w/over/up', b'from outside').status, 200)
        self.assertEqual(session.out('cat /w/over/up'), 'from outside')
        self.assertEqual(session.call('GET', '/files/download?path=g').body, b'new\n')
        self.assertEqual(session.upload('/w/ro/x', b'x').json['code'], 'RUNTIME_ERROR')
        self.box.out('rm -r /w')

    def test_nested_missing_and_odd_names(self):
        path = "/made/a b,c:d\\e"
        session = self.session(workspace={'path': path}, overlays=[{'path': path + '/in', 'mode': 'rw'}])
        session.out('pwd >f; echo deep >in/g')
        self.assertEqual(session.out('cat f'), path)
        self.assertEqual(self.box.out('find /made -type f'), path + '/in/g')
        self.box.out('rm -r /made')

    def test_binds(self):
        self.box.out('mkdir -p /data/src /opt/at; echo 1 >/data/src/f; ln -s /etc /data/out')
        session = self.session(extra_writable=['/data'], binds=[
            {'source': '/data/src', 'dest': '/opt/at', 'readonly': True}])
        self.assertEqual(session.out('cat /opt/at/f; echo 2 >/data/g'), '1')
        self.assertEqual(session.code('echo 3 >/opt/at/f')[0], 1)
        self.assertEqual(self.box.out('cat /data/g'), '2')
        self.refused(self.box.call('POST', SESSION, {'workspace': {'path': '/workspace'},
                                                     'binds': [{'source': '/data/out'}]}),
                     400, 'RUNTIME_ERROR')
        session.delete()
        self.box.out('rm -r /data/src /data/g /data/out')

    def test_tmp(self):
        self.box.out('echo shared >/tmp/seen')
        strict, balanced = self.session(), self.session(profile='balanced')
        self.assertEqual(strict.out('ls /tmp; echo x >/tmp/own; stat -c %a /tmp'), '1777')
        self.assertEqual(balanced.out('cat /tmp/seen; echo back >/tmp/back'), 'shared')
        self.assertEqual(self.box.out('cat /tmp/back; ls /tmp/own 2>&1; rm /tmp/back /tmp/seen'),
                         'back\nls: /tmp/own: No such file or directory')
        inside = self.session(workspace={'path': '/tmp/ws', 'mode': 'rw'})
        self.assertEqual(inside.out('echo y >f; pwd'), '/tmp/ws')
        self.assertEqual(self.box.out('cat /tmp/ws/f'), 'y')


ALLOCATE = 'x=$(head -c {} /dev/zero | tr "\\0" x); echo ${{#x}}; unset x'
# How many of so many processes there come to be; they leave their parents and sessions. It counts all
# that there are, not those of a name: between fork and exec a process has neither yet.
SPAWN = ('set -- /proc/[0-9]*; before=$#; '
         "sh -c 'i=0; while [ $i -lt {} ]; do (setsid sleep 4248 &); i=$((i+1)); done' 2>/dev/null; "
         'set -- /proc/[0-9]*; echo $(($# - before))')


class Limits(Isolated):
    """Of a session's own, beneath its sandbox's."""

    def box_of(self, **limits):
        box = Box(self.daemon, self.image, resourceLimits={'memory': '256Mi', 'pids': '200', **limits})
        self.addCleanup(lambda: self.daemon.delete(box.id))
        return box

    def in_box(self, box, **limits):
        return Session(box, workspace={'path': '/workspace', 'mode': 'rw'}, limits=limits)

    def test_memory(self):
        box = self.box_of()
        session, free = self.in_box(box, memory_bytes=16 << 20), self.in_box(box)
        for _ in range(2):
            _, last = session.run(ALLOCATE.format('24m'))
            self.assertIn('out of memory', last['error']['evalue'])
            self.assertEqual(session.out('echo alive'), 'alive')
        # Nor does what has left its run and its process group get around it.
        _, last = session.run(f"setsid sh -c '{ALLOCATE.format('24m')}'")
        self.assertEqual(last['type'], 'error')
        self.assertEqual(free.out(ALLOCATE.format('24m')), str(24 << 20))
        self.assertEqual(box.out(ALLOCATE.format('24m')), str(24 << 20))

    def test_processes(self):
        box = self.box_of()
        session, free = self.in_box(box, pids=20), self.in_box(box)
        self.assertLessEqual(int(session.out(SPAWN.format(40), timeout_seconds=60).split()[-1]), 20)
        self.assertGreaterEqual(int(free.out(SPAWN.format(40), timeout_seconds=60)), 40)
        self.assertEqual(session.delete().status, 200)
        self.assertEqual(self.in_box(box, pids=20).out('echo on'), 'on')

    def test_processor(self):
        session = self.in_box(self.box_of(cpu='2'), cpu_millis=100)
        # Its ended children's time, in hundredths of a second.
        used = session.out('timeout 2 sh -c "while :; do :; done"; read -ra f </proc/$$/stat; '
                           'echo $((f[15] + f[16]))')
        self.assertLess(int(used.split()[-1]), 60)

    def test_they_are_told_and_checked(self):
        limits = {'memory_bytes': 64 << 20, 'pids': 50, 'cpu_millis': 500}
        session = self.session(limits=limits)
        self.assertEqual(session.state()['limits'], limits)
        self.assertNotIn('limits', self.session().state())
        for wrong in (3, {'memory_bytes': 1}, {'pids': 1}, {'cpu_millis': 1}, {'pids': -1},
                      {'memory': 64 << 20}, {'pids': '20'}, {'disk_bytes': 1 << 30}):
            with self.subTest(limits=wrong):
                self.refused(self.box.call('POST', SESSION, {'workspace': {'path': '/workspace'},
                                                             'limits': wrong}),
                             400, 'INVALID_REQUEST_BODY')

    def test_groups_are_not_nested_without_end(self):
        session = self.session(limits={'pids': 50})
        session.out('true')
        mount = '/sys/fs/cgroup/unified' if os.path.isdir('/sys/fs/cgroup/unified') else '/sys/fs/cgroup'
        run = pathlib.Path(f'{mount}{self.box.group()}/run')
        found = [path for path in run.glob('x*/run') if path.is_dir()]
        self.assertTrue(found)
        below = found[0] / 'c4249'
        below.mkdir()
        try:
            with self.assertRaises(OSError):
                (below / 'deeper').mkdir()
        finally:
            below.rmdir()

    def test_made_and_ended_without_end(self):
        """What is left after many is what is left after one."""
        def left():
            found = set()
            for folder, names, _ in os.walk('/sys/fs/cgroup'):
                if self.box.group() in folder:  # others are at work beside
                    found |= {os.path.join(folder, n) for n in names if re.fullmatch(r'x\d+', n)}
            return found
        before = left()
        for _ in range(30):
            session = self.session(workspace={'path': '/workspace'},
                                   limits={'memory_bytes': 32 << 20, 'pids': 20, 'cpu_millis': 500})
            session.out('head -c 1m /dev/zero >f')
            self.assertEqual(session.delete().status, 200)
        self.assertEqual(left(), before)


class Attacks(Isolated):
    def test_it_has_namespaces_of_its_own(self):
        session = self.session(share_net=False)
        self.assertEqual(session.out('hostname'), 'sandbox')
        inside = dict(line.split('=') for line in session.out(
            'for n in mnt pid uts ipc net cgroup user; do echo $n=$(readlink /proc/self/ns/$n); done'
        ).splitlines())
        outside = dict(line.split('=') for line in self.box.out(
            'for n in mnt pid uts ipc net cgroup user; do echo $n=$(readlink /proc/self/ns/$n); done'
        ).splitlines())
        self.assertEqual({n for n in inside if inside[n] == outside[n]}, {'user'})
        self.assertEqual([n for n in inside if inside[n] == os.readlink(f'/proc/self/ns/{n}')], [])
        self.assertEqual(session.out('cat /proc/net/dev | grep -c :'), '1')
        self.assertIn('127.0.0.1', session.out('ping -c1 127.0.0.1 || true'))

    def test_no_process_but_its_own(self):
        mark = self.box.background('sleep 4245')
        self.addCleanup(lambda: self.box.call('DELETE', f'/command?id={mark}'))
        other = self.session()
        other.out('sleep 4246 &')
        session = self.session()
        seen = session.out('cat /proc/[0-9]*/cmdline 2>/dev/null | tr "\\0" " "; ls -d /proc/[0-9]*')
        self.assertNotRegex(seen, '424[56]')
        self.assertIn('/proc/1', seen)
        # Its own process 1 cannot be stopped, traced or read.
        self.assertEqual(session.code('kill -9 1; kill -STOP 1; cat /proc/1/environ')[0], 1)
        self.assertEqual(session.out('ls /proc/1/fd 2>/dev/null | wc -w'), '0')
        self.assertEqual(session.out('echo alive'), 'alive')

    def test_no_mounts_no_namespaces_no_chroot(self):
        session = self.session()
        for attempt in ('mount -t tmpfs x /tmp', 'umount /proc', 'mount -o remount,rw /',
                        'mount -o bind /workspace /tmp', 'unshare -m true', 'unshare -r true',
                        'chroot / true', 'nsenter -t 1 -m true', 'mknod /tmp/d b 8 0',
                        'setarch i686 true', 'echo 1 >/proc/sys/kernel/panic',
                        'echo x >/sys/fs/cgroup/cgroup.procs', 'pivot_root / /tmp'):
            with self.subTest(attempt=attempt):
                self.assertNotEqual(session.code(attempt + ' 2>/dev/null')[0], 0)
        # The sandbox's filter, and the session's own before it.
        self.assertEqual(session.out('grep -E "Seccomp|NoNewPrivs" /proc/self/status | tr -d "\\t\\n"'),
                         'NoNewPrivs:1Seccomp:2Seccomp_filters:1')

    def test_what_is_hidden_stays_hidden(self):
        session = self.session()
        lines = session.out('cat /proc/self/mountinfo')
        for word in ('/uppers/', 'staging', '/dev/shm/', 'layers/', str(self.daemon.top)):
            self.assertNotIn(word, re.sub(r'\S*dir=\S*', '', lines))
        self.assertEqual(session.out('cat /proc/kcore /proc/keys /proc/timer_list 2>/dev/null | wc -c'),
                         '0')
        self.assertEqual(session.out('ls -A /proc/scsi /proc/acpi /dev/shm /run 2>/dev/null | grep -v :'
                                     ' | tr -d "\\n"'), '')

    def test_one_cannot_reach_anothers_files(self):
        first = self.session(workspace={'path': '/workspace'})
        first.out('echo secret >/workspace/s; echo secret >/tmp/s; echo secret >/dev/shm/s')
        second = self.session(workspace={'path': '/workspace'})
        self.assertEqual(second.out('cat /workspace/s /tmp/s /dev/shm/s 2>/dev/null; '
                                    'grep -rl secret /workspace /tmp /dev/shm /run; true'), '')
        self.assertEqual(self.box.out('cat /workspace/s /tmp/s /dev/shm/s 2>/dev/null; true'), '')

    def test_links_do_not_lead_out(self):
        """A workspace whose content points elsewhere points there in the session, read-only."""
        self.box.out('mkdir -p /l; ln -s / /l/root; ln -s /proc/1/root /l/magic; ln -s /etc /l/etc')
        session = self.session(workspace={'path': '/l', 'mode': 'rw'})
        for name in ('root/opt', 'etc', 'magic/opt'):
            self.assertNotEqual(session.code(f'echo x >/l/{name}/x 2>/dev/null')[0], 0)
        # As a workspace it would be the whole sandbox, writable.
        for name in ('root', 'root/opt', 'etc', 'magic'):
            self.refused(self.box.call('POST', SESSION, {'workspace': {'path': f'/l/{name}'}}),
                         400, 'RUNTIME_ERROR')
        session.delete()
        self.box.out('rm -r /l')

    def test_no_link_chooses_what_is_made_or_given_away(self):
        self.box.out('mkdir /l; ln -s /etc /l/etc')
        self.refused(self.box.call('POST', SESSION, {'workspace': {'path': '/l/etc/made'}, 'uid': 1000}),
                     400, 'RUNTIME_ERROR')
        self.assertEqual(self.box.out('ls -d /etc/made 2>/dev/null; rm -r /l'), '')
        session = self.session(workspace={'path': '/srv/new/deep', 'mode': 'rw'}, uid=1000, gid=1001)
        self.assertEqual(self.box.out('stat -c "%u %g %a" /srv/new /srv/new/deep'), '0 0 755\n1000 1001 755')
        session.delete()

    def test_its_mounts_stay_its_own_and_go(self):
        """As the host sees the sandbox's namespace, and which namespaces anything is in."""
        self.box.out('mkdir -p /m/rw /m/over /m/ro /m/scratch')
        mountinfo = pathlib.Path(f'/proc/{self.box.host_pid()}/mountinfo')
        before = mountinfo.read_text(encoding='utf-8')
        session = self.session(workspace=None, overlays=[
            {'path': '/m/rw', 'mode': 'rw'}, {'path': '/m/over'}, {'path': '/m/ro', 'mode': 'ro'},
            {'path': '/m/scratch', 'persist': False}])
        own = session.out('readlink /proc/self/ns/mnt')
        self.assertIn(' /m/scratch ', session.out('cat /proc/self/mountinfo'))
        self.assertIn(own, namespaces())
        self.assertEqual(mountinfo.read_text(encoding='utf-8'), before)
        self.assertEqual(session.delete().status, 200)
        self.assertEqual(mountinfo.read_text(encoding='utf-8'), before)
        self.assertNotIn(own, namespaces())
        self.box.out('rm -r /m')

    def test_limits_of_the_sandbox_hold(self):
        box = Box(self.daemon, self.image, resourceLimits={'memory': '64Mi', 'pids': '40'})
        self.addCleanup(lambda: self.daemon.delete(box.id))
        session = Session(box, workspace={'path': '/workspace', 'mode': 'rw'})
        _, last = session.run('x=$(head -c 200m /dev/zero | tr "\\0" x); echo ${#x}')
        self.assertIn('out of memory', last['error']['evalue'])
        code, _ = session.code('for i in $(seq 100); do sleep 20 & done 2>/dev/null; '
                               '[ $(ls -d /proc/[0-9]* | wc -l) -le 48 ]; r=$?; kill $(jobs -p); exit $r')
        self.assertIn(code, (0, 254))
        self.assertEqual(box.out('echo alive'), 'alive')

    def test_everything_goes(self):
        before = self.box.out('ls /sys/fs/cgroup/unified/run 2>/dev/null || ls /sys/fs/cgroup/run')
        self.assertNotRegex(before, r'(?m)^x\d+$')
        session = self.session(workspace={'path': '/workspace'})
        session.out('echo x >/workspace/x; (setsid sleep 4247 &)')
        # The entrypoint is one; the shell that becomes the other is not waited for.
        until(lambda: self.box.processes().count('sleep') == 2, 30 * SLOWNESS)
        uppers = self.daemon_uppers()
        self.assertTrue(uppers)
        self.assertEqual(session.delete().status, 200)
        self.assertEqual(self.box.processes().count('sleep'), 1)
        self.assertEqual(self.daemon_uppers(), [])

    def daemon_uppers(self):
        found = []
        for folder, names, _ in os.walk(self.daemon.top):
            if os.path.basename(folder) == 'uppers':
                for slot in names:
                    found += [n for n in os.listdir(os.path.join(folder, slot)) if n.startswith('x')]
                names.clear()
        return found

    def test_a_client_cannot_speak_for_the_daemon(self):
        answer = self.box.call('GET', '/.atoll/sessions', headers={'X-Atoll-Internal': '1'})
        self.assertEqual(answer.status, 404)


class Orphans(Isolated):
    """A host whose process 1 reaps nothing, as that of a container may: all that a dead spawner
    leaves is this process's."""

    @classmethod
    def setUpClass(cls):
        # Comes last, behind the end of the daemon.
        cls.addClassCleanup(cls.reap)
        super().setUpClass()
        cls.be_reaper(1)

    @staticmethod
    def be_reaper(on):
        if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, on, 0, 0, 0) != 0:
            raise OSError('PR_SET_CHILD_SUBREAPER')

    @classmethod
    def reap(cls):
        cls.be_reaper(0)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.wait()

    def test_they_hold_no_sandbox(self):
        """Its process 1 ends only when all in its pid namespace have been waited for."""
        box = Box(self.daemon, self.image)
        Session(box).out('sleep 1000 & sleep 1001 &')
        self.daemon.kill_spawner()
        until(self.daemon.healthy, 20 * SLOWNESS, 'the daemon has the next spawner')
        records = self.daemon.run_dir / 'spawner/records'
        self.assertIn(box.id, os.listdir(records))
        self.daemon.delete(box.id)
        until(lambda: box.id not in os.listdir(records), 20 * SLOWNESS, 'nothing of it is left')


class Life(Isolated):
    def test_it_outlives_daemon_and_spawner(self):
        session = self.session(workspace={'path': '/workspace'})
        session.out('kept=1')
        self.daemon.stop()
        self.daemon.start()
        self.daemon.upgrade_spawner()
        until(lambda: self.daemon.request('GET', '/health')['status'] == 'healthy', 20 * SLOWNESS,
              'the daemon has the new spawner')
        self.assertEqual(session.out('echo $kept'), '1')
        self.assertEqual(Session(self.box).delete().status, 200)
        self.assertEqual(session.delete().status, 200)

    def test_a_pause_holds_sessions_too(self):
        box = Box(self.daemon, self.image)
        self.addCleanup(lambda: self.daemon.delete(box.id))
        session = Session(box)
        group = box.group()
        mount = '/sys/fs/cgroup/unified' if os.path.isdir('/sys/fs/cgroup/unified') else '/sys/fs/cgroup'
        events = pathlib.Path(f'{mount}{group}/run/x1/cgroup.events')
        self.assertIn('frozen 0', events.read_text(encoding='ascii'))
        self.daemon.send('POST', f'/v1/sandboxes/{box.id}/pause').read()
        until(lambda: box.state()['state'] == 'Paused', 20 * SLOWNESS, 'it is paused')
        self.assertIn('frozen 1', events.read_text(encoding='ascii'))
        self.daemon.send('POST', f'/v1/sandboxes/{box.id}/resume').read()
        until(lambda: box.state()['state'] == 'Running', 20 * SLOWNESS, 'it runs')
        self.assertEqual(session.out('echo on'), 'on')

    def stuck(self, box):
        """A session of `box` whose first process stands still from its birth: the group that it is
        born in does, and the sandbox, of which that would be refused, does not. (group, thread,
        list for the answer)"""
        mount = '/sys/fs/cgroup/unified' if os.path.isdir('/sys/fs/cgroup/unified') else '/sys/fs/cgroup'
        run = pathlib.Path(f'{mount}{box.group()}/run')
        (run / 'cgroup.freeze').write_text('1', encoding='ascii')
        answers = []
        thread = threading.Thread(target=lambda: answers.append(
            box.call('POST', SESSION, {'workspace': {'path': '/workspace'}})))
        thread.start()
        self.addCleanup(thread.join)
        until(lambda: 'populated 1' in text_of(run / 'x1/cgroup.events'), 30 * SLOWNESS, 'it is born')
        return run, thread, answers

    def test_what_is_acknowledged_outlives_an_upgrade_that_comes_at_once(self):
        """The session has begun, and its builder has not said so: the spawner takes back what it made."""
        box = Box(self.daemon, self.image)
        self.addCleanup(lambda: self.daemon.delete(box.id))
        run, thread, answers = self.stuck(box)
        in_group = lambda: ' '.join(map(text_of, atoll.fitting(f'{run}/x1/**/cgroup.procs'))).split()
        freeze = lambda on: (run / 'cgroup.freeze').write_text(str(int(on)), encoding='ascii')
        # That was a helper of the builder, which waits for the helper. The next one is the session's first process.
        builder, = [pid for pid in children(self.daemon.spawner_pid()) if comm(pid) == 'atoll-session']
        frozen = Freezer(self)
        frozen.freeze(builder)
        freeze(False)
        until(lambda: not in_group(), 30 * SLOWNESS, 'the helper has ended')
        freeze(True)
        frozen.thaw()
        first, = until(in_group, 30 * SLOWNESS, 'the first process is there')
        frozen.freeze()
        freeze(False)
        waits_in = lambda: text_of(pathlib.Path(f'/proc/{first}/syscall')).split(' ')[0]
        until(lambda: waits_in() in EPOLL_WAITS, 30 * SLOWNESS, 'it has said that it has begun')
        self.daemon.upgrade_spawner()
        frozen.thaw()
        thread.join(30 * SLOWNESS)
        if answers[0].status == 201:
            answer = box.call('POST', f'{SESSION}/{answers[0].json["session_id"]}/run', {'code': 'echo alive'})
            self.assertIn(b'alive', answer.body)
        else:
            self.refused(answers[0], 503, 'SERVICE_UNAVAILABLE')
        until(self.daemon.healthy, 20 * SLOWNESS, 'the daemon has the new spawner')
        self.assertEqual(Session(box).out('echo again'), 'again')

    def test_one_that_is_stuck_is_ended_and_holds_nobody_up(self):
        box = Box(self.daemon, self.image)
        self.addCleanup(lambda: self.daemon.delete(box.id))
        run, thread, answers = self.stuck(box)
        self.assertEqual(self.session().out('echo on'), 'on')
        self.daemon.delete(self.daemon.create(self.image))
        self.assertTrue(thread.is_alive(), 'it was stuck')
        # The spawner has ten seconds of patience.
        thread.join(20 * SLOWNESS)
        self.refused(answers[0], 503, 'SERVICE_UNAVAILABLE')
        self.assertFalse((run / 'x1').exists())
        (run / 'cgroup.freeze').write_text('0', encoding='ascii')
        self.assertEqual(Session(box).out('echo again'), 'again')

    def test_a_sandbox_can_be_deleted_while_one_is_stuck(self):
        box = Box(self.daemon, self.image)
        run, _, _ = self.stuck(box)
        began = time.monotonic()
        self.daemon.delete(box.id)
        until(lambda: not (run / 'x1').exists(), 20 * SLOWNESS, 'all of it is gone')
        self.assertLess(time.monotonic() - began, 5 * SLOWNESS, 'it waited for the patience')


if __name__ == '__main__':
    unittest.main()
