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


def build(what, out, name, compress):
    """Writes the archive; the recipe, as it was carried out."""
    recipe = recipes.load(what)
    if recipe.suite and recipe.suite not in debian.PYTHON:
        raise recipes.RecipeError(f"suite: '{recipe.suite}' is none of {', '.join(debian.PYTHON)}")
    if name:
        recipe.name, recipe.aliases = name, []
    with tempfile.TemporaryDirectory(prefix='.atoll-build.', dir=out.parent) as work:
        work = pathlib.Path(work)
        layers = []
        # First what is soon done, so that a mistake is soon told.
        for number, step in enumerate(recipe.steps):
            layers.append(work / f'layer{number}')
            make_layer(step, recipe.suite, layers[-1])
        if recipe.suite:
            root = work / 'root.tar'
            debian.make_root(recipe.suite, recipe.packages, recipe.users, layers, work, root)
            layers.insert(0, root)
        else:
            layers.insert(0, work / 'root')
            layers[0].mkdir()
            busybox.make_root(layers[0])
        config = {'Env': [f'{key}={value}' for key, value in recipe.env.items()],
                  'Cmd': recipe.cmd, 'WorkingDir': recipe.workdir, 'User': recipe.user}
        if recipe.entrypoint:
            config['Entrypoint'] = recipe.entrypoint
        oci_archive.write(out, recipe.name, layers, config, compress=compress)
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
