"""Volumes that are buckets of a store of objects: what a sandbox sees of them, what it does not see,
and what becomes of them when s3fs, the daemon, the spawner or the store is gone."""
import os
import pathlib
import signal
import subprocess
import threading
import time

import atoll
import buckets
import s3_store
from atoll import SLOWNESS, until
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

    def test_a_bucket_in_the_name_of_the_host(self):
        self.odd.put('given', b'given\n')
        heard = len(self.odd.heard)
        box = self.create(self.volume(store=self.odd, endpoint='hosted'))
        self.assertEqual(self.out(box, 'cat /data/given; echo new > /data/new'), 'given')
        self.assertEqual(self.odd.content('new'), b'new\n')
        asked = self.odd.heard[heard:]
        self.assertEqual({headers['Host'] for _, _, headers in asked},
                         {'bucket.' + self.odd.endpoint.partition('//')[2]})
        self.assertEqual([path for _, path, _ in asked if path.startswith('/bucket')], [])

    def test_what_is_open_lies_with_the_sandboxes_files(self):
        box = self.create(self.volume())
        pid, = buckets.s3fs_of(self.daemon)
        there, = buckets.scratch(self.daemon)
        self.assertTrue(os.path.samefile(f'/proc/{pid}/root/tmp', there))
        self.assertEqual((there.stat().st_mode & 0o7777, there.stat().st_uid),
                         (0o700, pathlib.Path('/proc', str(pid)).stat().st_uid))
        # It is the only place where it can write more than a mebibyte.
        table = pathlib.Path(f'/proc/{pid}/mountinfo').read_text(encoding='utf-8').splitlines()
        written = [line.split()[4] for line in table if 'rw' in line.split()[5].split(',')]
        self.assertEqual(written, ['/tmp'])
        self.daemon.delete(box)
        self.nothing_left()

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


class Ends(buckets.Case):

    def test_s3fs_dies(self):
        box = self.create(self.volume())
        self.out(box, 'echo hello > /data/hello')
        until(lambda: len(buckets.s3fs_of(self.daemon)) == 1, PATIENCE, 'that of the case before has ended')
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

    def hold_open(self, box, name):
        """A program in there that has written its name, and has closed nothing, nor a copy of it."""
        self.daemon.run(box, f'(echo {name}; : 4> /ready; exec sleep 1000) > /data/{name}',
                        background=True)
        until(lambda: self.daemon.run(box, 'cat /ready').exit_code == 0, PATIENCE, 'it is open')
        self.assertEqual(self.odd.content(name), b'')

    def test_what_was_written_is_stored_at_the_end(self):
        """Of what the sandbox's processes had open when it was deleted, by a store that is slow."""
        box = self.create(self.volume(store=self.odd))
        self.hold_open(box, 'late')
        never = threading.Event()

        def slow(handler, _query, _body):
            if handler.command == 'PUT':
                never.wait(0.5)
            return False

        self.odd.odd = slow
        self.daemon.delete(box)
        self.nothing_left()
        self.assertEqual(self.odd.content('late'), b'late\n')

    def test_a_store_that_does_not_take_it_holds_nobody_up(self):
        box = self.create(self.volume(store=self.odd))
        self.hold_open(box, 'stuck')

        self.silence()
        before = time.monotonic()
        self.daemon.delete(box)
        self.nothing_left()
        # Two seconds are given, and s3fs would wait for eight.
        self.assertLess(time.monotonic() - before, 5 * SLOWNESS)
        self.assertGreater(time.monotonic() - before, 1.9)

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
        asked = len(self.odd.heard)
        for die in (self.daemon.kill, self.daemon.kill_spawner):
            self.silence()

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
