"""What a sandbox can leave behind on the host, as comparable sets.

    before = HostState.capture(directories=[data_dir, run_dir])
    ... create, use and delete sandboxes ...
    self.assertEqual(before.await_same(seconds=2), [])

Seen are this test's own namespaces (tests/tap.py --alone) and, of the groups that all share, those of
daemons that it started itself: other tests may run beside it. On a machine with other tenants, `ignore`
(a regular expression on "kind: item") takes their traces out.
"""
import json
import os
import re
import secrets
import socket
import subprocess
import time

NAMESPACES = ('cgroup', 'ipc', 'mnt', 'net', 'pid', 'user', 'uts')
# Kernel objects that hold a namespace without any process in it: an fd, or a bind mount.
NAMESPACE_LINK = re.compile(r'(?:%s):\[\d+\]' % '|'.join(NAMESPACES))
# Programs of ours that live in the host's own namespaces.
OWN_PROGRAMS = re.compile(r'^(?:atoll|execd)')
# Differ between two listings of one unchanged rule set.
VOLATILE_NFT_KEYS = {'handle', 'counter', 'expires', 'bytes', 'packets', 'metainfo'}

# One file for each daemon of the host.
INSTANCES = '/run/atoll-instances'
INSTANCE_GROUP = re.compile(r'atoll\d+$')
# How the names of all directories begin that this test gives to daemons.
OWN = f'atoll-e2e.{secrets.token_hex(3)}.'


def _read(path):
    try:
        with open(path, encoding='utf-8', errors='replace') as file:
            return file.read()
    except OSError:  # the process has ended meanwhile
        return ''


def _link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ''


def _names(path):
    try:
        return os.listdir(path)
    except OSError:
        return []


def _pids():
    return [int(name) for name in os.listdir('/proc') if name.isdigit()]


def _mounts():
    """(mount point, file system type, source) of this mount namespace."""
    for line in _read('/proc/self/mountinfo').splitlines():
        left, _, right = line.partition(' - ')
        fstype, source = right.split()[:2]
        yield left.split()[4], fstype, source


def processes():
    """Processes that are ours by name, or sit in any namespace other than our own; also those that
    have ended and that nobody reaps."""
    own = {kind: _link(f'/proc/self/ns/{kind}') for kind in NAMESPACES}
    found = set()
    for pid in _pids():
        stat = _read(f'/proc/{pid}/stat')
        name, _, rest = stat.partition('(')[2].rpartition(')')
        fields = rest.split()
        if not fields:
            continue
        foreign = any(_link(f'/proc/{pid}/ns/{kind}') not in ('', own[kind]) for kind in NAMESPACES)
        if foreign or OWN_PROGRAMS.match(name):
            found.add(f'{pid} {name} started at {fields[19]}')
    return found


def namespaces():
    """Every namespace that something keeps alive: a process, an fd, a bind mount."""
    found = {source for _, fstype, source in _mounts() if fstype == 'nsfs'}
    for pid in _pids():
        found.update(_link(f'/proc/{pid}/ns/{kind}') for kind in NAMESPACES)
        found.update(target for target in
                     (_link(f'/proc/{pid}/fd/{fd}') for fd in _names(f'/proc/{pid}/fd'))
                     if NAMESPACE_LINK.fullmatch(target))
    return found - {''}


def mounts():
    return {f'{point} {fstype} {source}' for point, fstype, source in _mounts()}


def _foreign_instances():
    """Names of the cgroups of daemons that others run: a spawner writes its run directory into its
    number's file, and those of this test are below directories of its OWN."""
    names = set()
    for number in _names(INSTANCES):
        owner = _read(f'{INSTANCES}/{number}')
        if owner and f'/{OWN}' not in owner:
            names.add(f'atoll{number}')
    return names


def cgroups():
    """Groups below those of our daemons, "atoll<number>"; these themselves stay for the next one."""
    found = set()
    for point, fstype, _ in _mounts():
        if fstype in ('cgroup', 'cgroup2'):
            for name in _names(point):
                if INSTANCE_GROUP.match(name):
                    found.update(folder for folder, _, _ in os.walk(f'{point}/{name}')
                                 if folder != f'{point}/{name}')
    return found


def links():
    return {name for _, name in socket.if_nameindex()}


def routes():
    ipv4 = {' '.join(line.split()[:3]) for line in _read('/proc/net/route').splitlines()[1:]}
    ipv6 = {' '.join((line.split()[0], line.split()[1], line.split()[-1]))
            for line in _read('/proc/net/ipv6_route').splitlines()}
    return ipv4 | ipv6


def _without_volatile(value):
    if isinstance(value, dict):
        return {key: _without_volatile(below) for key, below in value.items()
                if key not in VOLATILE_NFT_KEYS}
    if isinstance(value, list):
        return [_without_volatile(below) for below in value]
    return value


def nftables():
    listing = subprocess.run(['nft', '-j', 'list', 'ruleset'], check=True, stdout=subprocess.PIPE)
    found = set()
    for entry in json.loads(listing.stdout)['nftables']:
        entry = _without_volatile(entry)
        # One item per set element: "an address was left in the set" names the address.
        elements = [element for kind in ('set', 'map') if kind in entry
                    for element in entry[kind].pop('elem', [])]
        text = json.dumps(entry, sort_keys=True)
        found.add(text)
        found.update(f'{text} element {json.dumps(element, sort_keys=True)}'
                     for element in elements)
    return found


def unix_sockets():
    """Paths and abstract names; connections to one name count once."""
    found = set()
    for line in _read('/proc/net/unix').splitlines()[1:]:
        fields = line.split(maxsplit=7)
        if len(fields) == 8:
            found.add(fields[7])
    return found


def paths_below(directory):
    found = set()
    for folder, below, here in os.walk(directory):
        found.update(os.path.join(folder, name) for name in below + here)
    return found


class HostState:
    """One look at the host: {kind: set of items}."""

    KINDS = (processes, namespaces, mounts, cgroups, links, routes, nftables, unix_sockets)

    def __init__(self, items, directories, ignore, foreign):
        self.items = items
        self.directories = directories
        self.ignore = ignore
        self.foreign = foreign

    @classmethod
    def capture(cls, directories=(), ignore=None):
        # Asked twice: a daemon that ends during the look has groups in it and no number behind it.
        foreign = _foreign_instances()
        items = {kind.__name__: kind() for kind in cls.KINDS}
        items['paths'] = {path for directory in directories for path in paths_below(directory)}
        return cls(items, tuple(directories), ignore, foreign | _foreign_instances())

    def difference(self, later):
        """Lines "+ kind: item" for what `later` has more, "- kind: item" for what it lacks."""
        lines = []
        for kind, old in self.items.items():
            new = later.items[kind]
            lines += [('+', f'{kind}: {item}') for item in sorted(new - old)]
            lines += [('-', f'{kind}: {item}') for item in sorted(old - new)]
        return [f'{sign} {line}' for sign, line in lines
                if not self._ignored(line, self.foreign | later.foreign)]

    def _ignored(self, line, foreign):
        return (self.ignore and re.search(self.ignore, line)) or (
            line.startswith('cgroups: ') and any(f'/{name}/' in line for name in foreign))

    def numbers(self):
        """{kind: how many}, for a running daemon, whose pools replace what they hand out."""
        return {kind: len([item for item in items
                           if not self._ignored(f'{kind}: {item}', self.foreign)])
                for kind, items in self.items.items()}

    def await_same_numbers(self, seconds):
        """Like await_same, but only the numbers: {kind: (before, now)} where they differ."""
        before = self.numbers()
        deadline = time.monotonic() + seconds
        while True:
            now = HostState.capture(self.directories, self.ignore).numbers()
            differing = {kind: (before[kind], now[kind]) for kind in now if before[kind] != now[kind]}
            if not differing or time.monotonic() > deadline:
                return differing

    def await_same(self, seconds):
        """The difference to the host as it is now, once it is empty or after the deadline.

        Tear-down happens after the answer to a delete; one look takes tens of milliseconds, which
        is pause enough between two."""
        deadline = time.monotonic() + seconds
        while True:
            lines = self.difference(HostState.capture(self.directories, self.ignore))
            if not lines or time.monotonic() > deadline:
                return lines
