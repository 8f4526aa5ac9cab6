"""The image store through the API: names, what uses an image, what is freed, and imports that the
daemon does not live to see the end of."""
import hashlib
import http.client
import io
import json
import os
import subprocess
import tarfile
import threading
import time
import tomllib
import unittest

import atoll
from atoll import SLOWNESS, until

UNTIL = 20 * SLOWNESS
MACHINES = {'x86_64': 'amd64', 'aarch64': 'arm64'}


def docker_archive(layer, tag):
    """What docker saved before it wrote index.json, of one uncompressed layer."""
    return saved([([layer], [tag])])


def saved(images):
    """Likewise, of several images: of each its layers and its tags."""
    files, manifest = {}, []
    for number, (layers, tags) in enumerate(images):
        files[f'{number}.json'] = json.dumps({
            'os': 'linux', 'architecture': MACHINES[os.uname().machine],
            'config': {'Labels': {'number': str(number)}},
            'rootfs': {'diff_ids': ['sha256:' + hashlib.sha256(layer).hexdigest()
                                    for layer in layers]}}).encode()
        paths = [f'{hashlib.sha256(layer).hexdigest()}/layer.tar' for layer in layers]
        files.update(zip(paths, layers))
        manifest.append({'Config': f'{number}.json', 'RepoTags': tags, 'Layers': paths})
    return tar_of({**files, 'manifest.json': json.dumps(manifest).encode()})


def tar_of(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w') as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


class Images(unittest.TestCase):

    def setUp(self):
        self.daemon = atoll.Daemon().__enter__()
        self.addCleanup(self.daemon.__exit__)

    def layers(self):
        """What is in the store, finished or not."""
        return sorted(os.listdir(self.daemon.data_dir / 'store/fs/layers'))

    def get(self, name):
        return self.daemon.request('GET', f'/v1/images/{name}')

    def names(self):
        return [image['name'] for image in self.daemon.request('GET', '/v1/images')['items']]

    def prune(self, query=''):
        return self.daemon.request('POST', f'/v1/images/prune{query}')

    def test_names_users_and_what_is_freed(self):
        daemon, image = self.daemon, self.daemon.import_busybox()
        tagged = daemon.request('POST', f'/v1/images?from={image}&name=mine:2')
        self.assertEqual((tagged['name'], tagged['digest']), ('mine:2', self.get(image)['digest']))
        box = daemon.create('mine:2')
        for name in (image, 'mine:2'):
            known = self.get(name)
            self.assertEqual(known['sandboxes'], [box])
            self.assertEqual(sum(layer['sizeBytes'] for layer in known['rootfs']),
                             known['sizeBytes'])
        nothing = {'images': [], 'layers': 0, 'freedBytes': 0}
        self.assertEqual(self.prune(), nothing)
        self.assertEqual(self.prune('?all=true'), nothing)
        # Of a name that has moved on, nothing is left.
        old, new = (tar_of({'file': bytes(size)}) for size in (5000, 7000))
        daemon.request('POST', '/v1/images?name=moved', docker_archive(old, 'x:1'))
        daemon.request('POST', '/v1/images?name=moved', docker_archive(new, 'x:1'))
        self.assertEqual(len(self.layers()), 3)
        self.assertEqual(self.prune(), {'images': [], 'layers': 1, 'freedBytes': 5000})
        self.assertEqual(len(self.layers()), 2)
        self.assertEqual(self.prune('?all=true'),
                         {'images': ['moved:latest'], 'layers': 1, 'freedBytes': 7000})
        self.assertEqual(daemon.run(box, 'echo here').stdout, 'here')
        # Without a name, what a sandbox needs stays as long as it does.
        for name in (image, 'mine:2'):
            daemon.request('DELETE', f'/v1/images/{name}')
        self.assertEqual(self.prune('?all=true'), nothing)
        self.assertEqual(daemon.run(box, 'echo here').stdout, 'here')
        daemon.delete(box)
        until(lambda: not self.layers(), UNTIL, 'the last layer is gone')

    def test_every_image_and_name_of_an_archive(self):
        base, top = tar_of({'base': b'b' * 3000}), tar_of({'top': b't' * 500})
        archive = saved([([base], ['a:1', 'also/a:2']), ([base, top], ['b:1']), ([], ['nothing:1'])])
        answer = self.daemon.request('POST', '/v1/images', archive)
        self.assertEqual(answer['names'], ['a:1', 'also/a:2', 'b:1', 'nothing:1'])
        self.assertEqual(self.names(), ['a:1', 'also/a:2', 'b:1', 'nothing:1'])
        seen = {name: (self.get(name)['sizeBytes'], self.get(name)['labels']['number'])
                for name in self.names()}
        self.assertEqual(seen, {'a:1': (3000, '0'), 'also/a:2': (3000, '0'), 'b:1': (3500, '1'),
                                'nothing:1': (0, '2')})
        self.assertEqual(len(self.layers()), 3)
        self.daemon.stop()
        self.daemon.start()
        self.assertEqual(self.names(), ['a:1', 'also/a:2', 'b:1', 'nothing:1'])
        # One of them, under its name; what is meant must be clear.
        self.prune('?all=true')
        self.assertNotIn('names', self.daemon.request('POST', '/v1/images?name=b:1', archive))
        self.assertEqual(self.names(), ['b:1'])
        for query, images, why in (
                ('?name=c', [([base], ['a:1']), ([top], ['b:1'])], 'holds 2 images'),
                ('', [([base], ['a:1']), ([top], [])], 'some without a name'),
                ('', [([base], [f'a:{n}' for n in range(65)])], 'more than 64 images and names')):
            with self.subTest(why), self.assertRaises(atoll.ApiError) as refused:
                self.daemon.request('POST', f'/v1/images{query}', saved(images))
            self.assertIn(why, refused.exception.message)
        self.assertEqual(self.names(), ['b:1'])

    def test_an_image_without_layers(self):
        self.daemon.request('POST', '/v1/images', saved([([], ['nothing:1'])]))
        out = self.daemon.top / 'nothing.tar'
        with open(out, 'wb') as file:
            subprocess.run([atoll.BUILD / 'atoll', 'image', 'export', 'nothing:1', '-'], check=True,
                           stdout=file, env=self.daemon.client_env(), timeout=60 * SLOWNESS)
        again = self.daemon.request('POST', '/v1/images?name=again', out.read_bytes())
        self.assertEqual((again['sizeBytes'], again['labels']), (0, {'number': '0'}))
        # A sandbox of it holds what is put into it.
        box = self.daemon.create('nothing:1')
        self.daemon.delete(box)

    def test_what_is_left_out_is_told(self):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode='w', format=tarfile.PAX_FORMAT) as tar:
            for name, kind, headers in (
                    ('null', tarfile.CHRTYPE, {}), ('../up', tarfile.REGTYPE, {}),
                    ('kept', tarfile.DIRTYPE, {'SCHILY.xattr.user.overlay.impure': 'y',
                                               'SCHILY.xattr.trusted.overlay.origin': 'x'}),
                    ('theirs', tarfile.DIRTYPE, {'uid': '200000'})):
                info = tarfile.TarInfo(name)
                info.type, info.pax_headers = kind, headers
                tar.addfile(info)
        archive = self.daemon.top / 'odd.tar'
        archive.write_bytes(saved([([out.getvalue()], ['odd:1', 'odd:2'])]))
        # Of a layer that is here already nothing is left out again.
        for name, end in (('odd:1', '; left out, because no sandbox can use it: 1 device node, 2 extended '
                                    'attributes, 1 entry with a name that no file can have, 1 owner above '
                                    '65535 \\(nobody has the file now\\)'),
                          ('odd:3', '')):
            done = subprocess.run([atoll.BUILD / 'atoll', 'image', 'import', archive, '--name', name],
                                  capture_output=True, text=True, env=self.daemon.client_env(),
                                  timeout=60 * SLOWNESS, check=True)
            self.assertRegex(done.stdout, f'^imported {name} \\(sha256:[0-9a-f]*, 0 B\\){end}\n$')
        self.daemon.request('DELETE', '/v1/images/odd:1')
        self.daemon.request('DELETE', '/v1/images/odd:3')
        self.prune()
        answer = self.daemon.request('POST', '/v1/images', archive.read_bytes())
        self.assertEqual(answer['leftOut'], {'devices': 1, 'attributes': 2, 'entries': 1, 'owners': 1})
        self.assertNotIn('leftOut', self.get('odd:1'))

    def test_what_is_not_here_has_a_way_to_come(self):
        def told(name):
            with self.assertRaises(atoll.ApiError) as refused:
                self.get(name)
            self.assertEqual(refused.exception.status, 404)
            # A create says the same.
            with self.assertRaises(atoll.ApiError) as create:
                self.daemon.create(name)
            self.assertEqual(create.exception.message, refused.exception.message)
            return refused.exception.message

        recipes = atoll.TOP / 'images/recipes'
        for recipe in sorted(recipes.glob('*.toml')):
            words = tomllib.loads(recipe.read_text())
            for name in [words.get('name', recipe.stem), *words.get('aliases', [])]:
                self.assertRegex(told(name), f'; to make .*: atoll image build {recipe.stem};', name)
        self.assertNotIn('did you mean', told('python:3.11-slim'))
        self.daemon.request('POST', '/v1/images', saved([
            ([], ['python:3.11']), ([], ['opensandbox/code-interpreter:latest']), ([], ['mine:1'])]))
        for name, here, recipe in (
                ('python:3.11-slim', 'python:3.11', 'python'),
                ('docker.io/library/python:3.13', 'python:3.11', 'python'),
                ('opensandbox/code-interpreter:v1.0.2', 'opensandbox/code-interpreter:latest',
                 'code-interpreter'),
                ('registry.example/code-interpreter', 'opensandbox/code-interpreter:latest',
                 'code-interpreter'),
                ('ubuntu:24.04', None, 'base'), ('node:22-alpine', None, 'node24'),
                ('mine:2', 'mine:1', None), ('nothing.like/it:1', None, None)):
            with self.subTest(name):
                message = told(name)
                self.assertIn('images.pull', message)
                if here:
                    self.assertRegex(message, f"did you mean '{here}'\\? .* atoll image tag {here} [^ ]*;")
                else:
                    self.assertNotIn('did you mean', message)
                if recipe:
                    self.assertIn(f'atoll image build {recipe};', message)
                    self.assertTrue((recipes / f'{recipe}.toml').exists())
                else:
                    self.assertNotIn('image build', message)

    def test_the_images_own_words(self):
        """STOPSIGNAL, VOLUME, and a working directory that is not there."""
        def cli(*words):
            done = subprocess.run([atoll.BUILD / 'atoll', *words], capture_output=True, text=True,
                                  env=self.daemon.client_env(), timeout=60 * SLOWNESS, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout.strip()

        self.daemon.import_busybox()
        self.daemon.request('POST', '/v1/images/commit?name=words&image=busybox', json.dumps({
            'StopSignal': 'SIGUSR1', 'User': '1000', 'Volumes': {'/data/deep': {}, '/etc/passwd': {}},
            'Cmd': ['sh', '-c', 'trap "exit 7" USR1; trap "exit 9" TERM; echo ready; '
                                'while :; do sleep 0.02; done']}).encode())
        box = cli('run', '-d', 'words')
        until(lambda: 'ready' in cli('logs', box), UNTIL, 'the program has set its traps')
        self.assertEqual(cli('exec', box, 'stat', '-c', '%F %a %u', '/data/deep'), 'directory 755 0')
        # The word survives the daemon, and goes along with a copy.
        self.daemon.stop()
        self.daemon.start()
        copy = cli('fork', box)
        until(lambda: 'ready' in cli('logs', copy), UNTIL, 'the copy has set its traps')
        for one in (box, copy):
            cli('stop', one)
            self.assertEqual(cli('wait', one), '7')
        self.assertEqual(cli('run', '-w', '/new/dir', 'words', 'stat', '-c', '%n %u', '/new/dir', '.'),
                         '/new/dir 0\n. 0')
        self.assertEqual(cli('run', '-w', '/tmp', 'words', 'stat', '-c', '%a', '/tmp'), '1777')
        box = cli('run', '-d', '-w', '/tmp/made/here', 'words', 'sh', '-c', 'pwd; sleep 60')
        until(lambda: cli('logs', box) == '/tmp/made/here', UNTIL, 'it runs in the directory')

    def test_refusals_have_no_effect(self):
        self.daemon.import_busybox()
        for method, path, status in (
                ('POST', '/v1/images?from=absent&name=x', 404),
                ('POST', '/v1/images?from=busybox&name=', 400),
                ('POST', '/v1/images?from=busybox&name=../x', 400),
                ('POST', '/v1/images?from=-busybox&name=x', 400),
                ('POST', '/v1/images/prune?all=yes', 400)):
            with self.subTest(path), self.assertRaises(atoll.ApiError) as refused:
                self.daemon.request(method, path)
            self.assertEqual(refused.exception.status, status)
        self.assertEqual(self.names(), ['busybox:latest'])

    def test_a_daemon_that_is_killed_while_it_imports(self):
        self.daemon.import_busybox()
        before = self.layers()
        layer = tar_of({'file': os.urandom(48 << 20)})
        archive = docker_archive(layer, 'x:1')
        temporary = self.daemon.data_dir / 'state/images/tmp'

        def members():
            return [path.name for path in atoll.fitting(f'{temporary}/import-*/members/*')]

        moments = {
            'the archive is taken apart': lambda: 'member-0' in members(),
            'it is written as an OCI layout': lambda: 'index.json' in members(),
            'its layer is unpacked': lambda: self.layers() != before,
            'its layer is there': lambda: any(name not in before and name.isdigit()
                                              for name in self.layers()),
        }
        for moment, come in moments.items():
            with self.subTest(moment):
                sent = threading.Thread(target=self.send_and_lose, args=(archive,))
                sent.start()
                deadline = time.monotonic() + UNTIL
                while not come() and sent.is_alive() and time.monotonic() < deadline:
                    pass
                self.daemon.kill()
                sent.join()
                self.daemon.start()
                kept = 'x:1' in self.names()
                until(lambda: len(self.layers()) == len(before) + kept, UNTIL,
                      f'{moment}: what was begun is gone: {self.layers()}')
                until(lambda: not list(temporary.iterdir()), UNTIL, f'{moment}: nothing is left of the archive')
                again = self.daemon.request('POST', '/v1/images', archive)
                self.assertEqual(again['sizeBytes'], 48 << 20)
                self.daemon.request('DELETE', '/v1/images/x:1')
                until(lambda: self.layers() == before, UNTIL, 'the image is gone')

    def test_what_an_import_left_is_removed_when_it_can_be(self):
        """Whoever fills it may outlive the daemon; here a mount keeps it."""
        temporary = self.daemon.data_dir / 'state/images/tmp'
        kept = temporary / 'import-1.2/members'
        self.daemon.stop()
        kept.mkdir(parents=True)
        for made in (kept.parent, kept):
            os.chown(made, temporary.stat().st_uid, -1)
        subprocess.run(['mount', '-t', 'tmpfs', 'tmpfs', kept], check=True)
        try:
            self.daemon.start()
            self.assertTrue(any(temporary.iterdir()))
        finally:
            # Lazily: the daemon may just be looking into it.
            subprocess.run(['umount', '-l', kept], check=True)
        until(lambda: not list(temporary.iterdir()), UNTIL, 'nothing is left')

    def send_and_lose(self, archive):
        try:
            self.daemon.send('POST', '/v1/images', io.BytesIO(archive),
                             {'Content-Length': str(len(archive))}).read()
        except (OSError, http.client.HTTPException):
            pass  # the daemon is killed meanwhile


class Allowed(unittest.TestCase):
    """images.allowed: what a sandbox may be made of, by name and by digest."""

    def test_by_name_and_by_digest(self):
        with atoll.Daemon() as daemon:
            digest = (daemon.import_busybox(), daemon.request('GET', '/v1/images/busybox'))[1]['digest']
        with atoll.Daemon(images_allowed=['team/*', f'pinned@{digest}']) as daemon:
            daemon.import_busybox()
            self.refused(daemon, 'busybox')
            # One that is not here is refused as such only if it would be allowed.
            self.refused(daemon, 'absent')
            with self.assertRaises(atoll.ApiError) as absent:
                daemon.create('team/absent')
            self.assertEqual(absent.exception.status, 400)
            for name in ('team/box', 'pinned:1'):
                daemon.request('POST', f'/v1/images?from=busybox&name={name}')
                daemon.delete(daemon.create(name))
            # The name does not help where the digest is another.
            other = docker_archive(tar_of({'file': b'x'}), 'x:1')
            daemon.request('POST', '/v1/images?name=pinned:1', other)
            self.refused(daemon, 'pinned:1')
            self.assertEqual(daemon.request('GET', '/v1/sandboxes')['items'], [])

    def refused(self, daemon, image):
        with self.assertRaises(atoll.ApiError) as refused:
            daemon.create(image)
        self.assertEqual((refused.exception.status, refused.exception.code),
                         (403, 'IMAGE::NOT_ALLOWED'))
        self.assertIn('images.allowed: team/*', refused.exception.message)


if __name__ == '__main__':
    unittest.main()
