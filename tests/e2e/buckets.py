"""Sandboxes with volumes that are buckets: a daemon, its stores of objects, and what serves them."""
import os
import pathlib
import re
import threading
import unittest

import atoll
import registry
import s3_store
from atoll import SLOWNESS, until

PATIENCE = 60 * SLOWNESS


def groups(daemon):
    """Of what serves this daemon's buckets."""
    for root in ('/sys/fs/cgroup/unified', '/sys/fs/cgroup'):
        top = pathlib.Path(root, f'atoll{daemon.instance()}')
        if top.is_dir():
            return [top / name for name in os.listdir(top)
                    if re.fullmatch(r'm\d+-\d+', name)]
    raise AssertionError('no group of the daemon')


def servers(daemon):
    """Of this daemon, by pid: the command line, as ps has it, of all that serves its buckets."""
    found = {}
    for group in groups(daemon):
        try:
            for pid in (group / 'execd/cgroup.procs').read_text(encoding='utf-8').split():
                found[int(pid)] = pathlib.Path('/proc', pid, 'cmdline').read_bytes()
        except OSError:
            pass  # it has just ended
    return found


def s3fs_of(daemon):
    return [pid for pid, line in servers(daemon).items() if line.startswith(b'/usr/bin/s3fs')]


def mounts():
    """Of buckets, in any mount namespace of this host: lines of mountinfo."""
    found = set()
    for table in pathlib.Path('/proc').glob('[0-9]*/mountinfo'):
        try:
            found |= {line for line in table.read_text(encoding='utf-8').splitlines()
                      if ' - fuse objects ' in line}
        except OSError:
            pass  # its process has just ended
    return found


def scratch(daemon):
    """Directories for what is open of buckets, and what lies in them."""
    return atoll.fitting(f'{daemon.data_dir}/store/fs/uppers/s*/o*')


def the_store(authority, top):
    """versitygw if ATOLL_S3 says so."""
    if os.environ.get('ATOLL_S3') == 'versitygw':
        return s3_store.VersityStore(authority, top)
    store = s3_store.OwnStore(authority)
    # s3fs puts it into its requests as it stands, which those of Amazon's allow.
    store.upload_id = '{}'
    return store


class Case(unittest.TestCase):
    settings = {}

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon(**cls.settings)
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.top = cls.daemon.top / 'store'
        cls.authority = registry.Authority(cls.top)
        cls.store = the_store(cls.authority, cls.top)
        cls.addClassCleanup(cls.store.close)
        # Of the test alone, because it does what a test wants.
        cls.odd = s3_store.OwnStore(None)
        cls.addClassCleanup(cls.odd.close)
        cls.file = cls.daemon.top / 'credentials'
        cls.file.write_text(f'{cls.store.key}:{cls.store.secret}\n', encoding='utf-8')
        cls.file.chmod(0o600)
        lines = [f'main {cls.store.endpoint} bucket=bucket bucket=missing credentials={cls.file} '
                 f'ca={cls.authority.ca}',
                 f'odd {cls.odd.endpoint} bucket=*',
                 f'hosted {cls.odd.endpoint} bucket=* style=host',
                 f'nobody http://127.0.0.1:{registry.free_port()} bucket=*']
        text = cls.daemon.config.read_text(encoding='utf-8')
        quoted = ', '.join(f'"{line}"' for line in lines)
        cls.daemon.config.write_text(text.replace(
            '[storage]\n', f'[storage]\nobject_stores = [{quoted}]\n'), encoding='utf-8')
        cls.daemon.start()
        cls.image = cls.daemon.import_busybox()

    def setUp(self):
        self.odd.odd = lambda handler, query, body: False

    def silence(self, answers_then=False):
        """The odd store hears and says nothing until the event is set, at the end of the test at the latest."""
        released = threading.Event()
        self.addCleanup(released.set)

        def silent(_handler, _query, _body):
            released.wait()
            return not answers_then

        self.odd.odd = silent
        return released

    def volume(self, path='/data', store=None, **fields):
        store = store or self.store
        mine = {'bucket': 'bucket', 'endpoint': store.endpoint, 'accessKeyId': store.key,
                'accessKeySecret': store.secret}
        for name in ('bucket', 'endpoint', 'accessKeyId', 'accessKeySecret', 'options', 'version'):
            if name in fields:
                mine[name] = fields.pop(name)
        return {'name': 'b' + path.replace('/', '-'), 'mountPath': path, **fields,
                'ossfs': {name: value for name, value in mine.items() if value is not None}}

    def create(self, *volumes):
        box = self.daemon.create(self.image, volumes=list(volumes))
        self.addCleanup(self.delete, box)
        return box

    def delete(self, box):
        try:
            self.daemon.delete(box)
        except atoll.ApiError as gone:
            self.assertEqual(gone.status, 404)

    def out(self, box, command):
        done = self.daemon.run(box, command)
        self.assertEqual(done.exit_code, 0, done.stderr)
        return done.stdout

    def refused(self, status, code, *volumes):
        with self.assertRaises(atoll.ApiError) as caught:
            self.daemon.create(self.image, volumes=list(volumes))
        self.assertEqual((caught.exception.status, caught.exception.code), (status, code),
                         caught.exception.message)
        return caught.exception.message

    def nothing_left(self):
        until(lambda: not (servers(self.daemon) or groups(self.daemon) or mounts()
                           or scratch(self.daemon)), PATIENCE, 'nothing of a bucket is left')
