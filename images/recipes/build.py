#!/usr/bin/env python3
"""Makes an image archive from a recipe. Run by 'atoll image build'.

    build.py RECIPE|FILE.toml OUT.tar [--name NAME[:TAG]] [--no-gzip]

The last line on standard output is {"name": …, "aliases": […]}. With SOURCE_DATE_EPOCH in the
environment no file is younger than that, and the same input gives the same bytes.
"""
import argparse
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile

import build_box as boxes
import busybox
import debian
import oci_archive
import programs
import recipe as recipes
import settings
import suites
from layer import LayerError, make_layer


def make_in_box(base, step, tar):
    """A step that handles packages, which are untrusted."""
    with tempfile.TemporaryDirectory(prefix='atoll-step.') as work, boxes.Box(base.tools(bool(step.npm)), network=True) as box:
        work = pathlib.Path(work)
        (work / 'files').mkdir()
        said = dataclasses.asdict(step) | {'directory': '/step/files', 'files': {}}
        for number, (source, target) in enumerate(step.files.items()):
            source, copy = step.directory / source, work / f'files/{number}'
            if source.is_dir() and not source.is_symlink():
                shutil.copytree(source, copy, symlinks=True)
            elif os.path.lexists(source):
                shutil.copy2(source, copy, follow_symlinks=False)
            else:
                raise LayerError(f'files: {source}: there is no such file')
            said['files'][str(number)] = target
        (work / 'step.json').write_text(json.dumps({'step': said, 'suite': base.suite}), encoding='utf-8')
        for module in ('layer.py', 'suites.py'):
            shutil.copy(programs.HERE / module, work)
        box.copy_in(work, '/step')
        box.trust()
        epoch = os.environ.get('SOURCE_DATE_EPOCH')
        box.run('python3 -B /step/layer.py /step/step.json /layer && '
                'tar --numeric-owner --owner=0 --group=0 --sort=name -C /layer -cf /layer.tar .',
                env={'SOURCE_DATE_EPOCH': epoch} if epoch else {})
        box.copy_out('/layer.tar', tar)


def make_layers(recipe, base, layers):
    """Path of the tar or directory of each layer."""
    made = []
    for step, layer in zip(recipe.steps, layers):
        if step.pip or step.npm:
            made.append(layer.with_suffix('.tar'))
            make_in_box(base, step, made[-1])
        else:
            made.append(layer)
            make_layer(step, '', layer)
    return made


def debian_layers(recipe, layers, work):
    """Makes the packages' layer and, at the same time, the layers above it. Returns them, lowest first."""
    with concurrent.futures.ThreadPoolExecutor(1) as beside:
        base = debian.Base(recipe.suite, work)
        base.make()
        root = beside.submit(debian.make_root, base, recipe, work / 'root.tar')
        try:
            layers = make_layers(recipe, base, layers)
            more = [work / 'root.tar'] if root.result() else []
        except BaseException:
            programs.end_all()
            raise
        return [base.tar, *more, *layers]


def busybox_layers(recipe, layers, work):
    (work / 'root').mkdir()
    busybox.make_root(work / 'root')
    return [work / 'root', *make_layers(recipe, None, layers)]


def run_on(layers, recipe, tar):
    """Returns the layer that the recipe's scripts write, which run in a sandbox of all layers below."""
    with boxes.image_of(layers) as image, boxes.Box(image, network=True) as box:
        box.trust()
        for script in recipe.run:
            box.run(f'set -e\n{script}', env=recipe.env)
        box.diff(tar)


def build(what, out, name, compress):
    """Writes the archive. Returns the recipe that was carried out."""
    recipe = recipes.load(what)
    if recipe.suite and recipe.suite not in suites.PYTHON:
        raise recipes.RecipeError(f"suite: '{recipe.suite}' is none of {', '.join(suites.PYTHON)}")
    if name:
        recipe.name, recipe.aliases = name, []
    config = {'Env': [f'{key}={value}' for key, value in recipe.env.items()],
              'Cmd': recipe.cmd, 'WorkingDir': recipe.workdir, 'User': recipe.user}
    if recipe.entrypoint:
        config['Entrypoint'] = recipe.entrypoint
    with tempfile.TemporaryDirectory(prefix='.atoll-build.', dir=out.parent) as work, \
            oci_archive.Archive(out, compress) as archive:
        work = pathlib.Path(work)
        layers = [work / f'layer{number}' for number in range(1, len(recipe.steps) + 1)]
        # A recipe that only copies files needs no sandbox.
        with boxes.daemon() if recipe.suite or recipe.run else contextlib.nullcontext():
            layers = (debian_layers if recipe.suite else busybox_layers)(recipe, layers, work)
            if recipe.run:
                run_on(layers, recipe, work / 'run.tar')
                layers.append(work / 'run.tar')
        for place, layer in enumerate(layers):
            archive.add_layer(layer, place)
        archive.finish(recipe.name, config)
    return recipe


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('recipe')
    parser.add_argument('out', type=pathlib.Path)
    parser.add_argument('--name', default='')
    parser.add_argument('--no-gzip', action='store_true', help='for one who unpacks it at once')
    given = parser.parse_args()
    os.umask(0o022)
    # Ends running programs and removes temporary files.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit('ended'))
    try:
        made = build(given.recipe, given.out.absolute(), given.name, not given.no_gzip)
    except (recipes.RecipeError, LayerError, settings.SettingsError) as error:
        sys.exit(str(error))
    print(json.dumps({'name': made.name, 'aliases': made.aliases}))


if __name__ == '__main__':
    main()
