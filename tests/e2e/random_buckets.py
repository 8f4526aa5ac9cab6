"""What the random test does with a volume that is a bucket: a store of objects of the test's own, and in it what the
model has been told is written. The credentials are the operator's, so that copies of a sandbox have it, too."""
import buckets
import s3_store

PATH = '/bucket'


class Buckets:
    def setUp(self):
        super().setUp()
        self.objects = s3_store.OwnStore(None)
        self.addCleanup(self.objects.close)
        self.objects.upload_id = '{}'

    def allow_bucket(self):
        credentials = self.daemon.top / 'credentials'
        credentials.write_text(f'{self.objects.key}:{self.objects.secret}\n', encoding='utf-8')
        credentials.chmod(0o600)
        config = self.daemon.config.read_text(encoding='utf-8')
        self.daemon.config.write_text(config.replace(
            '[storage]\n', f'[storage]\nobject_stores = ["main {self.objects.endpoint} bucket=bucket '
                           f'credentials={credentials}"]\n'), encoding='utf-8')

    def bucket_moves(self):
        return [(8, self.use_bucket)]

    @staticmethod
    def bucket_fields():
        return {'name': 'b', 'mountPath': PATH, 'ossfs': {'bucket': 'bucket', 'endpoint': 'main'}}

    def use_bucket(self):
        """What one writes is in the store, and others read it."""
        boxes = [box for box, model in self.boxes.items()
                 if model.bucket and model.state == 'Running' and not self.secure(box)]
        if not boxes:
            return
        box, other = self.random.choice(boxes), self.random.choice(boxes)
        self.note(box[:8], other[:8])
        marker = str(self.random.randrange(10**9))
        done = self.daemon.run(box, f'echo {marker} >{PATH}/{marker}')
        self.assertEqual((done.exit_code, done.stderr), (0, ''), box)
        self.assertEqual(self.objects.content(marker), f'{marker}\n'.encode())
        done = self.daemon.run(other, f'cat {PATH}/{marker} && rm {PATH}/{marker}')
        self.assertEqual((done.stdout, done.stderr), (marker, ''), other)
        self.assertIsNone(self.objects.content(marker))

    def slots_with_servers(self):
        return {int(group.name[1:].partition('-')[0]) for group in buckets.groups(self.daemon)}
