"""Snapshots on their way from one daemon to another: whole, readable by other tools, refused when they
are not what they say, and without effect when something dies on the way."""
import hashlib
import io
import json
import os
import socket
import subprocess
import tarfile
import tempfile
import unittest

import atoll
from atoll import BUILD, SLOWNESS, until
from snapshots import MAKE, TELL, UNTIL, Snapshots

# Of what MAKE made: all but how much of the disk a file with holes takes.
TELL_ELSEWHERE = TELL.rpartition(';')[0]


def members(archive):
    with tarfile.open(archive) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}


def with_members(blobs, out):
    with tarfile.open(out, 'w') as tar:
        for name, data in blobs.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def digest_of(data):
    return 'sha256:' + hashlib.sha256(data).hexdigest()


def relabelled(archive, out, change):
    """The archive with another label, and digests that fit: what a stranger can make."""
    blobs = members(archive)
    blob = lambda digest: 'blobs/sha256/' + digest.removeprefix('sha256:')
    index = json.loads(blobs['index.json'])
    manifest = json.loads(blobs.pop(blob(index['manifests'][0]['digest'])))
    config = json.loads(blobs.pop(blob(manifest['config']['digest'])))
    change(config['config'])
    for document, place in ((config, manifest['config']), (manifest, index['manifests'][0])):
        data = json.dumps(document).encode()
        place.update(digest=digest_of(data), size=len(data))
        blobs[blob(digest_of(data))] = data
    blobs['index.json'] = json.dumps(index).encode()
    with_members(blobs, out)


class Archives(Snapshots):
    """Two daemons; `other` has nothing."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.other = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.other.__exit__)
        cls.work = cls.daemon.top / 'work'
        cls.work.mkdir()

    def atoll(self, *words, daemon=None, expect=0, **environment):
        done = subprocess.run([BUILD / 'atoll', 'snapshot', *words], capture_output=True, text=True,
                              env={**(daemon or self.daemon).client_env(), 'TMPDIR': str(self.work),
                                   **environment},
                              timeout=60 * SLOWNESS, check=False, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout.strip() if expect == 0 else done.stderr

    def upper(self, box, name):
        """Where a sandbox that has `name` in it writes to."""
        self.out(box, f'touch /{name}')
        return next(path for path in (self.daemon.data_dir / 'store/fs/uppers').iterdir()
                    if (path / 'upper' / name).exists()) / 'upper'

    def elsewhere(self, snapshot, **fields):
        """A sandbox of it on the other daemon."""
        body = {'snapshotId': snapshot, 'entrypoint': ['sleep', '100000'], 'resourceLimits': {},
                **fields}
        box = self.other.request('POST', '/v1/sandboxes', body)['id']
        self.addCleanup(self.other.delete, box)
        return box

    def out_elsewhere(self, box, command):
        done = self.other.run(box, command)
        self.assertEqual(done.exit_code, 0, done.stderr)
        return done.stdout

    def store_of(self, daemon):
        """All that an import could have changed."""
        return (sorted(os.listdir(daemon.data_dir / 'store/fs/layers')),
                sorted(os.listdir(daemon.data_dir / 'state/images/tmp')),
                sorted(one['id'] for one in daemon.request('GET', '/v1/snapshots')['items']),
                daemon.request('GET', '/v1/images')['items'])


class RoundTripTest(Archives):

    def test_everything_comes_elsewhere(self):
        box = self.box(env={'MINE': 'kept'}, metadata={'team': 'ml'})
        self.out(box, MAKE)
        # As deep and as long as a name may be: in an archive, what takes it away is longer.
        deep, long = 't' + '/d' * 255, 'w' * 255
        self.out(box, f'mkdir -p /{deep} && touch /{deep}/{long}')
        upper = self.upper(box, 'mark')
        os.setxattr(upper / 't/plain', 'user.colour', b'blue')
        told = self.out(box, TELL_ELSEWHERE)
        # What no archive has a word for.
        made = (upper / 't').stat()
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(upper / 't/socket'))
        os.utime(upper / 't', ns=(made.st_atime_ns, made.st_mtime_ns))
        first = self.take(box, name='first')
        # And another one, of a restore that has changed and taken away something again.
        copy = self.restore(first)
        self.out(copy, 'echo more >> /t/one; rm /t/fifo; mkdir /t/new; touch -d @1000000000 /t/new /t /; '
                       f'rm /{deep}/{long}')
        second = self.take(copy)
        archives = {}
        for snapshot in (first, second):
            archives[snapshot] = self.work / f'{snapshot}.tar'
            self.atoll('export', snapshot, archives[snapshot])
        imported = self.atoll('import', archives[first], daemon=self.other)
        shown = self.other.request('GET', f'/v1/snapshots/{imported}')
        self.assertEqual((shown['name'], shown['sandboxId'], shown['status']['state']),
                         ('first', box, 'Ready'))
        self.assertNotEqual(imported, first)
        there = self.elsewhere(imported)
        self.assertEqual(self.out_elsewhere(there, TELL_ELSEWHERE), told)
        self.assertEqual(self.out_elsewhere(there, 'ls -A /srv; echo $MINE; ls /t/socket 2>&1; '
                                                   'ls /bin/attack /home/dev /etc/group 2>&1 | grep -c No'),
                         'only\nkept\nls: /t/socket: No such file or directory\n3')
        self.assertEqual(self.other.request('GET', f'/v1/sandboxes/{there}')['metadata'],
                         {'team': 'ml'})
        self.assertLess(int(self.out_elsewhere(there, 'du -k /t/sparse | cut -f 1')), 2000)
        layers = self.other.data_dir / 'store/fs/layers'
        files = [layers / name / 't/plain' for name in os.listdir(layers)]
        self.assertEqual([os.getxattr(file, 'user.colour') for file in files if file.exists()],
                         [b'blue'])
        # Of the second, what the two share is there already.
        before = len(os.listdir(layers))
        again = self.atoll('import', '--name', 'mine', archives[second], daemon=self.other)
        self.assertEqual(len(os.listdir(layers)), before + 1)
        self.assertEqual(self.atoll('ls', '-q', '--name', 'mine', daemon=self.other), again)
        tell = 'cat /t/one /t/two; ls -A /t; stat -c %Y /t/new'
        self.assertEqual(self.out_elsewhere(self.elsewhere(again), tell),
                         self.out(copy, tell).replace('socket\n', ''))

    def test_the_same_change_twice(self):
        """An archive has it once, and what comes back stands on it."""
        box = self.box()
        self.out(box, 'echo x > /x; touch -d @1000000000 /x /')
        first = self.take(box)
        copy = self.restore(first)
        self.out(copy, 'rm /x; echo x > /x; touch -d @1000000000 /x /')
        second = self.take(copy)
        for form in ('oci', 'docker'):
            with self.subTest(form):
                out = self.work / f'twice.{form}'
                self.atoll('export', '--format', form, second, out)
                with tarfile.open(out) as tar:
                    names = tar.getnames()
                self.assertEqual(len(names), len(set(names)))
                imported = self.atoll('import', out, daemon=self.other)
                self.assertEqual(self.out_elsewhere(self.elsewhere(imported), 'cat /x'), 'x')

    def test_other_tools_read_it(self):
        box = self.box(env={'MINE': 'kept'})
        self.out(box, 'mkdir /t; echo text > /t/file; chmod 640 /t/file; ln /t/file /t/hard; '
                      'rm /bin/attack; rm -r /srv; mkdir /srv; echo new > /srv/only')
        snapshot = self.take(box)
        oci, docker = self.work / 'tools.oci', self.work / 'tools.docker'
        self.atoll('export', snapshot, oci)
        self.atoll('export', '--format', 'docker', snapshot, docker)
        config = json.loads(subprocess.run(
            ['skopeo', '--insecure-policy', 'inspect', '--config', f'oci-archive:{oci}'],
            check=True, capture_output=True, text=True).stdout)['config']
        self.assertIn('MINE=kept', config['Env'])
        self.assertEqual(json.loads(config['Labels']['atoll.snapshot'])['sandbox'], box)
        with tempfile.TemporaryDirectory(dir=self.work) as place:
            # skopeo compares every digest; umoci unpacks what it has made of it.
            subprocess.run(['skopeo', '--insecure-policy', 'copy', f'oci-archive:{oci}',
                            f'oci:{place}/layout:it'], check=True, capture_output=True)
            subprocess.run(['umoci', 'unpack', '--image', f'{place}/layout:it', f'{place}/bundle'],
                           check=True, capture_output=True)
            root = atoll.pathlib.Path(place, 'bundle/rootfs')
            self.assertEqual((root / 't/file').read_text(), 'text\n')
            self.assertEqual((root / 't/file').stat().st_ino, (root / 't/hard').stat().st_ino)
            self.assertEqual((root / 't/file').stat().st_mode & 0o777, 0o640)
            self.assertEqual(os.listdir(root / 'srv'), ['only'])
            self.assertFalse((root / 'bin/attack').exists())
            storage = ['--root', f'{place}/root', '--runroot', f'{place}/run', '--storage-driver',
                       'vfs']
            subprocess.run(['podman', *storage, 'load', '-i', docker], check=True,
                           capture_output=True, timeout=120 * SLOWNESS)
            shown = subprocess.run(['podman', *storage, 'image', 'inspect', f'snapshot:{snapshot}'],
                                   check=True, capture_output=True, text=True).stdout
            self.assertIn('MINE=kept', json.loads(shown)[0]['Config']['Env'])
        # And here, as the image that it is, too.
        self.other.import_image(oci, 'plain:1')
        self.other.request('DELETE', '/v1/images/plain:1')


class RefusalTest(Archives):

    def test_what_is_not_whole_or_no_snapshot(self):
        box = self.box(metadata={'team': 'ml'})
        self.out(box, 'echo mine > /file')
        archive, bad = self.work / 'good.tar', self.work / 'bad.tar'
        self.atoll('export', self.take(box), archive)
        data = archive.read_bytes()
        before = self.store_of(self.other)
        label = lambda **facts: lambda config: config['Labels'].update({'atoll.snapshot': json.dumps(
            {'image': 'a:1', 'name': '', 'sandbox': box, 'metadata': {}, **facts})})
        for what, why, make in (
                ('cut off', 'Truncated tar', lambda: bad.write_bytes(data[:len(data) // 2])),
                ('changed', 'digest mismatch',
                 lambda: bad.write_bytes(data.replace(b'mine\n', b'your\n'))),
                ('an image', 'atoll image import',
                 lambda: relabelled(archive, bad, lambda config: config.pop('Labels'))),
                ('another name', "'image'", lambda: relabelled(archive, bad, label(image='Not One'))),
                ('labels', 'reserved', lambda: relabelled(archive, bad, label(
                    metadata={'opensandbox.io/x': 'y'}))),
                ('values', 'a value', lambda: relabelled(archive, bad, label(
                    metadata={'x': 'y' * 64}))),
                ('an id', "'sandbox'", lambda: relabelled(archive, bad, label(sandbox='../x')))):
            with self.subTest(what):
                make()
                said = self.atoll('import', bad, daemon=self.other, expect=1)
                self.assertIn(why, said)
                self.assertEqual(self.store_of(self.other), before)
        self.assertIn('253', self.atoll('import', '--name', 'x' * 254, archive, daemon=self.other,
                                        expect=1))
        # A label of a stranger is as good as one of ours, but for the digest that others may pin.
        relabelled(archive, bad, label(image='python:3.11'))
        imported = self.atoll('import', bad, daemon=self.other)
        self.assertEqual(self.out_elsewhere(self.elsewhere(imported), 'cat /file'), 'mine')

    def test_what_cannot_be_exported(self):
        self.assertIn('does not exist', self.atoll('export', 'absent', self.work / 'x', expect=2))
        box = self.box()
        self.out(box, 'echo x > /.wh.passwd')
        hiding = self.take(box)
        self.out(box, 'rm /.wh.passwd; truncate -s 1099511627776 /large')
        large = self.take(box)
        for snapshot, why in ((hiding, '.wh.passwd'), (large, 'large has 1099511627776 bytes')):
            self.assertIn(why, self.atoll('export', snapshot, self.work / 'x', expect=1))
            self.assertEqual(list(self.work.glob('x*')), [])
        self.refused(400, 'SNAPSHOT::NOT_EXPORTABLE', 'GET', f'/v1/snapshots/{hiding}?archive=zip')
        self.refused(404, 'SNAPSHOT::NOT_FOUND', 'GET', '/v1/snapshots/absent?archive=oci')


class DeathTest(Archives):

    def test_the_daemon_dies_within_an_import(self):
        """All of it is there afterwards, or nothing."""
        box = self.box()
        self.out(box, 'dd if=/dev/urandom of=/random bs=1M count=60 2>/dev/null')
        archive = self.work / 'dies.tar'
        self.atoll('export', self.take(box), archive)
        layers = self.other.data_dir / 'store/fs/layers'
        before = self.store_of(self.other)
        tmp = self.other.data_dir / 'state/images/tmp'
        for what, moment in (('split', lambda: os.listdir(tmp)),
                             ('layers', lambda: len(os.listdir(layers)) > len(before[0]))):
            with self.subTest(what):
                client = subprocess.Popen([BUILD / 'atoll', 'snapshot', 'import', archive],
                                          env=self.other.client_env(), stdout=subprocess.DEVNULL,
                                          stderr=subprocess.DEVNULL)
                until(moment, UNTIL, 'the import is so far')
                self.other.kill()
                self.assertNotEqual(client.wait(UNTIL), 0)
                self.other.start()
                until(lambda: self.store_of(self.other) == before, UNTIL, 'nothing is left')
        imported = self.atoll('import', archive, daemon=self.other)
        self.other.kill()
        self.other.start()
        self.assertEqual(self.out_elsewhere(self.elsewhere(imported), 'wc -c < /random'), '62914560')


if __name__ == '__main__':
    unittest.main()
