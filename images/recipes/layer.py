"""Makes the layer that one recipe adds: its author's files, and packages of the language registries.

    layer.py STEP.json LAYER

Run in a sandbox by tools.py, where the registries' packages are unpacked. For a step with only files, make_layer runs
in the build itself. No code of a package is run: only wheels are used, and npm runs no scripts.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from suites import GLIBC, PYTHON, python_place

# pip's --only-binary does not apply to a requirement with a URL, which any wheel's metadata may contain.
# The URL could be an sdist, and pip would run its build.
_PIP = '''
import runpy, sys
from pip._vendor.packaging import requirements
made = requirements.Requirement.__init__
def make(self, text):
    made(self, text)
    if self.url:
        sys.exit(f"'{text}' is not of an index: wheels from an index are installed, and no URL")
requirements.Requirement.__init__ = make
runpy.run_module('pip', run_name='__main__', alter_sys=True)
'''


class LayerError(Exception):
    """An error for the author of the recipe."""


def _run(*words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)
    if done.returncode != 0:
        raise LayerError(f'{words[0]} ended with {done.returncode}')


def _platforms(suite):
    """Returns the tags of wheels that run in the image, best first."""
    machine = os.uname().machine
    tags = [f'manylinux_2_{minor}_{machine}' for minor in range(GLIBC[suite], 4, -1)]
    return [*tags, f'manylinux2014_{machine}', f'manylinux2010_{machine}',
            f'manylinux1_{machine}', f'linux_{machine}']


def _inside(layer, path):
    """Refuses a path that a link would lead out of the layer."""
    if not path.parent.resolve().is_relative_to(layer.resolve()):
        raise LayerError(f'/{path.relative_to(layer)}: a link on the way leads out of the image')


def _add_pip(layer, suite, wanted, dependencies):
    python = python_place(suite, layer)
    _run('python3', '-c', _PIP, 'install', '--quiet', '--no-compile',
         '--disable-pip-version-check', '--root-user-action=ignore', '--no-cache-dir',
         *([] if dependencies else ['--no-deps']),
         '--only-binary', ':all:', '--implementation', 'cp', '--python-version', PYTHON[suite],
         *(f'--platform={tag}' for tag in _platforms(suite)), '--target', str(python), '--', *wanted)
    # The same layout as an installation into /usr/local with the image's Python.
    for program in (python / 'bin').glob('*'):
        text = program.read_bytes()
        program.write_bytes(re.sub(rb'\A#!.*python.*', b'#!/usr/bin/python3', text))
    for name in ('bin', 'etc', 'share'):
        if (python / name).is_dir():
            _add_tree(layer, python / name, layer / 'usr/local' / name)
            shutil.rmtree(python / name)


def _add_npm(layer, wanted, folders):
    install = ['npm', 'install', '--silent', '--no-audit', '--no-fund', '--ignore-scripts', '--omit=dev']
    _run(*install, '--global', '--prefix', str(layer / 'usr/local'), '--', *wanted)
    for folder in folders:
        place = layer / folder.lstrip('/')
        _inside(layer, place / 'x')
        if not (place / 'package.json').is_file():
            raise LayerError(f'npm_folders: {folder}: nothing of npm has brought a package.json there')
        # Removed, because it could name programs that npm would run.
        if os.path.lexists(place / '.npmrc'):
            raise LayerError(f'npm_folders: {folder}: brings settings of npm of its own')
        _run(*install, '--prefix', str(place))


def _compile(layer, suite):
    """Compiles as nobody, with the image's Python. A compiled file is valid while its source has the same time and
    size, so somebody who edits the source in a sandbox runs the edited one."""
    python = python_place(suite, layer)
    beside = pathlib.Path('/compiled')
    shutil.copytree(python, beside, symlinks=True)
    _run('chown', '-R', '65534:65534', str(beside))
    # Some files of packages are for another version of Python and do not compile.
    subprocess.run(['python3', '-I', '-m', 'compileall', '-q', '--invalidation-mode', 'timestamp', '-s', str(beside),
                    '-p', f'/{python.relative_to(layer)}', str(beside)], user=65534, group=65534, extra_groups=[],
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
    for made in beside.rglob('__pycache__'):
        if not made.is_symlink():
            shutil.copytree(made, python / made.relative_to(beside), dirs_exist_ok=True)
    shutil.rmtree(beside)


def _make_room(place):
    # Otherwise files would be written to the link's target.
    if place.is_symlink():
        place.unlink()


def _add_tree(layer, source, place):
    _inside(layer, place / 'x')
    for directory, folders, files in os.walk(source):
        here = place / pathlib.Path(directory).relative_to(source)
        _make_room(here)
        here.mkdir(exist_ok=True)
        shutil.copystat(directory, here)
        for name in [*files, *(one for one in folders if os.path.islink(f'{directory}/{one}'))]:
            _make_room(here / name)
            shutil.copy2(f'{directory}/{name}', here / name, follow_symlinks=False)


def _add_file(layer, source, target):
    place = layer / target.lstrip('/')
    _inside(layer, place)
    place.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir() and not source.is_symlink():
        _add_tree(layer, source, place)
    elif os.path.lexists(source):
        _make_room(place)
        shutil.copy2(source, place, follow_symlinks=False)
    else:
        raise LayerError(f'files: {source}: there is no such file')


def _add_link(layer, path, says):
    place = layer / path.lstrip('/')
    _inside(layer, place)
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_dir() and not place.is_symlink():
        raise LayerError(f'links: {path}: is a folder')
    place.unlink(missing_ok=True)
    place.symlink_to(says)


def make_layer(step, suite, layer):
    """Fills the directory `layer`. `suite` is empty if the image is not Debian."""
    layer.mkdir(parents=True)
    # The order matters: npm fails if a program's name is taken, and pip's own program replaces it.
    if step.npm:
        _add_npm(layer, step.npm, step.npm_folders)
    if step.pip:
        _add_pip(layer, suite, step.pip, step.pip_dependencies)
    # Files from registries are readable by everybody; the author's files keep their modes. Python compares
    # the times of sources with those in compiled files, so the archive must not change them any more.
    youngest = float(os.environ.get('SOURCE_DATE_EPOCH', 'inf'))
    for path in [layer, *layer.rglob('*')]:
        if not path.is_symlink():
            now = path.stat()
            path.chmod(0o755 if path.is_dir() or now.st_mode & 0o100 else 0o644)
            if now.st_mtime > youngest:
                os.utime(path, (youngest, youngest))
    for source, target in step.files.items():
        _add_file(layer, pathlib.Path(step.directory) / source, target)
    for path, says in step.links.items():
        _add_link(layer, path, says)
    for pattern in step.remove:
        for path in list(pathlib.Path(layer).glob(pattern.lstrip('/'))):
            _inside(layer, path)
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(True)
    if suite and python_place(suite, layer).is_dir():
        _compile(layer, suite)


def main(said, layer):
    class Step:
        """`step`: the JSON form of recipe.Step."""

    step = Step()
    text = json.loads(pathlib.Path(said).read_text(encoding='utf-8'))
    step.__dict__ = text['step']
    os.umask(0o022)
    try:
        make_layer(step, text['suite'], pathlib.Path(layer))
    except LayerError as error:
        sys.exit(str(error))


if __name__ == '__main__':
    main(*sys.argv[1:])
