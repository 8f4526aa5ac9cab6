"""GPUs of the host in sandboxes, with devices that only look like GPUs: second nodes of /dev/zero, and
a file in the place of their library. What is shown is who can open which, not that anything computes."""
import json
import os
import pathlib
import re
import stat
import subprocess
import unittest

import atoll
from atoll import SLOWNESS

UNTIL = 20 * SLOWNESS
KIND = 'fake.example/gpu'


class Fakes:
    """Descriptions of `count` devices in a directory, and what they describe."""

    def __init__(self, top, count):
        self.specs, self.host = top / 'cdi', top / 'host'
        for directory in (self.specs, self.host):
            directory.mkdir(mode=0o755)
        self.library = self.host / 'libfake.so.1'
        self.library.write_text('the library')
        self.library.chmod(0o644)
        for name in (*map(str, range(count)), 'ctl'):
            node = self.host / f'fake{name}'
            os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(1, 5))
            node.chmod(0o666)
        devices = [{'name': str(n), 'containerEdits': {
            'env': [f'FAKE_DEVICE_{n}=1'], 'deviceNodes': [self.node(f'fake{n}')]}} for n in range(count)]
        devices.append({'name': 'all', 'containerEdits': {
            'deviceNodes': [self.node(f'fake{n}') for n in range(count)]}})
        hook = {'hookName': 'createContainer', 'path': '/no/program'}
        self.spec = {'cdiVersion': '0.6.0', 'kind': KIND, 'devices': devices, 'containerEdits': {
            'env': ['FAKE_VISIBLE=void'],
            'deviceNodes': [self.node('fakectl', 'nested/fakectl')],
            'mounts': [{'hostPath': str(self.library), 'containerPath': '/opt/fake/lib/libfake.so.1',
                        'options': ['ro', 'nosuid', 'nodev', 'bind']}],
            'hooks': [{**hook, 'args': ['hook', 'create-symlinks', '--link',
                                        'libfake.so.1::/opt/fake/lib/libfake.so']},
                      {**hook, 'args': ['hook', 'update-ldcache', '--folder', '/opt/fake/lib']}]}}
        self.write()

    def node(self, name, inside=None):
        return {'path': f'/dev/{inside or name}', 'hostPath': str(self.host / name)}

    def write(self):
        path = self.specs / 'fake.json'
        path.write_text(json.dumps(self.spec), encoding='utf-8')
        path.chmod(0o644)


def daemon_with(case, count, **settings):
    daemon = atoll.Daemon(gpu_kind=KIND, **settings)
    fakes = Fakes(daemon.top, count)
    daemon.config.write_text(daemon.config.read_text().replace(
        '[gpu]\n', f'[gpu]\nspec_dirs = ["{fakes.specs}", "/no/such/directory"]\n'))
    case.addClassCleanup(daemon.__exit__) if isinstance(case, type) else case.addCleanup(daemon.__exit__)
    return daemon, fakes


class GpuTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.daemon, cls.fakes = daemon_with(cls, 2)
        cls.daemon.start()
        cls.image = cls.daemon.import_busybox()

    def tearDown(self):
        for item in self.daemon.request('GET', '/v1/sandboxes?pageSize=100')['items']:
            self.daemon.delete(item['id'])
        self.are_free(2)

    def are_free(self, count):
        """Waits until so many are free: they come back when their sandbox is quite gone."""
        atoll.until(lambda: self.daemon.metric('gpus_free') == count, UNTIL, f'{count} devices are free')

    def box(self, gpus, **fields):
        return self.daemon.create(self.image, resourceLimits={'gpu': gpus} if gpus else {}, **fields)

    def out(self, box, command):
        done = self.daemon.run(box, command)
        return (done.stdout + done.stderr).strip()

    def gpus(self, box):
        path = f'/v1/sandboxes/{box}/diagnostics/inspect?format=json'
        return self.daemon.request('GET', path).get('gpus')

    def refused(self, *arguments, **fields):
        with self.assertRaises(atoll.ApiError) as failed:
            self.box(*arguments, **fields)
        return failed.exception

    def test_node_library_link_and_variables(self):
        box = self.box('1')
        self.assertEqual(self.gpus(box), ['0'])
        self.assertEqual(self.out(box, 'head -c 4 /dev/fake0 | od -An -tx1'), '00 00 00 00')
        self.assertEqual(self.out(box, 'echo x > /dev/fake0; head -c 1 /dev/nested/fakectl | wc -c'), '1')
        self.assertEqual(self.out(box, 'cat /opt/fake/lib/libfake.so'), 'the library')
        self.assertEqual(self.out(box, 'echo $FAKE_VISIBLE $FAKE_DEVICE_0 $LD_LIBRARY_PATH'),
                         'void 1 /opt/fake/lib')
        plain = self.box(None)
        self.assertEqual(self.gpus(plain), None)
        self.assertEqual(self.out(plain, 'ls -d /dev/fake* /dev/nested /opt/fake 2>/dev/null; '
                                         'echo $FAKE_VISIBLE'), '')

    def test_each_has_one_owner(self):
        first, second = self.box('1'), self.box('1')
        self.assertEqual((self.gpus(first), self.gpus(second)), (['0'], ['1']))
        self.assertEqual(self.out(second, 'ls /dev/fake0 2>&1; head -c 1 /dev/fake1 | wc -c'),
                         'ls: /dev/fake0: No such file or directory\n1')
        # With the number of the other's node in hand there is still no way to it.
        self.assertIn('not permitted', self.out(second, 'mknod /dev/mine c 1 5'))
        for gpus in ('1', 'all'):
            error = self.refused(gpus)
            # The API names no 503 for a create: clients try again after a 429.
            self.assertEqual((error.status, error.code), (429, 'SANDBOX::TOO_MANY'))
            self.assertIn('0 of 2 GPUs of this host are free', error.message)
        self.daemon.delete(first)
        self.are_free(1)
        self.assertEqual(self.gpus(self.box('1')), ['0'])

    def test_nothing_of_it_can_be_changed_from_inside(self):
        box = self.box('1')
        for command in ('chmod 600 /dev/fake0', 'chown 7 /dev/fake0', 'rm -f /dev/fake0',
                        'mv /dev/fake0 /dev/x', 'umount /dev/fake0', 'mount --bind /dev/null /dev/fake0',
                        'echo x > /opt/fake/lib/libfake.so.1', 'rm -f /opt/fake/lib/libfake.so.1',
                        'chmod 777 /opt/fake/lib/libfake.so.1', 'umount /opt/fake/lib/libfake.so.1',
                        'mount -o remount,rw /opt/fake/lib/libfake.so.1'):
            self.assertEqual(self.out(box, f'({command}) >/dev/null 2>&1 && echo done'), '', command)
        node = (self.fakes.host / 'fake0').stat()
        self.assertEqual((stat.S_IMODE(node.st_mode), node.st_uid), (0o666, 0))
        self.assertEqual(self.fakes.library.read_text(), 'the library')
        # Neither the node nor the library may be executed as another user, or hold devices.
        mounts = self.out(box, 'grep fake /proc/self/mountinfo').splitlines()
        self.assertEqual(len(mounts), 3)
        for mount in mounts:
            target, options = mount.split()[4:6]
            self.assertIn('nosuid', options.split(','))
            self.assertEqual('ro' in options.split(','), target.startswith('/opt'), mount)

    def test_links_of_the_image_lead_nowhere(self):
        for link in ('/proc/self', '/sys/kernel', '/dev', '/../../..'):
            box = self.box(None)
            self.out(box, f'rm -rf /opt/fake; mkdir -p /opt; ln -s {link} /opt/fake; '
                          'mkdir -p /lib /lib/lib; echo mine > /etc/passwd')
            snapshot = self.daemon.request('POST', f'/v1/sandboxes/{box}/snapshots', {})['id']
            atoll.until(lambda: self.daemon.request('GET', f'/v1/snapshots/{snapshot}')['status']['state']
                        == 'Ready', UNTIL, 'the snapshot is ready')
            body = {'snapshotId': snapshot, 'resourceLimits': {'gpu': '1'}}
            if link == '/../../..':
                # The sandbox's own root, as it would see the link.
                child = self.daemon.request('POST', '/v1/sandboxes', body)['id']
                self.assertEqual(self.out(child, 'cat /lib/libfake.so'), 'the library')
                self.daemon.delete(child)
            else:
                with self.assertRaises(atoll.ApiError) as failed:
                    self.daemon.request('POST', '/v1/sandboxes', body)
                self.assertIn(failed.exception.status, (400, 500))
            self.tearDown()
            self.daemon.request('DELETE', f'/v1/snapshots/{snapshot}')

    def test_numbers_and_other_isolation(self):
        for gpus in ('3', 'two', '-1', '1.5'):
            error = self.refused(gpus)
            self.assertEqual((error.status, error.code), (400, 'SANDBOX::INVALID_PARAMETER'), gpus)
        self.assertIn('this host has 2', self.refused('3').message)

    def test_the_daemon_and_the_spawner_die(self):
        box = self.box('1')
        self.daemon.kill()
        self.daemon.start()
        self.assertEqual(self.gpus(box), ['0'])
        self.assertIn('1 of 2 GPUs', self.refused('2').message)
        spawner = self.daemon.spawner_pid()
        self.daemon.kill_spawner()
        self.daemon.another_spawner(spawner)
        atoll.until(self.daemon.healthy, UNTIL, 'the next spawner serves')
        self.assertEqual(self.out(box, 'head -c 1 /dev/fake0 | wc -c'), '1')
        self.assertIn('1 of 2 GPUs', self.refused('2').message)
        other = self.box('1')
        self.assertEqual(self.gpus(other), ['1'])
        self.assertEqual(self.out(other, 'head -c 1 /dev/fake1 | wc -c'), '1')

    def test_a_fork_gets_another(self):
        box = self.box('1')
        child = self.daemon.request('POST', f'/v1/sandboxes/{box}/fork', {'count': 1})['items'][0]['id']
        self.assertEqual((self.gpus(box), self.gpus(child)), (['0'], ['1']))
        self.assertEqual(self.out(child, 'ls /dev/fake0 2>&1; cat /opt/fake/lib/libfake.so'),
                         'ls: /dev/fake0: No such file or directory\nthe library')
        with self.assertRaises(atoll.ApiError) as failed:
            self.daemon.request('POST', f'/v1/sandboxes/{box}/fork', {'count': 1})
        self.assertIn('0 of 2 GPUs', failed.exception.message)

    def test_run(self):
        ran = subprocess.run([atoll.BUILD / 'atoll', 'run', '--gpus', 'all', self.image, 'sh', '-c',
                              'ls /dev/fake*'], env=self.daemon.client_env(), text=True,
                             capture_output=True, check=False, timeout=60 * SLOWNESS)
        self.assertEqual((ran.returncode, ran.stdout), (0, '/dev/fake0\n/dev/fake1\n'), ran.stderr)


class HostTest(unittest.TestCase):

    def fails(self, daemon, why):
        with self.assertRaises(AssertionError) as failed:
            daemon.start()
        # Its spawner may still be on its way out, and the end of the test starts a daemon to end it.
        text = daemon.config.read_text()
        daemon.config.write_text(re.sub(r'\[gpu\]\n(?:[^\[\n].*\n)*', '', text))
        self.assertIn(why, str(failed.exception))

    def test_a_file_that_others_can_write(self):
        daemon, fakes = daemon_with(self, 1)
        (fakes.specs / 'fake.json').chmod(0o666)
        self.fails(daemon, 'fake.json can be changed by users other than root')

    def test_a_hook_that_nobody_knows(self):
        daemon, fakes = daemon_with(self, 1)
        fakes.spec['containerEdits']['hooks'][0]['args'][1] = 'run-as-root'
        fakes.write()
        self.fails(daemon, "hook 'run-as-root' is not supported")

    def test_a_node_that_is_none_or_not_for_everybody(self):
        daemon, fakes = daemon_with(self, 1)
        daemon.start()
        image = daemon.import_busybox()
        node = fakes.host / 'fake0'
        node.chmod(0o660)
        for make in (lambda: None, node.unlink, lambda: node.write_text('a file'),
                     lambda: (node.unlink(), os.mknod(node, stat.S_IFBLK | 0o666, os.makedev(7, 0)))):
            make()
            atoll.until(lambda: daemon.metric('gpus_free') == 1, UNTIL, 'the device is free')
            with self.assertRaises(atoll.ApiError) as failed:
                daemon.create(image, resourceLimits={'gpu': '1'})
            self.assertEqual(failed.exception.status, 500)
        self.assertEqual(daemon.run(daemon.create(image), 'echo on').stdout, 'on')

    def test_without_devices_a_request_is_refused_and_nothing_else(self):
        daemon, fakes = daemon_with(self, 1)
        (fakes.specs / 'fake.json').unlink()
        daemon.start()
        image = daemon.import_busybox()
        with self.assertRaises(atoll.ApiError) as failed:
            daemon.create(image, resourceLimits={'gpu': '1'})
        self.assertEqual(failed.exception.status, 400)
        self.assertIn('GPUs are not offered', failed.exception.message)
        self.assertEqual(daemon.run(daemon.create(image), 'echo on').stdout, 'on')

    def test_shared(self):
        daemon, _ = daemon_with(self, 1, gpu_shared=True)
        daemon.start()
        image = daemon.import_busybox()
        for _ in range(3):
            box = daemon.create(image, resourceLimits={'gpu': '1'})
            self.assertEqual(daemon.run(box, 'head -c 1 /dev/fake0 | wc -c').stdout, '1')

    def test_the_spawner_checks_the_line_itself(self):
        top = pathlib.Path(os.environ.get('TEST_TMPDIR', '/var/tmp'))
        for line in ('0 node=/dev/zero:/etc/x', '0 node=/dev/zero:/dev/../x', '0'):
            done = subprocess.run([atoll.BUILD / 'atoll-spawner', '--data-dir', top, '--run-dir', top,
                                   '--user', 'nobody', '--device', line], text=True, check=False,
                                  stderr=subprocess.PIPE, timeout=20 * SLOWNESS)
            self.assertEqual(done.returncode, 2, line)
            self.assertIn("device '0'", done.stderr)


if __name__ == '__main__':
    unittest.main()
