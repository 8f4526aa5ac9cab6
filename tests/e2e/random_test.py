"""Random calls, kills, upgrades and shortages against a model of all states: what was acknowledged is there,
nothing else is, and after each ROUND steps record, spawner, kernel and disk agree.

ATOLL_RANDOM_STEPS steps (2000), but none that begins after ATOLL_RANDOM_SECONDS (75), from ATOLL_RANDOM_SEED (1).
What a step decides follows from the seed, its number and the model. A failure names the step and the seed, and
the last steps before it. In the guest the wall clock jumps too. Kinds of steps: random_*.py.
"""
import collections
import os
import random
import signal
import time
import unittest
import urllib.parse

import atoll
from atoll import SLOWNESS, until
from host_state import HostState
from random_agreement import Agreement
from random_buckets import Buckets
from random_copies import Copies
from random_keys import Keys
from random_networks import Networks
from random_pressure import Pressure
from random_sessions import Sessions
from random_templates import Templates
from random_volumes import Volumes

STEPS = int(os.environ.get('ATOLL_RANDOM_STEPS', '2000'))
SECONDS = int(os.environ.get('ATOLL_RANDOM_SECONDS', '75')) * SLOWNESS
SEED = int(os.environ.get('ATOLL_RANDOM_SEED', '1'))
ROUND = 25  # steps
MOST = 12  # sandboxes at once
LABELS = ['team', 'stage', 'x.y/z']
VALUES = ['', 'a', 'b-1']
# Ends with the code that is written into its FIFO, which it makes as soon as there is room.
ENTRYPOINT = ['sh', '-c', 'until [ -p /tmp/end ] || mkfifo /tmp/end; do sleep 0.1; done 2>/dev/null; '
              'while read code </tmp/end; do exit $code; done']


class Box:
    """What the model knows of one sandbox."""

    def __init__(self, **fields):
        self.state = 'Running'
        self.metadata = dict(fields.get('metadata') or {})
        self.expires = None  # the text that the API shows
        self.volumes = [volume['pvc']['claimName'] for volume in fields.get('volumes', []) if 'pvc' in volume]
        self.bucket = any('ossfs' in volume for volume in fields.get('volumes', []))
        self.sessions = {}   # isolated ones that live, to the marker of each
        self.adopted = False  # by a spawner that is not its parent: its exit code cannot be known; None: perhaps
        self.marker = None   # what a command has written into its root
        self.restored_from = None  # the snapshot that it keeps from being deleted
        extensions = fields.get('extensions', {})
        self.unique = 'uniqueName' in extensions
        self.network = extensions.get('network')
        self.guarded = 'credentialProxy' in fields  # may have a vault
        self.vault = None    # the name of its secret

    def metadata_of_copy(self):
        """The name that it asked to be the only one of is its own."""
        return {label: value for label, value in self.metadata.items() if not (self.unique and label == 'name')}


class Random(Agreement, Buckets, Copies, Keys, Networks, Pressure, Sessions, Templates, Volumes, unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.most = MOST
        self.boxes = {}
        self.recent = collections.deque(maxlen=25)
        self.clock = 0  # how far it was moved

    def test_the_model_holds(self):
        with atoll.Daemon() as daemon:
            daemon.delete(daemon.create(daemon.import_busybox()))
        before = HostState.capture()
        self.daemon = atoll.Daemon()
        self.addCleanup(self.daemon.__exit__)
        self.mount_store()
        self.allow_bucket()
        self.addCleanup(self.end_daemon)
        self.start_daemon()
        self.image = self.daemon.import_busybox()
        self.image_layers = set(self.layers())
        self.make_pool()
        self.make_template(ENTRYPOINT)
        self.run_steps()
        self.end_all()
        self.doCleanups()
        self.assertEqual(before.await_same(30 * SLOWNESS), [])

    def run_steps(self):
        ends = time.monotonic() + SECONDS
        step = 0
        while step < STEPS and time.monotonic() < ends:
            # A step decides the same however often earlier steps have drawn.
            self.random.seed(f'{SEED}/{step}')
            try:
                self.step(calm=step // ROUND % 3 != 0)
                self.check()
                step += 1
                if step % ROUND == 0:
                    self.agree()
            except Exception as error:
                raise AssertionError(
                    f'step {step}, seed {SEED}: {error}\n  ' + '\n  '.join(self.recent)) from error
        print(f'# {step} steps from seed {SEED}', flush=True)

    def agree(self):
        self.await_agreement()
        self.volumes_agree()

    def end_all(self):
        for box in list(self.boxes):
            self.delete_box(box)
        self.request('DELETE', f'/v1/templates/{self.template}')
        self.remove_copies()
        # An upgrade that is still being tried would come in the middle of the end.
        until(self.daemon.spawner_pid, 20 * SLOWNESS, 'a spawner is there')
        self.daemon.upgrade_spawner()
        # The daemon has that one: what it was asked to end it can end.
        self.await_agreement()
        self.remove_volumes()
        self.await_agreement()
        self.assertEqual(set(self.layers()), self.image_layers, 'no copy has left a layer')

    def start_daemon(self, *wrapper):
        self.daemon.start(*wrapper)
        for model in self.boxes.values():
            model.vault = None

    def end_daemon(self):
        """Before the file system of its store goes."""
        if self.daemon.process.poll() is None:
            self.daemon.shutdown()
        elif self.daemon.spawner_pid():
            self.daemon.start().shutdown()

    # ---- the moves

    def step(self, calm):
        """`calm`: the daemon lives on, and with it what it has in memory alone."""
        moves = [(12, self.create), (10, self.delete), (10, self.run_command), (8, self.patch), (6, self.pause),
                 (6, self.resume), (5, self.renew), (5, self.end), (6, self.ask_for_nobody),
                 (1, self.kill_spawner), (2, self.upgrade_spawner), (2, self.refused_create),
                 *self.bucket_moves(), *self.copying(), *self.key_moves(), *self.network_moves(), *self.pressure_moves(),
                 *self.session_moves(), *self.template_moves(), *self.volume_moves()]
        if not calm:
            moves += [(6, self.create_cut_off), (4, self.restart), (4, self.kill_daemon), (2, self.kill_both),
                      (4, self.cut_off_snapshot), (4, self.cut_off_fork), (4, self.cut_off_rollback),
                      (4, self.cut_off_claim), (2, self.few_descriptors)]
        if 'ATOLL_GUEST' in os.environ:
            moves.append((2, self.jump))
        weights, functions = zip(*moves)
        move = self.random.choices(functions, weights)[0]
        self.recent.append(move.__name__)
        move()

    def note(self, *words):
        self.recent[-1] += ' ' + ' '.join(map(str, words))

    def any_box(self, *states):
        # Sandboxes keep the order in which they were made. Their ids are random in each run.
        fitting = [box for box, model in self.boxes.items() if not states or model.state in states]
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

    def refused(self, method, path, body=None, headers=None):
        try:
            self.request(method, path, body, headers)
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
            fields['volumes'] = self.volume_fields()
        if self.random.random() < 0.2:
            fields.setdefault('volumes', []).append(self.bucket_fields())
        return fields

    def adopt(self, told, fields):
        box = Box(**fields)
        box.expires = told.get('expiresAt')
        self.acquired(told['id'], fields.get('volumes', []))
        self.boxes[told['id']] = box

    def is_full(self, more=1):
        return len(self.boxes) + more > self.most

    def create(self):
        if self.is_full():
            return self.delete()
        fields = self.fields()
        told = self.persistently('POST', '/v1/sandboxes', fields)
        self.note(told['id'][:8])
        self.adopt(told, fields)

    def create_cut_off(self):
        """The daemon dies somewhere in a create; the repeated request makes one sandbox, not two."""
        if self.is_full():
            return
        request = ('POST', '/v1/sandboxes', self.fields(), self.new_key())
        self.cut_off(lambda: self.request(*request), 0.006)
        told = self.persistently(*request)
        self.assertEqual(self.request(*request)['id'], told['id'])
        self.note(told['id'][:8])
        self.adopt(told, request[2])
        self.remember(request, [told['id']])

    def delete(self):
        box, _ = self.any_box()
        if box:
            self.delete_box(box)

    def delete_box(self, box):
        self.daemon.delete(box)
        self.released(box, self.boxes.pop(box).volumes)

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
            self.persistently('POST', f'/v1/sandboxes/{box}/pause')
            model.state = 'Paused'
        else:
            self.assertEqual(self.refused('POST', f'/v1/sandboxes/{box}/pause'), 409)

    def resume(self):
        box, model = self.any_box()
        if not box:
            return
        if model.state == 'Paused':
            self.persistently('POST', f'/v1/sandboxes/{box}/resume')
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
        self.daemon.run(box, f'until [ -p /tmp/end ]; do sleep 0.1; done; echo {code} >/tmp/end', background=True)
        state = lambda: self.get(box)['status']['state']
        expected = {'Failed'} if code or model.adopted else {'Terminated'}
        if model.adopted is None:
            expected.add('Failed')
        until(lambda: state() in expected, 20 * SLOWNESS, f'{box} is {expected}')
        model.state, model.vault, model.guarded, model.sessions = state(), None, False, {}

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
            self.assertIn(self.refused('POST', '/v1/sandboxes', {**self.fields(), **bad}), (400, 422))

    def restart(self):
        self.daemon.stop()
        self.start_daemon()

    def kill_daemon(self):
        self.daemon.kill()
        self.start_daemon()

    def kill_both(self):
        os.kill(until(self.daemon.spawner_pid, 20 * SLOWNESS, 'a spawner'), signal.SIGKILL)
        for model in self.boxes.values():
            model.adopted = True
        # Beside the one that comes back by itself.
        self.restart()

    def kill_spawner(self):
        until(self.daemon.spawner_pid, 20 * SLOWNESS, 'a spawner')
        self.daemon.kill_spawner()
        for model in self.boxes.values():
            model.adopted = True
        until(self.daemon.healthy, 20 * SLOWNESS, 'the daemon has the next spawner')

    def wait_at_most(self, seconds):
        until_then = time.monotonic() + self.random.random() * seconds
        while time.monotonic() < until_then:
            pass

    def upgrade_spawner(self):
        os.kill(until(self.daemon.spawner_pid, 20 * SLOWNESS, 'a spawner'), signal.SIGHUP)

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
        self.check_volumes()


if __name__ == '__main__':
    unittest.main()
