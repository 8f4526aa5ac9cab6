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
# Everything that a file can be, for `find -printf` to tell of, and what it holds.
MAKE = r"""
set -e
mkdir -p /t/dir/deep && cd /t
echo text > plain; chmod 4751 plain; chown 12:34 plain
echo linked > one; ln one two; ln one dir/three
ln -s ../etc/passwd link; ln -s /nowhere dangling; chown -h 7:8 link
mkfifo -m 620 fifo
mkdir -m 1733 sticky; mkdir -m 2755 setgid; chown 5:6 setgid
printf 'x' > "$(printf 'odd \n\001\377name')"
dd if=/dev/urandom of=random bs=1k count=100 2>/dev/null
dd if=/dev/zero of=sparse bs=1 count=1 seek=67108863 2>/dev/null
echo y | dd of=sparse bs=1 seek=33554432 conv=notrunc 2>/dev/null
touch -d '2001-02-03 04:05:06' plain dir
rm -r /srv; mkdir /srv; echo new > /srv/only
rm /bin/attack; rm -r /home/dev
mv /etc/group /etc/moved; echo changed >> /etc/passwd
touch -d '2002-03-04 05:06:07' dir /srv
"""
# A directory has as many names and bytes as its file system likes; /etc itself is each sandbox's.
TELL = (r"cd / && for d in t srv home etc/passwd etc/moved; do find $d -type d "
        r"-exec stat -c '%N %a %u %g %Y' {} + ; find $d ! -type d "
        r"-exec stat -c '%N %F %a %u %g %h %s %Y' {} + ; done | sort; cd /t && cat plain one two dir/three random /srv/only /etc/passwd "
        r"/etc/moved | md5sum; md5sum < sparse; du -k sparse | cut -f 1")


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

    def layers(self):
        """Directories of layers that the store has."""
        return sorted(os.listdir(self.daemon.data_dir / 'store/fs/layers'))
