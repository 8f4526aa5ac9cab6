"""Rollbacks as a client sees them: the files of a snapshot in the same sandbox, or nothing changed,
whoever dies when; and never two of it at once."""
import os
import pathlib
import signal
import subprocess
import unittest

import atoll
from snapshots import UNTIL, Snapshots

# How far one has come: its build is asked for, what was built is told, the record is written, what
# it was has gone, its entrypoint has started.
STEPS = ASKED, BUILT, RECORDED, GONE, STARTED = range(5)
# How often the daemon dies at each; the long run has more.
ROUNDS = int(os.environ.get('ATOLL_ROUNDS', '1'))


class Rollbacks(Snapshots):

    def roll_back(self, box, snapshot, key=''):
        return self.daemon.request('POST', f'/v1/sandboxes/{box}/rollback', {'snapshotId': snapshot},
                                   headers={'Idempotency-Key': key} if key else {})

    def shown(self, box):
        return self.daemon.request('GET', f'/v1/sandboxes/{box}')

    def state(self, box):
        return self.shown(box)['status']['state']

    def records(self):
        """Sandboxes that the spawner has."""
        return set(os.listdir(self.daemon.run_dir / 'spawner/records'))

    def sockets(self):
        return {name for name in os.listdir(self.daemon.run_dir / 'sandboxes')
                if not name.startswith('slot-')}

    def begin_rollback(self, box, snapshot, key=''):
        return self.ask_aside(lambda: self.roll_back(box, snapshot, key))

    def stop(self, pid):
        """Between two things that it does."""
        status = lambda: pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0]
        atoll.until(lambda: status() == 'S', UNTIL, 'it waits for something to do')
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(self.let_go, pid)
        atoll.until(lambda: status() == 'T', UNTIL, 'it stands')

    def let_go(self, pid):
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass

    def reach(self, step, box, snapshot, key=''):
        """A rollback that has come to there, with daemon and spawner stopped; what has asked for it,
        and the spawner."""
        daemon, spawner = self.daemon.process.pid, self.daemon.spawner_pid()
        sockets, records = self.sockets(), self.records()
        told = lambda: self.daemon.log.read_text().count('sandbox rolled back')
        before = told()
        slots = lambda: self.daemon.send('GET', '/metrics').read().decode()
        atoll.until(lambda: 'atoll_slots{state="ready"} 0' not in slots(), UNTIL, 'a slot is ready')
        self.stop(spawner)
        asking = self.begin_rollback(box, snapshot, key)
        atoll.until(lambda: self.sockets() - sockets, UNTIL, 'the build is asked for')
        self.stop(daemon)

        def go_on(who, reached):
            os.kill(who, signal.SIGCONT)
            atoll.until(reached, UNTIL, 'the next step')
            self.stop(who)
        if step >= BUILT:
            go_on(spawner, lambda: self.records() - records)
        if step >= RECORDED:
            go_on(daemon, lambda: told() > before)
        if step >= GONE:
            go_on(spawner, lambda: not self.records() & records)
        if step >= STARTED:
            go_on(daemon, lambda: not asking.is_alive())
        return asking, spawner


class RollbackTest(Rollbacks):

    def test_files_come_back_and_all_else_stays(self):
        box = self.box(env={'MINE': 'kept'}, metadata={'team': 'ml'}, timeout=600,
                       resourceLimits={'memory': '96Mi'}, volumes=[
                           {'name': 'v', 'mountPath': '/v', 'pvc': {'claimName': 'kept'}}],
                       networkPolicy={'defaultAction': 'deny', 'egress': []})
        self.out(box, 'mkdir /t; echo good > /t/plain; chown 12:34 /t/plain; rm -r /home/dev')
        snapshot = self.take(box)
        self.out(box, 'echo bad > /t/plain; echo more > /t/more; rm /etc/passwd; echo 1 > /v/data; '
                      'mkdir -p /home/dev; echo x > /tmp/x')
        self.daemon.run(box, 'sleep 4711', background=True)
        before, headers = self.shown(box), self.daemon.execd_headers(box)
        endpoint = self.daemon.request('GET', f'/v1/sandboxes/{box}/endpoints/8000')
        own = 'hostname; echo $OPENSANDBOX_ID; cat /sys/fs/cgroup/memory.max ' \
              '/sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null; true'
        hostname = self.out(box, own)
        answer = self.roll_back(box, snapshot)
        self.assertIn('processes', answer['notKept'])
        self.assertEqual(answer['status']['state'], 'Running')
        after = self.shown(box)
        for same in ('id', 'image', 'entrypoint', 'metadata', 'expiresAt', 'createdAt'):
            self.assertEqual(after[same], before[same])
            self.assertEqual(answer[same], before[same])
        self.assertEqual(self.daemon.execd_headers(box), headers)
        self.assertEqual(self.daemon.request('GET', f'/v1/sandboxes/{box}/endpoints/8000'), endpoint)
        self.assertEqual(self.out(box, own), hostname)
        self.assertEqual(self.out(box, 'cat /t/plain; stat -c %u:%g /t/plain; ls /t; echo $MINE; '
                                       'wc -l < /etc/passwd | grep -c 0; cat /v/data; '
                                       'ls -d /home/dev /tmp/x 2>/dev/null | wc -l'),
                         'good\n12:34\nplain\nkept\n0\n1\n0')
        self.assertNotIn('4711', self.out(box, 'cat /proc/[0-9]*/cmdline | tr "\\0" " "'))
        policy = self.daemon.request('GET', f'/v1/sandboxes/{box}/network')
        self.assertEqual(policy['policy']['defaultAction'], 'deny')
        # It can be told from nothing: another snapshot is taken of it, and it goes as any.
        self.out(self.restore(self.take(box)), 'grep good /t/plain')
        token = list(headers.values())[0]
        self.assertEqual(self.daemon.run(box, f'grep -rlF {token} /etc /opt /t /tmp').stdout, '')

    def test_paused_and_many_times(self):
        without, records = set(self.layers()), self.records()
        box = self.box()
        self.out(box, 'echo 0 > /n')
        snapshot = self.take(box)
        layers = self.layers()
        for number in range(1, 4):
            self.out(box, f'echo {number} > /n; dd if=/dev/zero of=/big bs=1M count=2 2>/dev/null')
            if number == 2:
                self.daemon.request('POST', f'/v1/sandboxes/{box}/pause')
            self.roll_back(box, snapshot)
            self.assertEqual(self.state(box), 'Running')
            self.assertEqual(self.out(box, 'cat /n; ls /big 2>/dev/null | wc -l'), '0\n0')
        self.daemon.request('POST', f'/v1/sandboxes/{box}/pause')
        self.daemon.request('POST', f'/v1/sandboxes/{box}/resume')
        self.assertEqual(self.out(box, 'cat /n'), '0')
        self.assertEqual(self.layers(), layers)
        # Nothing of what it was is left, and it needs the layers and not the snapshot.
        atoll.until(lambda: len(self.records() - records) == 1, UNTIL, 'one is left')
        self.assertEqual(len(self.sockets()), len(self.records()))
        self.remove(snapshot)
        self.daemon.kill()
        self.daemon.start()
        self.assertEqual(self.out(box, 'cat /n'), '0')
        self.daemon.delete(box)
        atoll.until(lambda: not self.records() - records and not set(self.layers()) - without, UNTIL,
                    'all is gone')

    def test_never_two_of_it_at_once(self):
        """While what it was still writes to a volume, nothing else does."""
        write = 'read id < /proc/sys/kernel/random/uuid; while :; do echo ${id%%-*} >> /v/log; done'
        box = self.box(entrypoint=['sh', '-c', write], volumes=[
            {'name': 'v', 'mountPath': '/v', 'pvc': {'claimName': 'shared'}}])
        snapshot = self.take(box)
        log = self.daemon.data_dir / 'store/volumes/shared/log'
        lines = lambda: log.read_text().split()
        asking, spawner = self.reach(RECORDED, box, snapshot)
        before = len(lines())
        atoll.until(lambda: len(lines()) > before + 30000, UNTIL, 'what it was writes on')
        self.assertEqual(len(set(lines())), 1)
        self.let_go(self.daemon.process.pid)
        self.let_go(spawner)
        asking.join()
        atoll.until(lambda: len(set(lines())) == 2, UNTIL, 'its entrypoint has started')
        self.assertEqual(self.out(box, 'uniq /v/log | wc -l'), '2')

    def test_its_log_begins_anew(self):
        box = self.box(entrypoint=['sh', '-c', 'cat /mark; exec sleep 100000'])
        log = lambda: self.daemon.send(
            'GET', f'/v1/sandboxes/{box}/diagnostics/logs').read().decode()
        atoll.until(lambda: 'No such file' in log(), UNTIL, 'its first output')
        self.out(box, 'echo marked > /mark')
        snapshot = self.take(box)
        self.roll_back(box, snapshot)
        atoll.until(lambda: 'marked' in log(), UNTIL, 'its output')
        self.assertNotIn('No such file', log())
        self.daemon.kill()
        self.daemon.start()
        self.assertIn('marked', log())

    def test_refusals_have_no_effect(self):
        box = self.box()
        self.out(box, 'echo now > /file; sleep 100000 > /dev/null 2>&1 &')
        path = f'/v1/sandboxes/{box}/rollback'
        snapshot = self.take(box)
        other = self.daemon.import_busybox()
        stranger = self.daemon.create(other)
        self.addCleanup(self.gone, stranger)
        foreign = self.take(stranger)
        processes = lambda: self.out(box, 'grep -l sleep /proc/[0-9]*/comm')
        before = (self.shown(box), self.records(), processes())
        self.refused(404, 'SNAPSHOT::NOT_FOUND', 'POST', path, {'snapshotId': 'none'})
        message = self.refused(409, 'SNAPSHOT::INVALID_RESTORE_CONFIG', 'POST', path,
                               {'snapshotId': foreign})
        self.assertIn(other, message)
        self.refused(404, 'DOCKER::SANDBOX_NOT_FOUND', 'POST', '/v1/sandboxes/none/rollback',
                     {'snapshotId': snapshot})
        for body in ({}, {'snapshotId': 7}, [], {'snapshotId': None}):
            with self.assertRaises(atoll.ApiError) as caught:
                self.daemon.request('POST', path, body)
            self.assertEqual(caught.exception.status, 422, body)
        self.out(box, 'dd if=/dev/urandom of=/big bs=1M count=64 2>/dev/null')
        creating = self.begin(box)
        self.refused(409, 'SNAPSHOT::NOT_READY', 'POST', path, {'snapshotId': creating})
        self.settled(creating)
        self.assertEqual((self.shown(box), self.records(), processes()), before)
        self.assertEqual(self.out(box, 'cat /file'), 'now')

    def test_its_verb(self):
        box = self.box()
        snapshot = self.take(box)
        self.out(box, 'echo x > /x')
        done = subprocess.run([atoll.BUILD / 'atoll', 'rollback', box, snapshot], check=False,
                              env=self.daemon.client_env(), capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, box + '\n'), done.stderr)
        self.assertEqual(self.daemon.run(box, 'ls /x').exit_code, 1)


class DeathTest(Rollbacks):
    """Who dies in the middle leaves the old files or the new ones, and nothing else."""

    def box_and_snapshot(self):
        box = self.box(entrypoint=['sh', '-c', 'echo $$ >> /started; exec sleep 100000'])
        atoll.until(lambda: self.daemon.run(box, 'test -s /started').exit_code == 0, UNTIL, 'started')
        self.out(box, 'rm /started; dd if=/dev/urandom of=/big bs=1M count=8 2>/dev/null; '
                      'md5sum < /big > /sum; echo snapshot > /mark')
        snapshot = self.take(box)
        return box, snapshot

    def change(self, box):
        """Many processes, so that their end takes some time."""
        self.out(box, 'echo later > /mark; echo more > /more')
        self.daemon.run(box, 'i=0; while [ $i -lt 200 ]; do i=$((i+1)); sleep 1000 & done',
                        background=True)

    def check(self, box):
        """Which of the two it is."""
        atoll.until(lambda: self.state(box) == 'Running', UNTIL, 'it runs')
        mark = self.out(box, 'cat /mark')
        self.assertEqual(self.out(box, 'ls /more 2>/dev/null | wc -l'),
                         '1' if mark == 'later' else '0')
        self.assertEqual(self.out(box, 'md5sum < /big | cmp - /sum && echo whole'), 'whole')
        if mark == 'snapshot':
            atoll.until(lambda: self.out(box, 'wc -l < /started 2>/dev/null || true') == '1', UNTIL,
                        'its entrypoint has started once')
        atoll.until(lambda: len(self.records()) == 1, UNTIL, 'nothing else is left')
        return mark

    def test_the_daemon_is_killed(self):
        box, snapshot = self.box_and_snapshot()
        layers = self.layers()
        for number, step in enumerate([*STEPS] * ROUNDS):
            self.change(box)
            key = f'k{number}'
            asking, spawner = self.reach(step, box, snapshot, key)
            self.daemon.kill()
            os.kill(spawner, signal.SIGCONT)
            asking.join()
            self.daemon.start()
            if step >= RECORDED:
                # Its client asks again, at once and later, and it is carried out once.
                self.assertEqual(self.roll_back(box, snapshot, key)['status']['state'], 'Running')
                self.out(box, 'touch /since')
                self.assertEqual(self.roll_back(box, snapshot, key)['status']['state'], 'Running')
                self.out(box, 'rm /since')
            self.assertEqual(self.check(box), 'snapshot' if step >= RECORDED else 'later', step)
            self.assertEqual(len(self.sockets()), 1)
            self.assertEqual(self.layers(), layers)
        self.assertEqual(self.daemon.request('GET', '/health')['status'], 'healthy')

    def test_the_spawner_is_killed(self):
        box, snapshot = self.box_and_snapshot()
        for step in STEPS:
            self.change(box)
            asking, spawner = self.reach(step, box, snapshot)
            os.kill(spawner, signal.SIGKILL)
            os.kill(self.daemon.process.pid, signal.SIGCONT)
            asking.join()
            self.daemon.another_spawner(spawner)
            atoll.until(self.daemon.healthy, UNTIL, 'it serves')
            # What it had built it may have told of.
            told = self.check(box)
            if step != BUILT:
                self.assertEqual(told, 'snapshot' if step >= RECORDED else 'later', step)

    def test_both_are_killed(self):
        box, snapshot = self.box_and_snapshot()
        for step in STEPS:
            self.change(box)
            asking, spawner = self.reach(step, box, snapshot)
            self.daemon.kill()
            os.kill(spawner, signal.SIGKILL)
            asking.join()
            self.daemon.start()
            self.assertEqual(self.check(box), 'snapshot' if step >= RECORDED else 'later', step)

    def test_it_is_deleted_meanwhile(self):
        for step in STEPS[:-1]:
            box, snapshot = self.box_and_snapshot()
            self.change(box)
            asking, spawner = self.reach(step, box, snapshot)
            os.kill(self.daemon.process.pid, signal.SIGCONT)
            self.daemon.delete(box)
            os.kill(spawner, signal.SIGCONT)
            asking.join()
            atoll.until(lambda: not self.records() and not self.sockets(), UNTIL, 'all is gone')
            self.remove(snapshot)


if __name__ == '__main__':
    unittest.main()
