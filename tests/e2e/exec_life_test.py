"""Process 1 of a real sandbox: what images without a shell get, switches, limits, its own end."""
import os
import pathlib
import signal
import subprocess
import time
import unittest

import atoll
from atoll import SLOWNESS, until
from box import Box, pack, shell_image, static_image


class Life(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.image = shell_image(cls.daemon)

    def box(self, image=None, **fields):
        box = Box(self.daemon, image or self.image, **fields)
        self.addCleanup(self.gone, box)
        return box

    def gone(self, box):
        try:
            self.daemon.delete(box.id)
        except atoll.ApiError as error:
            self.assertEqual(error.status, 404)

    def ends(self, box, state, *words):
        until(lambda: box.state()['state'] != 'Running', 20 * SLOWNESS, 'it is noticed')
        status = box.state()
        self.assertEqual(status['state'], state, status)
        for word in words:
            self.assertIn(word, status['message'])


class ProcessOne(Life):
    def test_a_killed_execd_is_a_failed_sandbox(self):
        box = self.box()
        os.kill(box.host_pid(), signal.SIGKILL)
        self.ends(box, 'Failed', 'killed by signal 9')

    def test_a_stopped_execd_is_a_failed_sandbox(self):
        box = self.box()
        before = box.pids()
        os.kill(box.host_pid(), signal.SIGSTOP)
        self.ends(box, 'Failed', 'stopped by signal 19')
        until(lambda: not any(os.path.exists(f'/proc/{pid}') for pid in before), 30 * SLOWNESS,
              'nothing of it is left')

    def test_a_stopped_execd_is_noticed_after_a_spawner_that_died(self):
        box = self.box()
        pid = box.host_pid()
        self.daemon.kill_spawner()
        os.kill(pid, signal.SIGSTOP)
        self.ends(box, 'Failed', 'stopped by signal 19')

    def test_nobody_inside_can_stop_or_kill_it(self):
        box = self.box()
        box.out('for s in STOP KILL TSTP TTIN SEGV ABRT TRAP; do kill -$s 1; done')
        self.assertEqual(box.out('echo alive'), 'alive')
        self.assertEqual(box.state()['state'], 'Running')

    def test_it_ends_with_the_entrypoint(self):
        self.ends(self.box(entrypoint=['sh', '-c', 'read x </tmp/nope; sleep 0.2; exit 0']),
                  'Terminated')
        self.ends(self.box(entrypoint=['sh', '-c', 'sleep 0.2; exit 7']), 'Failed', 'exit code 7')

    def test_signals_reach_the_entrypoint(self):
        box = self.box(entrypoint=['sh', '-c', 'trap "exit 42" TERM; echo ready >/tmp/ready; '
                                   'while :; do sleep 0.01; done'])
        until(lambda: box.out('cat /tmp/ready || true') == 'ready', 30 * SLOWNESS)
        os.kill(box.host_pid(), signal.SIGTERM)
        self.ends(box, 'Failed', 'exit code 42')

    def test_orphans_are_reaped_and_pids_come_back(self):
        box = self.box()
        before = until(box.processes, 30 * SLOWNESS, 'its program has started')
        box.out('for i in $(seq 50); do (sleep 0.01 & (sleep 0.02 &) ) ; done')
        box.run('(setsid sleep 99 &); for i in $(seq 50); do sleep 99 & done; wait', timeout=300)
        until(lambda: box.processes() == before, 30 * SLOWNESS, 'zombies included')


class Switches(Life):
    def log(self, box):
        return box.call('GET', '/.atoll/entrypoint/logs').body.decode()

    def test_bootstrap_command_and_shell(self):
        box = self.box(env={'BOOTSTRAP_CMD': 'echo $0 runs; exec sleep 99',
                            'BOOTSTRAP_SHELL': '/bin/sh'})
        until(lambda: self.log(box) == '/bin/sh runs\n', 30 * SLOWNESS)

    def test_pre_script(self):
        box = self.box(entrypoint=['sh', '-c', 'echo "$SOURCED $1"; exec sleep 99', 'x', 'a  b'],
                       env={'EXECD_BOOTSTRAP_PRE_SCRIPT': '/srv/pre'},
                       image=image_with_script(self.daemon))
        until(lambda: self.log(box) == 'yes a  b\n', 30 * SLOWNESS)

    def test_envs_file_is_there_from_the_start(self):
        box = self.box()
        box.out('echo NEW=1 >>/opt/opensandbox/.env')
        self.assertEqual(box.out('echo $NEW $EXECD_ENVS'), '1 /opt/opensandbox/.env')

    def test_tail_of_the_stream_only_when_asked_for(self):
        for env, low, high in (({}, 0, 0.8), ({'EXECD_API_GRACE_SHUTDOWN': '1s'}, 1, 3)):
            box = self.box(env=env)
            begun = time.monotonic()
            box.out('true')
            self.assertTrue(low <= time.monotonic() - begun <= high * SLOWNESS)

    def test_an_image_of_one_static_program(self):
        image = static_image(self.daemon, '/bin/busybox')
        box = self.box(image, entrypoint=['/busybox', 'sleep', '1000'],
                       env={'EXECD_ENVS': '/made/envs', 'GREETING': 'x'})
        self.assertEqual(box.call('GET', '/ping').status, 200)
        # No shell: an event that says so, not a broken stream.
        last = box.run('echo hi')[2]
        self.assertEqual(last['error']['ename'], 'CommandExecError')
        self.assertIn('/bin/sh', last['error']['evalue'])
        listed = [e['path'] for e in box.get('/directories/list', path='/').json]
        self.assertIn('/busybox', listed)
        self.assertEqual(box.get('/files/info', path='/made/envs').json['/made/envs']['size'], 0)
        self.assertEqual(box.upload(({'path': '/data/f', 'mode': 755}, b'text')).status, 200)
        self.assertEqual(box.get('/files/download', path='/data/f').body, b'text')
        self.assertGreater(box.call('GET', '/metrics').json['mem_total_mib'], 0)

    def test_the_token_can_be_switched_off(self):
        with atoll.Daemon(runtime_access_token=False) as daemon:
            image = daemon.import_busybox()
            box = Box(daemon, image)
            self.assertEqual(box.headers, {})
            self.assertEqual(box.out('echo raw'), 'raw')

    def test_tokens_differ_and_only_endpoints_tell_them(self):
        one, two = self.box(), self.box()
        self.assertRegex(one.headers['X-EXECD-ACCESS-TOKEN'], '^[0-9A-Za-z_-]{32,}$')
        self.assertNotEqual(one.headers, two.headers)
        self.assertEqual(two.call('GET', '/ping', headers=one.headers).status, 401)
        told = self.daemon.send('GET', f'/v1/sandboxes/{one.id}').read().decode()
        self.assertNotIn(one.headers['X-EXECD-ACCESS-TOKEN'], told)
        # execd's own is for the daemon alone.
        secret = self.daemon.execd_secret(one.id)
        self.assertNotIn(secret, one.headers.values())
        answer = one.call('GET', '/ping', headers={'X-EXECD-ACCESS-TOKEN': secret})
        self.assertEqual(answer.status, 401)

    def test_the_api_key_does_not_pass_as_a_token(self):
        box = self.box()
        answer = box.call('GET', '/ping', headers={'X-EXECD-ACCESS-TOKEN': self.daemon.key})
        self.assertEqual(answer.status, 401)
        # What execd proxies to is where a server would see it.
        box.background('busybox nc -ll -p 8100 -e /srv/ws')
        send = lambda: self.daemon.send('GET', box.port(8100) + '/', headers={
            'X-EXECD-ACCESS-TOKEN': self.daemon.key, 'Authorization': f'Bearer {self.daemon.key}'})
        until(lambda: send().status == 200, 30 * SLOWNESS)
        self.assertNotIn(self.daemon.key, send().read().decode())
        # Nor by way of execd's own proxy, in whatever header.
        seen = box.call('GET', '/proxy/8100/', headers={'X-Mine': 'kept', 'X-Other': self.daemon.key})
        self.assertIn('X-Mine: kept', seen.body.decode())
        self.assertNotIn(self.daemon.key, seen.body.decode())


def image_with_script(daemon):
    archive = daemon.top / 'pre.tar'
    root = daemon.top / 'pre'
    (root / 'bin').mkdir(parents=True)
    (root / 'srv').mkdir()
    subprocess.run(['cp', '/bin/busybox', root / 'bin/busybox'], check=True)
    for name in ('sh', 'sleep', 'echo'):
        (root / 'bin' / name).symlink_to('busybox')
    (root / 'srv/pre').write_text('export SOURCED=yes\n', encoding='ascii')
    pack(root, 'pre:latest', archive)
    daemon.import_image(archive, 'pre:latest')
    return 'pre:latest'


class Memory(Life):
    """In a sandbox of 64 MiB."""

    def box(self, image=None, **fields):
        return super().box(image, resourceLimits={'memory': '64Mi'}, **fields)

    def test_a_greedy_command_is_told_why(self):
        box = self.box()
        last = box.run('tail /dev/zero')[2]
        self.assertEqual(last['error']['evalue'], '-1')
        self.assertIn('out of memory', last['error']['traceback'][0])
        self.assertEqual(box.out('echo alive'), 'alive')
        # Only those that ran out of it.
        self.assertEqual(box.run('kill -9 $$')[2]['error']['traceback'], ['signal: killed'])
        session = box.call('POST', '/session').json['session_id']
        last = box.events(f'/session/{session}/run', {'command': 'exec tail /dev/zero'})[-1]
        self.assertIn('out of memory', last['error']['traceback'][0])

    def test_a_command_that_goes_on_without_a_child_says_so(self):
        """On a v2 host the kernel ends the whole command, which is told as any such end."""
        warning = '[out of memory: a process of the sandbox was killed while this ran]\n'
        box = self.box()
        command = '(tail /dev/zero) 2>/dev/null; echo went on'
        stdout, stderr, last = box.run(command)
        if not os.path.isdir('/sys/fs/cgroup/memory'):
            self.assertIn('out of memory', last['error']['traceback'][0])
            return
        self.assertEqual((stdout, stderr[-1], last['type']), (['went on\n'], warning, 'execution_complete'))
        failed = box.run(command + '; exit 3')[2]['error']['traceback'][0]
        self.assertEqual(failed, f'exit status 3 ({warning[1:-2]})')
        # A command that has lost no process is not warned.
        self.assertEqual(box.run('echo quiet')[1], [])
        status = lambda: box.status(background)
        background = box.background(command)
        until(lambda: not status()['running'], 30 * SLOWNESS, 'it has ended')
        self.assertEqual((status()['exit_code'], status()['error']), (0, warning[1:-2]))
        session = box.call('POST', '/session').json['session_id']
        told = [event.get('text') for event in box.events(f'/session/{session}/run', {'command': command})]
        self.assertEqual(told[-3:-1], ['went on', warning[:-1]])
        told = [event.get('text') for event in box.events(f'/session/{session}/run', {'command': 'echo quiet'})]
        self.assertEqual(told[-2], 'quiet')

    def events(self, box, scope):
        path = f'/v1/sandboxes/{box.id}/diagnostics/events?scope={scope}'
        return self.daemon.request('GET', path)['content'].splitlines()

    def test_a_killed_child_of_who_goes_on_is_told_at_once(self):
        """Of the entrypoint, and of a command that has not ended."""
        for how in ('entrypoint', 'command'):
            with self.subTest(how):
                script = ['sh', '-c', '(tail /dev/zero); exec sleep 1000']
                box = self.box(**({'entrypoint': script} if how == 'entrypoint' else {}))
                if how == 'command':
                    box.background(f"sh -c '{script[2]}'")
                until(lambda: self.events(box, 'runtime'), 20 * SLOWNESS, 'it is told')
                self.assertIn(' OutOfMemory ', self.events(box, 'runtime')[0])
                # A command that ends with such a kill has its own word, and its event.
                self.assertEqual(box.state()['state'], 'Running')

    def test_a_killed_child_is_an_event_of_the_sandbox(self):
        """Whatever the command makes of it; and no line of the log."""
        for command in ('(tail /dev/zero); echo went on', 'tail /dev/zero'):
            with self.subTest(command):
                box = self.box()
                box.run(command)
                until(lambda: self.events(box, 'runtime'), 20 * SLOWNESS, 'it is told')
                (told,) = self.events(box, 'runtime')
                self.assertRegex(told, r'^\S+ runtime Warning OutOfMemory OUT_OF_MEMORY: a process was '
                                       "killed: its command went over the sandbox's memory limit$")
                self.assertEqual(self.events(box, 'all')[-1], told)
                # Once a minute, however often.
                for _ in range(5):
                    box.run('tail /dev/zero')
                box.run('echo quiet')
                self.assertEqual(self.events(box, 'runtime'), [told])
                path = f'/v1/sandboxes/{box.id}/diagnostics/logs?scope=container'
                self.assertEqual(self.daemon.request('GET', path)['content'], '')
                self.assertEqual(box.state()['state'], 'Running')

    def box_of_a_large_entrypoint(self):
        """A box whose entrypoint is larger than any of its commands, and rests."""
        box = self.box(entrypoint=['sh', '-c', 'x=$(head -c 3000000 /dev/zero | tr "\\0" x); '
                                   'mkfifo /tmp/hold; read y </tmp/hold'])
        # A growing one in a sandbox without commands is what the kernel takes, and rightly.
        until(lambda: box.get('/files/info', path='/tmp/hold').status == 200, 30 * SLOWNESS,
              'the entrypoint rests')
        return box

    def test_commands_go_before_what_the_sandbox_ends_with(self):
        for _ in range(10):
            box = self.box()
            until(box.processes, 30 * SLOWNESS, 'its program has started')
            self.assertEqual(box.out('cat /proc/self/oom_score_adj'), '300')
            scores = {name: pathlib.Path(f'/proc/{pid}/oom_score_adj').read_text(encoding='ascii')
                      for pid, name in box.pids().items() if name in ('execd', 'sleep')}
            self.assertEqual(scores, {'execd': '0\n', 'sleep': '0\n'})
        # They can be as good as these, but no better.
        self.assertEqual(box.out('cd /proc/self; for n in 0 -1; do echo $n >oom_score_adj; done '
                                 '2>/dev/null; cat oom_score_adj'), '0')

    def test_many_small_processes_in_a_full_sandbox(self):
        box = self.box_of_a_large_entrypoint()
        for _ in range(3):
            # Whether the shell is among the victims is the kernel's choice; the sandbox is not.
            box.run('dd if=/dev/zero of=/dev/shm/full bs=1M count=45 2>/dev/null; '
                    f'for i in $(seq 300); do sleep {2 * SLOWNESS} & done; wait',
                    timeout=20000 * SLOWNESS)
            self.assertEqual(box.state()['state'], 'Running')
            self.assertEqual(box.delete('/files', path='/dev/shm/full').status, 200)
        self.assertEqual(box.out('echo alive'), 'alive')

    def test_many_small_commands_and_more_than_process_1_may_take(self):
        """Part of what a command needs is charged to execd: it is over its reserve."""
        box = self.box_of_a_large_entrypoint()
        for _ in range(300):
            box.background('exec sleep 9999')
        box.run('dd if=/dev/zero of=/dev/shm/full bs=4k 2>/dev/null')
        for number in range(4):
            # The kernel asks for a victim while execd writes, and no command is as large.
            box.upload(({'path': f'/dev/shm/more{number}'}, bytes(1 << 20)))
        self.assertEqual(box.state()['state'], 'Running')
        self.assertEqual(box.delete('/files', path='/dev/shm/full').status, 200)
        self.assertEqual(box.out('echo alive'), 'alive')

    def test_a_command_too_large_to_start_is_the_one_that_goes(self):
        """Until its program runs its memory is execd's, which the kernel must not take either."""
        box = self.box_of_a_large_entrypoint()
        files = [f'/dev/shm/full{number}' for number in range(5)]
        for file in files:
            box.run(f'dd if=/dev/zero of={file} bs=4k 2>/dev/null')
        for _ in range(5):
            last = box.run('true', envs={f'N{number}': 'x' * 30000 for number in range(40)})[2]
            self.assertIn('out of memory', last['error']['traceback'][0])
        self.assertEqual(box.state()['state'], 'Running')
        for file in files:
            self.assertEqual(box.delete('/files', path=file).status, 200)
        self.assertEqual(box.out('echo alive'), 'alive')

    def test_everything_works(self):
        box = self.box()
        data = os.urandom(8 << 20)
        self.assertEqual(box.upload(({'path': '/opt/f'}, data)).status, 200)
        self.assertEqual(box.get('/files/download', path='/opt/f').body, data)
        self.assertEqual(len(box.run('seq 100000')[0]), 100000)
        self.assertLess(box.memory_kib(), 1024)

    def test_metrics_are_its_own(self):
        box = Box(self.daemon, self.image, resourceLimits={'memory': '64Mi', 'cpu': '500m'})
        self.addCleanup(self.gone, box)
        values = box.call('GET', '/metrics').json
        self.assertEqual((values['cpu_count'], values['mem_total_mib']), (0.5, 64))
        self.assertLess(values['mem_used_mib'], 32)
        box.out('head -c 20000000 /dev/zero >/dev/shm/x')
        self.assertGreater(box.call('GET', '/metrics').json['mem_used_mib'], 19)
        busy = box.background('while :; do :; done')
        until(lambda: box.call('GET', '/metrics').json['cpu_used_pct'] > 80, 30 * SLOWNESS)
        box.call('DELETE', f'/command?id={busy}')
        self.assertIn('disk_used_mib', values)
        self.assertIn('net_received_bytes', values)


if __name__ == '__main__':
    unittest.main()
