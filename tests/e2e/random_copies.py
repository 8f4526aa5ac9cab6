"""What the random test does with the files of sandboxes: snapshots, sandboxes of them, forks, rollbacks,
and what a kill in the middle leaves; and creates of a pool. The model is each file system's marker."""
import os
import threading

import atoll
from atoll import SLOWNESS, until

SNAPSHOTS = 6  # at once
POOL = 'random'


class Copies:
    def setUp(self):
        super().setUp()
        self.snapshots = {}  # to the marker and the metadata of each

    def copying(self):
        return [(5, self.snapshot), (3, self.remove_snapshot), (4, self.restore), (4, self.fork), (5, self.roll_back),
                (3, self.claim)]

    def make_pool(self):
        self.request('POST', '/v1/pools', {'name': POOL, 'image': {'uri': self.image}, 'capacitySpec': {
            'bufferMin': 1, 'bufferMax': 2, 'poolMin': 0, 'poolMax': 100}})

    def layers(self):
        return sorted(os.listdir(self.daemon.data_dir / 'store/fs/layers'))

    def remove_copies(self):
        for snapshot in self.told_snapshots():
            self.remove(snapshot)
        self.request('DELETE', f'/v1/pools/{POOL}')

    def told_snapshots(self):
        return {item['id']: item['status']['state']
                for item in self.request('GET', '/v1/snapshots?pageSize=200')['items']}

    # ---- the moves

    def settled(self, snapshot):
        state = lambda: self.request('GET', f'/v1/snapshots/{snapshot}')['status']['state']
        until(lambda: state() != 'Creating', 20 * SLOWNESS, f'{snapshot} is settled')
        return state()

    def snapshot(self):
        box, model = self.any_box('Running', 'Paused')
        if not box:
            return
        if len(self.snapshots) >= SNAPSHOTS:
            return self.remove_snapshot()
        def made():
            told = self.persistently('POST', f'/v1/sandboxes/{box}/snapshots', {})['id']
            if self.settled(told) == 'Ready':
                return told
            # The spawner was upgraded in the middle, and it says so.
            status = self.request('GET', f'/v1/snapshots/{told}')['status']
            self.assertRegex(status['message'], 'spawner', status)
            return self.remove(told)
        told = until(made, 20 * SLOWNESS, 'a snapshot that no upgrade has cut off')
        self.snapshots[told] = model.marker, model.metadata_of_copy()
        self.note(told[:8])

    def any_snapshot(self):
        if not self.snapshots:
            return None
        snapshot = self.random.choice(list(self.snapshots))
        self.note('of', snapshot[:8])
        return snapshot

    def remove_snapshot(self):
        snapshot = self.any_snapshot()
        if not snapshot:
            return
        if any(model.restored_from == snapshot and model.state in ('Running', 'Paused')
               for model in self.boxes.values()):
            self.assertEqual(self.refused('DELETE', f'/v1/snapshots/{snapshot}'), 409)
            return
        self.remove(snapshot)
        del self.snapshots[snapshot]

    def remove(self, snapshot):
        """When what was restored from it has gone whole."""
        def removed():
            try:
                self.request('DELETE', f'/v1/snapshots/{snapshot}')
                return True
            except atoll.ApiError as error:
                if error.code not in ('SNAPSHOT::DELETE_CONFLICT', 'GENERAL::UNAVAILABLE'):
                    raise
                return False
        until(removed, 20 * SLOWNESS, f'{snapshot} is removed')

    def restore(self):
        snapshot = self.any_snapshot()
        if not snapshot or self.is_full():
            return
        fields = {**self.fields(), 'snapshotId': snapshot}
        del fields['image']
        told = self.persistently('POST', '/v1/sandboxes', fields)
        self.note(told['id'][:8])
        self.adopt(told, fields)
        restored = self.boxes[told['id']]
        restored.marker, metadata = self.snapshots[snapshot]
        restored.restored_from = snapshot
        restored.metadata = {**metadata, **restored.metadata}
        self.look(told['id'])

    def claim(self):
        if self.is_full():
            return
        fields = {**self.fields(), 'extensions': {'poolRef': POOL}}
        told = self.persistently('POST', '/v1/sandboxes', fields)
        self.note(told['id'][:8])
        self.adopt(told, fields)

    def look(self, box):
        """Its files are those of the model, and it can write others."""
        model = self.boxes[box]
        if model.state == 'Running' and not self.secure(box):
            self.assertEqual(self.daemon.run(box, 'cat /marker; echo here >/here && cat /here').stdout,
                             f'{model.marker}\nhere' if model.marker is not None else 'here', box)

    def adopt_child(self, told, parent):
        child = type(parent)(metadata=parent.metadata_of_copy())
        child.expires, child.volumes, child.marker = told.get('expiresAt'), list(parent.volumes), parent.marker
        child.network, child.guarded, child.bucket = parent.network, parent.guarded, parent.bucket
        self.boxes[told['id']] = child
        self.note('to', told['id'][:8])

    def fork(self):
        box, model = self.any_box('Running', 'Paused')
        if not box or self.is_full(2):
            return
        told = self.persistently('POST', f'/v1/sandboxes/{box}/fork', {'count': self.random.choice([1, 2])})
        for item in told['items']:
            self.adopt_child(item, model)
            self.look(item['id'])

    def roll_back(self):
        box, model = self.any_box('Running', 'Paused')
        snapshot = self.any_snapshot()
        if not box or not snapshot:
            return
        self.persistently('POST', f'/v1/sandboxes/{box}/rollback', {'snapshotId': snapshot})
        self.rolled_back(box, snapshot)

    def rolled_back(self, box, snapshot):
        self.roll_back_model(box, snapshot)
        self.look(box)

    def roll_back_model(self, box, snapshot):
        model = self.boxes[box]
        model.state, model.adopted, model.restored_from, model.sessions = 'Running', False, None, {}
        model.marker = self.snapshots[snapshot][0]

    # ---- cut off by the death of the daemon

    def cut_off(self, ask, within=0.02):
        def send():
            try:
                ask()
            except Exception:  # pylint: disable=broad-except
                pass  # a refusal of an upgraded spawner, or http.client's own: it is cut at any place
        sender = threading.Thread(target=send)
        sender.start()
        self.wait_at_most(within)
        self.daemon.kill()
        sender.join()
        self.start_daemon()

    def cut_off_snapshot(self):
        """It is whole, failed, or was never made; and is never half."""
        box, model = self.any_box('Running', 'Paused')
        if not box:
            return
        self.cut_off(lambda: self.request('POST', f'/v1/sandboxes/{box}/snapshots', {}))
        for told in self.told_snapshots():
            if told not in self.snapshots:
                state = self.settled(told)
                self.note(told[:8], state)
                self.snapshots[told] = model.marker, model.metadata_of_copy()
                if state != 'Ready':
                    self.remove(told)
                    del self.snapshots[told]

    def cut_off_fork(self):
        """All children or none; the repeated request has as many, once."""
        box, model = self.any_box('Running', 'Paused')
        if not box or self.is_full(2):
            return
        ask = ('POST', f'/v1/sandboxes/{box}/fork', {'count': 2}, self.new_key())
        self.cut_off(lambda: self.request(*ask))
        told = self.persistently(*ask)['items']
        self.assertEqual({item['id'] for item in self.request(*ask)['items']}, {item['id'] for item in told})
        for item in told:
            self.adopt_child(item, model)
            self.look(item['id'])

    def cut_off_rollback(self):
        """What was, or what the snapshot has."""
        box, model = self.any_box('Running', 'Paused')
        snapshot = self.any_snapshot()
        if not box or not snapshot:
            return
        # It writes nothing while it stands, and what it is afterwards is seen by its state.
        self.pause_if_running(box)
        self.cut_off(lambda: self.request('POST', f'/v1/sandboxes/{box}/rollback', {'snapshotId': snapshot}))
        state = lambda: self.get(box)['status']['state']
        until(lambda: state() in ('Running', 'Paused'), 20 * SLOWNESS, f'{box} is whole')
        if state() == 'Running':
            self.rolled_back(box, snapshot)
        else:
            model.state = 'Paused'
            self.resume_paused(box)
            self.look(box)

    def pause_if_running(self, box):
        if self.boxes[box].state == 'Running':
            self.persistently('POST', f'/v1/sandboxes/{box}/pause')

    def resume_paused(self, box):
        self.persistently('POST', f'/v1/sandboxes/{box}/resume')
        self.boxes[box].state = 'Running'
