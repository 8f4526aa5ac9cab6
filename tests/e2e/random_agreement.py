"""The random test's look behind the API, when nothing is under way: what the daemon has recorded, what the
spawner has recorded, what the kernel has and what lies on the disk are one and the same."""
import contextlib
import json
import os
import pathlib
import shutil
import socket
import sqlite3
import tempfile

from atoll import SLOWNESS, until
from freezer import top

LIVE = ('Running', 'Paused')


def slot_of(record):
    """A record of the spawner begins with the length of the id, the id, and the slot."""
    data = record.read_bytes()
    length = int.from_bytes(data[:4], 'little')
    return int.from_bytes(data[4 + length:8 + length], 'little')


class Agreement:
    def await_agreement(self):
        """AssertionError with all differences if they do not come to an end."""
        differences = ['nothing was looked at']

        def agreed():
            try:
                differences[:] = self.differences()
            except (OSError, sqlite3.DatabaseError) as error:  # taken away, or written, during the look
                differences[:] = [repr(error)]
            return not differences

        try:
            until(agreed, 30 * SLOWNESS)
        except AssertionError as late:
            raise AssertionError('record, spawner, kernel and disk differ: ' + '; '.join(differences)) from late

    def differences(self):
        found = []

        def compare(what, one, other):
            if one != other:
                found.append(f'{what}: {sorted(map(str, one - other))} only, and {sorted(map(str, other - one))}')

        run, store = self.daemon.run_dir, self.daemon.data_dir / 'store'
        recorded, layers, of_ended = self.recorded()
        live = {host_id: slot for host_id, slot, state, _ in recorded if state in LIVE}
        listed = {item['id']: item['status']['state']
                  for item in self.request('GET', '/v1/sandboxes?pageSize=200')['items']}
        health = self.request('GET', '/health')
        if health != {'status': 'healthy'}:
            found.append(f'health: {health}')
        compare('records of clients and answers', {(box, state) for _, _, state, box in recorded if box},
                set(listed.items()))
        spawner = {record.name: slot_of(record) for record in (run / 'spawner/records').iterdir()}
        names = {path.stem for path in (run / 'sandboxes').glob('*.sock')}
        slots = {int(name.removeprefix('slot-')) for name in names if name.startswith('slot-')}
        compare('sockets and the spawner\'s records', {name for name in names if not name.startswith('slot-')},
                set(spawner))
        # Members of pools have no record of the daemon's.
        parked = set(spawner) - set(live)
        compare('records and the spawner', set(live.items()),
                {(name, slot) for name, slot in spawner.items() if name not in parked})
        available = sum(pool['status']['available'] for pool in self.request('GET', '/v1/pools')['items'])
        if len(parked) != available:
            found.append(f'{available} members of pools, and the spawner has {sorted(parked)}')
        taken = set(spawner.values()) | slots
        instance = self.daemon.instance()
        links = {int(name.rpartition('-')[2]) for _, name in socket.if_nameindex()
                 if name.startswith(f'atl{instance}-')}
        compare('slots and links', taken, links)
        groups = self.groups(instance)
        compare('slots and groups', taken, set(groups))
        compare('slots and trees', taken, {int(name[1:]) for name in os.listdir(store / 'fs/uppers')})
        of_clients = {slot: box for _, slot, state, box in recorded if state in LIVE and box}
        found += self.sessions_agree(instance, of_clients)
        compare('buckets and what serves them', {slot for slot, box in of_clients.items() if self.boxes[box].bucket},
                self.slots_with_servers())
        # One that waits for its claim stands still, too: a template's is a record of that state.
        frozen = {slot for _, slot, state, _ in recorded if state == 'Paused'}
        compare('paused and frozen', frozen, {slot for slot, is_frozen in groups.items() if is_frozen})
        volumes = {item['name'] for item in self.request('GET', '/v1/volumes')['items']}
        compare('volumes and their trees', volumes, set(os.listdir(store / 'volumes')))
        # The layers of a sandbox that has ended may go, or stay for others.
        layers |= self.image_layers
        on_disk = set(os.listdir(store / 'fs/layers'))
        compare('layers that are needed, and their trees', layers, on_disk & layers)
        compare('trees and layers that are known', on_disk, on_disk & (layers | of_ended))
        compare('trash', set(), set(os.listdir(store / 'trash')))
        return found

    def recorded(self):
        """(id on the host, slot, state, id that a client sees) of each sandbox; the layers of those that live and
        of snapshots; those of others."""
        # The daemon has its store for itself.
        with tempfile.TemporaryDirectory(dir=self.daemon.top) as copy:
            for file in self.daemon.data_dir.glob('state/atoll.db*'):
                shutil.copy(file, copy)
            with contextlib.closing(sqlite3.connect(pathlib.Path(copy, 'atoll.db'))) as store:
                rows = store.execute("SELECT id, moves ->> 'slot', moves ->> 'state', record FROM sandboxes").fetchall()
                snapshots = store.execute("SELECT record ->> 'layers' FROM snapshots").fetchall()
        specs = [(box, slot, state, json.loads(record)) for box, slot, state, record in rows]
        layers = {str(layer) for _, _, state, spec in specs if state in LIVE for layer in spec['layers']}
        layers |= {str(layer) for row in snapshots for layer in json.loads(row[0])}
        of_ended = {str(layer) for _, _, state, spec in specs if state not in LIVE for layer in spec['layers']}
        return {(spec.get('host_id', box), slot, state, None if spec.get('stocked') else box)
                for box, slot, state, spec in specs}, layers, of_ended

    @staticmethod
    def groups(instance):
        """Slot to whether it is frozen."""
        return {int(path.name[1:]): 'frozen 1' in (path / 'run/cgroup.events').read_text(encoding='ascii')
                for path in (top() / f'atoll{instance}').glob('s[0-9]*')}

    def sessions_agree(self, instance, slots):
        """`slots`: to the id of a sandbox. As many groups and, at most, as many directories as sessions live. What is
        left of one that could not be made goes when a client's request has the daemon listen to its execd again."""
        found = []
        for slot, box in slots.items():
            here = len(self.boxes[box].sessions)
            groups = len(list((top() / f'atoll{instance}' / f's{slot}').glob('run/x*')))
            files = len(list((self.daemon.data_dir / f'store/fs/uppers/s{slot}').glob('x*')))
            waits = self.boxes[box].state == 'Paused'
            if groups < here or (not waits and (groups > here or files > here)):
                self.ask_execd(box, 'GET', '/v1/isolated/sessions')
                found.append(f'{here} sessions of {box}: {groups} groups, {files} directories')
        return found
