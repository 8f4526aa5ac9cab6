"""What is stored of images: archives of it that other tools read, and whether it is what was imported."""
import io
import json
import os
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import unittest

import atoll
from atoll import BUILD, SLOWNESS

# What of a tree must survive; md5sum of what is regular.
LOOK = r'''cd /t && find . -print0 | sort -z | xargs -0 stat -c '%n %F %a %u:%g %s %Y %h %N' | grep -v 'directory .* 4096 ' ;
find . -type d | sort | xargs stat -c '%n %a %u:%g %Y'; find . -type f -print0 | sort -z | xargs -0 md5sum;
find /low | sort'''
LONG = 'long' * 30
DEEP = '/'.join(['d'] * 255)  # with `t`, as deep as an image can be


def add(tar, name, data=b'', **fields):
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = len(data), 1600000000, 0o644
    for field, value in fields.items():
        setattr(info, field, value)
    if info.type == tarfile.DIRTYPE and 'mode' not in fields:
        info.mode = 0o755
    tar.addfile(info, io.BytesIO(data))


def tree():
    """A layer of all that a layer can have."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w', format=tarfile.PAX_FORMAT) as tar:
        add(tar, 't', type=tarfile.DIRTYPE)
        add(tar, 't/file', b'content\n', uid=1000, gid=29, mode=0o640)
        add(tar, 't/set-id', b'x', mode=0o6755)
        add(tar, 't/hard', type=tarfile.LNKTYPE, linkname='t/file')
        add(tar, 't/soft', type=tarfile.SYMTYPE, linkname='nowhere')
        add(tar, 't/fifo', type=tarfile.FIFOTYPE)
        add(tar, 't/sticky', type=tarfile.DIRTYPE, mode=0o1777)
        add(tar, f't/{LONG}/{LONG}', b'long')
        add(tar, 't/grüße', 'hé'.encode())
        add(tar, 't/attribute', b'a', pax_headers={'SCHILY.xattr.user.colour': 'blue'})
        add(tar, f't/{DEEP}/file', b'deep')
        add(tar, f't/{DEEP}/.wh..wh..opq')
        add(tar, f't/{DEEP}/.wh.{"w" * 255}')
        add(tar, 't/caf\udce9', b'not UTF-8')
        add(tar, 't/caf\udce9-hard', type=tarfile.LNKTYPE, linkname='t/caf\udce9')
        add(tar, 't/large', bytes(range(256)) * 8192)
        add(tar, 'low/.wh.gone')
        add(tar, 'low/new', type=tarfile.DIRTYPE)
        add(tar, 'low/new/.wh..wh..opq')
        add(tar, 'low/new/only')
    return out.getvalue()


class Export(unittest.TestCase):

    def setUp(self):
        self.daemon = atoll.Daemon().__enter__()
        self.addCleanup(self.daemon.__exit__)
        self.work = self.daemon.top / 'work'
        root = self.work / 'root'
        for name in ('low/gone', 'low/kept', 'low/new/hidden'):
            (root / name).mkdir(parents=True)
        busybox = self.work / 'busybox'
        busybox.mkdir()
        sys.path.append(str(atoll.TOP / 'images/recipes'))
        import busybox as recipe  # pylint: disable=import-outside-toplevel
        recipe.make_root(busybox)
        (self.work / 'tree.tar').write_bytes(tree())
        subprocess.run([sys.executable, '-B', atoll.TOP / 'images/recipes/oci_archive.py', '--output',
                        self.work / 'made.tar', '--name', 'made:1', '--cmd', '["/bin/sh"]', '--env',
                        'COLOUR=blue', '--workdir', '/t', '--user', '7:8', busybox, root,
                        self.work / 'tree.tar'], check=True, stderr=subprocess.DEVNULL)
        self.daemon.import_image(self.work / 'made.tar', 'made:1')

    def atoll(self, *words, expect=0):
        done = subprocess.run([BUILD / 'atoll', 'image', *words], capture_output=True, text=True,
                              env=self.daemon.client_env(), timeout=60 * SLOWNESS, check=False,
                              stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout if expect == 0 else done.stderr

    def seen(self, image):
        box = self.daemon.create(image)
        done = self.daemon.run(box, LOOK, uid=0)
        self.daemon.delete(box)
        self.assertIn('fifo', done.stdout, done.stderr)
        return done.stdout

    def layers(self):
        return sorted((self.daemon.data_dir / 'store/fs/layers').iterdir())

    def test_an_archive_of_each_form(self):
        wanted = self.seen('made:1')
        self.assertIn(LONG, wanted)
        self.assertNotIn('hidden', wanted)
        process = {name: self.daemon.request('GET', '/v1/images/made:1')[name]
                   for name in ('cmd', 'env', 'user', 'workingDir', 'architecture')}
        for form in ('oci', 'docker'):
            with self.subTest(form):
                out = self.work / f'{form}.tar'
                self.atoll('export', '--format', form, 'made:1', out)
                inspected = subprocess.run(
                    ['skopeo', '--insecure-policy', 'inspect', '--config', f'{form}-archive:{out}'],
                    check=True, capture_output=True, text=True).stdout
                self.assertEqual(json.loads(inspected)['config']['WorkingDir'], '/t')
                # skopeo compares every digest.
                subprocess.run(['skopeo', '--insecure-policy', 'copy', f'{form}-archive:{out}',
                                f'dir:{self.work}/{form}'], check=True, capture_output=True)
                self.daemon.import_image(out, f'again:{form}')
                self.assertEqual(self.seen(f'again:{form}'), wanted)
                again = self.daemon.request('GET', f'/v1/images/again:{form}')
                self.assertEqual({name: again[name] for name in process}, process)
                # What is packed again is the same again.
                self.atoll('export', '--format', form, 'made:1', self.work / 'second.tar')
                self.assertEqual(out.read_bytes(), (self.work / 'second.tar').read_bytes())
        # Both have the same layers, which are kept once; and it is the tree that decides.
        rootfs = [self.daemon.request('GET', f'/v1/images/again:{form}')['rootfs']
                  for form in ('oci', 'docker')]
        self.assertEqual(*rootfs)

    def test_podman_takes_it(self):
        out = self.work / 'docker.tar'
        self.atoll('export', '--format', 'docker', 'made:1', out)
        with tempfile.TemporaryDirectory(dir=self.work) as place:
            storage = ['--root', f'{place}/root', '--runroot', f'{place}/run', '--storage-driver',
                       'vfs']
            subprocess.run(['podman', *storage, 'load', '-i', out], check=True, capture_output=True,
                           timeout=120 * SLOWNESS)
            shown = subprocess.run(['podman', *storage, 'image', 'inspect', 'made:1'], check=True,
                                   capture_output=True, text=True).stdout
            self.assertEqual(json.loads(shown)[0]['Config']['User'], '7:8')

    def test_refusals(self):
        for path, status in (('/v1/images/absent?archive=oci', 404),
                             ('/v1/images/made:1?archive=zip', 400)):
            with self.assertRaises(atoll.ApiError) as refused:
                self.daemon.request('GET', path)
            self.assertEqual(refused.exception.status, status)
        with self.assertRaises(atoll.ApiError) as refused:
            self.daemon.request('POST', '/v1/images/verify?name=absent')
        self.assertEqual(refused.exception.status, 404)
        self.atoll('export', 'made:1', self.work / 'absent/out.tar', expect=1)

    def test_what_has_changed_on_disk(self):
        self.assertEqual(self.atoll('verify', '--all'), 'made:1: intact\n')
        top = self.layers()[-1]
        file, attribute = top / 't/large', top / 't/attribute'

        def flip():
            with open(file, 'r+b') as data:
                data.seek(70000)
                byte = data.read(1)
                data.seek(70000)
                data.write(bytes([byte[0] ^ 1]))

        def times(path):
            info = path.lstat()
            return lambda: os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))

        keep, keep_top = times(file), times(top / 't')
        for what, harm, mend in (
                ('a bit', lambda: (flip(), keep()), lambda: (flip(), keep())),
                ('a mode', lambda: file.chmod(0o600), lambda: file.chmod(0o644)),
                ('an attribute', lambda: os.setxattr(attribute, 'user.colour', b'red'),
                 lambda: os.setxattr(attribute, 'user.colour', b'blue')),
                ('a name', lambda: (file.rename(top / 't/other'), keep_top()),
                 lambda: ((top / 't/other').rename(file), keep_top())),
                ('a layer', lambda: top.rename(top.with_suffix('.x')),
                 lambda: top.with_suffix('.x').rename(top))):
            with self.subTest(what):
                harm()
                said = self.atoll('verify', 'made:1', expect=1)
                self.assertIn('made:1 is not what was imported', said)
                with self.assertRaises(atoll.ApiError) as refused:
                    self.daemon.request('GET', '/v1/images/made:1?archive=oci')
                self.assertIn(refused.exception.status, (404, 409))
                mend()
                self.assertEqual(self.atoll('verify', 'made:1'), 'made:1: intact\n')

    def test_images_of_an_earlier_version(self):
        """Those say that nothing is known to compare with, and can be exported."""
        self.daemon.stop()
        with sqlite3.connect(self.daemon.data_dir / 'state/images/images.db') as database:
            database.execute('ALTER TABLE layers DROP COLUMN content')
            database.execute('PRAGMA user_version = 1')
        database.close()
        self.daemon.start()
        self.assertIn('is not known', self.atoll('verify', 'made:1'))
        self.atoll('export', 'made:1', self.work / 'out.tar')
        # Of the same layers imported again nothing more is known: they are there.
        self.daemon.import_image(self.work / 'out.tar', 'again:1')
        self.assertEqual(self.atoll('verify', 'again:1'), 'again:1: intact\n')


if __name__ == '__main__':
    unittest.main()
