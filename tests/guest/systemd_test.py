"""Atoll as services of a host: installed, started, upgraded, crashed and stopped under systemd.

Runs in a guest with systemd as process 1, which is thrown away afterwards: the installation and
its places are those of a real host. tests/guest/run has put what 'meson install' installs into
BUILD_DIR/installed.
"""
import contextlib
import http.client
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / 'e2e')]

import atoll  # pylint: disable=wrong-import-position
from until import until  # pylint: disable=wrong-import-position

CONFIG = pathlib.Path('/etc/atoll/atoll.toml')
STATE = pathlib.Path('/var/lib/atoll')
RUN = pathlib.Path('/run/atoll')
SLICE = pathlib.Path('/sys/fs/cgroup/atoll.slice')
INSTALLED = atoll.BUILD / 'installed'
PREFIX = '/' / next(INSTALLED.glob('**/sbin/atolld')).relative_to(INSTALLED).parent.parent
SPAWNER_PROGRAM = PREFIX / 'libexec/atoll/atoll-spawner'
UNITS = ('atolld', 'atoll-spawner', 'atoll-sandboxes')
SECONDS = 60
# Not ConnectionRefusedError.
CUT_OFF = (ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected)


def call(*words, fails=False):
    """The output of a command that must succeed, or, if `fails`, must not."""
    done = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, timeout=SECONDS)
    if bool(done.returncode) != fails:
        raise AssertionError(f'{words}: exit status {done.returncode}\n{done.stdout}{journal()}')
    return done.stdout


def journal():
    return subprocess.run(['journalctl', '-n', '50', '--no-pager', '-o', 'cat'], text=True,
                          stdout=subprocess.PIPE, check=False).stdout


def show(unit, name):
    return call('systemctl', 'show', '--value', '-p', name, unit).strip()


def main_pid(unit):
    return int(show(unit, 'MainPID'))


def is_active(unit):
    return show(unit, 'ActiveState') == 'active'


def until_all_active():
    until(lambda: all(map(is_active, UNITS)), SECONDS, 'all units are active')


def start_time(pid):
    """With the pid it names a process; None once that is gone."""
    try:
        stat = pathlib.Path(f'/proc/{pid}/stat').read_text(encoding='utf-8')
    except OSError:
        return None
    return stat.rpartition(')')[2].split()[19]


class Service(atoll.Daemon):
    """The client of a daemon that systemd starts."""

    def __init__(self):  # pylint: disable=super-init-not-called
        self.url, self.key = 'http://127.0.0.1:8080', ''

    def answers(self):
        try:
            told = json.loads((RUN / 'daemon.json').read_text(encoding='utf-8'))
            self.key = pathlib.Path(told['key_file']).read_text(encoding='utf-8').strip()
            return self.request('GET', '/health')['status'] == 'healthy'
        except (OSError, ValueError, atoll.ApiError):
            return False

    def builds(self):
        """Whether a new sandbox can be had: the spawner may be on its way back."""
        try:
            box = self.create('busybox:latest')
            said = self.run(box, 'echo works').stdout
            self.delete(box)
        except (OSError, atoll.ApiError):
            return False
        return said == 'works'


class Box:
    """A sandbox with a file in it, and its process 1 as the host sees it."""
    numbers = itertools.count(100000)

    def __init__(self, daemon):
        self.daemon = daemon
        word = str(next(self.numbers))
        self.id = daemon.create('busybox:latest', entrypoint=['sleep', word])
        daemon.run(self.id, 'echo kept >/file')
        entrypoint, = (pid for pid in filter(str.isdigit, os.listdir('/proc'))
                       if self._command_line(pid) == f'sleep\0{word}\0')
        stat = pathlib.Path(f'/proc/{entrypoint}/stat').read_text(encoding='utf-8')
        self.pid = int(stat.rpartition(')')[2].split()[1])
        self.started = start_time(self.pid)

    @staticmethod
    def _command_line(pid):
        try:
            return pathlib.Path(f'/proc/{pid}/cmdline').read_text(encoding='utf-8')
        except OSError:
            return ''

    def cgroup(self):
        return pathlib.Path(f'/proc/{self.pid}/cgroup').read_text(encoding='utf-8').strip()

    def is_same(self):
        return start_time(self.pid) == self.started

    def check(self, test):
        test.assertTrue(self.is_same(), 'process 1 is another one, or none')
        test.assertEqual(self.daemon.run(self.id, 'cat /file').stdout, 'kept')


def install():
    """As an operator would."""
    call('userdel', 'atoll')  # of the machine that the guest's root is a copy of
    shutil.copytree(INSTALLED, '/', dirs_exist_ok=True, symlinks=True)
    call('systemd-sysusers')
    # The guest's own root is an overlay on a tmpfs, which uppers cannot be on.
    pathlib.Path('/scratch/lib').mkdir()
    STATE.mkdir(exist_ok=True)
    call('mount', '--bind', '/scratch/lib', STATE)
    call(PREFIX / 'sbin/atolld', 'init-config', '--force')
    call('systemctl', 'daemon-reload')


class Services(unittest.TestCase):
    """One installation; each case leaves it running, with a sandbox less than it found."""

    @classmethod
    def setUpClass(cls):
        install()
        cls.daemon = Service()
        call('systemctl', 'enable', '--now', 'atolld', 'atoll-spawner')
        until(cls.daemon.answers, SECONDS, 'the daemon answers')
        cls.daemon.import_busybox()

    def setUp(self):
        call('systemctl', 'start', 'atolld', 'atoll-spawner')
        until(self.daemon.answers, SECONDS, 'the daemon answers')
        until(self.daemon.builds, SECONDS, 'sandboxes can be built')

    def box(self):
        box = Box(self.daemon)
        self.addCleanup(self.daemon.delete, box.id)
        return box

    def test_who_runs_as_what_and_where(self):
        box = self.box()
        self.assertRegex(box.cgroup(), r'^0::/atoll\.slice/atoll-sandboxes\.service/atoll0/s\d+/')
        for unit, user in (('atolld', 'atoll'), ('atoll-spawner', 'root')):
            self.assertEqual(pathlib.Path(f'/proc/{main_pid(unit)}').owner(), user)
        # The spawner's protection is not for what it starts, nor to be had back.
        score = pathlib.Path(f'/proc/{box.pid}/oom_score_adj').read_text(encoding='utf-8')
        self.assertGreaterEqual(int(score), 0)
        done = self.daemon.run(box.id, 'echo -1 >/proc/self/oom_score_adj; cat /proc/self/oom_score_adj')
        self.assertEqual(done.stdout, '300')
        self.assertEqual(CONFIG.stat().st_mode & 0o777, 0o640)
        self.assertEqual(CONFIG.group(), 'atoll')

    def test_the_daemon_is_confined(self):
        said = call('systemd-analyze', 'security', '--no-pager', 'atolld')
        exposure = re.search(r'exposure level for atolld.service: ([0-9.]+)', said)
        self.assertLessEqual(float(exposure[1]), 3.0)

    def test_a_credential_vault_within_its_confinement(self):
        box = self.daemon.create('busybox:latest', credentialProxy={'enabled': True}, networkPolicy={
            'defaultAction': 'deny', 'egress': [{'action': 'allow', 'target': 'api.example.com'}]})
        self.addCleanup(self.daemon.delete, box)
        endpoint = self.daemon.request('GET', f'/v1/sandboxes/{box}/endpoints/18080')
        client = http.client.HTTPConnection('127.0.0.1', 8080, timeout=SECONDS)
        client.request('POST', '/' + endpoint['endpoint'].partition('/')[2] + '/credential-vault', json.dumps({
            'credentials': [{'name': 'key', 'source': {'value': 'sk-one'}}],
            'bindings': [{'name': 'api', 'match': {'hosts': ['api.example.com']},
                          'auth': {'type': 'bearer', 'credential': 'key'}}]}), endpoint['headers'])
        answer = client.getresponse()
        self.assertEqual(answer.status, 201, answer.read())
        client.close()
        interceptor, = (process for process in pathlib.Path('/proc').glob('[0-9]*')
                        if Box._command_line(process.name).startswith('atoll-intercept'))
        status = (interceptor / 'status').read_text(encoding='ascii')
        self.assertRegex(status, r'Seccomp:\t2\n')
        self.assertRegex(status, r'CapPrm:\t0+\n')
        # Its time is the sandbox's.
        self.assertRegex((interceptor / 'cgroup').read_text(encoding='ascii'),
                         r'atoll-sandboxes\.service/.*/s\d+/intercept\n')

    def test_a_restart_of_the_daemon(self):
        box, before = self.box(), main_pid('atolld')
        with self.clients_all_served(CUT_OFF):
            call('systemctl', 'restart', 'atolld')
        self.assertNotEqual(main_pid('atolld'), before)
        box.check(self)

    def test_a_crash_of_the_daemon(self):
        box, before = self.box(), main_pid('atolld')
        with self.clients_all_served(CUT_OFF):
            os.kill(before, signal.SIGKILL)
            until(lambda: main_pid('atolld') not in (0, before), SECONDS, 'it is started again')
        box.check(self)

    @contextlib.contextmanager
    def clients_all_served(self, cut_off):
        """Those who ask meanwhile, again and again, each time anew: nobody is refused. `cut_off`:
        what may happen to whom the old daemon had already accepted."""
        served, failures, over = [], [], threading.Event()

        def ask():
            while not over.is_set():
                client = http.client.HTTPConnection('127.0.0.1', 8080, timeout=SECONDS)
                try:
                    client.request('GET', '/health', headers={'Connection': 'close'})
                    served.append(client.getresponse().status)
                except cut_off:
                    pass
                except (OSError, http.client.HTTPException) as failure:
                    failures.append(repr(failure))
                finally:
                    client.close()

        clients = [threading.Thread(target=ask) for _ in range(4)]
        for client in clients:
            client.start()
        try:
            until(lambda: served, SECONDS, 'a first answer')
            yield
            until(self.daemon.answers, SECONDS, 'the daemon answers')
            before = len(served)
            until(lambda: len(served) > before, SECONDS, 'they are served')
        finally:
            over.set()
            for client in clients:
                client.join()
        self.assertEqual(failures, [])
        self.assertEqual(set(served), {200})

    def test_a_restart_of_the_spawner(self):
        box, before, daemon = self.box(), main_pid('atoll-spawner'), main_pid('atolld')
        call('systemctl', 'restart', 'atoll-spawner')
        box.check(self)
        until(self.daemon.builds, SECONDS, 'sandboxes can be built again')
        self.assertNotEqual(main_pid('atoll-spawner'), before)
        self.assertEqual(main_pid('atolld'), daemon)
        box.check(self)

    def test_an_upgrade_of_the_spawner(self):
        box, before = self.box(), main_pid('atoll-spawner')
        new = SPAWNER_PROGRAM.with_suffix('.new')
        shutil.copy2(SPAWNER_PROGRAM, new)
        new.rename(SPAWNER_PROGRAM)
        wanted = SPAWNER_PROGRAM.stat().st_ino
        call('systemctl', 'reload', 'atoll-spawner')
        program = pathlib.Path(f'/proc/{before}/exe')
        until(lambda: program.stat().st_ino == wanted, SECONDS, 'it executes the new program')
        until_all_active()
        self.assertEqual(main_pid('atoll-spawner'), before)
        until(self.daemon.builds, SECONDS, 'sandboxes can be built again')
        box.check(self)

    def test_an_upgrade_to_a_program_that_will_not_do(self):
        box, before = self.box(), main_pid('atoll-spawner')
        good = SPAWNER_PROGRAM.with_suffix('.good')
        SPAWNER_PROGRAM.rename(good)
        self.addCleanup(good.rename, SPAWNER_PROGRAM)
        SPAWNER_PROGRAM.write_bytes(b'no program')
        SPAWNER_PROGRAM.chmod(0o755)
        call('systemctl', 'reload', 'atoll-spawner', fails=True)
        # Told by hand it finds out by itself.
        os.kill(before, signal.SIGHUP)
        until(lambda: 'no upgrade' in call('journalctl', '-u', 'atoll-spawner', '-o', 'cat'),
              SECONDS, 'the refusal')
        self.assertEqual(main_pid('atoll-spawner'), before)
        self.assertTrue(self.daemon.builds())
        box.check(self)

    def test_the_watchdog_replaces_a_spawner_that_hangs(self):
        box, before = self.box(), main_pid('atoll-spawner')
        os.kill(before, signal.SIGSTOP)
        until(lambda: main_pid('atoll-spawner') not in (0, before), SECONDS, 'another spawner')
        until(self.daemon.builds, SECONDS, 'sandboxes can be built again')
        box.check(self)

    def test_both_crash_again_and_again(self):
        box = self.box()
        for _ in range(4):
            for unit in ('atolld', 'atoll-spawner'):
                # Between two lives there is none.
                pid = until(lambda unit=unit: is_active(unit) and main_pid(unit), SECONDS, unit)
                os.kill(pid, signal.SIGKILL)
                until(lambda pid=pid: start_time(pid) is None, SECONDS, f'{pid} is gone')
        until(self.daemon.answers, SECONDS, 'the daemon answers')
        until(self.daemon.builds, SECONDS, 'sandboxes can be built again')
        box.check(self)
        self.assertGreaterEqual(int(show('atolld', 'NRestarts')), 4)

    def test_the_watchdog_replaces_a_daemon_that_hangs(self):
        box, before = self.box(), main_pid('atolld')
        os.kill(before, signal.SIGSTOP)
        until(lambda: main_pid('atolld') not in (0, before), SECONDS, 'another daemon')
        until(self.daemon.answers, SECONDS, 'the daemon answers')
        self.assertIn('Watchdog timeout', call('journalctl', '-u', 'atolld', '-o', 'cat'))
        box.check(self)

    def test_a_reload_with_a_good_and_with_a_bad_file(self):
        before, good = main_pid('atolld'), CONFIG.read_text(encoding='utf-8')
        self.addCleanup(CONFIG.write_text, good, encoding='utf-8')
        CONFIG.write_text(good.replace('[log]\n', '[log]\nlevel = "debug"\n'), encoding='utf-8')
        call('systemctl', 'reload', 'atolld')
        until(lambda: 'changed=log.level' in call('journalctl', '-u', 'atolld', '-o', 'cat'),
              SECONDS, 'the new level')
        CONFIG.write_text(good.replace('[log]\n', '[log]\nlevel = "loud"\n'), encoding='utf-8')
        call('systemctl', 'reload', 'atolld', fails=True)
        self.assertIn('loud', call('journalctl', '-u', 'atolld', '-o', 'cat'))
        self.assertTrue(is_active('atolld'))
        self.assertEqual(main_pid('atolld'), before)
        self.assertTrue(self.daemon.answers())

    def test_the_end_of_the_cgroups_keeper_harms_nobody(self):
        box = self.box()
        os.kill(main_pid('atoll-sandboxes'), signal.SIGKILL)
        until(lambda: main_pid('atoll-sandboxes') == 0, SECONDS, 'the keeper is gone')
        call('systemctl', 'restart', 'atoll-spawner')
        until(self.daemon.builds, SECONDS, 'sandboxes can be built again')
        box.check(self)
        # Everything down, so that the next case has a keeper again.
        call('systemctl', 'restart', 'atoll-sandboxes')
        self.assertFalse(box.is_same())

    def test_the_end_of_the_sandboxes_unit(self):
        box = Box(self.daemon)
        call('systemctl', 'stop', 'atoll-sandboxes')
        self.assertFalse(box.is_same())
        self.assertTrue(is_active('atolld'))
        # There is no spawner to tell it, and the states are true all the same.
        state = lambda: self.daemon.request('GET', f'/v1/sandboxes/{box.id}')['status']['state']
        until(lambda: state() != 'Running', SECONDS, 'the end is seen')
        health = self.daemon.request('GET', '/health')
        self.assertEqual(health['status'], 'degraded')
        self.assertIn('1 sandboxes have ended', health['troubles']['sandboxes'])
        # Until then the next one may still come by itself.
        trouble = lambda: self.daemon.request('GET', '/health')['troubles']['spawner']
        until(lambda: 'systemctl start atoll-spawner' in trouble(), SECONDS, 'what to do is said')
        call('systemctl', 'start', 'atoll-sandboxes')
        until_all_active()
        until(self.daemon.builds, SECONDS, 'sandboxes can be built again')
        until(lambda: state() == 'Failed', SECONDS, 'the sandbox has ended')
        self.daemon.delete(box.id)

    def test_the_end_of_all(self):
        box = Box(self.daemon)
        # As at the host's shutdown: daemon and spawner first, then the sandboxes.
        call('systemctl', 'stop', 'atolld', 'atoll-spawner')
        self.assertTrue(box.is_same())
        call('systemctl', 'stop', 'atoll-sandboxes')
        self.assertFalse(box.is_same())
        self.assertEqual([path.name for path in SLICE.glob('*.service')], [])
        self.assertEqual(call('pgrep', '-f', 'atoll-spawner|atolld|^execd', fails=True), '')
        # The next daemon knows what has become of it, though not with which exit code.
        call('systemctl', 'start', 'atolld')
        until(self.daemon.answers, SECONDS, 'the daemon answers')
        until(lambda: self.daemon.request('GET', f'/v1/sandboxes/{box.id}')['status']['state']
              in ('Terminated', 'Failed'), SECONDS, 'the sandbox has ended')
        self.daemon.delete(box.id)
        # And an end on purpose leaves nothing.
        call(PREFIX / 'bin/atoll', 'shutdown', '--all')
        until(lambda: not is_active('atolld') and not is_active('atoll-spawner'), SECONDS,
              'both services have ended')
        self.assertEqual([unit for unit in UNITS if show(unit, 'ActiveState') == 'failed'], [])
        links = [name for name in os.listdir('/sys/class/net') if name.startswith('atl')]
        self.assertEqual(links, [])
        self.assertEqual(list((STATE / 'store').glob('trash/*')), [])
        self.assertEqual(list(SLICE.glob('atoll-sandboxes.service/atoll*/s*')), [])


if __name__ == '__main__':
    unittest.main()
