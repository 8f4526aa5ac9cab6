"""Volumes as a client sees them: shared, kept, read-only, removed in time."""
import os
import pathlib
import subprocess
import time
import unittest

import atoll

UNTIL = 20 * atoll.SLOWNESS


def named(claim, path='/data', **fields):
    claim_fields = {key: fields.pop(key) for key in ('createIfNotExists',
                                                     'deleteOnSandboxTermination') if key in fields}
    return {'name': 'v' + path.replace('/', '-').replace('.', '-').rstrip('-'), 'mountPath': path,
            'pvc': {'claimName': claim, **claim_fields}, **fields}


def host(path, mount='/data', **fields):
    return {'name': 'h' + mount.replace('/', '-').replace('.', '-').rstrip('-'), 'mountPath': mount,
            'host': {'path': str(path)}, **fields}


class VolumeTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon()
        # Owned by a user of the host who is not root.
        cls.allowed = cls.daemon.top / 'allowed'
        cls.allowed.mkdir()
        os.chown(cls.allowed, 4321, 4321)
        text = cls.daemon.config.read_text(encoding='utf-8')
        cls.daemon.config.write_text(
            text.replace('[storage]\n', f'[storage]\nallowed_host_paths = ["{cls.allowed}"]\n'),
            encoding='utf-8')
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.daemon.start()
        cls.image = cls.daemon.import_busybox()

    def refused(self, status, code, *volumes):
        with self.assertRaises(atoll.ApiError) as caught:
            self.daemon.create(self.image, volumes=list(volumes))
        self.assertEqual((caught.exception.status, caught.exception.code), (status, code))
        self.assertTrue(caught.exception.message)
        return caught.exception.message

    def names(self):
        return [item['name'] for item in self.daemon.request('GET', '/v1/volumes')['items']]

    def directory(self, name):
        return self.daemon.data_dir / 'store/volumes' / name

    def gone(self, name):
        """Neither listed, nor on disk."""
        atoll.until(lambda: name not in self.names() and not self.directory(name).exists(), UNTIL,
                    f'volume {name} is gone')

    def out(self, box, command):
        done = self.daemon.run(box, command)
        self.assertEqual(done.exit_code, 0, done.stderr)
        return done.stdout

    def test_two_sandboxes_share_one(self):
        first = self.daemon.create(self.image, volumes=[named('shared')])
        second = self.daemon.create(self.image, volumes=[named('shared', '/else/where')])
        self.out(first, 'echo hello > /data/f')
        self.assertEqual(self.out(second, 'cat /else/where/f; echo more >> /else/where/f'), 'hello')
        self.assertEqual(self.out(first, 'cat /data/f'), 'hello\nmore')
        shown = self.daemon.request('GET', '/v1/volumes/shared')
        self.assertEqual(sorted(shown['usedBy']), sorted([first, second]))
        self.assertFalse(shown['deleteOnSandboxTermination'])
        self.assertTrue(shown['size']['complete'])
        self.assertGreater(shown['size']['bytes'], 0)
        with self.assertRaises(atoll.ApiError) as caught:
            self.daemon.request('DELETE', '/v1/volumes/shared')
        self.assertEqual((caught.exception.status, caught.exception.code), (409, 'VOLUME::IN_USE'))
        self.daemon.delete(first)
        self.daemon.delete(second)
        # What it holds outlives them.
        third = self.daemon.create(self.image, volumes=[named('shared')])
        self.assertEqual(self.out(third, 'cat /data/f'), 'hello\nmore')
        # Who has deleted the last of them may delete the volume at once.
        self.daemon.delete(third)
        self.daemon.request('DELETE', '/v1/volumes/shared')
        self.assertNotIn('shared', self.names())
        self.gone('shared')

    def test_a_fresh_one_has_what_the_image_has(self):
        maker = self.daemon.create(self.image)
        self.out(maker, 'mkdir -p -m 2750 /seed/sub && echo kept >/seed/sub/f && ln -s /etc/shadow /seed/link && '
                        'mkfifo -m 604 /seed/fifo && touch -d @1000000000 /seed/sub/f && chown -R 1000:29 /seed && '
                        'chmod 750 /seed && mkdir /big /one && truncate -s 1100M /big/hole && touch /big/a /one/file && '
                        'mkdir -p /deep/$(seq -s / 70)')
        snapshot = subprocess.run([atoll.BUILD / 'atoll', 'snapshot', 'create', maker], check=True, text=True,
                                  stdout=subprocess.PIPE, env=self.daemon.client_env(),
                                  timeout=60 * atoll.SLOWNESS).stdout.strip()
        self.daemon.request('POST', f'/v1/images/commit?name=seeded:1&snapshot={snapshot}', b'{}')
        look = 'cd /seed && find . | sort | xargs stat -c "%n %F %a %u:%g" && cat sub/f && stat -c %Y sub/f && readlink link'
        first = self.daemon.create('seeded:1', volumes=[named('fresh', '/seed'), named('large', '/big')])
        self.assertEqual(self.out(first, look), self.out(maker, look))
        # What is too much for a create is left out, all of it.
        self.assertEqual(self.out(first, 'stat -c "%a %u" /big; ls -A /big'), '777 0')
        deep = self.daemon.create('seeded:1', volumes=[named('deep', '/deep')])
        self.assertEqual(self.out(deep, 'ls -A /deep'), '')
        # It is fresh once.
        self.out(first, 'rm -r /seed/*; chmod 700 /seed; touch /big/mine')
        second = self.daemon.create('seeded:1', volumes=[named('fresh', '/seed'), named('large', '/one')])
        self.assertEqual(self.out(second, 'stat -c "%a %u" /seed; ls -A /seed; ls -A /one'), '700 1000\nmine')
        # Nor does a part of one, what is read only, or what lies where the image has nothing.
        third = self.daemon.create('seeded:1', volumes=[
            named('part', '/seed', subPath='a'), named('fixed', '/one', readOnly=True), named('else', '/not/there'),
            named('inner', '/not/there/deep')])
        self.assertEqual(self.out(third, 'ls -A /seed /one /not/there/deep; stat -c "%a %u" /not/there'),
                         '/not/there/deep:\n\n/one:\n\n/seed:\n777 0')
        for box in (maker, first, deep, second, third):
            self.daemon.delete(box)

    def test_routes(self):
        made = self.daemon.request('POST', '/v1/volumes', {'name': 'by-hand'})
        self.assertEqual((made['name'], made['usedBy']), ('by-hand', []))
        self.assertIn('by-hand', self.names())
        for body, status in (({'name': 'by-hand'}, 409), ({'name': 'Bad'}, 422), ({}, 422),
                             ({'name': '../x'}, 422)):
            with self.assertRaises(atoll.ApiError) as caught:
                self.daemon.request('POST', '/v1/volumes', body)
            self.assertEqual(caught.exception.status, status)
        self.daemon.request('DELETE', '/v1/volumes/by-hand')
        for method in ('GET', 'DELETE'):
            with self.assertRaises(atoll.ApiError) as caught:
                self.daemon.request(method, '/v1/volumes/by-hand')
            self.assertEqual((caught.exception.status, caught.exception.code),
                             (404, 'VOLUME::NOT_FOUND'))
        # The name is free again at once, and nothing of the old one is in it.
        self.daemon.request('POST', '/v1/volumes', {'name': 'by-hand'})
        self.daemon.request('DELETE', '/v1/volumes/by-hand')

    def test_sub_path_and_read_only(self):
        box = self.daemon.create(self.image, volumes=[
            named('parts', '/all'), named('parts', '/part', subPath='a/b'),
            named('parts', '/fixed', readOnly=True, subPath='a')])
        self.out(box, 'echo x > /part/f')
        self.assertEqual(self.out(box, 'cat /all/a/b/f /fixed/b/f'), 'x\nx')
        for command in ('echo y > /fixed/new', 'rm /fixed/b/f', 'mount -o remount,rw /fixed',
                        'mount -o remount,bind,rw /fixed', 'umount /fixed'):
            self.assertNotEqual(self.daemon.run(box, command).exit_code, 0, command)
        self.daemon.delete(box)
        self.refused(400, 'VOLUME::INVALID_SUB_PATH', named('parts', subPath='../x'))
        (self.directory('parts') / 'link').symlink_to('/etc')
        self.refused(400, 'VOLUME::INVALID_SUB_PATH', named('parts', subPath='link'))

    def test_host_paths(self):
        file = self.allowed / 'given'
        file.write_text('given\n', encoding='utf-8')
        os.chown(file, 4321, 4321)
        box = self.daemon.create(self.image, volumes=[
            host(self.allowed), host(self.allowed / 'made/here', '/made'),
            host(file, '/etc/given', readOnly=True)])
        self.out(box, 'echo x > /data/new; echo y > /made/f')
        self.assertEqual(self.out(box, 'cat /etc/given; stat -c %u /data /data/given'),
                         'given\n0\n0')
        self.assertEqual((self.allowed / 'new').stat().st_uid, 4321)
        made = (self.allowed / 'made/here/f').stat()
        self.assertEqual((made.st_uid, made.st_gid), (0x70000000, 0x70000000))
        self.daemon.delete(box)

        for path in ('/etc', self.daemon.top, self.daemon.data_dir, f'{self.allowed}-more'):
            self.refused(400, 'VOLUME::HOST_PATH_NOT_ALLOWED', host(path))
        (self.allowed / 'link').symlink_to('/etc')
        self.refused(400, 'VOLUME::HOST_PATH_NOT_ALLOWED', host(self.allowed / 'link'))
        (self.allowed / 'roots').mkdir()
        message = self.refused(400, 'VOLUME::HOST_PATH_NOT_ALLOWED', host(self.allowed / 'roots'))
        self.assertIn('chown', message)
        self.refused(400, 'VOLUME::INVALID_HOST_PATH', host(f'{self.allowed}/../x'))
        self.refused(400, 'VOLUME::INVALID_OSSFS_ENDPOINT',
                     {'name': 'o', 'mountPath': '/o',
                      'ossfs': {'bucket': 'bucket', 'endpoint': 'e', 'accessKeyId': 'i',
                                'accessKeySecret': 's'}})
        self.refused(400, 'VOLUME::INVALID_MOUNT_PATH', named('x', '/proc/sys'))
        self.assertNotIn('x', self.names())

    def test_not_to_be_created(self):
        self.refused(400, 'VOLUME::PVC_NOT_FOUND', named('absent', createIfNotExists=False))
        self.assertNotIn('absent', self.names())

    def test_goes_with_its_sandbox(self):
        box = self.daemon.create(self.image,
                                 volumes=[named('mine', deleteOnSandboxTermination=True)])
        self.out(box, 'echo x > /data/f')
        self.assertTrue(self.daemon.request('GET', '/v1/volumes/mine')['deleteOnSandboxTermination'])
        self.daemon.delete(box)
        self.gone('mine')

    def test_goes_with_a_sandbox_that_ended_by_itself(self):
        box = self.daemon.create(self.image, entrypoint=['true'],
                                 volumes=[named('brief', deleteOnSandboxTermination=True)])
        ended = lambda: self.daemon.request('GET', f'/v1/sandboxes/{box}')['status'][
            'state'] == 'Terminated'
        atoll.until(ended, UNTIL, 'the sandbox has ended')
        self.assertIn('brief', self.names())
        self.daemon.delete(box)
        self.gone('brief')

    def test_goes_with_expiry(self):
        box = self.daemon.create(self.image, timeout=60,
                                 volumes=[named('timed', deleteOnSandboxTermination=True)])
        soon = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + 2))
        self.daemon.request('POST', f'/v1/sandboxes/{box}/renew-expiration', {'expiresAt': soon})
        self.gone('timed')

    def test_goes_with_a_create_that_failed(self):
        for image, volumes in (('no-such-image', [named('lost', deleteOnSandboxTermination=True)]),
                               (self.image, [named('lost', '/bin/busybox',
                                                   deleteOnSandboxTermination=True)])):
            with self.assertRaises(atoll.ApiError):
                self.daemon.create(image, volumes=volumes)
            self.gone('lost')
        # One that is refused takes along what was made for the others.
        self.refused(400, 'VOLUME::HOST_PATH_NOT_ALLOWED',
                     named('lost', deleteOnSandboxTermination=True), host('/etc', '/e'))
        self.gone('lost')

    def test_a_create_that_is_refused_leaves_none(self):
        """Whatever it is refused for, and whenever that is found out."""
        key = {'Idempotency-Key': 'first'}
        body = {'image': {'uri': self.image}, 'entrypoint': ['sleep', '1000'], 'timeout': 600,
                'resourceLimits': {'memory': '64Mi'}}
        box = self.daemon.request('POST', '/v1/sandboxes', body, key)['id']
        self.addCleanup(self.daemon.delete, box)
        made = self.allowed / 'made-for-nothing'
        lost = [named('lost'), host(made, '/h')]
        for status, change, headers in (
                (409, {}, key),
                (400, {'resourceLimits': {'memory': '1'}}, {}),
                (400, {'resourceLimits': {'cpu': 'many'}}, {}),
                (400, {'image': {'uri': 'no-such-image'}}, {}),
                (400, {'entrypoint': ['a\0b']}, {}),
                (400, {'volumes': [*lost, host('/etc', '/e')]}, {}),
                (400, {'volumes': [*lost, named('absent', '/a', createIfNotExists=False)]}, {}),
                # Only the build finds out what the image has there.
                (400, {'volumes': [*lost, named('lost-too', '/bin/busybox')]}, {})):
            with self.assertRaises(atoll.ApiError) as refused:
                self.daemon.request('POST', '/v1/sandboxes',
                                    {**body, 'volumes': lost, **change}, headers)
            self.assertEqual(refused.exception.status, status, (change, refused.exception.message))
            self.gone('lost')
            self.gone('lost-too')
            if 'lost-too' not in str(change):
                self.assertFalse(made.exists(), change)

    def test_where_it_cannot_stand(self):
        """Our own files and mounts, under their names and behind the image's: said, not failed."""
        for path in ('/etc/resolv.conf', '/etc/hosts', '/etc/hostname', '/etc/passwd',
                     '/etc/resolv.conf/x', '/bin/busybox', '/bin/sh/x', '/proc/self', '/sys',
                     '/sys/fs/cgroup', '/dev', '/dev/shm', '/dev/null', '/'):
            with self.assertRaises(atoll.ApiError, msg=path) as refused:
                self.daemon.create(self.image, volumes=[named('nowhere', path)])
            self.assertEqual(refused.exception.status, 400, (path, refused.exception.message))
            self.gone('nowhere')
        # A file over a file is another matter.
        file = self.allowed / 'hosts'
        file.write_text('own\n', encoding='utf-8')
        for path in ('/etc/hosts', '/etc/resolv.conf', '/etc/hostname'):
            box = self.daemon.create(self.image, volumes=[host(file, path, readOnly=True)])
            self.assertEqual(self.out(box, f'cat {path}'), 'own')
            self.daemon.delete(box)

    def test_a_size_that_cannot_be_kept_is_refused(self):
        """As a sandbox's disk is. Where it can be kept: disk_test."""
        volume = named('sized')
        volume['pvc']['storage'] = '20Mi'
        self.refused(400, 'SANDBOX::API_NOT_SUPPORTED', volume)
        with self.assertRaises(atoll.ApiError) as refused:
            self.daemon.request('POST', '/v1/volumes', {'name': 'sized', 'storage': '20Mi'})
        self.assertEqual(refused.exception.status, 501)
        self.assertNotIn('sized', self.names())
        # Of one that is there it asks for nothing.
        self.daemon.request('POST', '/v1/volumes', {'name': 'sized'})
        self.daemon.delete(self.daemon.create(self.image, volumes=[volume]))

    def test_stays_if_it_was_there_before_or_another_uses_it(self):
        self.daemon.request('POST', '/v1/volumes', {'name': 'before'})
        box = self.daemon.create(self.image, volumes=[
            named('before', deleteOnSandboxTermination=True),
            named('common', '/common', deleteOnSandboxTermination=True)])
        other = self.daemon.create(self.image, volumes=[named('common')])
        self.out(other, 'echo kept > /data/f')
        self.daemon.delete(box)
        used = lambda name: self.daemon.request('GET', f'/v1/volumes/{name}')['usedBy']
        atoll.until(lambda: used('before') == [] and used('common') == [other], UNTIL,
                    'the first has let go')
        self.assertEqual(self.out(other, 'cat /data/f'), 'kept')
        self.daemon.delete(other)
        atoll.until(lambda: used('common') == [], UNTIL, 'the second has let go')
        self.assertTrue((self.directory('common') / 'f').exists())

    def test_the_host_sees_no_mount(self):
        mounts = lambda: pathlib.Path('/proc/self/mountinfo').read_text(encoding='utf-8')
        before = mounts()
        box = self.daemon.create(self.image, volumes=[named('quiet'), host(self.allowed, '/h')])
        self.assertEqual(mounts(), before)
        self.daemon.delete(box)


class CrashTest(unittest.TestCase):
    """The daemon dies at once; what it had told is true afterwards, and nothing else is there."""

    def test_kill(self):
        with atoll.Daemon() as daemon:
            image = daemon.import_busybox()
            names = lambda: [item['name'] for item in daemon.request('GET', '/v1/volumes')['items']]
            daemon.request('POST', '/v1/volumes', {'name': 'kept'})
            mine = named('mine', '/mine', deleteOnSandboxTermination=True)
            box = daemon.create(image, volumes=[named('kept'), mine])
            daemon.run(box, 'echo x > /data/f; echo y > /mine/f')
            daemon.kill()
            daemon.start()
            self.assertEqual(names(), ['kept', 'mine'])
            self.assertEqual(daemon.request('GET', '/v1/volumes/mine')['usedBy'], [box])
            self.assertEqual(daemon.run(box, 'cat /data/f /mine/f').stdout, 'x\ny')
            # Killed between the answer and the work behind it, or anywhere in it.
            for _ in range(3):
                daemon.delete(box)
                daemon.kill()
                daemon.start()
                atoll.until(lambda: names() == ['kept'], UNTIL, 'only what is to be kept is listed')
                atoll.until(lambda: os.listdir(daemon.data_dir / 'store/volumes') == ['kept'],
                            UNTIL, 'and is on disk')
                box = daemon.create(image, volumes=[named('kept'), mine])
                self.assertEqual(daemon.run(box, 'cat /data/f; ls /mine').stdout, 'x')
            daemon.delete(box)
            atoll.until(lambda: names() == ['kept'], UNTIL, 'it has gone with its sandbox')
            daemon.request('DELETE', '/v1/volumes/kept')
            daemon.kill()
            daemon.start()
            self.assertEqual(names(), [])
            atoll.until(lambda: not os.listdir(daemon.data_dir / 'store/volumes'), UNTIL,
                        'nothing is left on disk')


if __name__ == '__main__':
    unittest.main()
