"""What tests of snapshots and forks share."""
import os
import threading
import unittest

import atoll
from atoll import SLOWNESS
from box import shell_image

UNTIL = 30 * SLOWNESS
# Writes what tells one sandbox from others.
SEED = 'echo seed > /etc/machine-id; mkdir -p /var/lib/dbus; cp /etc/machine-id /var/lib/dbus/'


class Snapshots(unittest.TestCase):
    """A daemon, an image and the plain calls."""

    settings = {}

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon(**cls.settings)
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.daemon.start()
        cls.image = shell_image(cls.daemon)

    def ask_aside(self, ask):
        """In a thread, whose answer is of no interest."""
        def run():
            try:
                ask()
            except (atoll.ApiError, OSError):
                pass
        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join)
        return thread

    def out(self, box, command):
        done = self.daemon.run(box, command)
        self.assertEqual(done.exit_code, 0, done.stderr)
        return done.stdout

    def box(self, **fields):
        box = self.daemon.create(self.image, **fields)
        self.addCleanup(self.gone, box)
        return box

    def gone(self, box):
        try:
            self.daemon.delete(box)
        except atoll.ApiError as error:
            self.assertEqual(error.status, 404)

    def begin(self, box, **body):
        return self.daemon.request('POST', f'/v1/sandboxes/{box}/snapshots', body)['id']

    def get(self, snapshot):
        return self.daemon.request('GET', f'/v1/snapshots/{snapshot}')

    def settled(self, snapshot):
        """Its status when it is Creating no more."""
        status = lambda: self.get(snapshot)['status']
        return atoll.until(lambda: status() if status()['state'] != 'Creating' else None, UNTIL,
                           'the snapshot is Ready or Failed')

    def take(self, box, **body):
        snapshot = self.begin(box, **body)
        status = self.settled(snapshot)
        self.assertEqual(status['state'], 'Ready', status)
        return snapshot

    def restore(self, snapshot, **fields):
        body = {'snapshotId': snapshot, 'entrypoint': ['sleep', '100000'], 'resourceLimits': {},
                **fields}
        box = self.daemon.request('POST', '/v1/sandboxes', body)['id']
        self.addCleanup(self.gone, box)
        return box

    def refused(self, status, code, method, path, body=None):
        with self.assertRaises(atoll.ApiError) as caught:
            self.daemon.request(method, path, body)
        self.assertEqual((caught.exception.status, caught.exception.code), (status, code),
                         caught.exception.message)
        return caught.exception.message

    def remove(self, snapshot):
        self.daemon.request('DELETE', f'/v1/snapshots/{snapshot}')

    def try_remove(self, snapshot):
        try:
            self.remove(snapshot)
        except atoll.ApiError as error:
            self.assertEqual((error.status, error.code), (409, 'SNAPSHOT::DELETE_CONFLICT'))
            return False
        return True

    def layers(self):
        """Directories of layers that the store has."""
        return sorted(os.listdir(self.daemon.data_dir / 'store/fs/layers'))
