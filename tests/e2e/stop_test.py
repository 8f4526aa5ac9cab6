"""How daemon and spawner end, and how they come back: nothing stays, nobody waits for long."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import atoll
from atoll import SLOWNESS, children, comm
from freezer import Freezer
from host_state import HostState, INSTANCES, OWN, processes
from until import until

PROGRAMS = ('atolld', 'atoll-spawner', 'atoll-execd', 'atoll-unpack', 'atoll-intercept')
CGROUPS = pathlib.Path('/sys/fs/cgroup')


def scratch(test):
    top = pathlib.Path(tempfile.mkdtemp(prefix=OWN,
                                        dir=os.environ.get('TEST_TMPDIR', '/var/tmp')))
    top.chmod(0o755)
    test.addCleanup(shutil.rmtree, top)
    return top


def own_programs(test):
    """Copies that a test may break."""
    folder = scratch(test) / 'bin'
    folder.mkdir()
    for name in PROGRAMS:
        shutil.copy2(os.path.realpath(atoll.BUILD / name), folder / name)
    return folder


def numbers_of(run_dir):
    """Instance numbers that the run directory holds."""
    return [path.name for path in pathlib.Path(INSTANCES).glob('*')
            if path.read_text(encoding='utf-8') == str(run_dir)]


def groups_of_instances():
    """"atoll<number>", with what is in them, in every hierarchy."""
    return {path for depth in ('', '*/') for path in CGROUPS.glob(f'{depth}atoll[0-9]')}


def ended(pid):
    try:
        return pathlib.Path(f'/proc/{pid}/stat').read_text(encoding='utf-8').split()[2] in 'ZX'
    except OSError:
        return True


def named_children(pid):
    """{name of the program: pid}; not what is about to become a sandbox's process 1."""
    found = {}
    own = os.readlink(f'/proc/{pid}/ns/pid')
    for child in children(pid):
        with contextlib.suppress(OSError):
            if os.readlink(f'/proc/{child}/ns/pid') == own:
                found[comm(child)] = child
    return found


def builds(daemon, image):
    """Whether a new sandbox can be had."""
    try:
        box = daemon.create(image)
    except (OSError, atoll.ApiError):
        return False
    works = daemon.run(box, 'echo works').stdout == 'works'
    daemon.delete(box)
    return works


def health(daemon):
    return daemon.request('GET', '/health')


class DaemonStops(unittest.TestCase):
    """SIGTERM for atolld."""

    def test_streams_and_idle_connections_hold_nothing_up(self):
        with atoll.Daemon() as daemon:
            box = daemon.create(daemon.import_busybox())
            idle = daemon.connection()
            daemon.send('GET', '/health', connection=idle).read()
            stream = daemon.send('POST', f'/sandboxes/{box}/proxy/44772/command',
                                 {'command': 'echo here; sleep 1000'}, daemon.execd_headers(box))
            self.assertIn(b'init', stream.readline())
            began = time.monotonic()
            daemon.stop()
            self.assertLess(time.monotonic() - began, 10 * SLOWNESS)
            daemon.start()
            self.assertEqual(daemon.run(box, 'echo on').stdout, 'on')

    def test_shutdown_of_all_leaves_nothing(self):
        before_groups = groups_of_instances()
        with atoll.Daemon() as daemon:
            before = HostState.capture()
            box = daemon.create(daemon.import_busybox())
            daemon.run(box, 'echo x >/file')
            number, = numbers_of(daemon.run_dir)
            daemon.shutdown()
            self.assertEqual(numbers_of(daemon.run_dir), [])
            left = {path.name for path in daemon.run_dir.iterdir()}
            # An empty directory, a file to lock, and what the spawner has said.
            self.assertEqual(left, {'sandboxes', 'lock', 'spawner.log'})
            self.assertEqual({group for group in groups_of_instances() - before_groups
                              if group.name == f'atoll{number}'}, set())
            self.assertNotEqual(before.difference(HostState.capture()), [], 'nothing was compared')


class StartFails(unittest.TestCase):
    """A first start that fails leaves the host as it was."""

    def setUp(self):
        self.top = scratch(self)

    def start_fails(self, says, *flags, programs=atoll.BUILD, wrapper=()):
        # The kernel takes down links and their routes after the daemon of an earlier case has ended.
        until(lambda: not [route for route in HostState.capture().items['routes'] if 'fd61746c' in route],
              30 * SLOWNESS, 'no route of an earlier case is left')
        before, groups = HostState.capture(), groups_of_instances()
        done = subprocess.run(
            [*wrapper, programs / 'atolld', '--config', '/dev/null', '--storage-data-dir', self.top / 'data',
             '--runtime-run-dir', self.top / 'run', '--server-port', '0', *flags],
            stderr=subprocess.PIPE, text=True, check=False, timeout=60 * SLOWNESS)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(says, done.stderr)
        self.assertNotIn('terminate called', done.stderr)
        self.assertEqual(before.await_same(30 * SLOWNESS), [])
        self.assertEqual(groups_of_instances() - groups, set())
        self.assertEqual(numbers_of(self.top / 'run'), [])
        left = {path.name for path in (self.top / 'run').glob('*')}
        self.assertLessEqual(left, {'sandboxes', 'lock', 'spawner.log'})

    def test_a_data_directory_that_its_user_may_not_enter(self):
        closed = self.top / 'closed'
        closed.mkdir(mode=0o700)
        self.start_fails('cannot enter', '--storage-data-dir', closed / 'data')
        self.assertEqual(list(closed.iterdir()), [])
        self.assertFalse((self.top / 'run').exists())

    def test_a_broken_database(self):
        (self.top / 'data/state').mkdir(parents=True)
        (self.top / 'data/state/atoll.db').write_bytes(b'no database' * 1000)
        self.start_fails('atoll.db')

    def test_the_port_of_the_name_server_is_in_use(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(('0.0.0.0', 53))
            self.start_fails('53')

    def test_no_room_for_the_store(self):
        (self.top / 'data').mkdir()
        (self.top / 'data/store').write_text('a file', encoding='utf-8')
        self.start_fails('spawner')

    def test_the_kernel_allows_no_threads(self):
        # Root is exempt, and the daemon's own user is not. The first three and two are pools.
        for processes_allowed, flags in ((1, ()), (4, ()), (6, ('--usage-keep-days', '1'))):
            self.start_fails('cannot start the thread', *flags,
                             wrapper=('prlimit', f'--nproc={processes_allowed}'))

    def test_a_program_is_missing(self):
        programs = own_programs(self)
        (programs / 'atoll-execd').unlink()
        self.start_fails('atoll-execd', programs=programs)

    def test_a_spawner_with_sandboxes_stays(self):
        with atoll.Daemon() as daemon:
            image = daemon.import_busybox()
            box = daemon.create(image)
            spawner = daemon.spawner_pid()
            daemon.stop()
            database = daemon.data_dir / 'state/atoll.db'
            kept = {path: path.read_bytes() for path in database.parent.glob('atoll.db*')}
            for path in kept:
                path.unlink()
            database.write_bytes(b'no database' * 1000)
            atoll.settled(lambda: len(processes()))  # the stock of slots ends with the daemon
            before = HostState.capture()
            failed = subprocess.run([atoll.BUILD / 'atolld', '--config', daemon.config],
                                    stderr=subprocess.PIPE, check=False, timeout=60 * SLOWNESS)
            self.assertEqual(failed.returncode, 1)
            self.assertEqual(before.await_same(30 * SLOWNESS), [])
            self.assertEqual(daemon.spawner_pid(), spawner)
            for path, content in kept.items():
                path.write_bytes(content)
                shutil.chown(path, 'atoll')
            daemon.start()
            self.assertEqual(daemon.run(box, 'echo here').stdout, 'here')


class SecondDaemon(unittest.TestCase):
    def test_the_first_keeps_its_spawner(self):
        with atoll.Daemon() as daemon:
            image = daemon.import_busybox()
            other = scratch(self) / 'data'
            second = subprocess.run(
                [atoll.BUILD / 'atolld', '--config', daemon.config, '--server-port', '0',
                 '--storage-data-dir', other],
                stderr=subprocess.PIPE, text=True, check=False, timeout=20 * SLOWNESS)
            self.assertEqual(second.returncode, 1)
            self.assertIn('another atolld', second.stderr)
            self.assertFalse(other.exists(), 'made before the refusal')
            self.assertTrue(builds(daemon, image))
            self.assertNotIn('the spawner is gone', daemon.log.read_text(encoding='utf-8'))


def kill_program(command_line):
    """Whether there was one."""
    found = False
    for process in pathlib.Path('/proc').glob('[0-9]*'):
        with contextlib.suppress(OSError):
            if (process / 'cmdline').read_bytes() == command_line:
                os.kill(int(process.name), signal.SIGKILL)
                found = True
    return found


class SpawnerDies(unittest.TestCase):
    def successor(self, daemon, other_than=None):
        def found():
            spawner = daemon.spawner_pid()
            pid = spawner and named_children(spawner).get('atoll-successor')
            return pid if pid != other_than else None
        return until(found, 20 * SLOWNESS, 'a successor')

    def test_it_is_back_by_itself_each_time(self):
        with atoll.Daemon() as daemon:
            image = daemon.import_busybox()
            box = daemon.create(image)
            for _ in range(3):
                self.successor(daemon)
                daemon.kill_spawner()
                until(lambda: builds(daemon, image), 20 * SLOWNESS, 'sandboxes can be built')
            self.assertEqual(daemon.run(box, 'echo here').stdout, 'here')
            until(lambda: health(daemon)['status'] == 'healthy', 20 * SLOWNESS)
            self.assertIn('subject=spawner', daemon.log.read_text(encoding='utf-8'))

    def test_so_is_its_successor(self):
        with atoll.Daemon() as daemon:
            image = daemon.import_busybox()
            for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP):
                old = self.successor(daemon)
                os.kill(old, number)
                self.successor(daemon, other_than=old)
                self.assertTrue(ended(old))
            daemon.kill_spawner()
            until(lambda: builds(daemon, image), 20 * SLOWNESS, 'sandboxes can be built')

    def test_after_an_upgrade_too(self):
        with atoll.Daemon() as daemon:
            image = daemon.import_busybox()
            spawner, old = daemon.spawner_pid(), self.successor(daemon)
            daemon.upgrade_spawner()
            until(lambda: builds(daemon, image), 20 * SLOWNESS, 'sandboxes can be built')
            self.assertEqual((daemon.spawner_pid(), self.successor(daemon)), (spawner, old))
            daemon.kill_spawner()
            until(lambda: builds(daemon, image), 20 * SLOWNESS, 'sandboxes can be built')

    def test_the_end_of_all_waits_for_the_next_one(self):
        with atoll.Daemon() as daemon:
            image = daemon.import_busybox()
            box = daemon.create(image)
            frozen = Freezer(self)
            frozen.freeze(self.successor(daemon))
            os.kill(daemon.spawner_pid(), signal.SIGKILL)
            with subprocess.Popen([atoll.BUILD / 'atoll', 'shutdown', '--all'], env=daemon.client_env(),
                                  stdout=subprocess.DEVNULL) as shutdown:
                def is_ending():
                    try:
                        daemon.create(image)
                    except atoll.ApiError as error:
                        return 'shutting down' in error.message
                    except OSError:
                        return True  # it has ended
                    return False
                until(is_ending, 20 * SLOWNESS, 'the end has begun')
                frozen.thaw()
                self.assertEqual(shutdown.wait(60 * SLOWNESS), 0)
            daemon.process.wait(20 * SLOWNESS)
            self.assertFalse((daemon.run_dir / 'sandboxes' / f'{box}.sock').exists())

    def test_both_killed_and_what_to_do_is_said(self):
        with atoll.Daemon() as daemon:
            image = daemon.import_busybox()
            box = daemon.create(image)
            for pid in (self.successor(daemon), daemon.spawner_pid()):
                os.kill(pid, signal.SIGSTOP)  # neither replaces the other
            for pid in (daemon.spawner_pid(), self.successor(daemon)):
                os.kill(pid, signal.SIGKILL)
            until(lambda: health(daemon)['status'] == 'degraded', 20 * SLOWNESS)
            # The next one normally comes within a second, so a client is told to come again, and nobody
            # to restart anything.
            body = {'image': {'uri': image}, 'entrypoint': ['true'], 'resourceLimits': {}}
            refused = daemon.send('POST', '/v1/sandboxes', body)
            message = json.load(refused)['message']
            self.assertEqual((refused.status, refused.headers['Retry-After']), (429, '1'), message)
            self.assertIn('try again', message)
            self.assertNotIn('restart', message)
            until(lambda: 'atolld spawner' in health(daemon)['troubles']['spawner'], 20 * SLOWNESS,
                  'what to do is said when none has come')
            logged = daemon.log.stat().st_size
            for _ in range(20):
                with self.assertRaises(atoll.ApiError) as refused:
                    daemon.create(image)
                self.assertEqual(refused.exception.status, 429)
                self.assertIn('atolld spawner', refused.exception.message)
            # A client that tries again and again does not fill the log.
            self.assertNotIn(b'cannot create', daemon.log.read_bytes()[logged:])
            self.assertEqual(daemon.run(box, 'echo here').stdout, 'here')
            daemon.stop()
            daemon.start()
            self.assertEqual(daemon.run(box, 'echo here').stdout, 'here')
            self.assertTrue(builds(daemon, image))

    def test_what_ends_without_one_is_told(self):
        with atoll.Daemon() as daemon:
            image = daemon.import_busybox()
            lives, ends = daemon.create(image), daemon.create(image, entrypoint=['sleep', '424242'])
            for pid in (self.successor(daemon), daemon.spawner_pid()):
                os.kill(pid, signal.SIGSTOP)
            for pid in (daemon.spawner_pid(), self.successor(daemon)):
                os.kill(pid, signal.SIGKILL)
            # A create may be answered a moment before its entrypoint executes its program.
            until(lambda: kill_program(b'sleep\000424242\0'), 20 * SLOWNESS, 'the entrypoint is killed')
            state = lambda box: daemon.request('GET', f'/v1/sandboxes/{box}')['status']['state']
            until(lambda: state(ends) != 'Running', 20 * SLOWNESS, 'its end is seen')
            self.assertEqual(state(lives), 'Running')
            self.assertIn('1 sandboxes have ended', health(daemon)['troubles']['sandboxes'])
            until(lambda: 'none has started' in health(daemon)['troubles']['spawner'], 20 * SLOWNESS,
                  'nothing is promised that does not come')
            daemon.stop()
            daemon.start()
            self.assertEqual(state(ends), 'Failed')
            self.assertEqual(daemon.run(lives, 'echo here').stdout, 'here')
            daemon.delete(ends)

    def test_one_that_is_ending_is_not_begun_with(self):
        """A daemon that is killed amid the end of all, and started at once."""
        with atoll.Daemon() as daemon:
            image = daemon.import_busybox()
            for milliseconds in range(1, 6):
                for _ in range(4):
                    daemon.create(image)
                connection = daemon.connection()
                connection.request('POST', '/shutdown?all=true', headers={'OPEN-SANDBOX-API-KEY': daemon.key})
                # Another moment of it in each round.
                moment = time.monotonic() + milliseconds / 1000
                while time.monotonic() < moment:
                    pass
                daemon.kill()
                connection.close()
                daemon.start()
                until(lambda: builds(daemon, image), 20 * SLOWNESS, 'sandboxes are built')

    def test_sigterm_ends_it_and_leaves_sandboxes(self):
        with atoll.Daemon() as daemon:
            box = daemon.create(daemon.import_busybox())
            spawner, successor = daemon.spawner_pid(), self.successor(daemon)
            os.kill(spawner, signal.SIGTERM)
            until(lambda: ended(spawner) and ended(successor), 20 * SLOWNESS, 'both have ended')
            until(lambda: health(daemon)['status'] == 'degraded', 20 * SLOWNESS)
            self.assertIsNone(daemon.spawner_pid())
            self.assertEqual(daemon.run(box, 'echo here').stdout, 'here')
            daemon.stop()
            daemon.start()
            self.assertEqual(daemon.run(box, 'echo here').stdout, 'here')


class Upgrades(unittest.TestCase):
    """SIGHUP for the spawner, with a new program in its place that will not do."""

    def refuse(self, daemon, image):
        log, spawner = daemon.run_dir / 'spawner.log', daemon.spawner_pid()
        refusals = log.read_text(encoding='utf-8').count('no upgrade')
        os.kill(spawner, signal.SIGHUP)
        until(lambda: log.read_text(encoding='utf-8').count('no upgrade') > refusals,
              20 * SLOWNESS, 'the refusal')
        self.assertEqual(daemon.spawner_pid(), spawner)
        self.assertTrue(builds(daemon, image))
        self.assertEqual(health(daemon)['status'], 'healthy')

    def replace(self, program, content):
        """As a package does: the running file lives on."""
        new = program.with_suffix('.new')
        new.write_bytes(content)
        new.chmod(0o755)
        new.rename(program)

    def test_a_new_program_that_will_not_do_is_refused(self):
        programs = own_programs(self)
        good = {name: (programs / name).read_bytes() for name in PROGRAMS}
        with atoll.Daemon(programs=programs) as daemon:
            image = daemon.import_busybox()
            box = daemon.create(image)
            for name, content in (
                    ('atoll-spawner', b'no program'),
                    ('atoll-spawner', good['atoll-spawner'][:500000]),
                    ('atoll-spawner', pathlib.Path('/bin/true').read_bytes()),
                    ('atoll-spawner', b'#!/bin/sh\nexit 1\n'),
                    ('atoll-spawner', b'#!/bin/sh\nexec sleep 1000\n'),
                    ('atoll-execd', good['atoll-execd'][:500000]),
                    ('atoll-unpack', b'#!/bin/sh\nexit 0\n')):
                with self.subTest(program=name, bytes=content[:20]):
                    self.replace(programs / name, content)
                    self.refuse(daemon, image)
                    self.replace(programs / name, good[name])
            with self.subTest('a missing program'):
                (programs / 'atoll-execd').unlink()
                self.refuse(daemon, image)
                self.replace(programs / 'atoll-execd', good['atoll-execd'])
            # And one that does.
            spawner = daemon.spawner_pid()
            wanted = (programs / 'atoll-spawner').stat().st_ino
            os.kill(spawner, signal.SIGHUP)
            until(lambda: pathlib.Path(f'/proc/{spawner}/exe').stat().st_ino == wanted,
                  20 * SLOWNESS, 'it executes the new program')
            until(lambda: builds(daemon, image), 20 * SLOWNESS, 'sandboxes can be built')
            self.assertEqual(daemon.run(box, 'echo here').stdout, 'here')

    def test_its_servants_end_with_the_old_program(self):
        """Else they would go on beside the next ones: two that delete the same trees, one that nobody waits for."""
        with atoll.Daemon() as daemon:
            box = daemon.create(daemon.import_busybox())
            # Nobody reads it, and it is more than sockets take, so the diff does not end.
            daemon.run(box, 'dd if=/dev/zero of=/big bs=1M count=64')
            diff = daemon.send('GET', f'/v1/sandboxes/{box}/diff?format=tar')
            servants = lambda: [pid for pid in children(daemon.spawner_pid())
                                if comm(pid) in ('atoll-janitor', 'atoll-unpack')]
            until(lambda: len(servants()) == 2, 20 * SLOWNESS, 'both are there')
            old = servants()
            Freezer(self).freeze(*old)
            daemon.upgrade_spawner()
            for pid in old:
                until(lambda pid=pid: ended(pid), 20 * SLOWNESS, f'the end of {comm(pid)}')
            diff.close()

    def test_the_check_of_a_reload(self):
        programs = own_programs(self)
        with atoll.Daemon(programs=programs) as daemon:
            check = [programs / 'atolld', 'spawner', '--trial', '--config', daemon.config]
            subprocess.run(check, check=True, timeout=20 * SLOWNESS)
            self.replace(programs / 'atoll-execd', b'no program')
            said = subprocess.run(check, stderr=subprocess.PIPE, text=True, check=False,
                                  timeout=20 * SLOWNESS)
            self.assertEqual(said.returncode, 1)
            self.assertIn('atoll-execd', said.stderr)


class SpawnerStandsStill(unittest.TestCase):
    """SIGSTOP: it has a socket, and answers nobody."""

    def test_a_start_of_the_daemon_ends_with_the_reason(self):
        with atoll.Daemon() as daemon:
            box = daemon.create(daemon.import_busybox())
            spawner = daemon.spawner_pid()
            daemon.kill()
            os.kill(spawner, signal.SIGSTOP)
            self.addCleanup(lambda: ended(spawner) or os.kill(spawner, signal.SIGCONT))
            failed = subprocess.run([atoll.BUILD / 'atolld', '--config', daemon.config],
                                    stderr=subprocess.PIPE, text=True, check=False,
                                    timeout=20 * SLOWNESS)
            self.assertEqual(failed.returncode, 1)
            self.assertIn(f'process {spawner}', failed.stderr)
            self.assertIn('kill -KILL', failed.stderr)
            # And what it says is true.
            os.kill(spawner, signal.SIGKILL)
            daemon.start()
            self.assertEqual(daemon.run(box, 'echo here').stdout, 'here')

    def test_nobody_takes_connections(self):
        top = scratch(self)
        (top / 'run').mkdir()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as deaf, \
                contextlib.ExitStack() as waiting:
            deaf.bind(str(top / 'run/spawner.sock'))
            deaf.listen(0)
            client = waiting.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            client.connect(deaf.getsockname())
            failed = subprocess.run(
                [atoll.BUILD / 'atolld', '--config', '/dev/null', '--server-port', '0',
                 '--storage-data-dir', top / 'data', '--runtime-run-dir', top / 'run'],
                stderr=subprocess.PIPE, text=True, check=False, timeout=20 * SLOWNESS)
        self.assertEqual(failed.returncode, 1)
        self.assertIn('has not answered', failed.stderr)


class ServantsDie(unittest.TestCase):
    """Whatever the spawner forks, ended or stopped at rest: the next sandbox lives and goes."""

    def test_each_with_each_signal(self):
        with atoll.Daemon() as daemon:
            image = daemon.import_busybox()
            self.assertTrue(builds(daemon, image))
            spawner = daemon.spawner_pid()
            for name in ('atoll-janitor', 'atoll-slots', 'atoll-successor'):
                for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP):
                    with self.subTest(name=name, signal=number):
                        pid = until(lambda name=name: named_children(spawner).get(name),
                                    20 * SLOWNESS, name)
                        os.kill(pid, number)
                        until(lambda pid=pid: ended(pid), 20 * SLOWNESS, 'its end')
                        until(lambda: builds(daemon, image), 20 * SLOWNESS, 'sandboxes are built')
                        until(lambda: not os.listdir(daemon.data_dir / 'store/trash'),
                              20 * SLOWNESS, 'what was deleted is gone')
            self.assertEqual(daemon.spawner_pid(), spawner)


if __name__ == '__main__':
    unittest.main()
