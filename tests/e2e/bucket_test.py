"""Volumes that are buckets of a store of objects: what a sandbox sees of them, what it does not see,
and what becomes of them when s3fs, the daemon, the spawner or the store is gone."""
import os
import pathlib
import signal
import subprocess
import threading

import atoll
import buckets
import s3_store
from atoll import until
from buckets import PATIENCE

# The released SDK's own model of such a volume.
SDK = '''
import asyncio, datetime, os, sys
from opensandbox import Sandbox
from opensandbox.config import ConnectionConfig
from opensandbox.models.sandboxes import OSSFS, Volume

async def main(endpoint, key, secret):
    sandbox = await Sandbox.create(
        os.environ['SANDBOX_IMAGE'], entrypoint=['sleep', '1000'],
        connection_config=ConnectionConfig(domain=os.environ['SANDBOX_DOMAIN'],
                                           api_key=os.environ['SANDBOX_API_KEY']),
        volumes=[Volume(name='bucket', mount_path='/data', read_only=True,
                        ossfs=OSSFS(bucket='bucket', endpoint=endpoint, access_key_id=key,
                                    access_key_secret=secret))])
    done = await sandbox.commands.run('cat /data/for-the-sdk')
    print(''.join(message.text for message in done.logs.stdout))
    await sandbox.kill()

asyncio.run(main(*sys.argv[1:]))
'''


class Use(buckets.Case):

    def test_there_and_back(self):
        self.store.put('given/deep/file', b'from outside\n')
        box = self.create(self.volume())
        self.assertEqual(self.out(box, 'cat /data/given/deep/file'), 'from outside')
        self.out(box, 'mkdir -p /data/made && echo one > /data/made/a && echo two >> /data/made/a &&'
                      ' mv /data/made/a /data/made/b && chmod 700 /data/made/b')
        self.assertEqual(self.store.content('made/b'), b'one\ntwo\n')
        self.assertIsNone(self.store.content('made/a'))
        # Whoever it is in there: objects have no owners.
        self.assertEqual(self.daemon.run(box, 'id -u; echo three > /data/made/c', uid=1000).stdout,
                         '1000')
        self.assertEqual(self.store.content('made/c'), b'three\n')
        self.assertEqual(self.out(box, 'stat -c %u:%g /data/made/c /data'), '0:0\n0:0')
        self.out(box, 'rm -r /data/made')
        self.assertEqual({key for key in self.store.keys() if key.startswith('made')}, set())
        self.daemon.delete(box)
        self.nothing_left()

    def test_two_sandboxes_and_one_bucket(self):
        first, second = self.create(self.volume()), self.create(self.volume('/other'))
        self.out(first, 'echo hello > /data/shared-by-two')
        self.assertEqual(self.out(second, 'cat /other/shared-by-two'), 'hello')
        self.daemon.delete(first)
        self.assertEqual(self.out(second, 'cat /other/shared-by-two'), 'hello')
        self.out(second, 'rm /other/shared-by-two')

    def test_read_only(self):
        self.store.put('fixed', b'fixed\n')
        for volume in (self.volume(readOnly=True), self.volume(options=['ro', 'allow_other'])):
            box = self.create(volume)
            self.assertEqual(self.out(box, 'cat /data/fixed'), 'fixed')
            for command in ('echo no > /data/fixed', 'echo no > /data/new', 'rm /data/fixed',
                            'mount -o remount,rw /data'):
                self.assertNotEqual(self.daemon.run(box, command).exit_code, 0, command)
            self.assertEqual(self.store.content('fixed'), b'fixed\n')
            self.assertIsNone(self.store.content('new'))

    def test_a_prefix_is_kept_to(self):
        self.store.put('theirs', b'theirs\n')
        self.store.put('mine/inner/file', b'mine\n')
        box = self.create(self.volume(subPath='mine/inner'))
        self.assertEqual(self.out(box, 'ls /data'), 'file')
        self.out(box, 'echo new > /data/new; ln -s ../../theirs /data/link || true')
        self.assertEqual(self.store.content('mine/inner/new'), b'new\n')
        self.assertNotEqual(self.daemon.run(box, 'cat /data/../theirs').exit_code, 0)
        self.assertNotEqual(self.daemon.run(box, 'cat /data/link').exit_code, 0)
        for sub in ('..', 'a/../../theirs', '/mine', 'mine:other'):
            self.refused(400, 'VOLUME::INVALID_SUB_PATH', self.volume(subPath=sub))

    def test_by_reference(self):
        for credentials in ({'accessKeyId': None, 'accessKeySecret': None},
                            {'accessKeyId': '@main', 'accessKeySecret': '@'}):
            box = self.create(self.volume(**credentials))
            self.assertEqual(self.out(box, 'ls -d /data'), '/data')
        box = self.create(self.volume(endpoint='main', accessKeyId=None, accessKeySecret=None))
        inspected = self.daemon.send('GET', f'/v1/sandboxes/{box}/diagnostics/inspect').read()
        self.assertNotIn(self.store.secret.encode(), inspected)

    def test_the_sdk(self):
        self.store.put('for-the-sdk', b'seen\n')
        done = subprocess.run(
            [atoll.BUILD / 'conformance/python/bin/python', '-c', SDK, self.store.endpoint,
             self.store.key, self.store.secret],
            env=self.daemon.example_env(self.image), stdin=subprocess.DEVNULL, capture_output=True,
            text=True, check=False, timeout=120 * atoll.SLOWNESS)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, 'seen'), done.stderr)


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

    def test_wrong_credentials_and_no_bucket(self):
        said = self.refused(400, 'VOLUME::INVALID_OSSFS_CREDENTIALS',
                            self.volume(accessKeySecret='not-the-secret'))
        self.assertNotIn('not-the-secret', said)
        self.refused(400, 'VOLUME::OSSFS_PATH_NOT_FOUND', self.volume(bucket='missing'))
        self.nothing_left()
        self.assertEqual(self.daemon.request('GET', '/v1/sandboxes')['items'], [])


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
        for secret in (self.store.secret, self.store.key):
            self.assertNotIn(secret, seen)


class Ends(buckets.Case):

    def test_s3fs_dies(self):
        box = self.create(self.volume())
        self.out(box, 'echo hello > /data/hello')
        pid, = buckets.s3fs_of(self.daemon)
        os.kill(pid, signal.SIGKILL)
        until(lambda: 'not connected' in self.daemon.run(box, 'cat /data/hello').stderr, PATIENCE,
              'whoever asks is told')
        events = lambda: self.daemon.send(
            'GET', f'/v1/sandboxes/{box}/diagnostics/events').read().decode()
        until(lambda: 'VolumeLost' in events(), PATIENCE, 'its diagnostics tell of it')
        self.assertIn('/data', events())
        until(lambda: not buckets.servers(self.daemon), PATIENCE, 'its relay ends')
        # It is told once, whoever asks the spawner.
        self.daemon.stop()
        self.daemon.start()
        self.assertEqual(self.out(box, 'echo alive'), 'alive')
        self.assertEqual(events().count('VolumeLost'), 1)
        self.daemon.delete(box)
        self.nothing_left()

    def test_daemon_and_spawner_die(self):
        box = self.create(self.volume())
        self.out(box, 'echo one > /data/kept')
        serving = set(buckets.servers(self.daemon))
        self.daemon.kill()
        self.daemon.start()
        self.assertEqual(self.out(box, 'cat /data/kept'), 'one')
        self.daemon.kill_spawner()
        until(self.daemon.healthy, PATIENCE, 'the daemon has the next spawner')
        self.assertEqual(self.out(box, 'cat /data/kept; echo two > /data/kept'), 'one')
        self.assertEqual(set(buckets.servers(self.daemon)), serving)
        # The next one knows whom they serve, and what becomes of them.
        self.daemon.delete(box)
        self.nothing_left()
        self.assertEqual(self.store.content('kept'), b'two\n')

    def test_forks_and_rollbacks_have_them_too(self):
        box = self.create(self.volume())
        self.out(box, 'echo parent > /data/of-the-parent')
        fork = self.daemon.request('POST', f'/v1/sandboxes/{box}/fork', {'count': 1})
        child = fork['items'][0]['id']
        self.addCleanup(self.delete, child)
        self.assertEqual(self.out(child, 'cat /data/of-the-parent'), 'parent')
        # Nobody has kept what the request brought.
        self.daemon.stop()
        self.daemon.start()
        with self.assertRaises(atoll.ApiError) as caught:
            self.daemon.request('POST', f'/v1/sandboxes/{box}/fork', {'count': 1})
        self.assertEqual(caught.exception.status, 409)
        self.assertIn('by reference', caught.exception.message)
        self.assertEqual(self.out(box, 'cat /data/of-the-parent'), 'parent')


class Stores(buckets.Case):

    def test_it_has_no_network_but_the_store(self):
        """A store that sends s3fs elsewhere, to something that listens on this host."""
        victim = s3_store.OwnStore(None)
        self.addCleanup(victim.close)
        self.odd.put('lure', b'bait\n')

        def redirect(handler, _query, _body):
            if 'lure' not in handler.path or handler.command != 'GET':
                return False
            handler.give(307, Location=victim.endpoint + '/bucket/lure')
            return True

        self.odd.odd = redirect
        box = self.create(self.volume(store=self.odd))
        self.assertNotEqual(self.daemon.run(box, 'cat /data/lure').exit_code, 0)
        self.assertEqual(victim.heard, [])

    def test_dead_in_the_middle_of_a_create(self):
        released = threading.Event()
        self.addCleanup(released.set)
        asked = len(self.odd.heard)

        def silent(_handler, _query, _body):
            released.wait()
            return True

        for die in (self.daemon.kill, self.daemon.kill_spawner):
            self.odd.odd = silent

            def create():
                try:
                    self.daemon.create(self.image, volumes=[self.volume(store=self.odd)])
                except (OSError, atoll.ApiError):
                    pass

            creating = threading.Thread(target=create, daemon=True)
            creating.start()
            until(lambda: len(self.odd.heard) > asked, PATIENCE, 'the store is asked')
            die()
            if self.daemon.process.poll() is not None:
                self.daemon.start()
            until(self.daemon.healthy, PATIENCE, 'the daemon has a spawner')
            creating.join(PATIENCE)
            self.nothing_left()
            asked = len(self.odd.heard)
        until(lambda: self.daemon.request('GET', '/v1/sandboxes')['items'] == [], PATIENCE,
              'no sandbox is left')

    def test_a_store_that_is_not_there(self):
        self.refused(500, 'VOLUME::OSSFS_MOUNT_FAILED', self.volume(endpoint='nobody'))
        self.nothing_left()
