"""What the random test does when there is not enough: a store without a free byte for a moment, and a daemon
that may open few files. What is refused then has no effect, and what is acknowledged is whole."""
import contextlib
import shutil
import subprocess

import atoll
from random_sessions import SESSIONS

STORE_MIB = 64
FEW = 220


class Pressure:
    def pressure_moves(self):
        return [(2, self.full_for_a_moment)]

    def mount_store(self):
        """The store on a file system of its own, beside records that have room; until the case's clean-up."""
        disk, self.store = self.daemon.top / 'disk', self.daemon.data_dir / 'store'
        with open(disk, 'wb') as file:
            file.truncate(STORE_MIB << 20)
        subprocess.run(['mkfs.ext4', '-q', '-m', '0', disk], check=True)
        self.store.mkdir(parents=True)
        subprocess.run(['mount', '-o', 'loop', disk, self.store], check=True)
        self.addCleanup(subprocess.run, ['umount', '-l', self.store], check=True)
        self.store.chmod(0o755)

    def fill(self):
        filler = self.store / 'filler'
        filler.mkdir(exist_ok=True)
        with open(filler / 'all', 'ab', buffering=0) as file:
            for size in (1 << 20, 1 << 10):
                with contextlib.suppress(OSError):
                    while file.write(b'x' * size) == size:
                        pass

    def answered(self, *request, statuses):
        """What was acknowledged, or None if it was refused as it should be."""
        try:
            return self.request(*request) or True
        except atoll.ApiError as error:
            self.assertIn(error.status, statuses, error)
            self.note(error.status)
            return None

    def full_for_a_moment(self):
        """Slots that were made when there was room may serve some of it. While the spawner is upgraded it
        answers 503."""
        if self.is_full(3):
            return
        made, self.sessions_made = [], []
        tries = [self.full_create, self.full_create, self.full_fork, self.full_roll_back, self.full_session]
        self.random.shuffle(tries)
        self.fill()
        try:
            for one in tries:
                made += one()
                self.fill()  # what the last one has given back
        finally:
            shutil.rmtree(self.store / 'filler')
        for box in made:
            self.look(box)
        for box, session in self.sessions_made:
            if session in self.boxes[box].sessions:  # not rolled back since
                self.write_in(box, session)

    def full_create(self):
        fields = self.fields()
        told = self.answered('POST', '/v1/sandboxes', fields, statuses=(429, 500))
        if not told:
            return []
        self.adopt(told, fields)
        return [told['id']]

    def full_fork(self):
        box, model = self.any_box('Running', 'Paused')
        told = box and self.answered('POST', f'/v1/sandboxes/{box}/fork', {}, statuses=(503, 507))
        if not told:
            return []
        for item in told['items']:
            self.adopt_child(item, model)
        return [item['id'] for item in told['items']]

    def full_roll_back(self):
        box, _ = self.any_box('Running', 'Paused')
        snapshot = self.any_snapshot()
        if not box or not snapshot:
            return []
        if self.answered('POST', f'/v1/sandboxes/{box}/rollback', {'snapshotId': snapshot},
                         statuses=(503, 507)):
            self.roll_back_model(box, snapshot)
        return [box]

    def full_session(self):
        box, _ = self.box_of_sessions(lambda model: len(model.sessions) < SESSIONS)
        session = box and self.try_session(box, statuses=(503, 507))
        if session:
            self.sessions_made.append((box, session))
        return []

    def few_descriptors(self):
        """Its sandboxes are there, and so is each answer."""
        self.daemon.stop()
        self.start_daemon('prlimit', f'--nofile={FEW}:{FEW}')
        self.check()
        for _ in range(3):
            if self.is_full():
                break
            fields = self.fields()
            told = self.answered('POST', '/v1/sandboxes', fields, statuses=(429,))
            if told:
                self.adopt(told, fields)
                self.look(told['id'])
        self.restart()
