"""Sandboxes in virtual machines: what the other kinds can do, what this one adds, and what it refuses.

A class shares a machine, and there are never more than two at once.
"""
import os
import pathlib
import signal
import unittest

import atoll
import buckets
from atoll import until
from box import Box
from machine import BOOT, SETTINGS, Shared, kernel, processes
from walls import Bucketed, Served


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


class Works(Served, Shared):
    patience = BOOT

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

    def test_idleness(self):
        box = self.other(extensions={'idle.after': '2'})
        until(lambda: self.state(box)['state'] == 'Paused', BOOT, 'nobody uses it')
        self.assertEqual(box.out('echo on'), 'on')

    def test_what_it_cannot_do(self):
        with self.assertRaises(atoll.ApiError) as refused:
            self.daemon.create(self.image, resourceLimits={'memory': '127Mi'})
        self.assertIn('needs at least 128Mi', refused.exception.message)


class Bucket(Bucketed, buckets.Case):
    settings = SETTINGS


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


if __name__ == '__main__':
    unittest.main()
