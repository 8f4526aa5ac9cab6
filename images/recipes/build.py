#!/usr/bin/env python3
"""Makes an image archive by a recipe; what 'atoll image build' runs.

    build.py RECIPE|FILE.toml OUT.tar [--name NAME[:TAG]] [--no-gzip]

The last line on standard output is {"name": …, "aliases": […]}. With SOURCE_DATE_EPOCH in the
environment no file is younger than that, and the same input gives the same bytes.
"""
import argparse
import json
import os
import pathlib
import signal
import sys
import tempfile

import busybox
import debian
import oci_archive
import recipe as recipes
from layer import make_layer


def make_layers(recipe, layers):
    for step, layer in zip(recipe.steps, layers):
        make_layer(step, recipe.suite, layer)


def add_debian(archive, recipe, layers, work):
    """Adds its packages and the layers above them: while those are installed these are made, and
    written but for what the image's Python has to compile first."""
    base = debian.Base(recipe.suite, work)
    base_is_there = base.tar.is_file()
    if not base_is_there:
        with base.made():
            make_layers(recipe, layers)
    with debian.root(base, recipe, layers, work) as root:
        if base_is_there:
            make_layers(recipe, layers)
        root.layers_are_made()

        def add_layers(compiled):
            for place, layer in enumerate(layers, 1):
                if debian.python_place(recipe.suite, layer).is_dir() == compiled:
                    archive.add_layer(layer, place)
        add_layers(compiled=False)
        archive.add_layer(root.tar, 0)
        add_layers(compiled=True)


def build(what, out, name, compress):
    """Writes the archive; the recipe, as it was carried out."""
    recipe = recipes.load(what)
    if recipe.suite and recipe.suite not in debian.PYTHON:
        raise recipes.RecipeError(f"suite: '{recipe.suite}' is none of {', '.join(debian.PYTHON)}")
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
        if recipe.suite:
            add_debian(archive, recipe, layers, work)
        else:
            make_layers(recipe, layers)
            (work / 'root').mkdir()
            busybox.make_root(work / 'root')
            for place, layer in enumerate([work / 'root', *layers]):
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
    # What is begun is ended, and what is on disk removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit('ended'))
    try:
        made = build(given.recipe, given.out.absolute(), given.name, not given.no_gzip)
    except recipes.RecipeError as error:
        sys.exit(str(error))
    print(json.dumps({'name': made.name, 'aliases': made.aliases}))


if __name__ == '__main__':
    main()
