"""Virtual machines that stand still, are copied, end and boot ahead; what they reach on the network."""
import os
import signal
import unittest

import atoll
from atoll import until
from box import Box, shell_image
from egress import EgressTest
from isolated import Session
from machine import BOOT, SETTINGS, WHOLE, MachineTest, Shared, kernel, processes
from vault_test import VaultTest
from walls import Interpreted, Networked, Vaulted

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
        session = Session(box, workspace={'path': '/srv'})
        self.assertEqual(session.out('echo its own >f; cat f') + box.out('cat /srv/f'), 'its ownroot')
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


class Network(Networked, EgressTest):
    settings = SETTINGS


class Vault(Vaulted, VaultTest):
    settings = SETTINGS


if WHOLE:
    class Code(Interpreted, unittest.TestCase):
        settings = SETTINGS
        # Emulated, Node takes more than the minute that a kernel has.
        languages = {name: Interpreted.languages[name] for name in ('python', 'bash')}


class Metered(MachineTest):
    """The host counts the whole machine."""

    def test_usage(self):
        self.daemon = self.enterContext(atoll.Daemon(**SETTINGS, usage_keep_days=30))
        used = lambda: self.daemon.request('GET', '/v1/usage')['items'][0]
        box = Box(self.daemon, shell_image(self.daemon), resourceLimits={'memory': '256Mi'})
        box.out('true')
        before = used()
        gateway = box.out('ip route | sed -n "s/default via \\([^ ]*\\).*/\\1/p"')
        box.run(f'dd if=/dev/zero bs=1000 count=20 2>/dev/null | timeout 5 nc -w 1 {gateway} 53')
        box.out('dd if=/dev/zero of=/srv/big bs=1M count=20 2>/dev/null')
        after = used()
        self.assertGreater(after['network_bytes']['out'], before['network_bytes']['out'])
        self.assertGreater(after['cpu_seconds'], before['cpu_seconds'])
        self.assertGreater(after['memory_used_gib_seconds'], before['memory_used_gib_seconds'])
        self.assertGreater(self.daemon.request('GET', f'/v1/sandboxes/{box.id}/disk')['bytes'], 20 << 20)


if __name__ == '__main__':
    unittest.main()
