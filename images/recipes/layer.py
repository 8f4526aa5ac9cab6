"""The layer that one recipe adds: files of the host, and packages of the language registries.

Nothing that a package brings is run here: wheels only, npm without scripts. The build is root's.
"""
import importlib.util
import os
import pathlib
import re
import shutil
import sys

from debian import GLIBC, PYTHON, python_place
from programs import need, run
from recipe import RecipeError


def _platforms(suite):
    """The tags of wheels that run there, best first."""
    machine = os.uname().machine
    tags = [f'manylinux_2_{minor}_{machine}' for minor in range(GLIBC[suite], 4, -1)]
    return [*tags, f'manylinux2014_{machine}', f'manylinux2010_{machine}',
            f'manylinux1_{machine}', f'linux_{machine}']


def _inside(layer, path):
    """Refuses what a link of the layer leads out of it: here it would be the host's."""
    if not path.parent.resolve().is_relative_to(layer.resolve()):
        raise RecipeError(f'/{path.relative_to(layer)}: a link on the way leads out of the image')


def _add_pip(layer, suite, wanted, dependencies):
    if importlib.util.find_spec('pip') is None:
        raise RecipeError("'pip' is missing; install it with: apt-get install "
                          '--no-install-recommends python3-pip')
    python = python_place(suite, layer)
    run(sys.executable, '-m', 'pip', 'install', '--quiet', '--no-compile',
        '--disable-pip-version-check', '--root-user-action=ignore',
        *([] if dependencies else ['--no-deps']),
        '--only-binary', ':all:', '--implementation', 'cp', '--python-version', PYTHON[suite],
        *(f'--platform={tag}' for tag in _platforms(suite)), '--target', python, *wanted)
    # As an installation into /usr/local has them, and with the image's Python.
    for program in (python / 'bin').glob('*'):
        text = program.read_bytes()
        program.write_bytes(re.sub(rb'\A#!.*python.*', b'#!/usr/bin/python3', text))
    for name in ('bin', 'etc', 'share'):
        if (python / name).is_dir():
            _add_tree(layer, python / name, layer / 'usr/local' / name)
            shutil.rmtree(python / name)


def _add_npm(layer, wanted, folders):
    need('npm')
    install = ['npm', 'install', '--silent', '--no-audit', '--no-fund', '--ignore-scripts', '--omit=dev']
    run(*install, '--global', '--prefix', layer / 'usr/local', *wanted)
    for folder in folders:
        place = layer / folder.lstrip('/')
        _inside(layer, place / 'x')
        if not (place / 'package.json').is_file():
            raise RecipeError(f'npm_folders: {folder}: nothing of npm has brought a package.json there')
        # It could name programs, which npm would run.
        if os.path.lexists(place / '.npmrc'):
            raise RecipeError(f'npm_folders: {folder}: brings settings of npm of its own')
        run(*install, '--prefix', place)


def _make_room(place):
    # Else what is written goes where the link leads.
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
        raise RecipeError(f'files: {source}: there is no such file')


def _add_link(layer, path, says):
    place = layer / path.lstrip('/')
    _inside(layer, place)
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_dir() and not place.is_symlink():
        raise RecipeError(f'links: {path}: is a folder')
    place.unlink(missing_ok=True)
    place.symlink_to(says)


def make_layer(step, suite, layer):
    """Fills the directory `layer`. `suite` is empty where the image has no Debian."""
    layer.mkdir(parents=True)
    for key in ('pip', 'npm'):
        if getattr(step, key) and not suite:
            raise RecipeError(f'{key}: the image has no Debian in it; say from = "base"')
    # In this order: npm gives up where a program's name is taken, and pip's own takes its place.
    if step.npm:
        _add_npm(layer, step.npm, step.npm_folders)
    if step.pip:
        _add_pip(layer, suite, step.pip, step.pip_dependencies)
    # Everybody may read what registries sent; files of the user's own keep their modes. Python compares
    # times of sources with what was compiled of them, so the archive may not change these any more.
    youngest = float(os.environ.get('SOURCE_DATE_EPOCH', 'inf'))
    for path in [layer, *layer.rglob('*')]:
        if not path.is_symlink():
            now = path.stat()
            path.chmod(0o755 if path.is_dir() or now.st_mode & 0o100 else 0o644)
            if now.st_mtime > youngest:
                os.utime(path, (youngest, youngest))
    for source, target in step.files.items():
        _add_file(layer, step.directory / source, target)
    for path, says in step.links.items():
        _add_link(layer, path, says)
    for pattern in step.remove:
        for path in list(pathlib.Path(layer).glob(pattern.lstrip('/'))):
            _inside(layer, path)
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(True)
