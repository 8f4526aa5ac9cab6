"""Volumes that are buckets: who must not get one, how many there may be, and where credentials must
not be seen."""
import os
import pathlib
import threading

import atoll
import buckets
import process_memory
from atoll import until
from buckets import PATIENCE


class Refusals(buckets.Case):

    def test_what_nobody_allows(self):
        said = self.refused(400, 'VOLUME::INVALID_OSSFS_ENDPOINT',
                            self.volume(endpoint='http://169.254.169.254'))
        self.assertIn('object_stores', said)
        # The scheme counts, as does the port.
        self.refused(400, 'VOLUME::INVALID_OSSFS_ENDPOINT',
                     self.volume(endpoint=self.store.endpoint.replace('https', 'http')))
        self.refused(400, 'VOLUME::INVALID_OSSFS_ENDPOINT',
                     self.volume(endpoint='https://127.0.0.1:1'))
        self.refused(400, 'VOLUME::INVALID_OSSFS_ENDPOINT',
                     self.volume(endpoint=self.store.endpoint + '@evil.example'))
        self.assertIn('object_stores', self.refused(400, 'VOLUME::INVALID_OSSFS_BUCKET',
                                                    self.volume(bucket='another')))
        self.refused(400, 'VOLUME::INVALID_OSSFS_BUCKET', self.volume(bucket='buc;ket'))
        self.refused(400, 'VOLUME::INVALID_OSSFS_OPTION', self.volume(options=['url=http://evil']))
        self.refused(400, 'VOLUME::INVALID_OSSFS_OPTION', self.volume(options=['logfile=/x']))
        self.refused(400, 'VOLUME::INVALID_OSSFS_CREDENTIALS', self.volume(accessKeyId='@other'))
        self.refused(400, 'VOLUME::INVALID_OSSFS_CREDENTIALS',
                     self.volume(store=self.odd, accessKeyId=None, accessKeySecret=None))
        self.refused(400, 'VOLUME::INVALID_OSSFS_CREDENTIALS', self.volume(accessKeyId='a:b'))
        # Below a bucket a place for another volume would be looked for in the store.
        self.refused(400, 'VOLUME::INVALID_MOUNT_PATH', self.volume(),
                     self.volume('/data/below'))
        self.nothing_left()

    def test_one_more_than_a_sandbox_may_have(self):
        eight = [self.volume(f'/data/{i}') for i in range(8)]
        said = self.refused(400, 'SANDBOX::INVALID_PARAMETER', *eight, self.volume('/data/8'))
        self.assertIn('at most 8', said)
        self.nothing_left()
        box = self.create(*eight)
        self.assertEqual(self.out(box, 'grep -c "^objects /data/" /proc/mounts'), '8')
        self.daemon.delete(box)
        self.nothing_left()

    def test_a_file_of_credentials_that_others_may_read(self):
        by_reference = self.volume(accessKeyId=None, accessKeySecret=None)
        content = self.file.read_text(encoding='utf-8')

        def make(text=content, mode=0o600, owner=0):
            self.file.write_text(text, encoding='utf-8')
            self.file.chmod(mode)
            os.chown(self.file, owner, 0)

        def refused(words):
            said = self.refused(500, 'VOLUME::OSSFS_MOUNT_FAILED', by_reference)
            self.assertIn(words, said)
            self.assertNotIn(self.store.secret, said)

        self.addCleanup(make)
        for mode in (0o640, 0o604, 0o620, 0o601):
            make(mode=mode)
            refused('chmod 600')
        make(owner=65534)
        refused('chown root')
        make(text=f'{self.store.key} {self.store.secret}\n')
        refused('KEY:SECRET')
        self.file.unlink()
        refused('No such file')
        # Nobody waits for a writer.
        os.mkfifo(self.file, 0o600)
        refused('chmod 600')
        self.file.unlink()
        self.nothing_left()
        make()
        self.create(by_reference)

    def test_wrong_credentials_and_no_bucket(self):
        said = self.refused(400, 'VOLUME::INVALID_OSSFS_CREDENTIALS',
                            self.volume(accessKeySecret='not-the-secret'))
        self.assertNotIn('not-the-secret', said)
        self.refused(400, 'VOLUME::OSSFS_PATH_NOT_FOUND', self.volume(bucket='missing'))
        self.nothing_left()
        self.assertEqual(self.daemon.request('GET', '/v1/sandboxes')['items'], [])

    def test_more_than_are_mounted_at_once(self):
        """32 that wait for their store; the next one is told to come again, and leaves nothing."""
        self.nothing_left()  # the buckets of another case's sandbox, which has ended, may take 2 s
        released = self.silence(answers_then=True)
        eight = [self.volume(f'/data/{i}', store=self.odd) for i in range(8)]
        boxes = []
        creating = [threading.Thread(target=lambda: boxes.append(self.create(*eight)), daemon=True)
                    for _ in range(4)]
        for each in creating:
            each.start()
        until(lambda: len(buckets.groups(self.daemon)) == 32, PATIENCE, 'all are being mounted')
        with self.assertRaises(atoll.ApiError) as refused:
            self.daemon.create(self.image, volumes=[self.volume()])
        self.assertEqual(refused.exception.status, 429, refused.exception.message)
        self.assertIn('try again', refused.exception.message)
        self.assertEqual(len(buckets.groups(self.daemon)), 32)
        released.set()
        for each in creating:
            each.join(PATIENCE)
        self.assertEqual(len(boxes), 4)
        self.out(self.create(self.volume()), 'ls /data')


class Secrets(buckets.Case):

    def test_nobody_sees_the_credentials(self):
        box = self.create(self.volume())
        seen = self.out(box, 'cat /proc/mounts /proc/self/mountinfo; env; cat /proc/*/environ '
                             '/proc/*/cmdline 2>/dev/null | tr "\\0" "\\n"')
        self.assertIn('/data', seen)
        serving = buckets.servers(self.daemon)
        self.assertEqual(len(serving), 2)
        users = set()
        for pid, line in serving.items():
            process = pathlib.Path('/proc', str(pid))
            seen += line.decode() + (process / 'environ').read_bytes().decode()
            status = (process / 'status').read_text(encoding='utf-8')
            users |= set(next(row for row in status.splitlines() if row.startswith('Uid:'))
                         .split()[1:])
            if line.startswith(b'/usr/bin/s3fs'):
                self.assertIn('\nSeccomp:\t2\n', status)
            for row in ('NoNewPrivs:\t1', 'CapPrm:\t0000000000000000',
                        'CapEff:\t0000000000000000', 'Groups:\t \n'):
                self.assertIn(row, status + '\n')
            seen += (process / 'mountinfo').read_text(encoding='utf-8')
        # Of its own: no login, no other server.
        self.assertEqual(len(users), 1)
        self.assertGreaterEqual(int(users.pop()), 0x71000000)
        for path in (self.daemon.log, self.daemon.run_dir / 'spawner.log'):
            seen += path.read_text(encoding='utf-8')
        for path in self.daemon.data_dir.glob('state/*.db*'):
            seen += path.read_bytes().decode('latin-1')
        for path in self.daemon.run_dir.glob('spawner/records/*'):
            seen += path.read_bytes().decode('latin-1')
        for format in ('', '?format=json'):
            seen += self.daemon.send('GET', f'/v1/sandboxes/{box}/diagnostics/summary{format}'
                                     ).read().decode()
        # Not all of it in a message, which is megabytes.
        for secret in (self.store.secret, self.store.key):
            self.assertEqual(seen.count(secret), 0)

    def test_no_process_file_or_answer_has_them(self):
        """Of the whole host, whoever has brought them: this request, or the operator's file."""
        # Those of a store that is no program, which would have them in its own command line.
        box = self.create(self.volume(store=self.odd), self.volume('/other', accessKeyId='@main'))
        self.out(box, 'echo 1 > /data/1; echo 1 > /other/1; cat /data/none /other/none || true')
        for process in pathlib.Path('/proc').glob('[0-9]*'):
            for name in ('cmdline', 'environ'):
                try:
                    text = (process / name).read_bytes()
                except OSError:
                    continue  # it has just ended, or is the kernel's
                for secret in (self.odd.secret, self.odd.key):
                    self.assertEqual(text.count(secret.encode()), 0, text)
        for where in (self.daemon.run_dir, self.daemon.data_dir, self.daemon.log):
            for path in [where, *where.rglob('*')]:
                if not path.is_file() or path.is_symlink() or path == self.file:
                    continue
                text = path.read_bytes()
                for secret in (self.odd.secret, self.store.secret):
                    self.assertEqual(text.count(secret.encode()), 0, path)
        for path in ('', f'/{box}', *(f'/{box}/diagnostics/{kind}' for kind in (
                'inspect', 'events', 'logs', 'summary'))):
            answer = self.daemon.send('GET', f'/v1/sandboxes{path}').read()
            for secret in (self.odd.secret, self.odd.key, self.store.secret):
                self.assertNotIn(secret.encode(), answer, path)

    def test_no_memory_has_them_once_the_sandbox_is_gone(self):
        secret = self.odd.secret
        box = self.create(self.volume(store=self.odd))
        self.out(box, 'echo 1 > /data/1')
        ours = {'atolld': self.daemon.process.pid, 'atoll-spawner': self.daemon.spawner_pid()}
        self.assertEqual(process_memory.found_in(ours['atolld'], [secret]), {secret})
        self.daemon.delete(box)
        # And those that the store has refused.
        secrets = [f'no-secret-{os.urandom(20).hex()}' for _ in range(6)]
        for wrong in secrets:
            with self.assertRaises(atoll.ApiError):
                self.create(self.volume(accessKeySecret=wrong))
        ours.update((atoll.comm(pid), pid) for pid in atoll.children(ours['atoll-spawner']))
        process_memory.await_wiped(ours, [secret, *secrets])

    def test_a_refusal_does_not_repeat_them(self):
        ossfs = self.volume(accessKeyId='hush-id', accessKeySecret='hush-hush')['ossfs']
        volume = self.volume()
        image = {'uri': self.image, 'auth': {'username': 7, 'password': 'hush-hush'}}
        whole = {'image': {'uri': self.image}, 'entrypoint': ['sleep', '99999']}
        for body in ({**whole, 'volumes': [{**volume, 'ossfs': {**ossfs, 'bucket': None}}]},
                     {**whole, 'volumes': [{**volume, 'ossfs': [ossfs]}]},
                     {**whole, 'volumes': {**volume, 'ossfs': ossfs}},
                     {**whole, 'volumes': [{**volume, 'ossfs': {
                         **ossfs, 'accessKeySecret': {'value': 'hush-hush'}}}]},
                     {**whole, 'entrypoint': 7, 'image': image},
                     {**whole, 'image': {'auth': {'password': 'hush-hush'}}},
                     {'volumes': [{**volume, 'ossfs': ossfs}], 'image': [image]}):
            response = self.daemon.send('POST', '/v1/sandboxes', body)
            said = response.read().decode()
            self.assertEqual(response.status, 422, said)
            self.assertNotIn('hush', said)
        self.assertNotIn('hush', self.daemon.log.read_text(encoding='utf-8'))
