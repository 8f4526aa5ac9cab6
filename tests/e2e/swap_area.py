"""Sandboxes that hold memory, the host's swap areas, and what of a sandbox is where, as the host sees it."""
import pathlib
import subprocess

from atoll import SLOWNESS, groups_named, until
from box import Box, shell_image

MIB = 1 << 20
# A page takes a disk cipher longer in the guest's emulation.
SIZE = (24 if SLOWNESS == 1 else 8) * MIB
SOON = 30 * SLOWNESS
# Keeps so many bytes that do not compress, and says their sum to each who asks.
HOLD = """
open(R, "<", "/dev/urandom"); read(R, $x, $ARGV[0]);
while (1) { open(F, "<", "/tmp/ask"); <F>; close(F);
  open(W, ">", "/tmp/answer"); print W unpack("%64C*", $x), "\\n"; close(W) }
"""


def areas():
    """Of the host, those of daemons: device → bytes used."""
    lines = pathlib.Path('/proc/swaps').read_text(encoding='ascii').splitlines()[1:]
    swaps = {line.split()[0]: int(line.split()[3]) << 10 for line in lines}
    return {device: used for device, used in swaps.items() if device not in BEFORE}


BEFORE = ()
BEFORE = tuple(areas())


def devices():
    """What an area is made of, as names."""
    return {path.name for path in pathlib.Path('/sys/block').iterdir()
            if path.name.startswith(('zram', 'dm-'))
            or (path.name.startswith('loop') and (path / 'loop').is_dir())}


DEVICES = devices()


def gone():
    return not areas() and devices() == DEVICES


def clean():
    """Of what a test that failed has left, nothing stays."""
    for device in areas():
        subprocess.run(['swapoff', f'/dev/{pathlib.Path(device).name}'], check=False)
    for name in devices() - DEVICES:
        if name.startswith('zram'):
            pathlib.Path('/sys/class/zram-control/hot_remove').write_text(name[4:], encoding='ascii')


def groups(instance):
    """Where those of its slots are, in the hierarchy that has the memory controller."""
    v1 = pathlib.Path('/sys/fs/cgroup/memory', instance)
    return v1 if v1.is_dir() else groups_named(instance)[0]


def group(box):
    instance, slot = box.group().split('/')[-2:]
    return groups(instance) / slot


def _number(path):
    return int(path.read_text(encoding='ascii'))


class Group:
    """A sandbox's, in the hierarchy that has the memory controller."""

    def __init__(self, path):
        self.path = path

    def resident(self):
        """Bytes of memory of the host that are charged to it."""
        v1 = self.path / 'memory.usage_in_bytes'
        return _number(v1 if v1.exists() else self.path / 'memory.current')

    def swapped(self):
        v2 = self.path / 'memory.swap.current'
        if v2.exists():
            return _number(v2)
        stat = dict(line.split() for line in (self.path / 'memory.stat').read_text(encoding='ascii').splitlines())
        return int(stat['total_swap'])


def resident(box):
    return Group(group(box)).resident()


def swapped(box):
    return Group(group(box)).swapped()


def settings(area):
    """Of a daemon whose paused sandboxes give their memory back."""
    return {'pause_memory': 'reclaim', 'pause_swap_size': area, 'runtime_overcommit': 0}


def image(daemon):
    return shell_image(daemon, host_programs=['/usr/bin/perl'])


def told(daemon, sandbox):
    """What a client is told of its memory, once there is something to tell: bytes, or why it was kept."""
    body = daemon.request('GET', f'/v1/sandboxes/{sandbox}')
    return body.get('reclaimedBytes') or ('kept' in body['status']['message'] and body['status']['message'])


class Holder(Box):
    """A box with a program that holds memory."""

    def __init__(self, daemon, name, size=SIZE, **fields):
        super().__init__(daemon, name, **fields)
        self.group()
        self.out('mkfifo /tmp/ask /tmp/answer')
        self.background(f"exec perl -e '{HOLD}' {size}")
        self.sum = self.ask()

    def ask(self):
        return self.out(f"timeout {SOON} sh -c 'echo >/tmp/ask; cat /tmp/answer'")

    def pause(self):
        self.daemon.send('POST', f'/v1/sandboxes/{self.id}/pause').read()

    def resume(self):
        self.daemon.request('POST', f'/v1/sandboxes/{self.id}/resume')

    def told(self):
        return told(self.daemon, self.id)

    def reclaimed(self):
        return until(self.told, SOON, 'its memory is reclaimed')
