"""A Debian root file system as a tar, from the machine's own apt sources, without a registry."""
import contextlib
import hashlib
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

from programs import at_work, need

PYTHON = {'bookworm': '3.11', 'trixie': '3.13'}  # of each suite that recipes may name
GLIBC = {'bookworm': 36, 'trixie': 41}  # 2.N

# What the lowest packages are unpacked and configured to is kept for a while: a third of most builds.
CACHE = pathlib.Path('/var/cache/atoll/debian')
CACHE_SECONDS = 7 * 86400

# Nobody reads manuals there. A JRE's alternatives put links to manual pages where the hook makes
# room, and fail where it is not.
_OPTIONS = [
    '--mode=root', '--format=tar',
    '--aptopt=Acquire::Languages "none"', '--aptopt=Acquire::Retries "3"',
    '--dpkgopt=path-exclude=/usr/share/man/*', '--dpkgopt=path-exclude=/usr/share/doc/*',
    '--dpkgopt=path-include=/usr/share/doc/*/copyright',
    '--dpkgopt=path-exclude=/usr/share/locale/*', '--dpkgopt=path-exclude=/usr/share/info/*',
    '--dpkgopt=path-exclude=/usr/share/lintian/*',
    # A root that a crash has left half done is made anew. It stays in the image: a sandbox does not
    # outlive the host either.
    '--dpkgopt=force-unsafe-io',
    '--essential-hook=mkdir -p "$1"/usr/share/man/man1',
]
_CLEANUP = [
    '--customize-hook=rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin '
    '"$1"/var/cache/debconf/*-old "$1"/var/log/*.log "$1"/var/log/apt "$1"/etc/hostname '
    '"$1"/etc/resolv.conf',
    '--customize-hook=rm -f "$1"/etc/apt/apt.conf.d/99mmdebstrap',
]


def _sources(suite, directory):
    """Debian's own archives only: foreign repositories on the machine are none of the image's
    business. What the machine says of its own release holds for the wanted one."""
    given = os.environ.get('ATOLL_APT_SOURCES', '').split()
    files = given or ['/etc/apt/sources.list', '/etc/apt/sources.list.d/debian.sources']
    release = pathlib.Path('/etc/os-release').read_text(encoding='utf-8')
    here = re.search(r'^VERSION_CODENAME=(\w+)', release, re.MULTILINE)
    found = []
    for file in map(pathlib.Path, files):
        text = file.read_text(encoding='utf-8') if file.is_file() else ''
        if not re.search(r'^(deb |URIs:)', text, re.MULTILINE):
            continue
        if here:
            text = re.sub(rf'\b{here[1]}\b', suite, text)
        found.append(directory / file.name)
        found[-1].write_text(text, encoding='utf-8')
    return found


def _proxy():
    """That the machine's apt needs. It is not in the image: a hook removes what --aptopt writes."""
    told = subprocess.run(['apt-config', 'dump', '--format', '%f "%v";%n', 'Acquire::http::Proxy'],
                          capture_output=True, text=True, check=False).stdout
    return [f'--aptopt={line}' for line in told.splitlines() if '""' not in line]


def python_place(suite, layer):
    """Where packages of PyPI are in it."""
    return layer / f'usr/local/lib/python{PYTHON[suite]}/dist-packages'


def _compile(suite, layer):
    """A hook that compiles a layer's packages by the image's own Python: as nobody, because they are
    strangers', and in a place of their own within the root. What is compiled counts as long as its
    source has the same time and size: whoever edits that in a sandbox runs what is written there."""
    python = python_place(suite, layer)
    place = shlex.quote(str(python))
    return (f'--customize-hook=if test -d {place}; then cp -r --preserve=timestamps {place} "$1"/compiled && '
            'chown -R 65534:65534 "$1"/compiled && '
            '{ chroot --userspec=65534:65534 "$1" python3 -I -m compileall -q '
            f'--invalidation-mode timestamp -s /compiled -p /{python.relative_to(layer)} /compiled || true; }} && '
            f'cp -r --preserve=timestamps "$1"/compiled/. {place} && rm -r "$1"/compiled; fi')


def _is_memory(place):
    return subprocess.run(['stat', '--file-system', '--format=%T', place], capture_output=True, text=True,
                          check=True).stdout == 'tmpfs\n'


@contextlib.contextmanager
def _mmdebstrap(work, *words, **options):
    """At work, as by at_work. What it leaves of files and mounts goes, however it ends. The root is in memory
    if `work`, a directory, is: on a disk its thousands of small files take half of the time."""
    with tempfile.TemporaryDirectory(prefix='atoll-root.') as place:
        os.chmod(place, 0o711)  # apt downloads as a user of its own
        within, hint = ['unshare', '--mount'], ''
        if _is_memory(work):
            # One of its own: /dev/shm has neither devices nor set-uid programs.
            within += ['sh', '-c', f'mount -t tmpfs -o mode=711 atoll-root {shlex.quote(place)} && exec "$@"', 'sh']
            hint = '; the root was made in memory: TMPDIR=/var/tmp takes the disk instead'
        with at_work('mmdebstrap', *_OPTIONS, *_proxy(), *words, within=within, hint=hint,
                     env={**os.environ, 'TMPDIR': place}, **options) as program:
            yield program


class Base:
    """The tar of a root that has only what each has. It may be some days old: what is newer since is
    installed in each image. With SOURCE_DATE_EPOCH it is made anew, because then the same input
    gives the same image. `work` is a directory of the caller's."""

    def __init__(self, suite, work):
        need('mmdebstrap')
        if os.geteuid() != 0:
            sys.exit('run me as root: mmdebstrap --mode=root makes files of all owners')
        self.suite, self.sources, self._work = suite, _sources(suite, work), work
        self._words = ['--variant=minbase', '--include=ca-certificates', *_CLEANUP]
        said = repr([_OPTIONS, self._words, *(file.read_text(encoding='utf-8') for file in self.sources)])
        place = work
        if 'SOURCE_DATE_EPOCH' not in os.environ:
            place = CACHE
            place.mkdir(parents=True, exist_ok=True)
            for old in place.iterdir():
                if time.time() - old.stat().st_mtime > CACHE_SECONDS:
                    old.unlink(missing_ok=True)
        self.tar = place / f'{suite}-{hashlib.sha256(said.encode()).hexdigest()[:16]}.tar'

    @contextlib.contextmanager
    def made(self):
        """It is made while the body does something else."""
        part = self.tar.with_suffix(f'.{os.getpid()}')
        try:
            with _mmdebstrap(self._work, *self._words, self.suite, part, *self.sources):
                yield
            part.rename(self.tar)
        finally:
            part.unlink(missing_ok=True)


def _install(packages, unpacked):
    """A hook. apt works from outside, as mmdebstrap has it: the image needs neither the machine's network
    nor its proxy. What it says is told if it fails; standard output is the tar's."""
    commands = ['export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"',
                'apt-get -qq -o DPkg::Use-Pty=false -o DPkg::Chroot-Directory="$1" dist-upgrade ' + shlex.join(packages)]
    if unpacked:
        commands += ['mkdir "$1"/unpacked', 'cd "$1"/unpacked', 'apt-get -qq download ' + shlex.join(unpacked),
                     'for file in *.deb; do dpkg-deb --extract "$file" "$1" || exit 1; done', 'rm -r "$1"/unpacked']
    return f'--customize-hook=said=$(exec 2>&1; {" && ".join(commands)}) || {{ echo "$said" >&2; exit 1; }}'


class Root:
    """A root file system that is being made."""

    def __init__(self, tar, layers_made):
        self.tar = tar  # begins when the layers' Python is compiled
        self._layers_made = layers_made

    def layers_are_made(self):
        """What they have of Python may be compiled now."""
        os.write(self._layers_made, b'\n')


@contextlib.contextmanager
def root(base, recipe, layers, work):
    """A recipe's Root above `base`, made while the body makes `layers`, directories; the body reads the tar to its end."""
    told, layers_made = os.pipe()
    with _mmdebstrap(work, '--variant=custom',
                     f'--setup-hook=tar -C "$1" --exclude="./dev/*" -xf {shlex.quote(str(base.tar))}',
                     _install(recipe.packages, recipe.unpacked),
                     *(f'--customize-hook=chroot "$1" useradd --create-home --shell /bin/bash --uid {uid} {user}'
                       for uid, user in enumerate(recipe.users, 1000)),
                     *_CLEANUP,
                     f'--customize-hook=read -r made </proc/self/fd/{told}',
                     *(_compile(base.suite, layer) for layer in layers),
                     base.suite, '-', *base.sources,
                     stdout=subprocess.PIPE, pass_fds=[told]) as mmdebstrap:
        os.close(told)
        try:
            yield Root(mmdebstrap.stdout, layers_made)
        finally:
            os.close(layers_made)
