#!/usr/bin/env python3
"""Makes an image from a Dockerfile. Run by 'atoll image build -f'.

    build_file.py --file FILE [--name NAME] [--build-arg NAME=VALUE]… [--target STAGE] [--network none] [--no-cache] CONTEXT

Each RUN, COPY, ADD and WORKDIR runs in a sandbox of the steps below it and becomes a snapshot, which is kept for later
builds with the same step. Nothing of the Dockerfile, the context or an image runs on the host.
"""
import argparse
import copy
import hashlib
import json
import os
import pathlib
import re
import signal
import sys
import tarfile
import tempfile

import build_tar
import dockerfile
import globs
import oci_archive
import settings
from build_api import Api, ApiError, Box, quote
from build_context import Context, ContextError
from dockerfile import DockerfileError, Variables

KEPT = 'atoll-build:'  # prefix of the names of steps' snapshots
MAX_KEPT = 200
_STEP = 3  # part of the keys; raised when the same step gives another result
_ARCHIVE = re.compile(r'\.(tar|tar\.(gz|bz2|xz|zst)|tgz|tbz2?|txz)$')
# Arguments that need no ARG instruction.
_PROXIES = ('HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'FTP_PROXY', 'ALL_PROXY')
PREDEFINED = {*_PROXIES, *map(str.lower, _PROXIES)}
_DEFAULT_PATH = oci_archive.DEFAULT_PATH.partition('=')[2]
_DEFAULT_SHELL = ['/bin/sh', '-c']
_MACHINE = {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(os.uname().machine, os.uname().machine)
PLATFORM = f'linux/{_MACHINE}'
_PLATFORMS = {f'{whose}{what}': value for whose in ('TARGET', 'BUILD') for what, value in
              (('PLATFORM', PLATFORM), ('OS', 'linux'), ('ARCH', _MACHINE))}


class Stage:
    """The state of a stage after an instruction."""

    def __init__(self, parent, key, config, args):
        self.parent = parent  # ('image', its name) or ('snapshot', its id)
        self.key = key        # the same key means the same files
        self.config = config  # the config of an OCI image
        self.args = args      # ARGs in effect; None: without a value
        self.cmd_is_own = False

    def env(self):
        return dict(entry.split('=', 1) for entry in self.config.get('Env', []))

    def set_env(self, name, value):
        self.config['Env'] = [f'{key}={old}' for key, old in {**self.env(), name: value}.items()]


class Build:
    def __init__(self, api, file, context, options):
        self._api, self._file, self._context = api, file, context
        self._network = options.network != 'none'
        self._use_kept = not options.no_cache
        self._given = dict(word.partition('=')[::2] if '=' in word else (word, os.environ[word])
                           for word in options.build_arg if '=' in word or word in os.environ)
        self._asked = set()  # build arguments that an ARG has used
        self._target = options.target
        self._global = {}
        self._stages = {}  # finished stages by number
        self._sources = {}  # images of COPY --from by name
        self._used = set()  # snapshots in use
        self._count = self._total = 0
        self._line = 1

    # ---- stages

    def run(self):
        """Makes the last stage, or the requested one."""
        blocks = self._blocks()
        names = {}
        for number, block in enumerate(blocks):
            words = block[0].text.split()
            if len(words) == 3 and words[1].upper() == 'AS':
                if not re.fullmatch(r'[A-Za-z][A-Za-z0-9_.-]*', words[2]):
                    raise DockerfileError(block[0].line, f"FROM: '{words[2][:60]}' is no name of a stage")
                names[words[2].lower()] = number
            elif len(words) != 1:
                raise DockerfileError(block[0].line, 'FROM: wants IMAGE, or IMAGE AS NAME')
        self._names = names
        wanted = len(blocks) - 1
        if self._target:
            if self._target.lower() not in names and not (
                    self._target.isdigit() and int(self._target) < len(blocks)):
                raise DockerfileError(1, f"no stage is called '{self._target[:60]}'")
            wanted = names.get(self._target.lower(), int(self._target) if self._target.isdigit() else 0)
        needed = self._needed(blocks, wanted)
        self._total = sum(len(blocks[number]) for number in needed)
        for number in sorted(needed):
            self._stages[number] = self._stage(number, blocks[number])
        unknown = set(self._given) - self._asked - PREDEFINED
        if unknown:
            print(f'--build-arg {", ".join(sorted(unknown))}: no ARG of the Dockerfile has asked for it', file=sys.stderr)
        return self._stages[wanted]

    def _blocks(self):
        """Splits the instructions into stages. Those before the first stage are in self._global."""
        blocks = []
        for instruction in self._file.instructions:
            self._line = instruction.line
            if instruction.word == 'FROM':
                blocks.append([instruction])
            elif blocks:
                blocks[-1].append(instruction)
            elif instruction.word == 'ARG':
                for name, value in self._arg_words(instruction, self._global):
                    self._global[name] = self._given.get(name, value)
            else:
                raise DockerfileError(instruction.line, f'{instruction.word}: the first instruction is FROM (or ARG)')
        if not blocks:
            raise DockerfileError(self._line, 'has no FROM')
        return blocks

    def _base_of(self, instruction):
        return self._variables(instruction.line, {**_PLATFORMS, **self._global}).expand(instruction.text.split()[0])

    def _stage_named(self, name, before):
        """Returns the number of the stage with this name, or None."""
        number = self._names.get(name.lower())
        if number is None and name.isdigit():
            number = int(name)
        return number if number is not None and number < before else None

    def _needed(self, blocks, wanted):
        needed, rest = set(), [wanted]
        while rest:
            number = rest.pop()
            if number in needed:
                continue
            needed.add(number)
            from_words = [self._base_of(blocks[number][0])]
            from_words += [one.flags['from'] for one in blocks[number] if 'from' in one.flags]
            rest += [other for other in (self._stage_named(word, number) for word in from_words) if other is not None]
        return needed

    def _stage(self, number, block):
        first = block[0]
        self._say(first)
        stage = self._begin(number, first)
        for instruction in block[1:]:
            self._line = instruction.line
            if instruction.word not in ('RUN', 'COPY', 'ADD', 'WORKDIR'):  # these print their own result
                self._say(instruction)
            getattr(self, '_do_' + instruction.word.lower())(stage, instruction, number)
        return stage

    def _begin(self, number, first):
        self._line = first.line
        platform = first.flags.get('platform')
        if platform:
            platform = self._variables(first.line, {**_PLATFORMS, **self._global}).expand(platform)
            if platform not in (PLATFORM, f'linux/{os.uname().machine}', 'linux'):
                raise DockerfileError(first.line, f'FROM --platform={platform[:60]}: this machine builds for {PLATFORM}')
        name = self._base_of(first)
        if not name:
            raise DockerfileError(first.line, 'FROM: its variables leave no name')
        other = self._stage_named(name, number)
        if other is not None:
            stage = copy.deepcopy(self._stages[other])
            stage.args, stage.cmd_is_own = {}, False
            return stage
        return self._image(name)

    def _image(self, name):
        """Returns a stage that consists of an image."""
        if name == 'scratch':
            name = self._scratch()
        told = self._api.send('GET', '/images/' + quote(name))
        config = {'Env': told.get('env', []), 'Entrypoint': told.get('entrypoint', []), 'Cmd': told.get('cmd', []),
                  'WorkingDir': told.get('workingDir', ''), 'User': told.get('user', ''),
                  'Labels': told.get('labels', {}), 'Shell': told.get('shell', []),
                  'StopSignal': told.get('stopSignal', ''),
                  'ExposedPorts': dict.fromkeys(told.get('exposedPorts', []), {}),
                  'Volumes': dict.fromkeys(told.get('volumes', []), {})}
        stage = Stage(('image', told['name']), f'image {told["digest"]}', config, {})
        if 'PATH' not in stage.env():
            stage.set_env('PATH', _DEFAULT_PATH)
        return stage

    def _scratch(self):
        """Returns a stage without any file."""
        name = 'atoll/build:scratch'
        try:
            self._api.send('GET', '/images/' + quote(name))
        except ApiError as error:
            if error.status != 404:
                raise
            with tempfile.TemporaryDirectory(prefix='atoll-scratch.') as work:
                empty, archive = pathlib.Path(work, 'empty'), pathlib.Path(work, 'image.tar')
                empty.mkdir()
                with oci_archive.Archive(archive, compress=False) as written:
                    written.add_layer(empty, 0)
                    written.finish(name, {}, quiet=True)
                with open(archive, 'rb') as file:
                    self._api.send('POST', f'/images?name={quote(name)}', file,
                                   {'Content-Type': 'application/x-tar', 'Content-Length': str(archive.stat().st_size)})
        return name

    # ---- words

    def _variables(self, line, known):
        return Variables(line, self._file.escape, known.get)

    def _known(self, stage):
        """Returns the values of variables. ENV overrides ARG."""
        return {**{name: value for name, value in self._given.items() if name in PREDEFINED},
                **{name: value for name, value in stage.args.items() if value is not None}, **stage.env()}

    def _expand(self, stage, instruction, text):
        return self._variables(instruction.line, self._known(stage)).expand(text)

    def _words(self, stage, instruction):
        """Returns the words of the JSON form, or those separated by spaces."""
        words = instruction.words if instruction.words is not None else instruction.text.split()
        return [self._expand(stage, instruction, word) for word in words]

    def _arg_words(self, instruction, known):
        for word in dockerfile.split(instruction.line, instruction.text, self._file.escape):
            name, equals, value = word.partition('=')
            if not re.fullmatch(r'[A-Za-z_][A-Za-z0-9_]*', name):
                raise DockerfileError(instruction.line, f"ARG: '{name[:60]}' is no name of a variable")
            self._asked.add(name)
            yield name, self._variables(instruction.line, known).expand(value) if equals else None

    def _say(self, instruction, kept=False):
        self._count += 1
        flags = ' '.join(f'--{name}={value}' for name, value in instruction.flags.items())
        text = ' '.join(f'{instruction.word} {flags} {instruction.text}'.split())
        shown = ''.join(char if char.isprintable() else '?' for char in text[:100])
        print(f'[{self._count}/{self._total}] {shown}{" …" if len(text) > 100 else ""}{" (kept)" if kept else ""}',
              file=sys.stderr, flush=True)

    # ---- steps that write files

    def _step(self, stage, instruction, said, network, work):
        """Uses the snapshot of the same step of an earlier build, or does `work` in a box."""
        key = hashlib.sha256(json.dumps([_STEP, stage.key, said]).encode('utf-8', 'surrogateescape')).hexdigest()
        kept = self._find(key) if self._use_kept else None
        self._say(instruction, kept is not None)
        if kept is None:
            with Box(self._api, stage.parent, network) as box:
                self._make_workdir(stage, box)
                work(box)
                kept = box.snapshot(KEPT + key)
        self._used.add(kept)
        stage.parent, stage.key = ('snapshot', kept), key

    def _find(self, key):
        told = self._api.send('GET', f'/snapshots?state=Ready&name={quote(KEPT + key)}')
        return next((one['id'] for one in told.get('items', [])), None)

    @staticmethod
    def _make_workdir(stage, box):
        with tempfile.TemporaryFile() as empty:
            tarfile.open(fileobj=empty, mode='w').close()
            box.unpack(empty, stage.config.get('WorkingDir') or '/')

    def _do_run(self, stage, instruction, number):
        wanted = instruction.flags.get('network', 'default')
        if wanted not in ('default', 'none'):
            raise DockerfileError(instruction.line, f'RUN --network={wanted[:40]}: there are default and none; '
                                  'no sandbox sees the host\'s network')
        network = self._network and wanted == 'default'
        script, argv = None, instruction.words
        if argv is None:
            text = instruction.text
            alone = instruction.heredocs and re.fullmatch(r'<<-?[\'"]?\w+[\'"]?', text)
            if alone and instruction.heredocs[0].body.startswith('#!'):
                script = instruction.heredocs[0].body
                # Nothing is executed from /dev/shm.
                argv = [*script.partition('\n')[0][2:].split(), '/dev/shm/script']
            elif alone:
                argv = [*self._shell(stage), instruction.heredocs[0].body]
            else:
                for heredoc in instruction.heredocs:
                    text += f'\n{heredoc.body}{heredoc.name}'
                argv = [*self._shell(stage), text]
        if not argv or not argv[0]:
            raise DockerfileError(instruction.line, 'RUN: names no program')
        env = {**{name: value for name, value in stage.args.items() if value is not None}, **stage.env()}
        user, cwd = stage.config.get('User', ''), stage.config.get('WorkingDir') or '/'

        def work(box):
            fetching = {**box.trust(), **{name: self._given[name] for name in PREDEFINED if name in self._given}}
            uid, gid, home = self._account(box, user, instruction)
            if script is not None:
                box.unpack(build_tar.tar_of('script', script.encode(), 0o755), '/dev/shm')
            outcome = box.run(argv, {'HOME': home, **fetching, **env}, cwd, (uid, gid))
            if outcome != 0:
                raise DockerfileError(instruction.line, f'RUN: {outcome}')

        self._step(stage, instruction, ['RUN', argv, script, sorted(env.items()), user, cwd, network], network, work)

    @staticmethod
    def _account(box, said, instruction):
        try:
            return box.account(said or '0')
        except LookupError as error:
            raise DockerfileError(instruction.line, f'{instruction.word}: {error}') from None

    def _do_add(self, stage, instruction, number):
        for word in self._words(stage, instruction)[:-1]:
            if re.match(r'[a-z][a-z0-9+.-]*://|git@', word):
                raise DockerfileError(instruction.line, f"ADD: '{word[:80]}' is not of the context; fetch it in a RUN, "
                                      'and compare what has come with a digest')
            if _ARCHIVE.search(word):
                raise DockerfileError(instruction.line, f"ADD: unpacks no archive ('{word[:80]}'); COPY it, and RUN tar")
        self._do_copy(stage, instruction, number)

    def _do_copy(self, stage, instruction, number):
        words = self._words(stage, instruction)
        heredocs = {f'<<{strip}{quote}{heredoc.name}{quote}': heredoc for heredoc in instruction.heredocs
                    for strip in ('', '-') for quote in ('', '"', "'")}
        if instruction.words is None:
            raw = instruction.text.split()
            words = [one if one in heredocs else word for one, word in zip(raw, words)]
        if len(words) < 2 or not all(words):
            raise DockerfileError(instruction.line, f'{instruction.word}: wants SOURCE … TARGET')
        *sources, target = words
        cwd = stage.config.get('WorkingDir') or '/'
        place = os.path.normpath(os.path.join('/', cwd, target)).replace('//', '/')
        into = target.endswith('/') or target in ('.', '..') or target.endswith('/.') or len(sources) > 1
        if len(sources) > 1 and not target.endswith('/') and target not in ('.', '..'):
            raise DockerfileError(instruction.line, f"{instruction.word}: '{target[:80]}' must end with /, as there are "
                                  'several sources')
        chown = self._expand(stage, instruction, instruction.flags.get('chown', ''))
        chmod = self._expand(stage, instruction, instruction.flags.get('chmod', ''))
        if chmod and not re.fullmatch('[0-7]{1,4}', chmod):
            raise DockerfileError(instruction.line, f"{instruction.word} --chmod={chmod[:20]}: is no octal number")
        mode = int(chmod, 8) if chmod else None
        said = [instruction.word, place, into, chown, mode]
        if 'from' in instruction.flags:
            source = self._source(self._expand(stage, instruction, instruction.flags['from']), number, instruction)
            said += ['from', source.key, sources]
        else:
            source = None
            content = hashlib.sha256()
            for word in sources:
                if word in heredocs:
                    content.update(repr((word, self._heredoc(stage, instruction, heredocs[word]))).encode())
                    continue
                for path in self._match(instruction, word):
                    content.update(f'{path[-1:]}\0'.encode('utf-8', 'surrogateescape'))
                    self._context.digest(content, path)
            said.append(content.hexdigest())

        def work(box):
            owner = self._account(box, chown, instruction)[:2] if chown else None
            is_dir = into or box.names(place) is not None
            if source is not None:
                self._copy_between(box, source, sources, place, is_dir, owner, mode, instruction)
                return
            with tempfile.TemporaryFile() as file:
                top = place
                with tarfile.open(fileobj=file, mode='w', format=tarfile.PAX_FORMAT) as tar:
                    for word in sources:
                        if word in heredocs:
                            name = heredocs[word].name if is_dir else os.path.basename(place)
                            build_tar.add_bytes(tar, name, self._heredoc(stage, instruction, heredocs[word]).encode(),
                                       owner or (0, 0), mode if mode is not None else 0o644)
                            top = place if is_dir else os.path.dirname(place)
                            continue
                        for path in self._match(instruction, word):
                            entry = self._context.entries().get(path)
                            if entry is None or entry.is_dir():
                                self._context.add(tar, path, '', owner or (0, 0), mode)
                            else:
                                named = self._last_name(word, path)
                                self._context.add(tar, path, named if is_dir else os.path.basename(place),
                                                  owner or (0, 0), mode)
                                top = place if is_dir else os.path.dirname(place)
                box.unpack(file, top)

        self._step(stage, instruction, said, False, work)

    @staticmethod
    def _last_name(word, path):
        """Returns the name of a source in the target directory: its own name, even if it is a link."""
        own = word.rstrip('/').rpartition('/')[2]
        return own if own and not set(own) & set('*?[\\') else path[-1]

    def _match(self, instruction, word):
        try:
            return self._context.match(word)
        except (ContextError, globs.GlobError) as error:
            raise DockerfileError(instruction.line, f'{instruction.word}: {error}') from None

    def _heredoc(self, stage, instruction, heredoc):
        if not heredoc.expand:
            return heredoc.body
        return self._variables(instruction.line, self._known(stage)).expand(heredoc.body, quotes=False)

    def _source(self, name, number, instruction):
        """Returns the source of COPY --from: a stage, or an image."""
        other = self._stage_named(name, number)
        if other is not None:
            return self._stages[other]
        if name not in self._sources:
            self._sources[name] = self._image(name)
        return self._sources[name]

    def _copy_between(self, box, stage, sources, place, is_dir, owner, mode, instruction):
        with Box(self._api, stage.parent, False) as other:
            for word in sources:
                word = os.path.normpath('/' + word).replace('//', '/')
                for path in self._found_in(other, word, instruction):
                    if other.names(path) is not None:
                        with other.pack(path) as packed, build_tar.owned(packed, owner, mode) as tar:
                            box.unpack(tar, place)
                        continue
                    info = other.info(path)
                    with other.read(path) as file:
                        given = owner or _ids_of(other, info)
                        bits = mode if mode is not None else int(str(info.get('mode', 644)), 8)
                        name = os.path.basename(path if is_dir else place)
                        with build_tar.tar_of_file(name, file, given, bits) as tar:
                            box.unpack(tar, place if is_dir else os.path.dirname(place))

    def _found_in(self, other, word, instruction):
        """Returns the paths that a source in an image or stage matches."""
        found = ['/']
        for part in (part for part in word.split('/') if part):
            if set(part) & set('*?['):
                try:
                    glob = globs.Glob(part)
                except globs.GlobError as error:
                    raise DockerfileError(instruction.line, f'COPY: {error}') from None
                found = [os.path.join(directory, name) for directory in found for name in other.names(directory) or []
                         if glob.fits((name,))]
            else:
                found = [os.path.join(directory, part) for directory in found]
        found = [path for path in found if other.info(path) is not None or path == '/']
        if not found:
            raise DockerfileError(instruction.line, f"COPY: '{word[:200]}' is not in {instruction.flags['from'][:80]}")
        return found

    def _do_workdir(self, stage, instruction, number):
        given = self._expand(stage, instruction, instruction.text)
        place = os.path.normpath(os.path.join('/', stage.config.get('WorkingDir') or '/', given)).replace('//', '/')
        stage.config['WorkingDir'] = place
        self._step(stage, instruction, ['WORKDIR', place], False, lambda box: None)

    # ---- instructions that only change the config

    def _do_arg(self, stage, instruction, number):
        for name, value in self._arg_words(instruction, self._known(stage)):
            if name in self._given:
                value = self._given[name]
            elif value is None:
                value = self._global.get(name, _PLATFORMS.get(name))
            stage.args[name] = value

    def _do_env(self, stage, instruction, number):
        known = self._known(stage)  # values from before this instruction; its own apply only to later ones
        for name, value in dockerfile.pairs(instruction, self._file.escape):
            name = self._variables(instruction.line, known).expand(name)
            if not name or '=' in name:
                raise DockerfileError(instruction.line, f"ENV: '{name[:60]}' is no name of a variable")
            stage.set_env(name, self._variables(instruction.line, known).expand(value))

    def _do_label(self, stage, instruction, number):
        known = self._known(stage)
        for name, value in dockerfile.pairs(instruction, self._file.escape):
            of = self._variables(instruction.line, known)
            stage.config.setdefault('Labels', {})[of.expand(name)] = of.expand(value)

    def _do_maintainer(self, stage, instruction, number):
        stage.config.setdefault('Labels', {})['maintainer'] = self._expand(stage, instruction, instruction.text)

    def _do_user(self, stage, instruction, number):
        stage.config['User'] = self._expand(stage, instruction, instruction.text)

    def _do_stopsignal(self, stage, instruction, number):
        name = self._expand(stage, instruction, instruction.text)
        plain = name.upper() if name.upper().startswith('SIG') else 'SIG' + name.upper()
        if not (name.isdigit() and 0 < int(name) < 65) and plain not in signal.Signals.__members__ and not re.fullmatch(
                r'SIGRTM(IN|AX)([+-]\d{1,2})?', plain):
            raise DockerfileError(instruction.line, f"STOPSIGNAL: '{name[:40]}' is no signal")
        stage.config['StopSignal'] = name

    def _do_expose(self, stage, instruction, number):
        for word in self._words(stage, instruction):
            port = re.fullmatch(r'(\d{1,5})(?:-(\d{1,5}))?(?:/(tcp|udp|sctp))?', word.lower())
            low = int(port[1]) if port else 0
            high = int(port[2] or port[1]) if port else 0
            if not 0 < low <= high < 65536 or high - low > 1000:
                raise DockerfileError(instruction.line, f"EXPOSE: '{word[:40]}' is no port, as 80 or 8000-8010/udp are")
            for number_ in range(low, high + 1):
                stage.config.setdefault('ExposedPorts', {})[f'{number_}/{port[3] or "tcp"}'] = {}

    def _do_volume(self, stage, instruction, number):
        for word in self._words(stage, instruction):
            if not word.startswith('/'):
                raise DockerfileError(instruction.line, f"VOLUME: '{word[:80]}' must be a path from / on")
            stage.config.setdefault('Volumes', {})[word] = {}

    def _do_shell(self, stage, instruction, number):
        if not instruction.words:
            raise DockerfileError(instruction.line, 'SHELL: wants ["PROGRAM", "OPTION"]')
        stage.config['Shell'] = instruction.words

    @staticmethod
    def _shell(stage):
        return stage.config.get('Shell') or _DEFAULT_SHELL

    def _command(self, stage, instruction):
        return instruction.words if instruction.words is not None else [*self._shell(stage), instruction.text]

    def _do_cmd(self, stage, instruction, number):
        stage.config['Cmd'] = self._command(stage, instruction)
        stage.cmd_is_own = True

    def _do_entrypoint(self, stage, instruction, number):
        stage.config['Entrypoint'] = self._command(stage, instruction)
        # CMD of the image below was meant for its ENTRYPOINT.
        if not stage.cmd_is_own:
            stage.config['Cmd'] = []

    # ---- cleaning up

    def commit(self, stage, name):
        kind, parent = stage.parent
        config = {key: value for key, value in stage.config.items() if value not in ('', [], {})}
        return self._api.send('POST', f'/images/commit?name={quote(name)}&{kind}={quote(parent)}', config)

    def forget_old(self):
        """Removes snapshots of steps, except the newest ones."""
        kept, page = [], 1
        while True:
            told = self._api.send('GET', f'/snapshots?pageSize=200&page={page}')
            kept += [one['id'] for one in told.get('items', []) if one.get('name', '').startswith(KEPT)]
            if not told.get('pagination', {}).get('hasNextPage'):
                break
            page += 1
        for old in kept[MAX_KEPT:]:
            if old in self._used:
                continue
            try:
                self._api.send('DELETE', f'/snapshots/{old}')
            except ApiError as error:
                if error.status not in (404, 409):
                    raise


def _ids_of(box, info):
    try:
        uid = box.account(str(info.get('owner', '0')))[0]
        return uid, box.account(f'0:{info.get("group", "0")}')[1]
    except LookupError:
        return 0, 0


def ignored_of(file, context):
    """Returns FILE.dockerignore if it exists, else that of the context."""
    for place in (pathlib.Path(f'{file}.dockerignore'), context / '.dockerignore'):
        if place.is_file() and not place.is_symlink():
            with open(place, 'rb') as opened:
                data = opened.read(dockerfile.MAX_BYTES + 1)
            if len(data) > dockerfile.MAX_BYTES:
                sys.exit(f'{place}: is longer than {dockerfile.MAX_BYTES} bytes')
            try:
                return globs.Ignored(data.decode('utf-8', 'surrogateescape'))
            except globs.GlobError as error:
                sys.exit(f'{place}: {error}')
    return globs.Ignored()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--file', required=True)
    parser.add_argument('--name', default='')
    parser.add_argument('--build-arg', action='append', default=[])
    parser.add_argument('--target', default='')
    parser.add_argument('--network', default='default')
    parser.add_argument('--no-cache', action='store_true')
    parser.add_argument('context', type=pathlib.Path)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit('ended'))
    signal.signal(signal.SIGINT, lambda *_: sys.exit('ended'))
    api = Api(os.environ.pop('ATOLL_SERVER'), os.environ.pop('ATOLL_API_KEY', ''), os.environ.get('ATOLL_CACERT', ''))
    build = None
    try:
        with open(options.file, 'rb') as file:
            parsed = dockerfile.parse(file.read(dockerfile.MAX_BYTES + 1))
        context = Context(options.context, ignored_of(options.file, options.context))
        build = Build(api, parsed, context, options)
        stage = build.run()
        made = build.commit(stage, options.name) if options.name else {}
        build.forget_old()
    except DockerfileError as error:
        sys.exit(f'{options.file}:{error.line}: {error}')
    except (ApiError, ContextError, OSError, settings.SettingsError) as error:
        sys.exit(f'{options.file}:{build._line if build else 1}: {error}')
    print(json.dumps({'name': made.get('name', ''), 'digest': made.get('digest', ''),
                      'sizeBytes': made.get('sizeBytes', 0)}))


if __name__ == '__main__':
    main()
