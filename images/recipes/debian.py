"""A Debian root file system as a tar, from the machine's own apt sources, without a registry."""
import os
import pathlib
import re
import shlex
import subprocess
import sys

from programs import need, run

PYTHON = {'bookworm': '3.11', 'trixie': '3.13'}  # of each suite that recipes may name
GLIBC = {'bookworm': 36, 'trixie': 41}  # 2.N

# Nobody reads manuals there. A JRE's alternatives put links to manual pages where the hook makes
# room, and fail where it is not.
_OPTIONS = [
    '--mode=root', '--variant=minbase', '--format=tar',
    '--aptopt=Acquire::Languages "none"', '--aptopt=Acquire::Retries "3"',
    '--dpkgopt=path-exclude=/usr/share/man/*', '--dpkgopt=path-exclude=/usr/share/doc/*',
    '--dpkgopt=path-include=/usr/share/doc/*/copyright',
    '--dpkgopt=path-exclude=/usr/share/locale/*', '--dpkgopt=path-exclude=/usr/share/info/*',
    '--dpkgopt=path-exclude=/usr/share/lintian/*',
    # A root that a crash has left half done is made anew. It stays in the image: a sandbox does not
    # outlive the host either.
    '--dpkgopt=force-unsafe-io',
    '--essential-hook=mkdir -p "$1"/usr/share/man/man1',
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
    place = python_place(suite, layer)
    return (f'--customize-hook=cp -r --preserve=timestamps {shlex.quote(str(place))} "$1"/compiled && '
            'chown -R 65534:65534 "$1"/compiled && '
            '{ chroot --userspec=65534:65534 "$1" python3 -I -m compileall -q '
            f'--invalidation-mode timestamp -s /compiled -p /{place.relative_to(layer)} /compiled || true; }} && '
            f'cp -r --preserve=timestamps "$1"/compiled/. {shlex.quote(str(place))} && rm -r "$1"/compiled')


def make_root(suite, packages, users, layers, work, out):
    """Writes the tar to `out`, and compiles what the directories `layers` have of Python; `work` is a
    directory of the caller's."""
    need('mmdebstrap')
    if os.geteuid() != 0:
        sys.exit('run me as root: mmdebstrap --mode=root makes files of all owners')
    run('mmdebstrap', *_OPTIONS, *_proxy(),
        *([f'--include={",".join(packages)}'] if packages else []),
        *(f'--customize-hook=chroot "$1" useradd --create-home --shell /bin/bash --uid {uid} {user}'
          for uid, user in enumerate(users, 1000)),
        *(_compile(suite, layer) for layer in layers if python_place(suite, layer).is_dir()),
        suite, out, *_sources(suite, work))
