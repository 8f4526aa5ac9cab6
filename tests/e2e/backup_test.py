"""Backups of the daemon's state: what comes back with the store that belongs to it, what is refused with
any other, and that a store without its layers is not healthy."""
import base64
import contextlib
import json
import os
import pathlib
import shutil
import sqlite3
import stat
import subprocess
import unittest

import atoll
import box
from atoll import SLOWNESS

UNTIL = 20 * SLOWNESS
OLDER = pathlib.Path(__file__).parents[1] / 'unit/sandbox/stores/schema_2.sql'
KEPT = {'name': 'v', 'mountPath': '/data', 'pvc': {'claimName': 'kept'}}


class Backup(unittest.TestCase):
    """A daemon with an image, a volume and a snapshot; each case makes the backup and takes it back."""

    def setUp(self):
        self.daemon = atoll.Daemon()
        self.addCleanup(self.daemon.__exit__)
        self.daemon.start()
        self.image = self.daemon.import_busybox()
        source = self.daemon.create(self.image, volumes=[KEPT])
        self.daemon.run(source, 'echo volume >/data/file; echo snapshot >/file')
        self.snapshot = self.daemon.request('POST', f'/v1/sandboxes/{source}/snapshots', {})['id']
        atoll.until(lambda: self.daemon.request('GET', f'/v1/snapshots/{self.snapshot}')['status'][
            'state'] == 'Ready', UNTIL, 'the snapshot is taken')
        self.file = self.daemon.top / 'state.json'
        self.state, self.store = self.daemon.data_dir / 'state', self.daemon.data_dir / 'store'

    def backup(self, expect=0):
        done = subprocess.run([atoll.BUILD / 'atoll', 'backup', self.file], env=self.daemon.client_env(),
                              text=True, capture_output=True, check=False, timeout=60 * SLOWNESS)
        self.assertEqual(done.returncode, expect, done.stderr)
        return done.stderr

    def restore(self, expect=0):
        done = subprocess.run([atoll.BUILD / 'atolld', '--config', self.daemon.config, 'restore', self.file],
                              text=True, check=False, timeout=60 * SLOWNESS, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, expect, done.stdout)
        return done.stdout

    def refused(self, *words):
        """Nothing of the state is there after a refusal."""
        said = self.restore(expect=1)
        for word in words:
            self.assertIn(word, said)
        self.assertFalse((self.state / 'atoll.db').exists() or (self.daemon.data_dir / 'restore').exists())

    def change(self, name, statements, anew=False):
        """Of a database of the backup, or of one that is made anew by the statements."""
        backup = json.loads(self.file.read_text())
        path = self.daemon.top / 'changed.db'
        path.write_bytes(b'' if anew else base64.b64decode(backup['files'][name]))
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.executescript(statements)
            database.execute('PRAGMA journal_mode=DELETE')
        backup['files'][name] = base64.b64encode(path.read_bytes()).decode()
        self.file.write_text(json.dumps(backup))

    def lose_state(self):
        shutil.rmtree(self.state)

    def check_all_is_there(self):
        daemon = self.daemon
        self.assertEqual([image['name'] for image in daemon.request('GET', '/v1/images')['items']], [self.image])
        self.assertEqual(daemon.request('GET', '/health'), {'status': 'healthy'})
        restored = daemon.request('POST', '/v1/sandboxes', {
            'snapshotId': self.snapshot, 'resourceLimits': {}, 'volumes': [KEPT]})['id']
        self.assertEqual(daemon.run(restored, 'cat /data/file /file').stdout, 'volume\nsnapshot')

    def test_all_of_it_comes_back(self):
        self.backup()
        self.assertEqual(stat.S_IMODE(os.stat(self.file).st_mode), 0o600)
        self.assertIn('exists', self.backup(expect=1).lower())
        key = (self.state / 'api_key').read_text()
        self.daemon.shutdown()
        # The whole data directory is another one, and the store comes from its copy.
        copy = self.daemon.top / 'copy'
        subprocess.run(['cp', '-a', self.store, copy], check=True)
        shutil.rmtree(self.daemon.data_dir)
        self.daemon.data_dir.mkdir(mode=0o755)
        copy.rename(self.store)
        self.restore()
        self.assertEqual((self.state / 'api_key').read_text(), key)
        self.daemon.start()
        self.check_all_is_there()
        self.daemon.kill()
        self.assertIn('another atolld' if self.daemon.process.poll() is None else 'a spawner uses',
                      self.restore(expect=1))
        self.daemon.start().shutdown()
        self.assertIn(f'mv {self.state} {self.state}.old', self.restore(expect=1))

    def test_usage_and_history_come_back(self):
        daemon = self.enterContext(atoll.Daemon(usage_keep_days=30, prices_currency='EUR', prices_cpu_hour='1'))
        self.daemon, self.state = daemon, daemon.data_dir / 'state'
        self.file = daemon.top / 'state.json'
        box = daemon.create(daemon.import_busybox(), metadata={'team': 'red'})
        daemon.run(box, 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done')
        daemon.delete(box)
        past = lambda: daemon.request('GET', f'/v1/history/{box}')
        atoll.until(lambda: past()['usage']['complete'], UNTIL, 'the last reading is there')
        usage = lambda: daemon.request('GET', '/v1/usage?by=sandbox')['items']
        told, remembered = usage(), past()
        self.assertEqual([item['key'] for item in told], [box])
        self.assertGreater(told[0]['cost'], 0)
        self.backup()
        daemon.delete(daemon.create('busybox:latest'))
        daemon.shutdown()
        self.lose_state()
        text = self.file.read_text()
        for damaged in (text.replace('"usage.db.zst":"', '"usage.db.zst":"AAAA'),
                        text.replace('"usage.db.zst":"', '"usage.db.zst":"*')):
            self.file.write_text(damaged)
            self.refused('usage.db.zst is damaged')
        self.file.write_text(text)
        self.restore()
        daemon.start()
        self.assertEqual(usage(), told)
        self.assertEqual(past(), remembered)
        later = daemon.create('busybox:latest')
        atoll.until(lambda: len(usage()) == 2, UNTIL, f'{later} is metered')
        self.assertEqual(len({item['record'] for item in usage()}), 2)

    def test_what_came_after_it_is_gone(self):
        self.backup()
        layers = set(os.listdir(self.store / 'fs/layers'))
        later = box.shell_image(self.daemon)
        self.assertGreater(set(os.listdir(self.store / 'fs/layers')), layers)
        self.daemon.shutdown()
        self.lose_state()
        self.assertIn('layers that were made after the backup', self.restore())
        self.assertEqual(set(os.listdir(self.store / 'fs/layers')), layers)
        self.daemon.start()
        self.check_all_is_there()
        self.assertEqual(box.shell_image(self.daemon), later)
        self.assertEqual(self.daemon.run(self.daemon.create(later), 'echo new').stdout, 'new')

    def test_a_store_that_does_not_fit(self):
        self.backup()
        self.daemon.shutdown()
        self.lose_state()
        text = self.file.read_text()
        for damaged in ('', '{}', text[:-100], text.replace('"format":1', '"format":9'),
                        text.replace('"images/images.db":"', '"images/images.db":"*')):
            self.file.write_text(damaged)
            self.refused('is not a backup')
        self.file.write_text(text)
        lost = sorted(os.listdir(self.store / 'fs/layers'))[0]
        (self.store / 'fs/layers' / lost).rename(self.daemon.top / 'lost')
        self.refused(f'fs/layers/{lost}', 'lacks 1 of')
        (self.daemon.top / 'lost').rename(self.store / 'fs/layers' / lost)
        (self.store / 'volumes/kept').rename(self.daemon.top / 'lost')
        self.refused('volumes/kept')
        (self.daemon.top / 'lost').rename(self.store / 'volumes/kept')
        identity = self.store / 'fs/id'
        mine = identity.read_text()
        identity.write_text('0' * 32)
        self.refused('is another store', json.loads(text)['store'])
        identity.unlink()
        self.refused('is not a store')
        identity.write_text(mine)
        self.restore()
        self.daemon.start()
        self.check_all_is_there()

    def test_records_of_a_newer_release(self):
        self.backup()
        self.daemon.shutdown()
        self.lose_state()
        text = self.file.read_text()
        for name, change, said in (
                ('atoll.db', 'PRAGMA user_version = 1000', 'a newer Atoll has written it (schema 1000'),
                ('images/images.db', 'PRAGMA user_version = 1000', 'a newer Atoll has written it (schema 1000'),
                ('atoll.db', "UPDATE volumes SET record = json_insert(record, '$.later', 1)", 'record kept of volumes'),
                ('atoll.db', "UPDATE snapshots SET record = json_insert(record, '$.later', 1)", "'later' is not known")):
            self.change(name, change)
            self.refused(said)
            self.file.write_text(text)
        self.restore()
        self.daemon.start()
        self.check_all_is_there()

    def test_records_of_an_older_release(self):
        self.backup()
        self.daemon.shutdown()
        self.lose_state()
        self.change('atoll.db', OLDER.read_text() + """
            DELETE FROM sandboxes; DELETE FROM snapshots; DELETE FROM templates;
            DELETE FROM pools WHERE name <> 'empty'; DELETE FROM volumes WHERE name <> 'cache';
            UPDATE volumes SET name = 'kept'""", anew=True)
        self.restore()
        self.daemon.start()
        self.assertEqual([volume['name'] for volume in self.daemon.request('GET', '/v1/volumes')['items']], ['kept'])
        self.assertEqual([pool['name'] for pool in self.daemon.request('GET', '/v1/pools')['items']], ['empty'])
        sandbox = self.daemon.create(self.image, volumes=[KEPT])
        self.assertEqual(self.daemon.run(sandbox, 'cat /data/file').stdout, 'volume')

    def test_a_store_without_its_layers_is_not_healthy(self):
        self.daemon.shutdown()
        layers = self.store / 'fs/layers'
        layers.rename(self.daemon.top / 'layers')
        self.daemon.start()
        trouble = lambda: self.daemon.request('GET', '/health').get('troubles', {}).get('layers', '')
        atoll.until(trouble, UNTIL, 'health tells')
        self.assertIn('1 images and 1 snapshots', trouble())
        self.assertIn('1 images', self.backup(expect=1))
        self.assertFalse(self.file.exists())


if __name__ == '__main__':
    unittest.main()
