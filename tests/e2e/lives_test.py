"""Many lives in one daemon: what is held for all of them after the last is what was held before.

ATOLL_LIVES (400) of them, of every kind and hostile ones, by clients side by side, from ATOLL_LIVES_SEED (1).
In the first tenth the daemon and its spawner are killed ten times, and cut off whoever is there; through
the rest they stay the same processes.
"""
import collections
import http.client
import json
import os
import pathlib
import random
import re
import socket
import threading
import unittest

import atoll
from atoll import SLOWNESS, until
from host_state import HostState, cgroups

LIVES = int(os.environ.get('ATOLL_LIVES', '400'))
SEED = int(os.environ.get('ATOLL_LIVES_SEED', '1'))
CLIENTS = 4
PATIENCE = 60 * SLOWNESS
# Names that exist and names that do not, memory, datagrams to groups that nobody has joined, a process
# of a session of its own.
HOSTILE = '''
for d in 1 2 3 4 5 6 7 8 9; do mkdir -p /tmp/$d/a; for f in 1 2 3 4 5 6 7 8 9; do
: >/tmp/$d/a/$f; [ -e /tmp/$d/a/no-$f-$RANDOM ]; done; done
head -c 4000000 /dev/zero >/dev/shm/memory
for g in 1 2 3 4 5 6 7 8 9; do echo x | nc -u -w 1 224.0.1.$g 9 & done
setsid sleep 1000 & echo done
'''
MIB = 1 << 20
# What may be held more behind the lives than before, whatever their number. The rest is everybody's on
# the host, or the kernel's to free when it needs memory: told, and not judged.
ROOM = {'memory of the daemon': 8 * MIB, 'memory of the spawner': 4 * MIB, 'descriptors': 32, 'threads': 0,
        'mounts': 0, 'links': 0, 'groups': 0, 'dying groups (v2)': 256,
        # Those that something in a cache holds; each life that leaves one would show a hundred times over.
        'groups of the memory controller': 64 + LIVES // 100, 'files of the store': 16,
        'files of the run directory': 0,
        # In steps of 4 MiB. Of each life its id is kept, for who asks for it later, of the last 100,000.
        'bytes of records': 4 * MIB + 100 * min(LIVES, 100_000)}


class CutOff(Exception):
    """What was begun will never be there."""


CUT = (OSError, http.client.HTTPException, ValueError, atoll.ApiError, CutOff)  # at any place


class Client:
    """Lives one life after the other; each is over when it is answered that it is gone."""

    def __init__(self, daemon, image, number):
        self.daemon, self.image = daemon, image
        self.random = random.Random(SEED * 100 + number)
        self.connection = None
        self.lived = collections.Counter()
        self.left, self.error = 0, None

    def live(self, count, cut_off):
        """`cut_off`: set when the daemon or the spawner is being killed."""
        self.left = count
        self.connection = self.daemon.connection()  # it may be another process by now
        try:
            while self.left > 0:
                kind = self.random.choices(list(KINDS), KINDS.values())[0]
                kind(self)
                self.lived[kind.__name__] += 1
        except Exception as error:  # pylint: disable=broad-except
            if not (cut_off.is_set() and isinstance(error, CUT)):
                self.error = error
        finally:
            self.connection.close()

    def text(self, method, path, body=None, headers=None):
        response = self.daemon.send(method, path, body, headers, self.connection)
        text = response.read().decode()
        if response.status >= 400:
            raise atoll.ApiError(f'{method} {path}', response.status, text)
        return text

    def ask(self, *request):
        text = self.text(*request)
        return json.loads(text) if text else None

    def create(self, **fields):
        self.left -= 1
        body = {'image': {'uri': self.image}, 'entrypoint': ['sleep', '100000'],
                'resourceLimits': {'memory': '64Mi', 'pids': '64'}, **fields}
        return self.ask('POST', '/v1/sandboxes', body)['id']

    def delete(self, box):
        self.ask('DELETE', f'/v1/sandboxes/{box}')

    def run(self, box, command, says):
        headers = self.ask('GET', f'/v1/sandboxes/{box}/endpoints/44772?use_server_proxy=true').get('headers')
        told = self.text('POST', f'/sandboxes/{box}/proxy/44772/command', {'command': command}, headers)
        if says not in told:
            raise AssertionError(f'{command}: {told}')

    def snapshot(self, box):
        made = self.ask('POST', f'/v1/sandboxes/{box}/snapshots', {})['id']
        until(lambda: self.state(made) != 'Creating', PATIENCE, f'snapshot {made} is ready, or never will be')
        if self.state(made) != 'Ready':  # as when a kill has cut it off
            raise CutOff(f'snapshot {made}: {self.ask("GET", f"/v1/snapshots/{made}")["status"]}')
        return made

    def state(self, snapshot):
        return self.ask('GET', f'/v1/snapshots/{snapshot}')['status']['state']

    # ---- kinds of lives

    def used(self):
        box = self.create(env={'WORD': 'said'})
        self.run(box, 'echo $WORD >/file; cat /file', 'said')
        self.delete(box)

    def deleted_at_once(self):
        self.delete(self.create())

    def paused(self):
        box = self.create()
        self.ask('POST', f'/v1/sandboxes/{box}/pause')
        if self.random.random() < 0.5:
            self.ask('POST', f'/v1/sandboxes/{box}/resume')
            self.run(box, 'echo awake', 'awake')
        self.delete(box)

    def ended_by_itself(self):
        box = self.create(entrypoint=['sh', '-c', f'exit {self.random.randrange(3)}'])
        until(lambda: self.ask('GET', f'/v1/sandboxes/{box}')['status']['state'] in ('Terminated', 'Failed'),
              PATIENCE, f'{box} has ended')
        self.delete(box)

    def killed_within(self):
        box = self.create()
        try:
            self.run(box, 'for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p = 1 ] || [ $p = $$ ] || kill -9 $p; done; '
                          'kill -9 $$', '')
        except http.client.HTTPException:  # the stream ends with the sandbox
            self.connection.close()
        self.delete(box)

    def hostile(self):
        box = self.create()
        self.run(box, HOSTILE, 'done')
        self.delete(box)

    def copied(self):
        box = self.create()
        self.run(box, 'echo kept >/file; cat /file', 'kept')
        snapshot = self.snapshot(box)
        copy = self.create(image=None, snapshotId=snapshot)
        self.run(copy, 'cat /file', 'kept')
        self.run(box, 'echo lost >/file; cat /file', 'lost')
        self.ask('POST', f'/v1/sandboxes/{box}/rollback', {'snapshotId': snapshot})
        self.run(box, 'cat /file', 'kept')
        self.delete(box)
        self.delete(copy)
        self.ask('DELETE', f'/v1/snapshots/{snapshot}')

    def forked(self):
        box = self.create()
        children = [item['id'] for item in self.ask('POST', f'/v1/sandboxes/{box}/fork', {'count': 2})['items']]
        self.left -= len(children)
        for one in (*children, box):
            self.delete(one)


KINDS = {Client.used: 48, Client.deleted_at_once: 20, Client.paused: 10, Client.ended_by_itself: 6,
         Client.killed_within: 4, Client.hostile: 5, Client.copied: 4, Client.forked: 3}


class Lives(unittest.TestCase):

    def test_nothing_is_held_for_the_dead(self):
        with atoll.Daemon() as daemon:
            daemon.delete(daemon.create(daemon.import_busybox()))
        host = HostState.capture()
        with atoll.Daemon() as daemon:
            self.daemon = daemon
            self.image = daemon.import_busybox()
            self.clients = [Client(daemon, self.image, number) for number in range(CLIENTS)]
            for number in range(10):
                self.live(LIVES // 100, self.kill_daemon if number % 2 else daemon.kill_spawner)
                self.sweep()
            # These two have not allocated what they need yet.
            self.live(LIVES // 20)
            before = self.held()
            self.live(LIVES - LIVES // 10 - LIVES // 20)
            after = self.held()
            lived = sum((client.lived for client in self.clients), collections.Counter())
            for what, value in before.items():
                print(f'# {what}: {value} before, {after[what]} behind', flush=True)
            print(f'# {dict(lived)}', flush=True)
            more = {what: (before[what], after[what]) for what, room in ROOM.items()
                    if after[what] > before[what] + room}
            self.assertEqual(more, {}, '(before, behind)')
        self.assertEqual(host.await_same(30 * SLOWNESS), [])

    def kill_daemon(self):
        self.daemon.kill()
        self.daemon.start()

    def live(self, count, kill=None):
        """So many lives; half of them are over when `kill` is called, which may cut off the others."""
        cut_off = threading.Event()
        threads = [threading.Thread(target=client.live, args=[max(1, count // CLIENTS), cut_off])
                   for client in self.clients]
        for thread in threads:
            thread.start()
        if kill:
            until(lambda: min(client.left for client in self.clients) <= count // CLIENTS // 2, 600 * SLOWNESS,
                  'half of them are over')
            cut_off.set()
            kill()
        for thread in threads:
            thread.join()
        for client in self.clients:
            if client.error:
                raise client.error
        if not kill:
            self.assertEqual(self.listed('sandboxes') + self.listed('snapshots'), [])

    def listed(self, what):
        return [item['id'] for item in self.daemon.request('GET', f'/v1/{what}?pageSize=200')['items']]

    def sweep(self):
        """What was cut off, when there is a spawner again."""
        until(self.serves, PATIENCE, 'it serves again')
        until(lambda: 'Creating' not in str(self.daemon.request('GET', '/v1/snapshots')), PATIENCE,
              'no snapshot is being taken')
        for what in ('sandboxes', 'snapshots'):
            for one in self.listed(what):
                self.daemon.request('DELETE', f'/v1/{what}/{one}')

    def serves(self):
        try:
            self.daemon.delete(self.daemon.create(self.image))
        except atoll.ApiError as error:
            if error.status != 429:
                raise
            return False
        return True

    def held(self):
        """Once no sandbox is left and the stock is there again."""
        daemon, spawner = (pathlib.Path('/proc', str(pid))
                           for pid in (self.daemon.process.pid, self.daemon.spawner_pid()))
        both = lambda folder: sum(len(list((process / folder).iterdir())) for process in (daemon, spawner))
        # The proxy's idle connections outlive their sandboxes by three seconds.
        atoll.settled(lambda: (self.groups(), self.files('store'), dying(), both('fd')), rest=4 * SLOWNESS,
                      seconds=120 * SLOWNESS)
        memory = lambda process: found(process / 'status', r'RssAnon:\s+(\d+)') << 10
        return {'memory of the daemon': memory(daemon), 'memory of the spawner': memory(spawner),
                'descriptors': both('fd'), 'threads': both('task'),
                'mounts': (spawner / 'mountinfo').read_text().count('\n'), 'links': len(socket.if_nameindex()), 'groups': self.groups(),
                'dying groups (v2)': dying(), 'files of the store': self.files('store'),
                'files of the run directory': sum(1 for _ in self.daemon.run_dir.rglob('*')),
                'bytes of records': (self.daemon.data_dir / 'state/atoll.db').stat().st_size,
                'groups of the memory controller': found('/proc/cgroups', r'memory\t\d+\t(\d+)'),
                'dentries': found('/proc/sys/fs/dentry-state', r'(\d+)'),
                'unreclaimable slab, KiB': found('/proc/meminfo', r'SUnreclaim: +(\d+)'),
                'per-cpu memory, KiB': found('/proc/meminfo', r'Percpu: +(\d+)'),
                'tracked flows': found('/proc/sys/net/netfilter/nf_conntrack_count', r'(\d+)')}

    def groups(self):
        return sum(f'/atoll{self.daemon.instance()}/' in group for group in cgroups())

    def files(self, folder):
        return sum(len(folders) + len(files) for _, folders, files in os.walk(self.daemon.data_dir / folder))


def found(path, pattern):
    match = re.search(pattern, pathlib.Path(path).read_text(encoding='ascii'))
    return int(match[1]) if match else 0


def dying():
    top = next(path for path in map(pathlib.Path, ('/sys/fs/cgroup/unified', '/sys/fs/cgroup'))
               if (path / 'cgroup.stat').exists())
    return found(top / 'cgroup.stat', r'nr_dying_descendants (\d+)')


if __name__ == '__main__':
    unittest.main()
