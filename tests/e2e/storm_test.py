"""A storm of kills under load: after each round record, spawner, kernel and disk agree, and hold what
was acknowledged.

Four clients create, use, pause, resume and delete sandboxes, each with a model of what it was told.
Meanwhile processes of Atoll die at random moments. Then everybody rests, and the whole is compared.

ATOLL_STORM_SECONDS (20) of it, from ATOLL_STORM_SEED (1); a failure names round and seed.
"""
import collections
import http.client
import os
import pathlib
import random
import re
import signal
import socket
import threading
import time
import unittest
import uuid

import atoll
from atoll import SLOWNESS, until
from host_state import HostState

SECONDS = float(os.environ.get('ATOLL_STORM_SECONDS', '20'))
SEED = int(os.environ.get('ATOLL_STORM_SEED', '1'))
CLIENTS = 4
MOST = 6  # sandboxes of one client
PATIENCE = 30 * SLOWNESS
LOST = (OSError, http.client.HTTPException, ValueError)  # the connection, at any place


class Client:
    """One client, and its model: {sandbox: (state, marker)} of what it was told."""

    def __init__(self, storm, number):
        self.storm, self.daemon = storm, storm.daemon
        self.random = random.Random(SEED * 100 + number)
        self.boxes = {}
        self.acknowledged = collections.Counter()
        self.error = None

    def run(self):
        try:
            while not self.storm.resting.is_set():
                self.random.choice([self.create, self.create, self.use, self.pause_or_resume,
                                    self.delete])()
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def insist(self, method, path, body=None, headers=None, done=()):
        """Repeats a request until it is answered for good: a cut connection, 429 and 503 say nothing.

        The answer, or None for a status in `done`, which says that an earlier try was carried out."""
        def answered():
            try:
                return (self.daemon.request(method, path, body, headers),)
            except atoll.ApiError as error:
                if error.status in done:
                    return (None,)
                if error.status not in (429, 503):
                    raise
            except LOST:
                pass
            return None
        return until(answered, PATIENCE, f'{method} {path} is answered')[0]

    def any_box(self):
        return self.random.choice(sorted(self.boxes)) if self.boxes else None

    def create(self):
        if len(self.boxes) >= MOST:
            return
        marker = str(uuid.UUID(int=self.random.getrandbits(128)))
        told = self.insist('POST', '/v1/sandboxes', {
            'image': {'uri': self.storm.image}, 'entrypoint': ['sleep', '100000'],
            'resourceLimits': {}, 'metadata': {'marker': marker}}, {'Idempotency-Key': marker})
        self.boxes[told['id']] = ('Running', None)
        self.acknowledged['creates'] += 1

    def use(self):
        box = self.any_box()
        if not box or self.boxes[box][0] != 'Running':
            return
        marker = self.boxes[box][1] or str(self.random.getrandbits(60))
        try:
            done = self.daemon.run(box, f'echo {marker} >/marker; cat /marker')
        except (atoll.ApiError, *LOST):
            return  # cut off, which a command may be
        if done.stdout == marker:
            self.boxes[box] = ('Running', marker)
            self.acknowledged['commands'] += 1

    def pause_or_resume(self):
        box = self.any_box()
        if not box:
            return
        state, marker = self.boxes[box]
        verb, then = ('pause', 'Paused') if state == 'Running' else ('resume', 'Running')
        # 409: an earlier try did it, or a process 1 of the sandbox was killed; the state will tell.
        self.insist('POST', f'/v1/sandboxes/{box}/{verb}', done=(409,))
        self.boxes[box] = (then, marker)
        self.acknowledged[verb + 's'] += 1

    def delete(self):
        box = self.any_box()
        if not box:
            return
        self.insist('DELETE', f'/v1/sandboxes/{box}', done=(404, 410))
        del self.boxes[box]
        self.acknowledged['deletes'] += 1


class Storm(unittest.TestCase):
    def setUp(self):
        self.random = random.Random(SEED)
        self.resting = threading.Event()
        self.slain = set()  # pids of process 1s, this round
        self.ended = 0  # sandboxes that ended with them
        self.kills = collections.Counter()

    def test_what_was_acknowledged_survives_and_nothing_is_left(self):
        with atoll.Daemon() as daemon:
            daemon.delete(daemon.create(daemon.import_busybox()))
        before = HostState.capture()
        with atoll.Daemon() as daemon:
            self.daemon = daemon
            self.image = daemon.import_busybox()
            self.clients = [Client(self, number) for number in range(CLIENTS)]
            end, rounds = time.monotonic() + SECONDS, 0
            while time.monotonic() < end:
                rounds += 1
                try:
                    self.rage()
                    self.compare()
                except Exception as error:
                    raise AssertionError(f'round {rounds}, seed {SEED}, after {dict(self.kills)}: '
                                         f'{error}') from error
            told = sum((client.acknowledged for client in self.clients), collections.Counter())
            print(f'# {rounds} rounds, kills: {dict(self.kills)}, acknowledged: {dict(told)}',
                  flush=True)
        self.assertEqual(before.await_same(30 * SLOWNESS), [])

    def rage(self):
        """One round: clients at work, one to four kills at random moments among them."""
        self.resting.clear()
        threads = [threading.Thread(target=client.run) for client in self.clients]
        for thread in threads:
            thread.start()
        try:
            for _ in range(self.random.randint(1, 4)):
                # The moment is the input that is varied, not a wait for something.
                self.resting.wait(self.random.random() * 0.4 * SLOWNESS)
                blow = self.random.choices(
                    [self.kill_daemon, self.kill_spawner, self.kill_both, self.kill_execd,
                     self.restart, self.upgrade], [4, 3, 2, 3, 1, 2])[0]
                blow()
                self.kills[blow.__name__] += 1
        finally:
            self.resting.set()
            for thread in threads:
                thread.join()
        for client in self.clients:
            if client.error:
                raise client.error

    # ---- what happens to processes

    def kill_daemon(self):
        self.daemon.kill()
        self.daemon.start()

    def kill_spawner(self):
        spawner = self.daemon.spawner_pid()
        if spawner:
            os.kill(spawner, signal.SIGKILL)

    def kill_both(self):
        self.kill_spawner()
        self.kill_daemon()

    def kill_execd(self):
        execds = self.execds()
        if execds:
            victim = self.random.choice(sorted(execds))
            self.slain.add(victim)
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def restart(self):
        self.daemon.stop()
        self.daemon.start()

    def upgrade(self):
        spawner = self.daemon.spawner_pid()
        if spawner:
            os.kill(spawner, signal.SIGHUP)

    # ---- what the host holds

    def execds(self):
        """{pid: slot} of every process 1 of ours, in stock or in use. Not known by its name: that
        of execd comes late, and a sandbox that is paused at once stays without it."""
        group = re.compile(f'/atoll{self.daemon.instance()}/s(\\d+)')
        found = {}
        for process in pathlib.Path('/proc').iterdir():
            try:
                if not process.name.isdigit():
                    continue
                slot = group.search((process / 'cgroup').read_text())
                if (slot and re.search(r'\nState:\t[^ZX](?:.|\n)*\nNSpid:.*\t1\n',
                                      (process / 'status').read_text())):
                    found[int(process.name)] = int(slot[1])
            except OSError:
                continue
        return found

    def groups(self):
        top = f'atoll{self.daemon.instance()}'
        return {int(path.name[1:]) for group in pathlib.Path('/sys/fs/cgroup').glob('*')
                for path in [*(group / top).glob('s*'), *(group.iterdir() if group.name == top else ())]
                if re.fullmatch(r's\d+', path.name) and path.is_dir()}

    def links(self):
        return {int(name.partition('-')[2]) for _, name in socket.if_nameindex()
                if name.startswith(f'atl{self.daemon.instance()}-')}

    def uppers(self):
        return {int(path.name[1:])
                for path in (self.daemon.data_dir / 'store/fs/uppers').iterdir()
                if re.fullmatch(r's\d+', path.name)}

    def ready_slots(self):
        response = self.daemon.send('GET', '/metrics')
        return int(re.search(rb'atoll_slots\{state="ready"\} (\d+)', response.read())[1])

    def told(self):
        found, page = {}, 1
        while True:
            answer = self.daemon.request('GET', f'/v1/sandboxes?pageSize=200&page={page}')
            found |= {item['id']: item['status']['state'] for item in answer['items']}
            if not answer['pagination']['hasNextPage']:
                return found
            page += 1

    # ---- what must hold

    def compare(self):
        """At rest: the records are what was acknowledged, and the host is what the records say."""
        until(self.daemon.spawner_pid, PATIENCE, 'a spawner is back')
        last = ''

        def same():
            nonlocal last
            # Anew each time: of a process 1 that was killed last, the end is told a moment later.
            told = self.told()
            last = self.difference(told) or self.difference_on_host(told)
            return not last

        try:
            until(same, PATIENCE)
        except AssertionError as error:
            raise AssertionError(last) from error
        self.slain.clear()
        self.ended = 0
        for client in self.clients:
            for box, (state, marker) in client.boxes.items():
                if state == 'Running' and marker:
                    answer = self.daemon.run(box, 'cat /marker').stdout
                    if answer != marker:
                        raise AssertionError(f'{box} holds {answer!r} for {marker}')

    def difference(self, told):
        """Between the API and what clients were told. What ended with its process 1 is deleted."""
        wanted = {box: state for client in self.clients
                  for box, (state, _) in client.boxes.items()}
        if set(told) != set(wanted):
            return (f'lost: {sorted(set(wanted) - set(told))}; '
                    f'there, but not acknowledged: {sorted(set(told) - set(wanted))}')
        ended = [box for box, state in told.items() if state in ('Failed', 'Terminated')]
        if self.ended + len(ended) > len(self.slain):
            return f'{ended} ended, and {self.ended} before; {len(self.slain)} process 1s were killed'
        for client in self.clients:
            for box in set(ended) & set(client.boxes):
                client.insist('DELETE', f'/v1/sandboxes/{box}')
                del client.boxes[box]
                del told[box]
                self.ended += 1
        other = {box: (state, wanted[box]) for box, state in told.items() if state != wanted[box]}
        return f'(told, acknowledged): {other}' if other else ''

    def difference_on_host(self, told):
        """Each kind of thing: one for each live sandbox, one for each slot in stock."""
        wanted = len(told) + self.ready_slots()
        found = {'process 1s': set(self.execds().values()), 'cgroups': self.groups(),
                 'links': self.links(), 'uppers': self.uppers()}
        slots = set().union(*found.values())
        records = {path.name for path in (self.daemon.run_dir / 'spawner/records').iterdir()}
        trash = os.listdir(self.daemon.data_dir / 'store/trash')
        if all(slots == those for those in found.values()) and len(slots) == wanted and records == set(told) and not trash:
            return ''
        lacking = {what: sorted(slots - those) for what, those in found.items() if slots != those}
        return (f'record, spawner, kernel and disk differ: {wanted} slots wanted, {len(slots)} '
                f'found, lacking {lacking}; records beyond {sorted(records - set(told))}, '
                f'missing {sorted(set(told) - records)}; trash {trash}')


if __name__ == '__main__':
    unittest.main()
