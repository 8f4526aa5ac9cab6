"""Virtual machines that stand still, are copied, end and boot ahead; what they reach on the network."""
import os
import signal
import time
import unittest

import atoll
from atoll import until
from box import Box, shell_image
from egress import FAMILIES, V4, EgressTest, policy
from machine import BOOT, SETTINGS, MachineTest, Shared, kernel, processes
from vault_test import VaultTest, binding, vault

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
        # The host counts the whole machine.
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
