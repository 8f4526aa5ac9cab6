"""What packages and indexes can do to who builds an image: nothing of theirs runs as the host's root.

The indexes are on the fake internet. Debian's packages come from a stand-in of apt, because there is no mirror; the
lowest ones were installed before (tests/e2e/atoll.py).
"""
import io
import json
import os
import re
import subprocess
import tarfile
import unittest
import zipfile

import atoll
from atoll import BUILD, SLOWNESS, recipes
from internet import Internet

INDEX = '203.0.113.10'
MARK = 'ran-outside'


def tar(top, **files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w:gz') as made:
        for name, text in files.items():
            member = tarfile.TarInfo(f'{top}/{name.replace("__", "/").replace("_", ".")}')
            member.size = len(text)
            made.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


def wheel(name, more):
    out = io.BytesIO()
    with zipfile.ZipFile(out, 'w') as made:
        info = f'{name}-1.0.dist-info'
        made.writestr(f'{name}.py', '')
        made.writestr(f'{info}/METADATA', f'Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{more}')
        made.writestr(f'{info}/WHEEL', 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
        made.writestr(f'{info}/RECORD', '')
    return out.getvalue()


class Strangers(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.internet = Internet().__enter__()
        cls.addClassCleanup(cls.internet.__exit__)
        cls.daemon = atoll.Daemon(network_dns=[cls.internet.DNS]).__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.work = cls.daemon.top / 'work'
        cls.work.mkdir()
        # This stands in for apt: each package that a recipe asks for lies in this folder.
        cls.debs = cls.work / 'debs'
        cls.debs.mkdir()
        programs = cls.work / 'programs'
        programs.mkdir()
        (programs / 'apt-get').write_text(
            f'#!/bin/sh\ncase "$*" in *download-only*) cp {cls.debs}/*.deb archives/ 2>/dev/null || true ;; esac\n')
        (programs / 'apt-get').chmod(0o755)
        settings = cls.work / 'build.toml'
        settings.write_text(f'[env]\nPIP_INDEX_URL = "http://{INDEX}/simple"\nPIP_TRUSTED_HOST = "{INDEX}"\n'
                            f'NPM_CONFIG_REGISTRY = "http://{INDEX}/"\n')
        cls.env = {**cls.daemon.client_env(), 'TMPDIR': str(cls.work), 'ATOLL_BUILD_SETTINGS': str(settings),
                   'PATH': f'{programs}:{os.environ["PATH"]}'}
        for name, more in (('evil', f'Requires-Dist: worse @ http://{INDEX}/worse-1.0.tar.gz\n'), ('good', '')):
            file = f'{name}-1.0-py3-none-any.whl'
            cls.internet.page(f'/simple/{name}/', 'text/html', f'<a href="/{file}">{file}</a>'.encode())
            cls.internet.page(f'/{file}', 'application/zip', wheel(name, more))
        cls.internet.page('/worse-1.0.tar.gz', 'application/gzip', tar(
            'worse-1.0', pyproject_toml='[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
            backend_py=f'open("{cls.work}/{MARK}", "w").write("")\n'))

    def build(self, recipe, name, expect=0):
        (self.work / 'own.toml').write_text(recipe)
        done = subprocess.run([BUILD / 'atoll', 'image', 'build', self.work / 'own.toml', '--name', name], env=self.env,
                              capture_output=True, text=True, timeout=200 * SLOWNESS, check=False,
                              stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        self.assertFalse((self.work / MARK).exists(), 'a stranger has run on the host')
        return done.stderr

    def run_in(self, image, *words):
        return subprocess.run([BUILD / 'atoll', 'run', image, *words], env=self.env, capture_output=True, text=True,
                              check=True, timeout=60 * SLOWNESS).stdout

    def test_a_wheel_that_needs_a_url(self):
        """pip's --only-binary does not hold for it: its build would run."""
        self.assertIn('is not of an index', self.build('from = "base"\npip = ["evil"]\n', 'evil', expect=1))
        self.assertTrue(self.internet.requests(path='/evil-1.0-py3-none-any.whl'), 'it got as far as the wheel')
        self.assertFalse(self.internet.requests(path='/worse-1.0.tar.gz'))
        self.build('from = "base"\npip = ["good"]\n', 'good')
        self.assertEqual(self.run_in('good', 'ls', '/usr/local/lib/python3.11/dist-packages').split(),
                         ['__pycache__', 'good-1.0.dist-info', 'good.py'])

    def test_urls_in_a_recipe(self):
        for key, words in (('pip', (f'worse @ http://{INDEX}/worse-1.0.tar.gz', f'http://{INDEX}/worse-1.0.tar.gz',
                                    './worse', 'worse@file:///x', 'git+https://x/y')),
                           ('npm', (f'http://{INDEX}/odd.tgz', 'file:odd.tgz', 'x@file:y', 'user/repository', '../x',
                                    'github:user/repository', 'x@git+ssh://y/z', 'x@http://y/z.tgz'))):
            for word in words:
                with self.subTest(word):
                    (self.work / 'url.toml').write_text(f'from = "base"\n{key} = ["{word}"]\n')
                    with self.assertRaisesRegex(recipes.RecipeError, f"'{re.escape(word)}' is not the name of one"):
                        recipes.load(str(self.work / 'url.toml'))

    def test_a_folder_with_settings_of_npm(self):
        """npm would heed them, and they may name programs."""
        self.internet.page('/odd', 'application/json', json.dumps({
            'name': 'odd', 'dist-tags': {'latest': '1.0.0'}, 'versions': {'1.0.0': {
                'name': 'odd', 'version': '1.0.0', 'dist': {'tarball': f'http://{INDEX}/odd/-/odd-1.0.0.tgz'}}}}).encode())
        self.internet.page('/odd/-/odd-1.0.0.tgz', 'application/gzip', tar(
            'package', package_json='{"name": "odd", "version": "1.0.0"}', lib__package_json='{}',
            lib___npmrc='git=/bin/true'))
        recipe = 'from = "base"\nnpm = ["odd"]\nnpm_folders = ["/usr/local/lib/node_modules/odd/{}"]\n'
        self.assertIn('settings of npm of its own', self.build(recipe.format('lib'), 'odd', expect=1))
        self.assertIn('has brought a package.json there', self.build(recipe.format('no'), 'odd', expect=1))

    def test_a_package_of_debian_that_looks_around(self):
        package = self.work / 'evil'
        (package / 'DEBIAN').mkdir(parents=True)
        (package / 'DEBIAN/control').write_text('Package: evil\nVersion: 1.0\nArchitecture: all\nMaintainer: x <x@x>\n'
                                                'Description: x\n')
        (package / 'DEBIAN/postinst').write_text(
            f'#!/bin/sh\ntouch {self.work}/{MARK}\nid -u >/seen\ncat /proc/self/uid_map /proc/1/comm >>/seen\n'
            'echo $(tail -n +3 /proc/net/dev | cut -d: -f1) >>/seen\n'
            f'perl -MIO::Socket::INET -e \'IO::Socket::INET->new(PeerAddr => "{INDEX}:80", Timeout => 3) '
            'or print "no way out\\n"\' >>/seen\n')
        (package / 'DEBIAN/postinst').chmod(0o755)
        subprocess.run(['dpkg-deb', '--build', package, self.debs / 'evil_1.0_all.deb'], check=True,
                       stdout=subprocess.DEVNULL)
        try:
            self.build('from = "base"\npackages = ["evil"]\n', 'installed')
        finally:
            (self.debs / 'evil_1.0_all.deb').unlink()
        uid, uid_map, first, _, outside = self.run_in('installed', 'cat', '/seen').splitlines()
        self.assertEqual((uid, first, outside), ('0', 'execd', 'no way out'))
        inside, of_host, count = map(int, uid_map.split())
        self.assertEqual((inside, count), (0, 65536))
        self.assertGreater(of_host, 65536)


if __name__ == '__main__':
    unittest.main()
