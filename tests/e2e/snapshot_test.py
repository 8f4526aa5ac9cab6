"""Snapshots as a client sees them: whole, consistent, kept, restored, gone; and what a hostile
sandbox makes of them."""
import os
import signal
import struct
import subprocess
import unittest

import atoll
from atoll import SLOWNESS, until
from snapshots import MAKE, SEED, TELL, UNTIL, Snapshots


class ContentTest(Snapshots):

    def test_everything_comes_back(self):
        box = self.box(env={'MINE': 'kept'}, metadata={'team': 'ml'})
        self.out(box, MAKE)
        told = self.out(box, TELL)
        self.assertIn('fifo', told)
        copy = self.restore(self.take(box, name='whole'), metadata={'own': '1'})
        self.assertEqual(self.out(copy, TELL), told)
        # Deleted files of the image stay deleted, and what replaced a directory hides its content.
        self.assertEqual(self.daemon.run(copy, 'ls /bin/attack /home/dev /etc/group').exit_code, 1)
        self.assertEqual(self.out(copy, 'ls -A /srv; echo $MINE'), 'only\nkept')
        self.assertLess(int(told.splitlines()[-1]), 100)
        shown = self.daemon.request('GET', f'/v1/sandboxes/{copy}')
        self.assertEqual(shown['metadata'], {'team': 'ml', 'own': '1'})
        # The two go on apart.
        self.out(copy, 'echo other > /t/plain; rm /t/one')
        self.assertEqual(self.out(box, 'cat /t/plain /t/one'), 'text\nlinked')

    def test_a_paused_one_stays_paused(self):
        box = self.box()
        self.out(box, 'echo here > /file')
        self.daemon.request('POST', f'/v1/sandboxes/{box}/pause')
        copy = self.restore(self.take(box))
        self.assertEqual(self.out(copy, 'cat /file'), 'here')
        state = lambda: self.daemon.request('GET', f'/v1/sandboxes/{box}')['status']['state']
        self.assertEqual(state(), 'Paused')
        self.daemon.request('POST', f'/v1/sandboxes/{box}/resume')
        self.assertEqual(self.out(box, 'cat /file'), 'here')

    def test_a_chain_of_five(self):
        box = self.box()
        taken = []
        for number in range(5):
            self.out(box, f'echo {number} > /n{number}; echo {number} > /last; rm -f /n{number - 2}')
            taken.append(self.take(box))
            box = self.restore(taken[-1])
        self.assertEqual(self.out(box, 'cat /last; ls -d /n?'), '4\n/n3\n/n4')
        for snapshot in taken[:-1]:
            self.refused(409, 'SNAPSHOT::DELETE_CONFLICT', 'DELETE', f'/v1/snapshots/{snapshot}')

    def test_nothing_of_one_sandbox_alone(self):
        box = self.box()
        self.out(box, SEED + '; echo 1.2.3.4 gone >> /etc/hosts; echo x > /etc/hostname')
        copy = self.restore(self.take(box))
        done = self.daemon.run(copy, 'cat /etc/machine-id /var/lib/dbus/machine-id')
        self.assertNotIn('seed', done.stdout)
        self.assertNotIn('gone', self.out(copy, 'cat /etc/hosts'))
        names = [self.out(one, 'hostname; echo $OPENSANDBOX_ID') for one in (box, copy)]
        self.assertIn(copy, names[1])
        self.assertNotEqual(*names)
        tokens = [self.daemon.execd_headers(one) for one in (box, copy)]
        self.assertNotEqual(*tokens)
        # Nor anywhere on the disk of the copy.
        token = list(tokens[0].values())[0]
        self.assertEqual(self.daemon.run(copy, f'grep -rlF {token} /etc /opt /t /tmp').stdout, '')

    def test_its_own_overlay_attributes_are_not_taken(self):
        """B11: what steers an overlay, planted where only the kernel or the host's root can."""
        box = self.box()
        self.out(box, 'mkdir /d; echo x > /d/f; echo y > /g')
        upper = next(path for path in (self.daemon.data_dir / 'store/fs/uppers').iterdir()
                     if (path / 'upper/g').exists()) / 'upper'
        os.setxattr(upper / 'd', 'user.overlay.redirect', b'/etc')
        os.setxattr(upper / 'g', 'user.overlay.metacopy', b'')
        os.setxattr(upper / 'g', 'user.kept', b'value')
        # CAP_NET_RAW, of the root of the range that the store's files belong to.
        capability = struct.pack('<6I', 0x03000001, 1 << 13, 0, 0, 0, 0x70000000)
        os.setxattr(upper / 'g', 'security.capability', capability)
        snapshot = self.take(box)
        layers = sorted(self.layers(), key=int)
        layer = self.daemon.data_dir / 'store/fs/layers' / layers[-1]
        self.assertEqual(os.listxattr(layer / 'd'), [])
        self.assertEqual(sorted(os.listxattr(layer / 'g')), ['security.capability', 'user.kept'])
        self.assertEqual(os.getxattr(layer / 'g', 'security.capability'), capability)
        self.remove(snapshot)


class MomentTest(Snapshots):

    def test_a_writer_is_caught_between_two_writes(self):
        """Two files that are always written in this order are never seen the other way round, and
        a line is never half."""
        box = self.box()
        self.out(box, 'mkdir /w; for i in $(seq 300); do echo $i > /w/f$i; done; '
                      'dd if=/dev/zero of=/w/big bs=1M count=40 2>/dev/null')
        self.daemon.run(box, 'i=0; while :; do i=$((i+1)); echo $i > /w/a.new; mv /w/a.new /w/a; '
                             'echo $i > /w/b.new; mv /w/b.new /w/b; echo line $i >> /w/log; done',
                        background=True)
        last = 0
        for _ in range(4):
            until(lambda: int(self.out(box, 'cat /w/a || echo 0')) > last, 60 * SLOWNESS, 'it writes on')
            copy = self.restore(self.take(box))
            a, b, line = self.out(copy, 'cat /w/a /w/b; tail -n 1 /w/log').split('\n')
            self.assertIn(int(a) - int(b), (0, 1))
            self.assertIn(int(b) - int(line.split()[1]), (0, 1))
            self.assertEqual(self.out(copy, 'cat /w/f* | md5sum'),
                             self.out(box, 'cat /w/f* | md5sum'))
            self.assertGreater(int(a), last)
            last = int(a)
            self.daemon.delete(copy)

    def test_a_mapped_page_is_taken_as_it_is(self):
        """The kernel tells the first write to one, and that before the page counts as dirty."""
        box = self.box()
        self.out(box, 'mkdir /w; cd /w; dd if=/dev/urandom of=more bs=1M count=8 2>/dev/null')
        self.daemon.run(box, 'cd /w; attack count-in-pairs 16', background=True)
        self.out(box, 'for i in $(seq 16); do until [ -s /w/b$i ]; do :; done; done')
        for _ in range(8):
            copy = self.restore(self.take(box))
            counts = self.out(copy, 'cd /w; for i in $(seq 16); do '
                                    'od -A n -t u4 -N 4 a$i; od -A n -t u4 -N 4 b$i; done').split()
            self.assertEqual(len(counts), 32)
            for first, second in zip(counts[::2], counts[1::2]):
                self.assertIn(int(first) - int(second), (0, 1), counts)
            self.daemon.delete(copy)

    def test_one_at_a_time(self):
        box = self.box()
        self.out(box, 'dd if=/dev/urandom of=/big bs=1M count=64 2>/dev/null')
        first = self.begin(box)
        self.assertEqual(self.get(first)['status']['reason'], 'snapshot_accepted')
        self.refused(409, 'SNAPSHOT::INVALID_SOURCE_STATE', 'POST', f'/v1/sandboxes/{box}/snapshots')
        self.refused(409, 'SNAPSHOT::INVALID_STATE', 'DELETE', f'/v1/snapshots/{first}')
        self.refused(409, 'SNAPSHOT::NOT_READY', 'POST', '/v1/sandboxes',
                     {'snapshotId': first, 'resourceLimits': {}})
        self.assertEqual(self.settled(first)['state'], 'Ready')

    def test_the_source_is_deleted_meanwhile(self):
        before = self.layers()
        for _ in range(5):
            box = self.box()
            self.out(box, 'dd if=/dev/zero of=/big bs=1M count=16 2>/dev/null; echo end > /zz')
            snapshot = self.begin(box)
            self.daemon.delete(box)
            # Either it was whole before, or there is none.
            if self.settled(snapshot)['state'] == 'Ready':
                self.assertEqual(self.out(self.restore(snapshot), 'wc -c < /big; cat /zz'),
                                 f'{16 << 20}\nend')
                continue
            self.refused(409, 'SNAPSHOT::NOT_READY', 'POST', '/v1/sandboxes',
                         {'snapshotId': snapshot, 'resourceLimits': {}})
            self.remove(snapshot)
            atoll.until(lambda: not [name for name in self.layers() if name.endswith('.partial')],
                        UNTIL, 'nothing half is left')
        self.assertGreaterEqual(set(self.layers()), set(before))


class HoldTest(Snapshots):

    def test_it_outlives_its_source_and_holds_its_image(self):
        box = self.box()
        self.out(box, 'echo kept > /kept')
        parent = self.take(box)
        self.daemon.delete(box)
        image = f'/v1/images/{self.image}'
        self.assertEqual(self.daemon.request('GET', image)['snapshots'], [parent])
        done = subprocess.run([atoll.BUILD / 'atoll', 'image', 'rm', self.image], check=False,
                              env=self.daemon.client_env(), capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn('in use by snapshot', done.stderr)
        self.daemon.request('POST', '/v1/images/prune?all=true')
        self.daemon.request('GET', image)
        self.daemon.request('DELETE', image)
        middle = self.restore(parent)
        child = self.take(middle)
        self.refused(409, 'SNAPSHOT::DELETE_CONFLICT', 'DELETE', f'/v1/snapshots/{parent}')
        self.daemon.delete(middle)
        self.remove(parent)
        self.refused(404, 'SNAPSHOT::NOT_FOUND', 'GET', f'/v1/snapshots/{parent}')
        self.daemon.kill()
        self.daemon.start()
        last = self.restore(child)
        self.assertEqual(self.out(last, 'cat /kept'), 'kept')
        self.daemon.delete(last)
        self.remove(child)
        atoll.until(lambda: not self.layers(), UNTIL, 'no layer is left')


class LifeTest(Snapshots):

    def box_to_take(self):
        box = self.box()
        self.out(box, 'dd if=/dev/urandom of=/big bs=1M count=24 2>/dev/null; sync; '
                      'md5sum < /big > /sum; i=0; while [ $i -lt 500 ]; do i=$((i+1)); '
                      'echo $i > /n$i; done')
        return box

    def moments(self):
        """Of the next snapshot: when each has come."""
        layers, before = self.daemon.data_dir / 'store/fs/layers', set(self.layers())

        def copied(name):
            return lambda: any((path / name).exists() for path in layers.glob('*.partial'))
        published = lambda: any(name.isdigit() for name in set(self.layers()) - before)
        return (lambda: True, copied(''), copied('big'), copied('n1'), copied('sum'), published)

    def await_moment(self, snapshot, moment):
        over = lambda: self.get(snapshot)['status']['state'] != 'Creating'
        atoll.until(lambda: moment() or over(), UNTIL, 'the moment')

    def nothing_is_left(self):
        """But the image, when the daemon has started again."""
        self.daemon.kill()
        self.daemon.start()
        atoll.until(lambda: len(self.layers()) == 1, UNTIL, f'only the image: {self.layers()}')

    def test_the_daemon_is_killed(self):
        """It is Ready and whole, or Failed, and nothing half is left."""
        box = self.box_to_take()
        states = set()
        for attempt in range(12):
            moment = self.moments()[attempt % 6]
            snapshot = self.begin(box)
            self.await_moment(snapshot, moment)
            self.daemon.kill()
            self.daemon.start()
            state = self.settled(snapshot)['state']
            states.add(state)
            if state == 'Ready':
                copy = self.restore(snapshot)
                self.assertEqual(self.out(copy, 'md5sum < /big | cmp - /sum && ls /n* | wc -l'),
                                 '500')
                self.daemon.delete(copy)
            # It goes on, whoever held it.
            self.assertEqual(self.out(box, 'echo on'), 'on')
            self.remove(snapshot)
        self.assertIn('Failed', states)
        self.nothing_is_left()

    def test_the_spawner_is_killed(self):
        for attempt in range(1, 5):
            box, moment = self.box_to_take(), self.moments()[attempt]
            snapshot = self.begin(box)
            self.await_moment(snapshot, moment)
            before = self.daemon.spawner_pid()
            os.kill(before, 9)
            self.assertIn(self.settled(snapshot)['state'], ('Failed', 'Ready'))
            self.remove(snapshot)
            self.daemon.another_spawner(before)
            atoll.until(self.daemon.healthy, UNTIL, 'it serves')
            self.assertEqual(self.out(box, 'echo lives on'), 'lives on')
        self.nothing_is_left()

    def test_the_next_spawner_removes_what_the_killed_one_should(self):
        box, before = self.box(), self.layers()
        self.out(box, 'echo here > /file')
        snapshot = self.take(box)
        spawner = self.daemon.spawner_pid()
        os.kill(spawner, signal.SIGSTOP)
        self.remove(snapshot)
        self.assertNotEqual(self.layers(), before)
        os.kill(spawner, signal.SIGKILL)
        self.daemon.another_spawner(spawner)
        atoll.until(lambda: self.layers() == before, UNTIL, 'its layer is gone')


class BoundsTest(Snapshots):
    settings = {'snapshots_max_count': 3, 'snapshots_max_bytes': '40Mi'}

    def test_a_hostile_tree_is_bounded(self):
        box = self.box()
        self.out(box, 'i=0; while [ $i -lt 400 ]; do i=$((i+1)); mkdir d && cd d; done')
        snapshot = self.begin(box)
        status = self.settled(snapshot)
        self.assertEqual((status['state'], status['reason']),
                         ('Failed', 'snapshot_runtime_failed'))
        self.assertIn('nested deeper than', status['message'])
        self.remove(snapshot)
        # The source is as it was, and the next one is whole.
        self.out(box, 'rm -rf /d; echo on > /on')
        snapshot = self.take(box)
        self.assertEqual(self.out(self.restore(snapshot), 'cat /on'), 'on')

    def test_bytes_and_number(self):
        box = self.box()
        self.out(box, 'dd if=/dev/urandom of=/big bs=1M count=50 2>/dev/null; sync')
        status = self.settled(self.begin(box, name='large'))
        self.assertEqual(status['state'], 'Failed')
        self.assertIn('no room', status['message'])
        self.out(box, 'rm /big')
        for _ in range(10):
            have = self.daemon.request('GET', '/v1/snapshots')['pagination']['totalItems']
            if have == 3:
                break
            self.take(box)
        layers = self.layers()
        message = self.refused(507, 'GENERAL::STORAGE_FULL', 'POST',
                               f'/v1/sandboxes/{box}/snapshots')
        self.assertIn('max_count', message)
        self.assertEqual(self.layers(), layers)
        for item in self.daemon.request('GET', '/v1/snapshots')['items']:
            self.remove(item['id'])


class ClientTest(Snapshots):

    def cli(self, *words):
        done = subprocess.run([atoll.BUILD / 'atoll', *words], check=False, text=True,
                              env=self.daemon.client_env(), capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_its_verbs(self):
        box = self.box()
        self.out(box, 'echo from the snapshot > /note')
        snapshot = self.cli('snapshot', 'create', box, '--name', 'one').strip()
        self.assertIn('Ready', self.cli('snapshot', 'ls', '--sandbox', box))
        self.assertEqual(self.cli('snapshot', 'ls', '-q', '--name', 'one').split(), [snapshot])
        self.assertIn('snapshot_runtime_ready', self.cli('snapshot', 'inspect', snapshot))
        self.assertEqual(self.cli('run', '--snapshot', snapshot, 'cat', '/note'),
                         'from the snapshot\n')
        atoll.until(lambda: self.removed(snapshot), UNTIL, 'it can be removed')
        self.assertEqual(self.cli('snapshot', 'ls', '-q', '--name', 'one'), '')

    def removed(self, snapshot):
        done = subprocess.run([atoll.BUILD / 'atoll', 'snapshot', 'rm', snapshot], check=False,
                              env=self.daemon.client_env(), capture_output=True)
        return done.returncode == 0


if __name__ == '__main__':
    unittest.main()
