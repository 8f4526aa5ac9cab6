"""Sandboxes in virtual machines: what the other kinds can do, what this one adds, and what it refuses.

The machines are emulated, so each costs seconds: a class shares one, and there are never more than
two at once.
"""
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import atoll
from atoll import SLOWNESS, until
from box import Box, shell_image
from egress import FAMILIES, V4, EgressTest, policy
from vault_test import VaultTest, binding, vault

VM = atoll.BUILD / 'conformance/vm'
SETTINGS = {'secure_runtime__vm_dir': str(VM), 'secure_runtime__vm_accel': 'tcg',
            'secure_runtime__type': 'microvm', 'secure_runtime__minimum': 'namespace'}
# An emulated boot beside other work.
BOOT = 120 * SLOWNESS


def kernel(sandbox):
    return sandbox.out('uname -r')


def processes():
    out = subprocess.run(['ps', '-eo', 'pid,ppid,args'], check=True, capture_output=True, text=True).stdout
    return [(int(pid), int(parent), word) for pid, parent, word in
            (line.split()[:3] for line in out.splitlines()[1:])]


class MachineTest(unittest.TestCase):

    def state(self, box):
        return self.daemon.request('GET', f'/v1/sandboxes/{box.id}')['status']

    def ended(self, box):
        return until(lambda: self.state(box)['state'] in ('Failed', 'Terminated') and self.state(box), BOOT,
                     'its end is noticed')

    def part(self, name):
        """The pid of the machine's process of that name. A slot in stock has a guard alone."""
        qemu, guard = next((pid, parent) for pid, parent, word in processes() if word.endswith('qemu-system-x86_64'))
        if name == 'guard':
            return guard
        if name == 'qemu':
            return qemu
        return next(pid for pid, parent, word in processes() if parent == guard and word.endswith(name))


class Shared(MachineTest):

    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(dir='/var/tmp')))
        cls.shared.chmod(0o755)
        (cls.shared / 'f').write_text('of the host', encoding='utf-8')
        cls.daemon = cls.enterClassContext(atoll.Daemon(
            **SETTINGS, storage_allowed_host_paths=[str(cls.shared)]))
        cls.image = shell_image(cls.daemon)
        cls.box = Box(cls.daemon, cls.image, resourceLimits={'memory': '256Mi', 'cpu': '1'}, volumes=[
            {'name': 'data', 'mountPath': '/data', 'pvc': {'claimName': 'microvm-data'}},
            {'name': 'shared', 'mountPath': '/shared', 'readOnly': True, 'host': {'path': str(cls.shared)}},
            {'name': 'file', 'mountPath': '/etc/file', 'readOnly': True, 'host': {'path': str(cls.shared / 'f')}}])
        cls.box.out('true')

    def other(self, **fields):
        box = Box(self.daemon, self.image, **fields)
        self.addCleanup(self.daemon.delete, box.id)
        return box


class Seen(Shared):

    def test_another_kernel(self):
        self.assertNotEqual(kernel(self.box), os.uname().release)
        plain = self.other(extensions={'isolation': 'namespace'})
        self.assertEqual(kernel(plain), os.uname().release)

    def test_the_answers_name_it(self):
        self.assertEqual(self.daemon.request('GET', '/health')['isolation'],
                         {'type': 'microvm', 'available': ['namespace', 'microvm']})

    def test_memory_and_processors_of_the_request(self):
        total = int(self.box.out("awk '/MemTotal/ {print $2}' /proc/meminfo"))
        # The kernel's own part is not in it.
        self.assertLess(total, 256 << 10)
        self.assertGreater(total, 200 << 10)
        self.assertEqual(self.box.out('nproc'), '1')

    def test_who_one_is(self):
        self.assertEqual(self.box.out('id -u; id -un; hostname').split(),
                         ['0', 'root', self.box.id.replace('-', '')[:12]])
        self.assertEqual(self.box.out('id -u', uid=1000, gid=1000), '1000')
        plain = self.other(extensions={'isolation': 'namespace'})
        show = "awk '/CapBnd/ {print $2}' /proc/self/status"
        self.assertEqual(self.box.out(show), plain.out(show))

    def test_its_processes_have_no_rights_and_see_no_store(self):
        # Not the host's root, and nor is anything else of the sandbox.
        for name in ('guard', 'qemu', 'virtiofsd'):
            status = pathlib.Path(f'/proc/{self.part(name)}/status').read_text(encoding='ascii')
            fields = {line.split()[0]: line.split()[1:] for line in status.splitlines() if line.strip()}
            self.assertTrue(all(int(uid) >= 1 << 20 for uid in fields['Uid:']), (name, fields['Uid:']))
            if name != 'virtiofsd':
                self.assertEqual([int(fields[f'Cap{kind}:'][0], 16) for kind in ('Prm', 'Eff')], [0, 0], name)
        self.assertEqual(os.listdir(f'/proc/{self.part("guard")}/root/store'), [])
        qemu = pathlib.Path(f'/proc/{self.part("qemu")}/status').read_text(encoding='ascii')
        self.assertIn('Seccomp:\t2', qemu)


class Works(Shared):

    def test_commands(self):
        stdout, stderr, last = self.box.run('echo out; echo err >&2; exit 7')
        self.assertEqual((stdout, stderr, last['error']['evalue']), (['out\n'], ['err\n'], '7'))
        self.assertEqual(self.box.out('seq 100000 | tail -n 1'), '100000')

    def test_sessions_background_and_terminals(self):
        session = self.box.call('POST', '/session').json['session_id']
        path = f'/session/{session}/run'
        self.assertEqual(self.box.events(path, {'command': 'cd /srv; x=kept'})[-1]['type'], 'execution_complete')
        told = [e['text'] for e in self.box.events(path, {'command': 'echo "$PWD $x"'}) if e['type'] == 'stdout']
        self.assertEqual(''.join(told).strip(), '/srv kept')
        command = self.box.background('echo behind; sleep 1000')
        until(lambda: self.box.call('GET', f'/command/{command}/logs').body == b'behind\n', BOOT, 'its log')
        self.assertEqual(self.box.call('DELETE', f'/command?id={command}').status, 200)
        shown, client = atoll.at_a_terminal(b'tty; exit 3\n', 'exec', '-it', self.box.id, 'bash',
                                            env=self.daemon.client_env())
        self.assertIn(b'/dev/pts/', shown)
        self.assertEqual(client.wait(BOOT), 3)

    def test_ports(self):
        self.box.background('httpd -f -p 8000 -h /srv')
        self.box.out('echo page >/srv/page')
        page = lambda: self.daemon.send('GET', self.box.port(8000) + '/page').read()
        until(lambda: page() == b'page\n', BOOT, 'the page')

    def test_files_through_the_api_and_inside(self):
        self.assertEqual(self.box.upload(({'path': '/srv/deep/file'}, b'x' * 300_000)).status, 200)
        self.assertEqual(self.box.out('wc -c </srv/deep/file'), '300000')
        self.box.out('echo inside >/srv/f; ln -s f /srv/l; mkfifo /srv/p; chown 1000:1000 /srv/f; chmod 640 /srv/f')
        self.assertEqual(self.box.get('/files/download', path='/srv/l').body, b'inside\n')
        self.assertEqual(self.box.out('stat -c "%u %g %a" /srv/f'), '1000 1000 640')

    def test_a_large_answer_and_a_client_that_leaves(self):
        self.assertEqual(len(self.box.out('head -c 3000000 /dev/zero | tr "\\0" x')), 3_000_000)
        response = self.box.open('POST', '/command', {'command': 'yes'})
        response.read(1 << 20)
        response.close()
        self.assertEqual(self.box.out('echo still'), 'still')

    def test_what_is_written_is_in_the_differences(self):
        self.box.out('mkdir -p /opt/d; echo kept >/opt/d/f; echo t >/tmp/t; rm /etc/group')
        changes = {(item['kind'], item['path'])
                   for item in self.daemon.request('GET', f'/v1/sandboxes/{self.box.id}/diff')['items']}
        self.assertLessEqual({('added', '/opt/d/f'), ('added', '/tmp/t'), ('deleted', '/etc/group')}, changes)

    def test_volumes_and_directories_of_the_host(self):
        self.box.out('echo of the machine >/data/f')
        plain = self.other(extensions={'isolation': 'namespace'}, volumes=[
            {'name': 'data', 'mountPath': '/data', 'pvc': {'claimName': 'microvm-data'}}])
        self.assertEqual(plain.out('cat /data/f'), 'of the machine')
        plain.out('echo of another >/data/g')
        self.assertEqual(self.box.out('cat /data/g'), 'of another')
        self.assertEqual(self.box.out('cat /shared/f'), 'of the host')
        _, _, last = self.box.run('echo x >/shared/f')
        self.assertEqual(last['type'], 'error')

    def test_a_volume_of_one_file(self):
        self.assertEqual(self.box.out('cat /etc/file'), 'of the host')
        _, stderr, _ = self.box.run('echo x >/etc/file')
        self.assertIn('Read-only file system', ''.join(stderr))

    def test_more_files_than_the_host_keeps_open(self):
        for folder in range(18):
            (self.shared / f'many/{folder}').mkdir(parents=True)
            for number in range(1000):
                (self.shared / f'many/{folder}/{number}').touch()
        self.assertEqual(self.box.out('ls -lR /shared/many | grep -c "^-"'), '18000')
        guard = self.part('guard')
        servers = [pid for pid, parent, word in processes() if parent == guard and word.endswith('virtiofsd')]
        # Known to the host's kernel as long as the guest knows them.
        held = lambda: max(len(os.listdir(f'/proc/{pid}/fd')) for pid in servers)
        until(lambda: held() < 16000, BOOT, 'the guest forgets files')
        self.assertEqual(self.box.out('cat /shared/f'), 'of the host')

    def test_many_connections_at_once(self):
        answers = []
        ask = lambda: answers.append(self.box.call('GET', '/command/status/none').status)
        threads = [threading.Thread(target=ask) for _ in range(300)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(set(answers), {404}, answers)

    def test_limit_of_processes(self):
        box = self.other(resourceLimits={'pids': '32', 'memory': '256Mi'})
        _, stderr, last = box.run('exec busybox sh -c "for i in $(busybox seq -s \' \' 100); do sleep 60 & done"')
        self.assertIn("can't fork", ''.join(stderr), last)
        self.assertEqual(self.state(box)['state'], 'Running')

    def test_a_pool_and_a_claim_with_other_limits(self):
        self.daemon.request('POST', '/v1/pools', {
            'name': 'warm', 'image': {'uri': self.image}, 'resourceLimits': {'memory': '256Mi'},
            'capacitySpec': {'bufferMin': 1, 'bufferMax': 1, 'poolMin': 0, 'poolMax': 2}})
        status = lambda: self.daemon.request('GET', '/v1/pools/warm')
        until(lambda: status()['status']['available'] == 1, BOOT, 'one is parked')
        claim = lambda memory: self.daemon.request('POST', '/v1/sandboxes', {
            'entrypoint': ['sleep', '1000'], 'extensions': {'poolRef': 'warm'},
            'resourceLimits': {'memory': memory}})['id']
        # Its memory is the machine's.
        cold = claim('384Mi')
        self.assertEqual(status()['creates'], {'claimed': 0, 'cold': {'limits': 1}})
        self.daemon.delete(cold)
        box = claim('256Mi')
        self.assertEqual(kernel(Box.of(self.daemon, box)), kernel(self.box))
        self.assertEqual(status()['creates']['claimed'], 1)
        self.daemon.delete(box)
        self.assertEqual(self.daemon.send('DELETE', '/v1/pools/warm').status, 204)

    def test_a_template(self):
        made = self.daemon.request('POST', '/v1/templates', {
            'image': self.image, 'entrypoint': ['sh', '-c', 'echo up >/up; exec sleep 1000']})['templateId']
        ready = lambda: self.daemon.request('GET', f'/v1/templates/{made}')['status']['ready']
        until(lambda: ready() == 1, BOOT, 'one waits')
        box = self.daemon.request('POST', '/v1/sandboxes', {'templateId': made, 'timeout': 600})['id']
        self.addCleanup(self.daemon.delete, box)
        self.assertEqual(self.daemon.send('DELETE', f'/v1/templates/{made}').status, 204)
        self.assertEqual(Box.of(self.daemon, box).out('cat /up; uname -r').split(), ['up', kernel(self.box)])

    def test_a_hook_before_the_entrypoint_and_idleness(self):
        box = self.other(extensions={'idle.after': '2'},
                         entrypoint=['sh', '-c', 'echo entrypoint >>/o; exec sleep 1000'],
                         lifecycle={'preStart': {'command': ['sh', '-c', 'echo hook >>/o']}})
        until(lambda: box.out('cat /o') == 'hook\nentrypoint', BOOT, 'both have run')
        until(lambda: self.state(box)['state'] == 'Paused', BOOT, 'nobody uses it')
        self.assertEqual(box.out('echo on'), 'on')

    def test_what_it_cannot_do(self):
        answer = self.box.call('POST', '/v1/isolated/session', {'profile': 'strict'})
        self.assertEqual(answer.status, 501, answer.body)
        self.assertIn(b'microvm', answer.body)
        with self.assertRaises(atoll.ApiError) as refused:
            self.daemon.create(self.image, resourceLimits={'memory': '127Mi'})
        self.assertIn('needs at least 128Mi', refused.exception.message)


class Attacks(Shared):
    """By root of the guest."""

    def test_no_port_of_the_host_answers(self):
        # 1025 and 1026 have had their one connection; 22 and 1024 nobody serves.
        told = self.box.out('attack vsock 1 22 1023 1024 1025 1026 1027 4294967294').splitlines()
        self.assertEqual(len(told), 8)
        self.assertEqual([line for line in told if 'Connection reset by peer' not in line], [])
        self.assertEqual(self.box.out('echo on'), 'on')

    def test_all_its_memory(self):
        _, _, last = self.box.run('tail /dev/zero')
        self.assertIn('out of memory', str(last['error']))
        self.assertEqual(self.box.out('echo on'), 'on')
        self.assertEqual(self.state(self.box)['state'], 'Running')

    def test_links_out_of_its_root(self):
        self.box.out('ln -s ../../../../../../../../etc/hostname /srv/up; ln -s /proc/1/root/guard /srv/guard')
        self.assertEqual(self.box.out('cat /srv/up'), self.box.out('hostname'))
        self.assertEqual(self.box.out('ls /srv/guard/ 2>/dev/null | wc -l'), '0')

    def test_a_machine_that_does_not_answer_is_not_frozen(self):
        qemu = self.part('qemu')
        os.kill(qemu, signal.SIGSTOP)
        self.addCleanup(os.kill, qemu, signal.SIGCONT)
        made = self.daemon.request('POST', f'/v1/sandboxes/{self.box.id}/snapshots', {})['id']
        status = lambda: self.daemon.request('GET', f'/v1/snapshots/{made}')['status']
        ended = until(lambda: status()['state'] in ('Failed', 'Ready') and status(), BOOT, 'the snapshot has an end')
        self.assertEqual(ended['state'], 'Failed')
        os.kill(qemu, signal.SIGCONT)
        self.assertEqual(self.box.out('echo on'), 'on')


class Stands(Shared):

    def snapshot(self, box=None):
        made = self.daemon.request('POST', f'/v1/sandboxes/{(box or self.box).id}/snapshots', {})['id']
        until(lambda: self.daemon.request('GET', f'/v1/snapshots/{made}')['status']['state'] == 'Ready', BOOT,
              'the snapshot is there')
        return made

    def test_pause_and_resume(self):
        self.daemon.request('POST', f'/v1/sandboxes/{self.box.id}/pause', None)
        until(lambda: self.state(self.box)['state'] == 'Paused', BOOT, 'it stands')
        self.daemon.request('POST', f'/v1/sandboxes/{self.box.id}/resume', None)
        until(lambda: self.state(self.box)['state'] == 'Running', BOOT, 'it goes on')
        self.assertEqual(self.box.out('echo on'), 'on')

    def test_a_snapshot_has_what_was_written(self):
        self.box.out('echo kept >/srv/kept')
        made = self.snapshot()
        plain = self.daemon.request('POST', '/v1/sandboxes', {
            'snapshotId': made, 'timeout': 600, 'resourceLimits': {}, 'extensions': {'isolation': 'namespace'}})['id']
        self.addCleanup(self.daemon.delete, plain)
        self.assertEqual(Box.of(self.daemon, plain).out('cat /srv/kept'), 'kept')
        self.assertEqual(self.box.out('echo on'), 'on')

    def test_a_rollback(self):
        box = self.other(resourceLimits={'memory': '256Mi'})
        box.out('echo kept >/srv/kept')
        made = self.snapshot(box)
        box.out('rm /srv/kept; echo new >/srv/new')
        self.daemon.request('POST', f'/v1/sandboxes/{box.id}/rollback', {'snapshotId': made})
        self.assertEqual(box.out('cat /srv/kept; ls /srv/new 2>/dev/null | wc -l; uname -r').split(),
                         ['kept', '0', kernel(self.box)])

    def test_a_fork_is_a_machine_of_its_own(self):
        self.box.out('echo forked >/srv/forked')
        fork = self.daemon.request('POST', f'/v1/sandboxes/{self.box.id}/fork', {'count': 1})['items'][0]['id']
        self.addCleanup(self.daemon.delete, fork)
        self.assertEqual(Box.of(self.daemon, fork).out('cat /srv/forked; uname -r').split(),
                         ['forked', kernel(self.box)])
        self.box.out('echo changed >/srv/forked')
        self.assertEqual(Box.of(self.daemon, fork).out('cat /srv/forked'), 'forked')


class Ends(MachineTest):

    def setUp(self):
        self.daemon = self.enterContext(atoll.Daemon(**SETTINGS))
        self.image = shell_image(self.daemon, bash=False)

    def test_an_entrypoint_that_ends(self):
        box = Box(self.daemon, self.image, entrypoint=['sh', '-c', 'exit 9'])
        self.assertIn('9', self.ended(box)['message'])

    def test_an_entrypoint_that_is_not_there(self):
        box = Box(self.daemon, self.image, entrypoint=['/nope'])
        self.assertIn('/nope', self.ended(box)['message'])

    def test_it_outlives_daemon_and_spawner(self):
        box = Box(self.daemon, self.image)
        box.out('echo on >/f')
        self.daemon.kill()
        self.daemon.start()
        self.assertEqual(Box.of(self.daemon, box.id).out('cat /f'), 'on')
        self.daemon.kill_spawner()
        until(lambda: self.daemon.request('GET', '/health')['status'] == 'healthy', BOOT, 'there is a spawner')
        self.assertEqual(Box.of(self.daemon, box.id).out('cat /f'), 'on')
        self.daemon.upgrade_spawner()
        self.assertEqual(Box.of(self.daemon, box.id).out('cat /f'), 'on')

    def test_the_death_of_each_part_is_its_end(self):
        for name in ('guard', 'qemu', 'virtiofsd'):
            with self.subTest(name):
                box = Box(self.daemon, self.image)
                self.assertEqual(box.out('echo up'), 'up')
                os.kill(self.part(name), signal.SIGKILL)
                self.assertEqual(self.ended(box)['state'], 'Failed')
                until(lambda: not any(word.endswith('qemu-system-x86_64') for _, _, word in processes()), BOOT,
                      'nothing of it is left')
                self.daemon.delete(box.id)


class Parked(MachineTest):
    """A machine that has booted before anybody asked for it."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = cls.enterClassContext(atoll.Daemon(
            **SETTINGS, secure_runtime__vm_parked=1, limits__memory='256Mi', limits__cpu='1'))
        cls.image = shell_image(cls.daemon)

    def machines(self):
        return {pid for pid, _, word in processes() if word.endswith('qemu-system-x86_64')}

    def waiting(self, *others):
        """The pid of the machine that waits beside others, once there is one."""
        return until(lambda: self.machines() - set(others), BOOT, 'a machine waits').pop()

    def box(self, **fields):
        box = Box(self.daemon, self.image, **fields)
        self.addCleanup(self.delete, box)
        return box

    def delete(self, box):
        self.daemon.send('DELETE', f'/v1/sandboxes/{box.id}')

    def test_a_create_takes_it(self):
        waiting = self.waiting()
        box = self.box(volumes=[{'name': 'data', 'mountPath': '/data', 'pvc': {'claimName': 'parked-data'}}])
        self.assertEqual(box.out('hostname'), box.id.replace('-', '')[:12])
        box.out('echo kept >/data/f; echo root >/srv/f')
        self.assertEqual(box.get('/files/download', path='/data/f').body, b'kept\n')
        plain = self.box(extensions={'isolation': 'namespace'})
        link = 'cat /sys/class/net/eth0/address /sys/class/net/eth0/mtu; ip -o addr show eth0 | wc -l'
        self.assertEqual(box.out(link).split()[1:], plain.out(link).split()[1:])
        # The next one waits already.
        following = self.waiting(waiting)
        self.assertIn(waiting, self.machines())
        self.delete(box)
        until(lambda: waiting not in self.machines(), BOOT, 'it has gone with its sandbox')
        self.assertIn(following, self.machines())

    def test_other_limits_need_another(self):
        waiting = self.waiting()
        box = self.box(resourceLimits={'memory': '400Mi', 'cpu': '2'})
        self.assertGreater(int(box.out("awk '/MemTotal/ {print $2}' /proc/meminfo")), 256 << 10)
        self.assertEqual(box.out('nproc'), '2')
        self.assertNotIn(waiting, self.machines())

    def test_its_death_is_none_of_a_sandbox(self):
        for _ in range(2):
            waiting = self.waiting()
            guard = next(parent for pid, parent, _ in processes() if pid == waiting)
            os.kill(waiting, signal.SIGKILL)
            until(lambda: all(parent != guard for _, parent, _ in processes()), BOOT, 'all of it is gone')
            box = self.box()
            self.assertEqual(box.out('echo up'), 'up')
            self.delete(box)

    def test_it_goes_with_the_daemon(self):
        waiting = self.waiting()
        self.daemon.kill()
        until(lambda: waiting not in self.machines(), BOOT, 'it has gone')
        self.daemon.start()
        box = self.box()
        self.assertEqual(box.out('echo up'), 'up')


class Network(EgressTest):
    settings = SETTINGS

    def test_names_and_addresses(self):
        with self.own_box(policy('good.example')) as box:
            self.assertNotEqual(kernel(box), os.uname().release)
            for net in FAMILIES:
                with self.subTest(net):
                    self.assertEqual(box.lookup('good.example', net), [net.at(10)])
                    self.assert_served(box.http(net.at(10), 'good.example'), 'good.example')
                    self.assertNotEqual(box.tcp(net.at(12), 80, send=b'x').word, 'ok')
            self.assertEqual(box.dig('evil.example').addresses(), [])
            box.policy('PUT', policy('evil.example'))
            self.assertEqual(box.lookup('evil.example', V4), [V4.at(12)])


class Vault(VaultTest):
    settings = {**SETTINGS, 'usage_keep_days': 30}

    def used(self):
        return self.daemon.request('GET', '/v1/usage')['items'][0]

    def test_credentials_bandwidth_and_usage(self):
        box = self.safe_box(extensions={'network.bandwidth': '10M'}, resourceLimits={'memory': '256Mi'})
        self.put(box, vault(binding('api', 'good.example')))
        self.assertIn('HTTP/1.1 200', self.curl(box, 'https://good.example/v1'))
        self.assertEqual(self.arrived(host='good.example')[1]['authorization'], 'Bearer sk-one')
        size = 5_000_000  # four seconds, of which one may come at once
        head = f'POST /in HTTP/1.1\r\nHost: good.example\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n'
        before, began = self.used(), time.monotonic()
        self.assertEqual(box.tcp(V4.at(10), 80, length=1, all=1, send=head.encode(), fill=size).word, 'ok')
        self.assertGreater(time.monotonic() - began, 2.5)
        box.out('dd if=/dev/zero of=/srv/big bs=1M count=20 2>/dev/null')
        after = self.used()
        # Of the whole machine, as the host sees it.
        self.assertGreater(after['network_bytes']['out'] - before['network_bytes']['out'], size)
        self.assertGreater(after['cpu_seconds'], before['cpu_seconds'])
        self.assertGreater(after['memory_used_gib_seconds'], before['memory_used_gib_seconds'])
        self.assertGreater(self.daemon.request('GET', f'/v1/sandboxes/{box.id}/disk')['bytes'], 20 << 20)

    def test_a_network_with_another_kind_of_sandbox(self):
        machine = self.box(extensions={'network': 'lan'})
        self.addCleanup(self.daemon.delete, machine.id)
        plain = self.box(extensions={'network': 'lan', 'isolation': 'namespace'})
        self.addCleanup(self.daemon.delete, plain.id)
        for one, other in ((machine, plain), (plain, machine)):
            other.background('nc -ll -p 8000 -e cat')
            until(lambda: other.tcp('127.0.0.1', 8000, send=b'x').word == 'ok', BOOT, 'it listens')
            self.assert_echo(one.tcp(other.own_address(V4), 8000, send=b'hello', want=5))


if __name__ == '__main__':
    unittest.main()
