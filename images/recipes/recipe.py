"""A recipe, read from its TOML file and the recipes that it builds on."""
import dataclasses
import difflib
import pathlib
import re
import tomllib

HERE = pathlib.Path(__file__).resolve().parent

_WORDS = (list, 'a list of strings')
_TEXT = (str, 'a string')
# The type of each key.
KEYS = {
    'about': _TEXT, 'from': ((str, list), 'a string or a list of strings'), 'name': _TEXT,
    'aliases': _WORDS,
    'suite': _TEXT, 'packages': _WORDS, 'unpacked': _WORDS, 'pip': _WORDS, 'pip_dependencies': (bool, 'true or false'),
    'npm': _WORDS, 'npm_folders': _WORDS, 'users': _WORDS, 'run': _WORDS,
    'files': (dict, 'a table of strings'), 'links': (dict, 'a table of strings'), 'remove': _WORDS,
    'env': (dict, 'a table of strings'), 'entrypoint': _WORDS, 'cmd': _WORDS,
    'workdir': _TEXT, 'user': _TEXT,
}
# Accepted forms of words that become arguments of other programs. None of them can be an option.
WORD = {
    'packages': r'[a-z0-9][a-z0-9+.-]+(:[a-z0-9-]+)?(=[A-Za-z0-9.+:~-]+)?',
    # Only packages of an index. A URL or a path could run a build on this host.
    'pip': r'[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._, -]*\])?[ ]*([<>=!~][^\0\n@/;]*)?(;[^\0\n@/]*)?',
    'npm': r'(@[a-z0-9._~-]+/)?[A-Za-z0-9][A-Za-z0-9._~-]*(@[A-Za-z0-9.^~<>=|*+_-]+)?',
    'users': r'[a-z][a-z0-9-]{0,31}',
}
WORD['unpacked'] = WORD['packages']


class RecipeError(Exception):
    """An error for the author of the recipe: the file, the key, and what to write instead."""


@dataclasses.dataclass
class Step:
    """The layer that one recipe of a chain adds on top of Debian's packages."""
    directory: pathlib.Path  # base of its relative paths
    pip: list
    pip_dependencies: bool  # whether dependencies of the listed packages are installed too
    npm: list
    npm_folders: list  # folders filled by npm, in which it installs the packages of their package.json
    files: dict
    links: dict  # path → target
    remove: list


@dataclasses.dataclass
class Recipe:
    """A chain of recipes combined: the packages and the environment of all, and a layer for each that has more."""
    name: str
    aliases: list
    sources: list  # the recipes' files
    suite: str = ''
    packages: list = dataclasses.field(default_factory=list)
    unpacked: list = dataclasses.field(default_factory=list)  # packages of which only the files are used
    users: list = dataclasses.field(default_factory=list)  # ids from 1000 on
    steps: list = dataclasses.field(default_factory=list)
    run: list = dataclasses.field(default_factory=list)  # scripts, run last
    env: dict = dataclasses.field(default_factory=dict)
    entrypoint: list = dataclasses.field(default_factory=list)
    cmd: list = dataclasses.field(default_factory=list)
    workdir: str = '/'
    user: str = ''


def shipped():
    """Returns the names of the recipes that come with Atoll, sorted."""
    return sorted(path.stem for path in HERE.glob('*.toml'))


def find(what, directory=pathlib.Path('.')):
    """Returns the file of a recipe that comes with Atoll, or of the user's own."""
    if what.endswith('.toml') or '/' in what:
        file = directory / what
        if not file.is_file():
            raise RecipeError(f'{file}: there is no such file')
        return file
    if what in shipped():
        return HERE / f'{what}.toml'
    near = difflib.get_close_matches(what, shipped(), 1)
    raise RecipeError(f"no recipe '{what}'" + (f', but {near[0]}' if near else '') + '; there are '
                      f'{", ".join(shipped())}, and files of your own whose names end in .toml')


def _check(file, text):
    for key, value in text.items():
        if key not in KEYS:
            near = difflib.get_close_matches(key, KEYS, 1)
            raise RecipeError(f'{file}: {key}: no such key' + (f'; did you mean {near[0]}?' if near
                              else f'; there are {", ".join(KEYS)}'))
        kind, wanted = KEYS[key]
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
        if not isinstance(value, kind) or not all(isinstance(part, str) for part in parts):
            raise RecipeError(f'{file}: {key}: must be {wanted}')
        for part in value if key in WORD else []:
            if not re.fullmatch(WORD[key], part):
                raise RecipeError(f"{file}: {key}: '{part}' is not the name of one")
    if text.get('npm_folders') and not text.get('npm'):
        raise RecipeError(f'{file}: npm_folders: npm brings none here; say npm = […], too')
    for name in text.get('env', {}):
        if not re.fullmatch(r'[A-Za-z_][A-Za-z0-9_]*', name):
            raise RecipeError(f"{file}: env: '{name}' is not the name of a variable")
    for path in [*text.get('files', {}).values(), *text.get('links', {}), text.get('workdir', '/'),
                 *text.get('remove', []), *text.get('npm_folders', [])]:
        if not path.startswith('/') or '..' in path.split('/') or '\0' in path:
            raise RecipeError(f"{file}: '{path}' must be a path in the image: from / on, without ..")


def _own(file):
    try:
        with open(file, 'rb') as source:
            text = tomllib.load(source)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f'{file}: {error}') from error
    _check(file, text)
    return text


def _follow(file, chain, above=()):
    """Adds (file, its text) to `chain` after all recipes that it builds on, each once."""
    if file.resolve() in above:
        raise RecipeError(f'{file}: is made from itself')
    if any(file.samefile(known) for known, _ in chain):
        return
    text = _own(file)
    parents = text.get('from', [])
    for parent in [parents] if isinstance(parents, str) else parents:
        _follow(find(parent, file.parent), chain, (*above, file.resolve()))
    chain.append((file, text))


def load(what):
    """Loads the recipe of this name or file, with all that it builds on."""
    chain = []
    _follow(find(what), chain)
    recipe = Recipe(chain[-1][1].get('name', f'{chain[-1][0].stem}:latest'),
                    chain[-1][1].get('aliases', []), [file for file, _ in chain])
    for file, text in chain:
        recipe.suite = text.get('suite', recipe.suite)
        for key in ('packages', 'unpacked', 'users'):
            known = getattr(recipe, key)
            known += [one for one in text.get(key, []) if one not in known]
        recipe.run += text.get('run', [])
        recipe.env.update(text.get('env', {}))
        # The former cmd was meant for the former entrypoint.
        if 'entrypoint' in text:
            recipe.cmd = []
        for key in ('entrypoint', 'cmd', 'workdir', 'user'):
            setattr(recipe, key, text.get(key, getattr(recipe, key)))
        step = Step(file.parent, text.get('pip', []), text.get('pip_dependencies', True),
                    text.get('npm', []), text.get('npm_folders', []), text.get('files', {}),
                    text.get('links', {}), text.get('remove', []))
        if step.pip or step.npm or step.files or step.links:
            recipe.steps.append(step)
    for key in ('pip', 'npm'):
        if not recipe.suite and any(getattr(step, key) for step in recipe.steps):
            raise RecipeError(f'{chain[-1][0]}: {key}: the image has no Debian in it; say from = "base"')
    for key in ('packages', 'unpacked', 'users'):
        if getattr(recipe, key) and not recipe.suite:
            raise RecipeError(f"{chain[-1][0]}: {key}: '{chain[0][0].stem}' has no Debian in it; "
                              'say from = "base"')
    return recipe
