"""What a sandbox holds otherwise than its image or a snapshot, as a list and as a layer."""
import hashlib
import io
import json
import pathlib
import subprocess
import tarfile
import unittest

import atoll
from snapshots import SEED, UNTIL, Snapshots

CHANGE = r"""
set -e
mkdir -p /new/dir; echo text > /new/file; ln /new/file /new/dir/again; ln -s file /new/link
chown 12:34 /new/file; chmod 4751 /new/file; mkfifo /new/pipe
echo changed >> /etc/passwd; rm /bin/attack
rm -r /srv; mkdir /srv; echo only > /srv/only
"""


class DiffTest(Snapshots):

    def diff(self, box, query=''):
        answer = self.daemon.request('GET', f'/v1/sandboxes/{box}/diff{query}')
        self.assertFalse(answer['truncated'])
        return {(item['kind'], item['path']): item for item in answer['items']}

    def archive(self, box, query=''):
        response = self.daemon.send('GET', f'/v1/sandboxes/{box}/diff?format=tar{query}')
        self.assertEqual((response.status, response.getheader('Content-Type')),
                         (200, 'application/x-tar'))
        return tarfile.open(fileobj=io.BytesIO(response.read()))

    def test_against_its_image(self):
        box = self.box()
        self.assertEqual(self.diff(box), {})
        self.out(box, CHANGE + SEED + '; echo x >> /etc/hosts')
        told = self.diff(box)
        for change in (('added', '/new'), ('added', '/new/dir/again'), ('added', '/new/link'),
                       ('added', '/new/pipe'), ('modified', '/etc/passwd'), ('added', '/srv/only'),
                       ('deleted', '/bin/attack')):
            self.assertIn(change, told)
        self.assertEqual((told['added', '/new/file']['type'], told['added', '/new/file']['size']),
                         ('file', 5))
        self.assertEqual([path for _, path in told if path in ('/etc', '/bin', '/etc/hosts',
                                                               '/etc/machine-id')], [])
        # The one that has the files from others has changed the image in the same way.
        child = self.restore(self.take(box))
        self.assertEqual(self.diff(child), told)
        self.out(child, 'rm /new/pipe; cp /bin/sh /bin/attack')
        self.assertEqual(set(told) - set(self.diff(child)),
                         {('added', '/new/pipe'), ('deleted', '/bin/attack')})

    def test_against_a_snapshot(self):
        box = self.box()
        self.out(box, CHANGE)
        snapshot = self.take(box)
        self.assertEqual(self.diff(box, f'?against={snapshot}'), {})
        self.out(box, 'echo more >> /new/file; rm /new/link; touch /fresh')
        changed = {('modified', '/new/file'), ('modified', '/new/dir/again'),
                   ('deleted', '/new/link'), ('added', '/fresh')}
        self.assertEqual(set(self.diff(box, f'?against={snapshot}')), changed)
        other = self.restore(snapshot)
        self.assertEqual(self.diff(other, f'?against={snapshot}'), {})
        self.out(other, 'touch /elsewhere')
        self.assertEqual(set(self.diff(other, f'?against={snapshot}')), {('added', '/elsewhere')})
        self.refused(404, 'SNAPSHOT::NOT_FOUND', 'GET', f'/v1/sandboxes/{box}/diff?against=none')

    def test_the_archive_is_a_layer(self):
        box = self.box()
        self.out(box, CHANGE + 'mkdir -m 750 /etc/own; head -c 200000 /dev/urandom > /etc/own/random')
        random = self.out(box, 'md5sum < /etc/own/random')
        with self.archive(box) as layer:
            members = {member.name: member for member in layer.getmembers()}
            self.assertTrue(members['new/dir/again'].islnk() or members['new/file'].islnk())
            file = members['new/file'] if members['new/file'].isreg() else members['new/dir/again']
            self.assertEqual((file.mode, file.uid, file.gid, layer.extractfile(file).read()),
                             (0o4751, 12, 34, b'text\n'))
            self.assertEqual(members['new/link'].linkname, 'file')
            self.assertTrue(members['new/pipe'].isfifo())
            self.assertTrue(members['bin/.wh.attack'].isreg())
            self.assertTrue(members['bin'].isdir())
            names = layer.getnames()
            self.assertLess(names.index('etc'), names.index('etc/own'))
            content = layer.extractfile('etc/own/random').read()
            self.assertEqual(hashlib.md5(content).hexdigest(), random.split()[0])

    def test_a_client_that_goes_away_leaves_nobody_waiting(self):
        box = self.big_box()
        for _ in range(3):
            connection = self.stalled(box)
            connection.close()
            atoll.until(lambda: self.settles(box), UNTIL, 'it is told again')

    def test_a_client_that_does_not_read_holds_up_its_sandbox_alone(self):
        box, other = self.big_box(), self.big_box()
        connection = self.stalled(box)
        self.addCleanup(connection.close)
        for form in ('list', 'tar'):
            self.refused(503, 'GENERAL::UNAVAILABLE', 'GET', f'/v1/sandboxes/{box}/diff?format={form}')
        self.assertIn(('added', '/big'), self.diff(other))
        # The process that finds the difference is charged to a group that has a limit.
        teller, = [child for child in atoll.children(self.daemon.spawner_pid())
                   if atoll.comm(child) == 'atoll-unpack']
        groups = pathlib.Path(f'/proc/{teller}/cgroup').read_text(encoding='ascii').splitlines()
        memory = next(line.split(':', 2)[2] for line in groups
                      if 'memory' in line.split(':')[1].split(',') or line.startswith('0::'))
        self.assertIn('/unpack', memory)
        limits = [int(text) for group in atoll.groups_named('unpack')
                  for name in ('memory.max', 'memory.limit_in_bytes')
                  if str(group).endswith(memory.removesuffix('/execd')) and (group / name).exists()
                  and (text := (group / name).read_text(encoding='ascii').strip()) != 'max']
        self.assertTrue(limits and max(limits) < 3 << 30, limits)

    def big_box(self):
        box = self.box()
        self.out(box, 'dd if=/dev/urandom of=/big bs=1M count=64 2>/dev/null')
        return box

    def stalled(self, box):
        """A connection whose client has read the beginning of a difference, and reads no more."""
        connection = self.daemon.connection()
        response = self.daemon.send('GET', f'/v1/sandboxes/{box}/diff?format=tar',
                                    connection=connection)
        self.assertEqual(len(response.read(1000)), 1000)
        response.close()
        return connection

    def settles(self, box):
        try:
            return ('added', '/big') in self.diff(box)
        except atoll.ApiError as error:
            self.assertEqual(error.status, 503)
            return False

    def test_a_hostile_tree(self):
        box = self.box()
        self.out(box, 'i=0; while [ $i -lt 300 ]; do i=$((i+1)); mkdir d && cd d; done')
        with self.assertRaises(atoll.ApiError) as caught:
            self.diff(box)
        self.assertIn('nested deeper than', caught.exception.message)
        self.out(box, 'rm -r /d; ln -s / /loop; touch "$(printf "/odd\\n\\001name")"; touch /.wh.bin')
        self.assertIn(('added', '/odd\n\x01name'), self.diff(box))
        # An archive would say that /bin is gone.
        response = self.daemon.send('GET', f'/v1/sandboxes/{box}/diff?format=tar')
        self.assertEqual(response.status, 400)
        self.assertIn('.wh.bin', json.loads(response.read())['message'])

    def test_its_verb(self):
        box = self.box()
        # A name that a terminal would show as /newexe.txt.
        self.out(box, 'echo new > "$(printf "/new\\342\\200\\256txt.exe")"; rm /bin/attack')

        def cli(*words):
            return subprocess.run([atoll.BUILD / 'atoll', 'diff', *words], check=True,
                                  env=self.daemon.client_env(), capture_output=True).stdout
        self.assertEqual(set(cli(box).decode().splitlines()), {'A /new?txt.exe', 'D /bin/attack'})
        snapshot = self.take(box)
        self.assertEqual(cli(box, '--against', snapshot), b'')
        out = self.daemon.top / 'layer.tar'
        cli(box, '-o', str(out))
        with tarfile.open(out) as layer:
            self.assertIn('bin/.wh.attack', layer.getnames())


if __name__ == '__main__':
    unittest.main()
