"""Sandboxes behind gVisor: what the other kind can do, what this one adds, and what it refuses."""
import contextlib
import http.client
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest
import urllib.parse

import atoll
import buckets
from atoll import SLOWNESS, until
from box import Box, pack, shell_image
from egress import EgressTest, policy
from vault_test import VaultTest
from walls import Bucketed, Interpreted, Networked, Served, Vaulted

RUNSC = atoll.BUILD / 'conformance/runsc/runsc'
SETTINGS = {'secure_runtime__runsc': str(RUNSC), 'secure_runtime__type': 'gvisor',
            'secure_runtime__minimum': 'namespace'}


def kernel(sandbox):
    return sandbox.out('uname -r')


class GvisorTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(dir='/var/tmp')))
        cls.shared.chmod(0o755)
        (cls.shared / 'f').write_text('of the host', encoding='utf-8')
        cls.daemon = cls.enterClassContext(atoll.Daemon(
            **SETTINGS, storage_allowed_host_paths=[str(cls.shared)]))
        cls.image = shell_image(cls.daemon)
        cls.box = Box(cls.daemon, cls.image, resourceLimits={'memory': '256Mi', 'cpu': '1'})

    def other(self, **fields):
        box = Box(self.daemon, self.image, **fields)
        self.addCleanup(self.daemon.delete, box.id)
        return box


class Seen(GvisorTest):

    def test_another_kernel(self):
        self.assertNotEqual(kernel(self.box), os.uname().release)
        self.assertIn('gvisor', kernel(self.box))
        plain = self.other(extensions={'isolation': 'namespace'})
        self.assertEqual(kernel(plain), os.uname().release)

    def test_the_answers_name_it(self):
        self.assertEqual(self.daemon.request('GET', '/health')['isolation'],
                         {'type': 'gvisor', 'available': ['namespace', 'gvisor']})
        ran = subprocess.run([atoll.BUILD / 'atoll', 'ps', '--format', '{{.ID}} {{.Isolation}}'],
                             env=self.daemon.client_env(), text=True, capture_output=True, check=True)
        self.assertIn(f'{self.box.id} gvisor', ran.stdout.splitlines())

    def test_the_memory_of_the_request(self):
        self.assertEqual(self.box.out("awk '/MemTotal/ {print $2}' /proc/meminfo"), str(256 << 10))

    def test_who_one_is(self):
        self.assertEqual(self.box.out('id -u; id -un; hostname').split(),
                         ['0', 'root', self.box.id.replace('-', '')[:12]])
        self.assertEqual(self.box.out('id -u', uid=1000, gid=1000), '1000')
        mask = int(self.box.out("awk '/CapBnd/ {print $2}' /proc/self/status"), 16)
        self.assertEqual(mask, self.capabilities_of_the_namespace_tier())

    def capabilities_of_the_namespace_tier(self):
        plain = self.other(extensions={'isolation': 'namespace'})
        return int(plain.out("awk '/CapBnd/ {print $2}' /proc/self/status"), 16)

    def test_nothing_of_the_host_and_no_socket_of_execd(self):
        self.assertEqual(self.box.out('ls -A /.atoll').split(), ['execd', 'ready'])
        self.assertEqual(self.box.out('ls /store /guard 2>/dev/null | wc -l'), '0')
        _, _, last = self.box.run('echo x >/.atoll/execd')
        self.assertEqual(last['type'], 'error')


class Works(Served, GvisorTest):

    def test_programs_at_once(self):
        self.assertEqual(self.box.out("bash -c 'for i in 1 2 3; do (echo $i) & done; wait' | sort"),
                         '1\n2\n3')

    def test_an_entrypoint_that_ends(self):
        box = self.other(entrypoint=['sh', '-c', 'sleep 0.1; exit 9'])
        ended = until(lambda: self.state(box)['state'] in ('Failed', 'Terminated') and self.state(box),
                      30 * SLOWNESS, 'the entrypoint has ended')
        self.assertIn('9', ended['message'])

    def test_an_entrypoint_that_is_not_there(self):
        box = self.daemon.create(self.image, entrypoint=['/nope'])
        self.addCleanup(self.daemon.delete, box)
        ended = until(lambda: self.daemon.request('GET', f'/v1/sandboxes/{box}')['status']['state'] == 'Failed' and
                      self.daemon.request('GET', f'/v1/sandboxes/{box}')['status'],
                      30 * SLOWNESS, 'the start has failed')
        self.assertIn('/nope', ended['message'])

    def state(self, box):
        return self.daemon.request('GET', f'/v1/sandboxes/{box.id}')['status']

    def test_what_is_written_is_in_the_differences(self):
        box = self.other()
        box.out('echo kept >/srv/f; echo t >/tmp/t; rm /etc/group')
        changes = {(item['kind'], item['path'])
                   for item in self.daemon.request('GET', f'/v1/sandboxes/{box.id}/diff')['items']}
        self.assertEqual(changes, {('added', '/srv/f'), ('added', '/tmp/t'), ('deleted', '/etc/group')})

    def test_a_snapshot_of_another_kind_starts(self):
        plain = self.other(extensions={'isolation': 'namespace'})
        plain.out('echo kept >/srv/f')
        snapshot = self.daemon.request('POST', f'/v1/sandboxes/{plain.id}/snapshots', {})['id']
        until(lambda: self.daemon.request('GET', f'/v1/snapshots/{snapshot}')['status']['state'] == 'Ready',
              30 * SLOWNESS, 'the snapshot is there')
        box = self.daemon.request('POST', '/v1/sandboxes', {
            'snapshotId': snapshot, 'timeout': 600, 'resourceLimits': {},
            'extensions': {'isolation': 'gvisor'}})['id']
        self.addCleanup(self.daemon.delete, box)
        self.assertEqual(Box.of(self.daemon, box).out('cat /srv/f; uname -r | grep -c gvisor'), 'kept\n1')

    def test_what_stops_programs_is_refused_and_stops_none(self):
        for verb, body in (('pause', None), ('fork', {}), ('snapshots', {})):
            with self.subTest(verb):
                with self.assertRaises(atoll.ApiError) as refused:
                    self.daemon.request('POST', f'/v1/sandboxes/{self.box.id}/{verb}', body)
                self.assertIn('isolation gvisor cannot stand still', refused.exception.message)
                self.assertEqual(self.state(self.box)['state'], 'Running')
                self.assertEqual(self.box.out('echo on'), 'on')

    def test_volumes(self):
        volumes = [{'name': 'data', 'mountPath': '/data', 'pvc': {'claimName': 'gvisor-data'}}]
        box = self.other(volumes=volumes)
        box.out('echo shared >/data/f')
        self.assertEqual(self.other(volumes=volumes).out('cat /data/f'), 'shared')

    def test_a_directory_of_the_host(self):
        box = self.other(volumes=[{'name': 'shared', 'mountPath': '/shared', 'readOnly': True,
                                   'host': {'path': str(self.shared)}}])
        self.assertEqual(box.out('cat /shared/f'), 'of the host')
        _, _, last = box.run('echo x >/shared/f')
        self.assertEqual(last['type'], 'error')

    def test_two_sandboxes_see_each_other_s_writes(self):
        """Each path as a volume and as a directory of the host, with a sandbox of each kind."""
        named = {'name': 'data', 'mountPath': '/data', 'pvc': {'claimName': 'gvisor-both'}}
        # A writable directory of the host belongs to a user.
        directory = self.shared / 'both'
        directory.mkdir()
        os.chown(directory, 1000, 1000)
        host = {'name': 'data', 'mountPath': '/data', 'host': {'path': str(directory)}}
        for volume in (named, host):
            a = self.other(volumes=[volume])
            for other in ('gvisor', 'namespace'):
                with self.subTest(volume=volume, other=other):
                    self.writes_are_seen(a, self.other(volumes=[volume], extensions={'isolation': other}))

    def writes_are_seen(self, a, b):
        for one, two in ((a, b), (b, a)):
            one.out('rm -rf /data/*; echo first >/data/f; mkdir /data/d; echo x >/data/d/x')
            self.assertEqual(two.out('ls /data /data/d; cat /data/f'), '/data:\nd\nf\n\n/data/d:\nx\nfirst')
            self.assertEqual(one.out('ls /data/new 2>/dev/null | wc -l; wc -c </data/f'), '0\n6')
            two.out('echo new >/data/new; rm -r /data/d; echo longer than it was >/data/f')
            self.assertEqual(one.out('cat /data/new /data/f; wc -c </data/f; ls /data'),
                             'new\nlonger than it was\n19\nf\nnew')
            for i in range(5):
                one.out(f'echo one{i} >>/data/log')
                two.out(f'echo two{i} >>/data/log')
            lines = [f'{word}{i}' for i in range(5) for word in ('one', 'two')]
            for box in (one, two):
                self.assertEqual(box.out('cat /data/log').split(), lines)

    def test_a_volume_is_there_wherever_it_was_asked_for(self):
        odd = '/srv/a "quoted" \\ \u00e9\t\u202e name'
        for path in ('/tmp', '/tmp/data', '/data/x', '/run/data', '/etc/data', odd):
            with self.subTest(path):
                box = self.other(volumes=[{'name': 'data', 'mountPath': path,
                                           'pvc': {'claimName': 'gvisor-where'}}])
                box.out(f"echo here >'{path}/f'")
                self.assertEqual(self.in_volume('gvisor-where'), 'here')
                box.out(f"rm '{path}/f'")

    def in_volume(self, name, command='cat /v/f'):
        return self.other(volumes=[{'name': 'data', 'mountPath': '/v', 'pvc': {'claimName': name}}],
                          extensions={'isolation': 'namespace'}).out(command)

    def test_one_volume_in_another(self):
        box = self.other(volumes=[
            {'name': 'inner', 'mountPath': '/data/in/ner', 'pvc': {'claimName': 'gvisor-inner'}},
            {'name': 'outer', 'mountPath': '/data', 'pvc': {'claimName': 'gvisor-outer'}},
            {'name': 'file', 'mountPath': '/data/of', 'readOnly': True, 'host': {'path': str(self.shared / 'f')}}])
        box.out('echo in >/data/in/ner/f; echo out >/data/f')
        self.assertEqual([self.in_volume('gvisor-inner'), self.in_volume('gvisor-outer')], ['in', 'out'])
        self.assertEqual(box.out('cat /data/of'), 'of the host')
        self.assertEqual(box.run('echo x >>/data/of')[2]['type'], 'error')

    def test_where_no_volume_can_be(self):
        for path in ('/.atoll', '/.atoll/data', '/proc/data', '/sys/data', '/dev/data', '/dev/shm'):
            with self.subTest(path):
                with self.assertRaises(atoll.ApiError) as refused:
                    self.other(volumes=[{'name': 'data', 'mountPath': path,
                                         'pvc': {'claimName': 'gvisor-none'}}])
                self.assertEqual(refused.exception.status, 400)
                self.assertIn(path, refused.exception.message)
        self.assertNotIn('gvisor-none', [item['name'] for item in self.daemon.request('GET', '/v1/volumes')['items']])

    def test_a_link_of_the_image_leads_no_volume_there(self):
        with tempfile.TemporaryDirectory(dir=self.daemon.top) as work:
            root = pathlib.Path(work, 'root')
            (root / 'tmp').mkdir(parents=True)
            (root / 'there').symlink_to('tmp')
            for name in ('.atoll', 'proc', 'dev'):
                (root / f'to{name}').symlink_to(name)
            shutil.copy('/bin/busybox', root / 'sleep')
            (root / 'sh').symlink_to('sleep')
            pack(root, 'links:latest', pathlib.Path(work, 'image.tar'))
            self.daemon.import_image(pathlib.Path(work, 'image.tar'), 'links:latest')
        volume = lambda path: [{'name': 'data', 'mountPath': path, 'pvc': {'claimName': 'gvisor-links'}}]
        for name in ('.atoll', 'proc', 'dev'):
            with self.subTest(name):
                with self.assertRaises(atoll.ApiError) as refused:
                    self.daemon.create('links:latest', volumes=volume(f'/to{name}/x'), entrypoint=['/sleep', '1000'])
                self.assertEqual(refused.exception.status, 400)
                self.assertIn('isolation gvisor', refused.exception.message)
        box = self.daemon.create('links:latest', volumes=volume('/there/x'),
                                 entrypoint=['/sh', '-c', 'echo led >/tmp/x/f; exec /sleep 1000'])
        self.addCleanup(self.daemon.delete, box)
        until(lambda: self.in_volume('gvisor-links', 'cat /v/f 2>/dev/null | wc -c') == '4', 60 * SLOWNESS,
              'it has written')

    def test_a_root_that_is_read_only(self):
        box = self.other(extensions={'isolation': 'gvisor', 'readOnlyRootFilesystem': 'true'})
        for path in ('/', '/tmp', '/srv', '/.atoll'):
            with self.subTest(path):
                self.assertEqual(box.run(f'echo x >{path}/w')[2]['type'], 'error')

    def test_no_room_in_the_directory_of_execd(self):
        self.box.run('rm /.atoll/ready; for i in 1 2 3; do head -c 100000 /dev/zero >/.atoll/$i; done')
        used = int(self.box.out("cat /.atoll/* 2>/dev/null | wc -c"))
        program = int(self.box.out('wc -c </.atoll/execd'))
        self.assertLessEqual(used - program, 4096)
        self.box.out('rm -f /.atoll/1; echo >/.atoll/ready')

    def test_root_inside_can_end_it(self):
        for command in ('kill -KILL 1', 'tail -c 400000000 /dev/zero | wc -c'):
            with self.subTest(command):
                plain, box = (self.other(resourceLimits={'memory': '128Mi'}, extensions={'isolation': kind})
                              for kind in ('namespace', 'gvisor'))
                plain.run(command)
                self.assertEqual(plain.out('echo on'), 'on')
                # Its end may cut the answer off.
                with contextlib.suppress(http.client.HTTPException):
                    box.call('POST', '/command', {'command': command})
                until(lambda: self.state(box)['state'] == 'Failed', 60 * SLOWNESS, 'its end')

    def test_root_inside_can_stop_it(self):
        self.other().out('kill -STOP 1; until grep -q "^State:.*T" /proc/1/status; do :; done; kill -CONT 1; echo on')
        plain = self.other(extensions={'isolation': 'namespace'})
        self.assertNotIn('T', plain.out("kill -STOP 1; awk '/^State/ {print $2}' /proc/1/status"))

    def test_no_pause_when_it_idles_and_no_template(self):
        for fields in ({'idle.after': '5'}, {'idle.after': '5', 'idle.action': 'pause'}):
            with self.assertRaises(atoll.ApiError) as refused:
                self.other(extensions=fields)
            self.assertEqual(refused.exception.status, 400)
            self.assertIn('isolation gvisor', refused.exception.message)
        with self.assertRaises(atoll.ApiError) as refused:
            self.daemon.request('POST', '/v1/templates', {'image': self.image})
        self.assertEqual(refused.exception.status, 501)
        self.assertIn('isolation gvisor', refused.exception.message)

    def test_it_ends_when_its_time_of_idleness_is_over(self):
        box = self.daemon.create(self.image, extensions={'idle.after': '1', 'idle.action': 'end'})
        until(lambda: self.daemon.send('GET', f'/v1/sandboxes/{box}').status == 404, 30 * SLOWNESS, 'its end')

    def test_what_it_cannot_do(self):
        answer = self.box.call('POST', '/v1/isolated/session', {'profile': 'strict'})
        self.assertEqual(answer.status, 501, answer.body)
        self.assertIn(b'gvisor', answer.body)


class Lives(unittest.TestCase):
    """Each with a daemon of its own, because a part of it is killed."""

    def setUp(self):
        self.daemon = self.enterContext(atoll.Daemon(**SETTINGS))
        self.image = shell_image(self.daemon, bash=False)
        self.box = Box(self.daemon, self.image)
        self.assertIn('gvisor', kernel(self.box))

    def process(self, name):
        """The pid of the sandbox's process of that name. A slot in stock has a guard alone."""
        out = subprocess.run(['ps', '-eo', 'pid,ppid,args'], check=True, capture_output=True,
                             text=True).stdout
        lines = [line.split()[:3] for line in out.splitlines()]
        sentry = [(pid, parent) for pid, parent, word in lines if word == 'runsc-sandbox'][-1]
        if name == 'atoll-guard':
            return int(sentry[1])
        return next(int(pid) for pid, parent, word in lines if word == name and parent == sentry[1])

    def failed(self):
        return until(lambda: self.daemon.request('GET', f'/v1/sandboxes/{self.box.id}')['status']['state']
                     == 'Failed', 30 * SLOWNESS, 'its end is noticed')

    def test_it_outlives_daemon_and_spawner(self):
        self.box.out('echo on >/f')
        self.daemon.kill()
        self.daemon.start()
        self.assertEqual(Box.of(self.daemon, self.box.id).out('cat /f'), 'on')
        self.daemon.kill_spawner()
        until(lambda: self.daemon.request('GET', '/health')['status'] == 'healthy', 30 * SLOWNESS,
              'there is a spawner')
        self.assertEqual(Box.of(self.daemon, self.box.id).out('cat /f'), 'on')
        self.daemon.upgrade_spawner()
        self.assertEqual(Box.of(self.daemon, self.box.id).out('cat /f'), 'on')
        self.daemon.delete(self.box.id)

    def test_the_death_of_each_part_is_its_end(self):
        for name in ('atoll-guard', 'runsc-sandbox'):
            with self.subTest(name):
                os.kill(self.process(name), signal.SIGKILL)
                self.failed()
                self.daemon.delete(self.box.id)
                self.box = Box(self.daemon, self.image)
                self.assertIn('gvisor', kernel(self.box))
        self.assertEqual(self.box.out('echo another'), 'another')

    def test_clients_who_take_nothing_cost_little(self):
        """As many as the guard passes on, and more. A visitor of a port, who needs no key, can do the
        same; these need no process inside for each."""
        self.box.out('head -c 20000000 /dev/zero >/srv/large')
        guard = self.process('atoll-guard')
        before = self.memory(guard)
        with contextlib.ExitStack() as clients:
            for path in ('/files/download?path=/srv/large', '/metrics/watch'):
                for _ in range(150):
                    self.ask(clients, path)
            # One of each client, and one of the daemon's for it.
            until(lambda: self.connections(self.daemon.process.pid) >= 2 * 300, 60 * SLOWNESS,
                  'the daemon has passed all on')
            until(lambda: self.connections(guard) >= 2 * 256, 60 * SLOWNESS, 'the guard has its fill')
            self.assertLess(self.connections(guard), 2 * 256 + 20)
            self.assertLess(self.memory(guard) - before, 12 << 20)
        # Its memory and its places are free again.
        until(lambda: self.connections(guard) < 40, 60 * SLOWNESS, 'they have gone')
        until(lambda: self.memory(guard) - before < 1 << 20, 30 * SLOWNESS, 'its memory is free')
        self.assertEqual(self.box.out('echo on'), 'on')

    def ask(self, clients, path):
        """Asks for it and reads nothing."""
        host, port = urllib.parse.urlsplit(self.daemon.url).netloc.split(':')
        client = clients.enter_context(socket.create_connection((host, int(port)), 60 * SLOWNESS))
        headers = ''.join(f'{name}: {value}\r\n' for name, value in self.box.headers.items())
        client.sendall(f'GET {self.box.base}{path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n'.encode())

    def memory(self, pid):
        text = pathlib.Path(f'/proc/{pid}/status').read_text(encoding='ascii')
        return next(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith('VmRSS'))

    def connections(self, pid):
        links = []
        for entry in os.scandir(f'/proc/{pid}/fd'):
            with contextlib.suppress(FileNotFoundError):
                links.append(os.readlink(entry.path))
        return sum(link.startswith('socket:') for link in links)

    def test_its_guard_sees_no_store_and_has_no_rights(self):
        guard = self.process('atoll-guard')
        self.assertEqual(os.listdir(f'/proc/{guard}/root/store'), [])
        status = pathlib.Path(f'/proc/{guard}/status').read_text(encoding='ascii')
        rights = {line.split()[0]: int(line.split()[1], 16) for line in status.splitlines()
                  if line.startswith('Cap')}
        self.assertEqual(set(rights.values()), {0}, rights)
        # Not the host's root, and nor is anything else of the sandbox.
        for name in ('atoll-guard', 'runsc-gofer', 'runsc-sandbox'):
            uids = pathlib.Path(f'/proc/{self.process(name)}/status').read_text(encoding='ascii')
            line = next(line for line in uids.splitlines() if line.startswith('Uid:'))
            self.assertTrue(all(int(uid) >= 1 << 20 for uid in line.split()[1:]), (name, line))


class Network(Networked, EgressTest):
    settings = SETTINGS

    def test_no_other_address_can_be_taken(self):
        with self.own_box(policy(default='allow')) as box:
            _, _, last = box.run('ip address add 10.200.0.77/32 dev eth0')
            self.assertEqual(last['type'], 'error')


class Vault(Vaulted, VaultTest):
    settings = SETTINGS


class Bucket(Bucketed, buckets.Case):
    settings = SETTINGS


class Code(Interpreted, unittest.TestCase):
    settings = SETTINGS


class Refused(unittest.TestCase):

    def refused(self, runsc):
        daemon = atoll.Daemon(**{**SETTINGS, 'secure_runtime__runsc': str(runsc)})
        self.addCleanup(daemon.__exit__)
        self.addCleanup(daemon.config.write_text, daemon.config.read_text().replace(str(runsc), str(RUNSC)))
        with self.assertRaises(AssertionError) as failed:
            daemon.start()
        return str(failed.exception)

    def test_a_program_that_is_missing_or_not_root_s_or_not_static(self):
        work = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(dir='/var/tmp')))
        self.assertIn(f'open {work}/none: No such file', self.refused(work / 'none'))
        writable = work / 'writable'
        writable.write_bytes(RUNSC.read_bytes())
        writable.chmod(0o777)
        self.assertIn(f'{writable}', self.refused(writable))
        self.assertIn('/usr/bin/env is no static program', self.refused('/usr/bin/env'))


if __name__ == '__main__':
    unittest.main()
