"""Random calls, kills and restarts against a model: what was acknowledged is there, nothing else is.

ATOLL_RANDOM_STEPS steps (300), from ATOLL_RANDOM_SEED (1). A failure names the step and the seed, and
the last steps before it. In the guest the wall clock jumps too.
"""
import collections
import os
import random
import signal
import threading
import time
import unittest
import urllib.parse

import atoll
from atoll import SLOWNESS, until
from host_state import HostState
from random_copies import Copies

STEPS = int(os.environ.get('ATOLL_RANDOM_STEPS', '300'))
SEED = int(os.environ.get('ATOLL_RANDOM_SEED', '1'))
MOST = 12  # sandboxes at once
LABELS = ['team', 'stage', 'x.y/z']
VALUES = ['', 'a', 'b-1']
# Ends with the code that is written into its FIFO.
ENTRYPOINT = ['sh', '-c', 'mkfifo /tmp/end; while read code </tmp/end; do exit $code; done']


class Box:
    """What the model knows of one sandbox."""

    def __init__(self, **fields):
        self.state = 'Running'
        self.metadata = dict(fields.get('metadata') or {})
        self.expires = None  # the text that the API shows
        self.volumes = []    # of those, the ones that go with it
        self.adopted = False  # by a spawner that is not its parent: its exit code cannot be known
        self.marker = None   # what a command has written into its root
        self.restored_from = None  # the snapshot that it keeps from being deleted


class Random(Copies, unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.most = MOST
        self.boxes = {}
        self.volumes = set()
        self.recent = collections.deque(maxlen=25)
        self.keys = 0
        self.clock = 0  # how far it was moved

    def test_the_model_holds(self):
        with atoll.Daemon() as daemon:
            daemon.delete(daemon.create(daemon.import_busybox()))
        before = HostState.capture()
        with atoll.Daemon() as daemon:
            self.daemon = daemon
            self.image = daemon.import_busybox()
            layers = self.layers()
            self.make_pool()
            for step in range(STEPS):
                try:
                    self.step()
                    self.check()
                except Exception as error:
                    raise AssertionError(
                        f'step {step}, seed {SEED}: {error}\n  ' + '\n  '.join(self.recent)) from error
            for box in list(self.boxes):
                daemon.delete(box)
            self.remove_copies()
            # An upgrade that is still being tried would come in the middle of the end.
            until(daemon.spawner_pid, 20 * SLOWNESS, 'a spawner is there')
            daemon.upgrade_spawner()
            # The spawner answers: what it was asked to end it can end.
            self.persistently('POST', '/v1/volumes', {'name': 'last'})
            for volume in self.told_volumes():
                self.request('DELETE', f'/v1/volumes/{volume}')
            until(lambda: self.layers() == layers, 20 * SLOWNESS, 'no copy has left a layer')
        self.assertEqual(before.await_same(30 * SLOWNESS), [])

    # ---- the moves

    def step(self):
        moves = [(12, self.create), (10, self.delete), (10, self.run_command), (8, self.patch), (6, self.pause),
                 (6, self.resume), (5, self.renew), (5, self.end), (6, self.ask_for_nobody),
                 (3, self.create_cut_off), (2, self.restart), (2, self.kill_daemon),
                 (1, self.kill_spawner), (2, self.upgrade_spawner), (2, self.refused_create),
                 *self.copying()]
        if 'ATOLL_GUEST' in os.environ:
            moves.append((2, self.jump))
        weights, functions = zip(*moves)
        move = self.random.choices(functions, weights)[0]
        self.recent.append(move.__name__)
        move()

    def note(self, *words):
        self.recent[-1] += ' ' + ' '.join(map(str, words))

    def any_box(self, *states):
        fitting = sorted(box for box, model in self.boxes.items()
                         if not states or model.state in states)
        if not fitting:
            return None, None
        box = self.random.choice(fitting)
        self.note(box[:8], self.boxes[box].state)
        return box, self.boxes[box]

    def request(self, method, path, body=None, headers=None):
        return self.daemon.request(method, path, body, headers)

    def persistently(self, method, path, body=None, headers=None):
        """Until the spawner is there: while it is upgraded a client is told to come again."""
        def answer():
            try:
                return self.request(method, path, body, headers) or True
            except atoll.ApiError as error:
                if error.code != 'GENERAL::UNAVAILABLE':
                    raise
                return None
        return until(answer, 20 * SLOWNESS, f'{method} {path}')

    def refused(self, method, path, body=None):
        try:
            self.request(method, path, body)
        except atoll.ApiError as error:
            return error.status
        raise AssertionError(f'{method} {path} was not refused')

    def fields(self):
        fields = {'image': {'uri': self.image}, 'entrypoint': ENTRYPOINT, 'resourceLimits': {},
                  'metadata': {label: self.random.choice(VALUES) for label in LABELS
                               if self.random.random() < 0.4}}
        if self.random.random() < 0.3:
            fields['timeout'] = self.random.choice([3600, 86400])
        if self.random.random() < 0.2:
            fields['secureAccess'] = True
        if self.random.random() < 0.3:
            fields['volumes'] = [{'name': 'v', 'mountPath': '/v', 'pvc': {
                'claimName': f'v{self.random.randrange(4)}', 'deleteOnSandboxTermination':
                    self.random.random() < 0.5}}]
        return fields

    def adopt(self, told, fields):
        box = Box(**fields)
        box.expires = told.get('expiresAt')
        box.volumes = [v['pvc']['claimName'] for v in fields.get('volumes', [])]
        self.boxes[told['id']] = box

    def create(self):
        if len(self.boxes) >= MOST:
            return self.delete()
        fields = self.fields()
        told = self.persistently('POST', '/v1/sandboxes', fields)
        self.note(told['id'][:8])
        self.adopt(told, fields)

    def create_cut_off(self):
        """The daemon dies somewhere in a create; the repeated request makes one sandbox, not two."""
        fields = self.fields()
        self.keys += 1
        key = {'Idempotency-Key': f'random-{SEED}-{self.keys}'}
        def send():
            try:
                self.request('POST', '/v1/sandboxes', fields, key)
            except (OSError, atoll.ApiError, ValueError):
                pass
            except Exception:  # pylint: disable=broad-except
                pass  # http.client's own: the connection is cut at any place
        sender = threading.Thread(target=send)
        sender.start()
        until_then = time.monotonic() + self.random.random() * 0.006
        while time.monotonic() < until_then:
            pass
        self.daemon.kill()
        sender.join()
        self.daemon.start()
        told = self.persistently('POST', '/v1/sandboxes', fields, key)
        self.assertEqual(self.request('POST', '/v1/sandboxes', fields, key)['id'], told['id'])
        self.note(told['id'][:8])
        self.adopt(told, fields)

    def delete(self):
        box, _ = self.any_box()
        if box:
            self.daemon.delete(box)
            del self.boxes[box]

    def run_command(self):
        box, model = self.any_box('Running')
        if not box or self.secure(box):
            return
        if model.marker is None:
            model.marker = str(self.random.randrange(10**9))
            self.daemon.run(box, f'echo {model.marker} >/marker')
        self.assertEqual(self.daemon.run(box, 'cat /marker').stdout, model.marker)

    def secure(self, box):
        return 'OpenSandbox-Secure-Access' in self.daemon.execd_headers(box)

    def patch(self):
        box, model = self.any_box()
        if not box:
            return
        patch = {label: self.random.choice([*VALUES, None]) for label in LABELS
                 if self.random.random() < 0.5}
        self.request('PATCH', f'/v1/sandboxes/{box}/metadata', patch)
        for label, value in patch.items():
            if value is None:
                model.metadata.pop(label, None)
            else:
                model.metadata[label] = value

    def pause(self):
        box, model = self.any_box()
        if not box:
            return
        if model.state == 'Running':
            self.request('POST', f'/v1/sandboxes/{box}/pause')
            model.state = 'Paused'
        else:
            self.assertEqual(self.refused('POST', f'/v1/sandboxes/{box}/pause'), 409)

    def resume(self):
        box, model = self.any_box()
        if not box:
            return
        if model.state == 'Paused':
            self.request('POST', f'/v1/sandboxes/{box}/resume')
            model.state = 'Running'
        else:
            self.assertEqual(self.refused('POST', f'/v1/sandboxes/{box}/resume'), 409)

    def renew(self):
        box, model = self.any_box()
        if not box:
            return
        moment = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(
            time.time() + self.random.choice([7200, 90000])))
        path = f'/v1/sandboxes/{box}/renew-expiration'
        if model.expires:
            model.expires = self.request('POST', path, {'expiresAt': moment})['expiresAt']
        else:
            self.assertEqual(self.refused('POST', path, {'expiresAt': moment}), 409)

    def end(self):
        box, model = self.any_box('Running')
        if not box or self.secure(box):
            return
        code = self.random.choice([0, 0, 3])
        self.daemon.run(box, f'until [ -p /tmp/end ]; do :; done; echo {code} >/tmp/end', background=True)
        model.state = 'Failed' if code or model.adopted else 'Terminated'
        until(lambda: self.get(box)['status']['state'] == model.state, 20 * SLOWNESS,
              f'{box} is {model.state}')

    def get(self, box):
        return self.request('GET', f'/v1/sandboxes/{box}')

    def ask_for_nobody(self):
        nobody = '00000000-0000-4000-8000-000000000000'
        for method, path in (('GET', ''), ('DELETE', ''), ('POST', '/pause'), ('POST', '/resume'),
                             ('GET', '/endpoints/80')):
            self.assertEqual(self.refused(method, f'/v1/sandboxes/{nobody}{path}'), 404)

    def refused_create(self):
        for bad in ({'image': {'uri': 'nope'}}, {'timeout': 1}, {'entrypoint': []},
                    {'resourceLimits': {'memory': 'much'}},
                    {'volumes': [{'name': 'v', 'mountPath': '/proc', 'pvc': {'claimName': 'v0'}}]}):
            self.assertIn(self.refused('POST', '/v1/sandboxes', {**self.fields(), **bad}),
                          (400, 404, 422, 500))

    def restart(self):
        self.daemon.stop()
        self.daemon.start()

    def kill_daemon(self):
        self.daemon.kill()
        self.daemon.start()

    def kill_spawner(self):
        os.kill(self.daemon.spawner_pid(), signal.SIGKILL)
        for model in self.boxes.values():
            model.adopted = True
        # Beside the one that comes back by itself.
        self.restart()

    def upgrade_spawner(self):
        os.kill(self.daemon.spawner_pid(), signal.SIGHUP)

    def jump(self):
        """Within what no deadline comes near to: made at -1000 and read at 1000, one of 3600 s has 1600 left."""
        by = self.random.choice([-1000, 1000]) if self.clock == 0 else -self.clock
        self.clock += by
        time.clock_settime(time.CLOCK_REALTIME, time.time() + by)

    # ---- what must hold

    def check(self):
        told = {}
        page = self.request('GET', '/v1/sandboxes?pageSize=200')
        for item in page['items']:
            told[item['id']] = item
        self.assertEqual(sorted(told), sorted(self.boxes))
        for box, model in self.boxes.items():
            item = told[box]
            self.assertEqual(item['status']['state'], model.state, box)
            self.assertEqual(item.get('metadata', {}), model.metadata, box)
            self.assertEqual(item.get('expiresAt'), model.expires, box)
        state = self.random.choice(['Running', 'Paused', 'Terminated', 'Failed'])
        query = urllib.parse.urlencode({'state': state, 'pageSize': 200})
        listed = self.request('GET', f'/v1/sandboxes?{query}')['items']
        self.assertEqual(sorted(item['id'] for item in listed),
                         sorted(box for box, model in self.boxes.items() if model.state == state))
        used = self.wanted_volumes()
        self.assertLessEqual(used, self.told_volumes())

    def wanted_volumes(self):
        return {name for model in self.boxes.values() for name in model.volumes}

    def told_volumes(self):
        return {item['name'] for item in self.request('GET', '/v1/volumes')['items']}
