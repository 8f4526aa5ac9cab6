"""Archives as the tools that people have make them: skopeo, umoci, buildah, podman, docker. Each is
imported, and a sandbox of it sees what the image has and nothing that a higher layer took away."""
import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

import atoll
from atoll import BUILD, SLOWNESS, until

SEEN = 'cat /etc/kept /etc/new; ls /etc/gone 2>/dev/null; stat -c "%u:%g %a" /etc/owned; readlink /l'
WANTED = 'kept\nnew\n1000:29 640\netc/kept'


def call(*words, **options):
    subprocess.run(words, check=True, stdout=sys.stderr, timeout=60 * SLOWNESS, **options)


def skopeo(*words):
    call('skopeo', '--insecure-policy', *words)


class Forms(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.work = cls.daemon.top / 'work'
        for directory in ('base/bin', 'base/etc', 'top/etc'):
            (cls.work / directory).mkdir(parents=True)
        base, top = cls.work / 'base', cls.work / 'top'
        shutil.copy(shutil.which('busybox'), base / 'bin')
        for applet in ('sh', 'cat', 'ls', 'stat', 'readlink', 'sleep'):
            (base / 'bin' / applet).symlink_to('busybox')
        for name in ('kept', 'gone'):
            (base / 'etc' / name).write_text(f'{name}\n')
        (base / 'l').symlink_to('etc/kept')
        (top / 'etc/new').write_text('new\n')
        (top / 'etc/owned').touch()
        (top / 'etc/owned').chmod(0o640)
        os.chown(top / 'etc/owned', 1000, 29)
        cls.layout = cls.work / 'layout'
        image = f'{cls.layout}:1'
        call('umoci', 'init', '--layout', cls.layout)
        call('umoci', 'new', '--image', image)
        for layer in (base, top):
            call('umoci', 'insert', '--image', image, layer, '/')
        call('umoci', 'insert', '--whiteout', '--image', image, '/etc/gone')
        call('umoci', 'config', '--image', image, '--config.cmd', '/bin/sh')

    def import_file(self, file, *options, expect=0):
        done = subprocess.run([BUILD / 'atoll', 'image', 'import', file, *options, '--json'],
                              env=self.daemon.client_env(), capture_output=True, text=True,
                              timeout=60 * SLOWNESS, check=False)
        self.assertEqual(done.returncode, expect, done.stderr)
        return json.loads(done.stdout if expect == 0 else done.stderr)

    def check(self, image):
        self.assertEqual(image['cmd'], ['/bin/sh'])
        box = self.daemon.create(image['name'])
        self.assertEqual(self.daemon.run(box, SEEN).stdout, WANTED)
        self.daemon.delete(box)

    @contextlib.contextmanager
    def storage(self):
        """The options that buildah and podman share: a storage of this test's own."""
        with tempfile.TemporaryDirectory(dir=self.work) as place:
            place = pathlib.Path(place)
            yield ['--root', place / 'root', '--runroot', place / 'run', '--storage-driver', 'vfs']

    def test_umoci_layout(self):
        self.check(self.import_file(self.layout, '--name', 'umoci'))
        for form in ('', 'z', 'J', 'j'):
            with self.subTest(form):
                file = self.work / f'layout.tar{form}'
                call('tar', f'-c{form}f', file, '-C', self.layout, '.')
                self.check(self.import_file(file, '--name', f'layout{form.lower()}'))
        refused = self.import_file(self.work, '--name', 'none', expect=2)
        self.assertIn('has no index.json', refused['error'])

    def test_skopeo(self):
        source = f'oci:{self.layout}:1'
        for name, options, target in (
                ('gzip', [], 'oci-archive:{}:s:gzip'),
                ('zstd', ['--dest-compress', '--dest-compress-format', 'zstd'],
                 'oci-archive:{}:s:zstd'),
                ('docker', [], 'docker-archive:{}:s:docker')):
            with self.subTest(name):
                file = self.work / f'skopeo-{name}.tar'
                skopeo('copy', *options, source, target.format(file))
                image = self.import_file(file)
                self.assertEqual(image['name'], f's:{name}')
                self.check(image)
        # What was compressed and what was not unpacks to the same: the same config promises it.
        docker = self.daemon.request('GET', '/v1/images/s:docker')
        self.assertEqual(docker['sizeBytes'],
                         self.daemon.request('GET', '/v1/images/s:gzip')['sizeBytes'])
        again = self.import_file(self.work / 'skopeo-docker.tar', '--name', 'again')
        self.assertEqual(again['digest'], docker['digest'])

    def test_buildah_and_podman(self):
        with self.storage() as storage:
            name = 'localhost/built:1'
            call('buildah', *storage, 'pull', '--policy', 'always', f'oci:{self.layout}:1')
            pulled = subprocess.run(['buildah', *storage, 'images', '-q'], check=True, text=True,
                                    stdout=subprocess.PIPE).stdout.split()[0]
            call('buildah', *storage, 'tag', pulled, name, 'localhost/second:2')
            file = self.work / 'buildah.tar'
            call('buildah', *storage, 'push', name, f'docker-archive:{file}:built:buildah')
            self.check(self.import_file(file))
            for form in ('docker-archive', 'oci-archive'):
                with self.subTest(form):
                    file = self.work / f'podman-{form}.tar'
                    call('podman', *storage, 'save', '--format', form, '-o', file, name)
                    image = self.import_file(file)
                    self.assertEqual(image['name'], name)
                    self.check(image)
            both = self.work / 'podman-both.tar'
            call('podman', *storage, 'save', '-m', '-o', both, name, 'localhost/second:2')
            self.check(self.import_file(both, '--name', 'localhost/second:2'))
            self.assertEqual(sorted(self.import_file(both)['names']), [name, 'localhost/second:2'])

    def test_docker_save(self):
        def docker(*words, **options):
            call('docker', '-H', f'unix://{self.work}/docker.sock', *words, **options)

        # Its own /run: the host may have another.
        with open(self.work / 'dockerd.log', 'wb') as log:
            engine = subprocess.Popen(
                ['unshare', '--mount', 'sh', '-c', 'mount -t tmpfs tmpfs /run && exec "$@"', 'sh',
                 'dockerd', '--iptables=false', '--ip6tables=false', '--ip-masq=false',
                 '--bridge=none', '-s', 'vfs', '--data-root', self.work / 'docker',
                 '--exec-root', self.work / 'docker-exec', '-p', self.work / 'docker.pid',
                 '-H', f'unix://{self.work}/docker.sock'], stdout=log, stderr=log)
        try:
            log = self.work / 'dockerd.log'
            until(lambda: engine.poll() is not None or b'API listen on' in log.read_bytes(),
                  30 * SLOWNESS, 'dockerd answers')
            self.assertIsNone(engine.poll(), log.read_text())
            docker('load', '-i', self.docker_archive())
            docker('tag', 'fed:1', 'second:2')
            docker('save', '-o', self.work / 'saved.tar', 'fed:1', 'second:2')
        finally:
            engine.terminate()
            engine.wait(30 * SLOWNESS)
        with tarfile.open(self.work / 'saved.tar') as saved:
            self.assertNotIn('index.json', saved.getnames())
        self.check(self.import_file(self.work / 'saved.tar'))
        self.check(self.import_file(self.work / 'saved.tar', '--name', 'second:2'))

    def docker_archive(self):
        file = self.work / 'fed.tar'
        skopeo('copy', f'oci:{self.layout}:1', f'docker-archive:{file}:fed:1')
        return file

    def test_an_index_of_several_platforms(self):
        index = json.loads((self.layout / 'index.json').read_text())
        mine = index['manifests'][0]
        config = self.blob(self.blob(mine)['config'])
        here = {'os': 'linux', 'architecture': config['architecture']}
        # Of another machine: its blobs need not even be in the archive.
        other = {**mine, 'digest': 'sha256:' + '0' * 64, 'platform': {**here,
                                                                     'architecture': 's390x'}}
        attested = {**other, 'platform': {'os': 'unknown', 'architecture': 'unknown'}}
        for entries, expect in (([other, attested, {**mine, 'platform': here}], 0),
                                ([other, attested], 1)):
            layout = self.work / f'multi{expect}'
            shutil.copytree(self.layout, layout)
            inner = self.add_blob(layout, {'schemaVersion': 2, 'manifests': entries})
            (layout / 'index.json').write_text(json.dumps({'schemaVersion': 2, 'manifests': [
                {'mediaType': 'application/vnd.oci.image.index.v1+json', **inner}]}))
            got = self.import_file(layout, '--name', 'multi', expect=expect)
            if expect == 0:
                self.check(got)
            else:
                self.assertIn(f'no image for linux/{here["architecture"]}, only for linux/s390x',
                              got['error'])

    def blob(self, descriptor):
        path = self.layout / 'blobs' / descriptor['digest'].replace(':', '/')
        return json.loads(path.read_text())

    @staticmethod
    def add_blob(layout, value):
        data = json.dumps(value).encode()
        digest = hashlib.sha256(data).hexdigest()
        (layout / 'blobs/sha256' / digest).write_bytes(data)
        return {'digest': f'sha256:{digest}', 'size': len(data)}


if __name__ == '__main__':
    unittest.main()
