"""What holds when something is full: the disk, in bytes or in inodes, while a sandbox takes whatever
is freed at once; the run directory; the daemon's descriptors. Deleting and starting always work, and
nothing acknowledged is lost."""
import contextlib
import datetime
import hashlib
import http.client
import io
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import time
import unittest

import atoll
from atoll import SLOWNESS

UNTIL = 20 * SLOWNESS
# Each runs in a sandbox until that is deleted, and never leaves anything free for longer than it
# takes to notice.
TAKE_BYTES = 'while :; do dd if=/dev/zero bs=64k >>/fill; dd if=/dev/zero bs=512 >>/fill; done'
TAKE_INODES = 'i=0; while :; do (: >/f$i) && i=$((i+1)); done'


def mount(self, target, *options):
    """Mounts on `target` in this test's own mount namespace until the case has ended."""
    target.mkdir(parents=True, exist_ok=True)
    subprocess.run(['mount', *options, target], check=True)
    target.chmod(0o755)
    self.addCleanup(subprocess.run, ['umount', '-l', target], check=True)


class Full(unittest.TestCase):
    """A daemon whose directories the case may put on file systems of its own."""

    def setUp(self):
        self.daemon = atoll.Daemon()
        self.addCleanup(self.daemon.__exit__)

    def mount_disk(self, *flags):
        disk = self.daemon.top / 'disk'
        with open(disk, 'wb') as file:
            file.truncate(300 << 20)
        subprocess.run(['mkfs.ext4', '-q', '-m', '0', *flags, disk], check=True)
        mount(self, self.daemon.data_dir, '-o', 'loop', disk)

    def start(self):
        self.addCleanup(self.end)
        self.daemon.start()
        return self.daemon.import_busybox()

    def end(self):
        """Before what the case has mounted goes."""
        if self.daemon.process.poll() is None:
            self.daemon.shutdown()
        elif self.daemon.spawner_pid():
            self.daemon.start().shutdown()

    def info(self, box):
        return self.daemon.request('GET', f'/v1/sandboxes/{box}')

    def state(self, box):
        return self.info(box)['status']['state']

    def health(self):
        return self.daemon.request('GET', '/health')

    def trouble(self):
        return self.health().get('troubles', {}).get('store', '')

    def gone(self, box):
        with self.assertRaises(atoll.ApiError) as refused:
            self.info(box)
        self.assertEqual(refused.exception.status, 404)

    def background(self, box, command):
        self.daemon.run(box, command, background=True)

    def await_full(self, what):
        atoll.until(lambda: getattr(os.statvfs(self.daemon.data_dir), what) == 0, 6 * UNTIL,
                    f'{what} is 0')

    def create_until_refused(self, image):
        """Sandboxes that were acknowledged before one was refused, and the refusal."""
        made = []
        for _ in range(200):
            try:
                made.append(self.daemon.create(image))
            except atoll.ApiError as error:
                return made, error
        raise AssertionError('200 creates on a full disk')


class Disk(Full):

    def check_life_on_a_full_disk(self, take, what):
        daemon = self.daemon
        image = self.start()
        attacker = daemon.create(image)
        deleted, paused, renewed, patched, kept = [
            daemon.create(image, timeout=3600, metadata={'name': name})
            for name in ('deleted', 'paused', 'renewed', 'patched', 'kept')]
        for box in (paused, kept):
            daemon.run(box, 'echo mine >/file')
        self.background(attacker, take)
        self.await_full(what)
        atoll.until(lambda: 'no room' in self.trouble(), UNTIL, 'health tells')

        daemon.delete(deleted)
        daemon.request('POST', f'/v1/sandboxes/{paused}/pause')
        atoll.until(lambda: self.state(paused) == 'Paused', UNTIL)
        until = (datetime.datetime.now(datetime.timezone.utc) +
                 datetime.timedelta(hours=5)).replace(microsecond=0)
        daemon.request('POST', f'/v1/sandboxes/{renewed}/renew-expiration',
                       {'expiresAt': until.isoformat().replace('+00:00', 'Z')})
        daemon.request('PATCH', f'/v1/sandboxes/{patched}/metadata', {'colour': 'green'})
        made, refused = self.create_until_refused(image)
        self.assertEqual((refused.status, refused.code), (500, 'GENERAL::STORAGE_FULL'), refused)

        def check():
            self.gone(deleted)
            self.assertEqual(self.state(paused), 'Paused')
            expires = self.info(renewed)['expiresAt'].replace('Z', '+00:00')
            self.assertEqual(datetime.datetime.fromisoformat(expires), until)
            self.assertEqual(self.info(patched)['metadata'].get('colour'), 'green')
            self.assertEqual(daemon.run(kept, 'cat /file').stdout, 'mine')
            for box in made:
                self.assertEqual(self.state(box), 'Running')

        check()
        # Twice: the second start has only what the first one left.
        for _ in range(2):
            daemon.kill()
            daemon.start()
            check()
            self.await_full(what)  # what the start has made room of is taken, too
        # After a clean end, too.
        daemon.stop()
        daemon.start()
        check()
        for box in (paused, renewed, patched, *made):
            daemon.delete(box)
            self.gone(box)
        daemon.delete(attacker)
        # It works again by itself when there is room.
        atoll.until(lambda: self.health()['status'] == 'healthy', 3 * UNTIL, 'healthy')
        box = daemon.create(image)
        self.assertEqual(daemon.run(box, 'echo works').stdout, 'works')
        daemon.kill()
        daemon.start()
        for each in (box, kept):
            self.assertEqual(self.state(each), 'Running')
        for each in (attacker, deleted, paused, *made):
            self.gone(each)

    def test_out_of_bytes(self):
        self.mount_disk()
        self.check_life_on_a_full_disk(TAKE_BYTES, 'f_bavail')

    def test_out_of_inodes(self):
        self.mount_disk('-N', '4096')
        self.check_life_on_a_full_disk(TAKE_INODES, 'f_favail')


class Moment(Full):
    """A store that is full for a moment, beside records that have room: what is made meanwhile is
    refused, and nothing that is made from what stood ready is less than was asked for."""

    def mount_store(self, *flags):
        disk = self.daemon.top / 'disk'
        with open(disk, 'wb') as file:
            file.truncate(64 << 20)
        subprocess.run(['mkfs.ext4', '-q', '-m', '0', *flags, disk], check=True)
        self.store, self.numbers = self.daemon.data_dir / 'store', itertools.count()
        mount(self, self.store, '-o', 'loop', disk)

    def take_bytes(self):
        with open(self.store / 'filler/all', 'ab', buffering=0) as file:
            for size in (1 << 20, 1 << 10):
                with contextlib.suppress(OSError):
                    while file.write(b'x' * size) == size:
                        pass

    def take_inodes(self):
        with contextlib.suppress(OSError):
            for number in self.numbers:
                (self.store / f'filler/{number}').touch()

    def fill(self):
        """Also what the request before has given back, once the janitor is through with that."""
        atoll.settled(lambda: (os.listdir(self.store / 'trash'), os.listdir(self.store / 'fs/uppers')))
        self.take()

    def refused(self, path, body):
        status = 500 if path == '/v1/sandboxes' else 507  # a create names no 507
        self.fill()
        with self.assertRaises(atoll.ApiError) as caught:
            self.daemon.request('POST', path, body)
        self.assertEqual((caught.exception.status, caught.exception.code),
                         (status, 'GENERAL::STORAGE_FULL'), caught.exception)

    def session(self, box):
        """A session whose overlay lies in the store; the status, and what a command of it says."""
        path = f'/sandboxes/{box}/proxy/44772/v1/isolated/session'
        headers = self.daemon.execd_headers(box)
        answer = self.daemon.send('POST', path, {'workspace': {'path': '/w', 'mode': 'overlay'}},
                                  headers)
        text = answer.read().decode()
        if answer.status != 201:
            return answer.status, text
        ran = self.daemon.send('POST', f'{path}/{json.loads(text)["session_id"]}/run',
                               {'code': 'echo new >/w/new && cat /w/new'}, headers)
        return answer.status, ran.read().decode()

    def leave(self, number):
        """So many blocks or inodes are free."""
        self.fill()
        everything = self.store / 'filler/all'
        if everything.exists():
            os.truncate(everything, everything.stat().st_size -
                        number * os.statvfs(self.store).f_frsize)
        else:
            for name in os.listdir(self.store / 'filler')[:number]:
                (self.store / 'filler' / name).unlink()

    def check_a_moment(self, take):
        self.take, daemon = take, self.daemon
        image = self.start()
        kept, other = daemon.create(image), daemon.create(image)
        daemon.run(kept, 'echo before >/file; mkdir /w')
        snapshot = daemon.request('POST', f'/v1/sandboxes/{kept}/snapshots', {})['id']
        atoll.until(lambda: daemon.request('GET', f'/v1/snapshots/{snapshot}')['status']['state'] ==
                    'Ready', UNTIL, 'the snapshot is taken')
        daemon.run(kept, 'echo after >/file')
        filler = self.store / 'filler'
        filler.mkdir()
        # The first of them find slots that were made when there was room.
        self.refused(f'/v1/sandboxes/{kept}/rollback', {'snapshotId': snapshot})
        for claim in ('new', 'newer'):
            self.refused('/v1/sandboxes', {
                'image': {'uri': image}, 'entrypoint': ['sleep', '1000'], 'resourceLimits': {},
                'volumes': [{'name': 'v', 'mountPath': '/data', 'pvc': {'claimName': claim}}]})
        self.fill()
        made, refused = self.create_until_refused(image)
        self.assertEqual((refused.status, refused.code), (500, 'GENERAL::STORAGE_FULL'), refused)
        self.refused('/v1/volumes', {'name': 'large'})
        self.refused(f'/v1/sandboxes/{kept}/fork', {})
        # Its four directories find room, or some of them do, and what the kernel makes in them may not.
        told = set()
        for number in range(6):
            self.leave(number)
            status, said = self.session(kept)
            told.add(status)
            self.assertIn('"text":"new"' if status == 201 else 'STORAGE_FULL', said.replace(' ', ''))
        self.assertLessEqual({507}, told)
        self.assertLessEqual(told, {201, 507})
        self.fill()
        daemon.request('POST', '/v1/pools', {
            'name': 'warm', 'image': {'uri': image},
            'capacitySpec': {'bufferMin': 1, 'bufferMax': 1, 'poolMin': 0, 'poolMax': 9}})
        atoll.until(lambda: 'for a pool' in self.daemon.log.read_text(), UNTIL, 'a member is tried')

        shutil.rmtree(filler)
        self.assertEqual(daemon.run(kept, 'cat /file').stdout, 'after')
        atoll.until(lambda: daemon.request('GET', '/v1/pools/warm')['status']['available'] == 1,
                    3 * UNTIL, 'the pool is filled')
        claimed = daemon.request('POST', '/v1/sandboxes', {
            'entrypoint': ['sleep', '1000'], 'extensions': {'poolRef': 'warm'}})['id']
        for box in (kept, other, claimed, daemon.create(image), *made):
            self.assertEqual(daemon.run(box, 'echo x >/new && cat /new').stdout, 'x', box)
        self.assertIn('"text":"new"', self.session(kept)[1].replace(' ', ''))
        daemon.request('POST', f'/v1/sandboxes/{kept}/rollback', {'snapshotId': snapshot})
        self.assertEqual(daemon.run(kept, 'cat /file; echo y >/new').stdout, 'before')

    def test_of_bytes(self):
        self.mount_store()
        self.check_a_moment(self.take_bytes)

    def test_of_inodes(self):
        self.mount_store('-N', '1024')
        self.check_a_moment(self.take_inodes)


class Other(Full):
    """What else has no room, or no right, to be written."""

    def test_an_import_says_what_is_full(self):
        self.mount_disk()
        image = self.start()
        archive = self.daemon.top / 'large.tar'
        shutil.copy(atoll.image_archive('busybox'), archive)
        padding = os.urandom(8 << 20)
        with tarfile.open(archive, 'a') as tar:
            member = tarfile.TarInfo(f'blobs/sha256/{hashlib.sha256(padding).hexdigest()}')
            member.size = len(padding)
            tar.addfile(member, io.BytesIO(padding))
        filler = self.daemon.data_dir / 'filler'
        free = os.statvfs(self.daemon.data_dir)
        # Room for the upload, none for its parts beside it.
        leave = archive.stat().st_size + (4 << 20)
        with open(filler, 'wb') as file:
            os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize - leave)
        for name, said in (('again', 'inodes were left when it stopped'), ('more', 'are free')):
            with self.assertRaises(atoll.ApiError) as refused:
                self.daemon.import_image(archive, name)
            self.assertEqual((refused.exception.status, refused.exception.code),
                             (507, 'GENERAL::STORAGE_FULL'), refused.exception)
            self.assertIn('<data_dir>/state', refused.exception.message)
            self.assertIn(said, refused.exception.message)
            # For the second one there is not even room for the upload.
            with open(filler, 'ab') as file, contextlib.suppress(OSError):
                while file.write(b'x' * (1 << 20)):
                    file.flush()
        filler.unlink()
        self.daemon.import_image(archive, 'again')
        self.assertEqual(self.daemon.run(self.daemon.create('again'), 'echo new').stdout, 'new')
        self.assertEqual(len(self.daemon.request('GET', '/v1/images')['items']), 2, image)

    def test_health_warns_before_the_end(self):
        self.mount_disk()
        image = self.start()
        self.assertEqual(self.trouble(), '')
        filler = self.daemon.data_dir / 'filler'
        free = os.statvfs(self.daemon.data_dir)
        # A twentieth is left to sandboxes, a tenth is where the warning begins.
        leave = free.f_blocks * free.f_frsize * 7 // 100
        with open(filler, 'wb') as file:
            os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize - leave)
        atoll.until(lambda: 'little room' in self.trouble(), UNTIL, 'health warns')
        self.assertIn("'atoll du'", self.trouble())
        self.assertEqual(self.daemon.run(self.daemon.create(image), 'echo new').stdout, 'new')
        filler.unlink()
        atoll.until(lambda: self.health()['status'] == 'healthy', UNTIL, 'the warning ends')

    def test_a_snapshot_finds_no_room(self):
        """To be taken in, to be written out: nothing is left of it, and both go as soon as there is."""
        self.mount_disk()
        box = self.daemon.create(self.start())
        self.daemon.run(box, 'dd if=/dev/urandom of=/random bs=1M count=8')
        client = lambda *words: subprocess.run([atoll.BUILD / 'atoll', 'snapshot', *words],
                                               env=self.daemon.client_env(), capture_output=True,
                                               text=True, check=False, timeout=60 * SLOWNESS)
        snapshot = client('create', box).stdout.strip()
        archive, second = self.daemon.top / 'snapshot.tar', self.daemon.top / 'second.tar'
        self.assertEqual(client('export', snapshot, archive).returncode, 0)
        left = lambda: (os.listdir(self.daemon.data_dir / 'store/fs/layers'),
                        os.listdir(self.daemon.data_dir / 'state/images/tmp'),
                        self.daemon.request('GET', '/v1/snapshots')['pagination']['totalItems'])
        before = left()
        filler = self.daemon.data_dir / 'filler'
        free = os.statvfs(self.daemon.data_dir)
        with open(filler, 'wb') as file:
            os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize
                               - archive.stat().st_size - (4 << 20))
        self.assertIn('STORAGE_FULL', client('import', archive).stderr)
        self.assertEqual(left(), before)
        with open(filler, 'ab') as file, contextlib.suppress(OSError):
            while file.write(b'x' * (1 << 20)):
                file.flush()
        for words in (('import', archive), ('export', snapshot, second)):
            self.assertIn('STORAGE_FULL', client(*words).stderr)
            self.assertEqual(left(), before)
        self.assertFalse(second.exists())
        filler.unlink()
        self.assertEqual(client('export', snapshot, second).returncode, 0)
        self.assertEqual(second.read_bytes(), archive.read_bytes())
        self.assertEqual(client('import', archive).returncode, 0)

    def test_a_full_run_directory(self):
        """A tmpfs, as /run is; the next spawner and daemon have it, too."""
        mount(self, self.daemon.run_dir, '-t', 'tmpfs', '-o', 'size=1m,nr_inodes=200', 'none')
        image = self.start()
        kept, deleted = self.daemon.create(image), self.daemon.create(image)
        with open(self.daemon.run_dir / 'filler', 'wb', buffering=0) as file:
            with contextlib.suppress(OSError):
                while file.write(b'x' * 4096):
                    pass
            made, refused = self.create_until_refused(image)
            self.assertEqual((refused.status, refused.code), (500, 'GENERAL::STORAGE_FULL'), refused)
            atoll.until(lambda: '<run_dir>' in self.trouble(), UNTIL, 'health tells')
            self.daemon.delete(deleted)
            self.daemon.kill()
            self.daemon.kill_spawner()
            self.daemon.start()
            self.gone(deleted)
            for box in (kept, *made):
                self.assertEqual(self.daemon.run(box, 'echo here').stdout, 'here')
        (self.daemon.run_dir / 'filler').unlink()
        atoll.until(lambda: self.health()['status'] == 'healthy', UNTIL, 'healthy')
        self.assertEqual(self.daemon.run(self.daemon.create(image), 'echo new').stdout, 'new')

    def test_a_read_only_disk_is_noticed(self):
        self.mount_disk()
        image = self.start()
        box = self.daemon.create(image)
        self.assertEqual(self.health()['status'], 'healthy')
        # As ext4 does on an error: without asking who has files open.
        subprocess.run(['mount', '-o', 'remount,abort', self.daemon.data_dir], check=False)
        atoll.until(lambda: re.search('read-only|cannot be written', self.trouble()), UNTIL, 'health tells')
        with self.assertRaises(atoll.ApiError) as refused:
            self.daemon.delete(box)
        self.assertGreaterEqual(refused.exception.status, 500)
        # It says that it could not forget them; the sandboxes are ended.
        subprocess.run([atoll.BUILD / 'atoll', 'shutdown', '--all'], check=False,
                       env=self.daemon.client_env(), stderr=subprocess.DEVNULL, timeout=UNTIL)
        atoll.until(lambda: self.daemon.spawner_pid() is None, UNTIL, 'the spawner has ended')
        if self.daemon.process.poll() is None:
            self.daemon.kill()
        # How they ended is kept for a daemon that can write: on a new disk, one takes it and leaves nothing.
        instance = self.daemon.instance()
        mount(self, self.daemon.data_dir, '-t', 'tmpfs', 'none')
        self.daemon.start().shutdown()
        self.assertEqual(atoll.groups_named(f'atoll{instance}'), [])

    def test_a_disk_that_is_taken_away_is_noticed(self):
        self.mount_disk()
        image = self.start()
        box = self.daemon.create(image)
        state = self.daemon.data_dir / 'state'
        subprocess.run(['mount', '-t', 'tmpfs', 'none', state], check=True)
        atoll.until(lambda: 'is not the one' in self.trouble(), UNTIL, 'health tells')
        self.assertEqual(self.daemon.run(box, 'echo here').stdout, 'here')
        subprocess.run(['umount', state], check=True)
        atoll.until(lambda: self.health()['status'] == 'healthy', UNTIL, 'healthy')
        self.daemon.delete(box)


class Descriptors(Full):
    """A daemon that may open 256 files."""

    def start_few(self, limit):
        self.daemon.start('prlimit', f'--nofile={limit}:{limit}')
        return self.daemon.import_busybox()

    def answers(self):
        began = time.monotonic()
        self.assertIn(self.health()['status'], ('healthy', 'degraded'))
        self.assertLess(time.monotonic() - began, 5 * SLOWNESS)

    def test_sandboxes_leave_some(self):
        image = self.start_few(256)
        made = []
        for _ in range(400):
            try:
                made.append(self.daemon.create(image, resourceLimits={'memory': '16Mi',
                                                                      'pids': '16'}))
            except atoll.ApiError as error:
                refused = error
                break
        self.assertEqual((refused.status, refused.code), (429, 'SANDBOX::OUT_OF_RESOURCES'), refused)
        self.answers()
        self.assertIn('descriptor', refused.message)
        # Whoever is there takes commands, and many at once: a create leaves what these need.
        streams = self.streams_into(made)
        self.assertGreaterEqual(len(streams), 10)
        for stream in streams:
            stream.close()
        self.assertEqual(self.daemon.run(made[-1], 'echo works').stdout, 'works')
        self.daemon.delete(made.pop())
        self.daemon.delete(made.pop())
        atoll.until(lambda: self.creates(image), UNTIL, 'a create with what was freed')
        for box in made:
            self.daemon.delete(box)

    def test_what_the_helpers_want_is_not_more_than_there_is(self):
        """Fewer than each of those limits itself to that copies and compares trees."""
        box = self.daemon.create(self.start_few(220))
        self.daemon.run(box, 'mkdir -p /deep/tree; echo here >/deep/tree/file')
        fork = self.daemon.request('POST', f'/v1/sandboxes/{box}/fork', {})
        child = fork['items'][0]['id']
        self.assertEqual(self.daemon.run(child, 'cat /deep/tree/file').stdout, 'here')
        diff = subprocess.run([atoll.BUILD / 'atoll', 'diff', box], env=self.daemon.client_env(),
                              capture_output=True, text=True, check=True)
        self.assertIn('/deep/tree/file', diff.stdout)
        # Both say so beforehand.
        self.assertIn('the limit of open files is low', self.daemon.log.read_text())
        doctor = subprocess.run(['prlimit', '--nofile=220:220', atoll.BUILD / 'atoll', 'doctor'],
                                capture_output=True, text=True, check=False).stdout
        self.assertRegex(doctor, r'warn +descriptors +a process may open 220 files')

    def begin_stream(self, box, headers):
        """The connection of a command that does not end; `headers` are of that box's execd."""
        connection = self.daemon.connection()
        self.addCleanup(connection.close)
        connection.request('POST', f'/sandboxes/{box}/proxy/44772/command',
                           json.dumps({'command': 'echo on; sleep 1000'}),
                           {'OPEN-SANDBOX-API-KEY': self.daemon.key, **headers})
        return connection

    def streams_into(self, boxes):
        """A command that does not end in each of them, until one is refused."""
        streams = []
        for box in boxes:
            connection = self.begin_stream(box, self.daemon.execd_headers(box))
            response = connection.getresponse()
            if response.status != 200:
                self.assertEqual(response.status, 503, response.read())
                return streams
            self.assertTrue(response.fp.readline())
            streams.append(connection)
        return self.fail('none is refused')

    def creates(self, image):
        try:
            return self.daemon.create(image, resourceLimits={'memory': '16Mi', 'pids': '16'})
        except atoll.ApiError as error:
            self.assertEqual(error.status, 429)
            return None

    def test_streams_and_idle_clients_leave_some(self):
        image = self.start_few(256)
        box = self.daemon.create(image)
        headers = self.daemon.execd_headers(box)
        held = []
        self.addCleanup(lambda: [one.close() for one in held])
        # Commands that do not end, until one is refused; then clients that say nothing.
        for _ in range(200):
            connection = self.begin_stream(box, headers)
            held.append(connection)
            try:
                response = connection.getresponse()
            except (OSError, http.client.HTTPException):
                break
            if response.status != 200:
                break
            response.fp.readline()
        self.assertGreater(len(held), 20)
        for _ in range(100):
            connection = self.daemon.connection()
            connection.connect()
            held.append(connection)
        self.answers()
        # The sandbox is ended all the same, and with it its streams.
        self.daemon.delete(box)
        self.gone(box)
        while held:
            held.pop().close()
        atoll.until(lambda: self.creates(image), UNTIL, 'a create with what was freed')


if __name__ == '__main__':
    unittest.main()
