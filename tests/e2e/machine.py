"""What tests of virtual machines share. The machines are emulated, so each costs seconds."""
import os
import pathlib
import subprocess
import tempfile
import unittest

import atoll
from atoll import SLOWNESS, until
from box import Box, shell_image

VM = atoll.BUILD / 'conformance/vm'
SETTINGS = {'secure_runtime__vm_dir': str(VM), 'secure_runtime__vm_accel': 'tcg',
            'secure_runtime__type': 'microvm', 'secure_runtime__minimum': 'namespace'}
# Emulated, all cases together take minutes.
WHOLE = 'ATOLL_MICROVM_WHOLE' in os.environ
# An emulated boot beside other work.
BOOT = 120 * SLOWNESS


def kernel(sandbox):
    return sandbox.out('uname -r')


def processes():
    out = subprocess.run(['ps', '-eo', 'pid,ppid,args'], check=True, capture_output=True, text=True).stdout
    return [(int(pid), int(parent), word) for pid, parent, word in
            (line.split()[:3] for line in out.splitlines()[1:])]


class MachineTest(unittest.TestCase):

    def state(self, box):
        return self.daemon.request('GET', f'/v1/sandboxes/{box.id}')['status']

    def ended(self, box):
        return until(lambda: self.state(box)['state'] in ('Failed', 'Terminated') and self.state(box), BOOT,
                     'its end is noticed')

    def part(self, name):
        """The pid of the machine's process of that name. A slot in stock has a guard alone."""
        qemu, guard = next((pid, parent) for pid, parent, word in processes() if word.endswith('qemu-system-x86_64'))
        if name == 'guard':
            return guard
        if name == 'qemu':
            return qemu
        return next(pid for pid, parent, word in processes() if parent == guard and word.endswith(name))


class Shared(MachineTest):

    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(dir='/var/tmp')))
        cls.shared.chmod(0o755)
        (cls.shared / 'f').write_text('of the host', encoding='utf-8')
        cls.daemon = cls.enterClassContext(atoll.Daemon(
            **SETTINGS, storage_allowed_host_paths=[str(cls.shared)]))
        cls.image = shell_image(cls.daemon)
        cls.box = Box(cls.daemon, cls.image, resourceLimits={'memory': '256Mi', 'cpu': '1'}, volumes=[
            {'name': 'data', 'mountPath': '/data', 'pvc': {'claimName': 'microvm-data'}},
            {'name': 'shared', 'mountPath': '/shared', 'readOnly': True, 'host': {'path': str(cls.shared)}},
            {'name': 'file', 'mountPath': '/etc/file', 'readOnly': True, 'host': {'path': str(cls.shared / 'f')}}])
        cls.box.out('true')

    def other(self, **fields):
        box = Box(self.daemon, self.image, **fields)
        self.addCleanup(self.daemon.delete, box.id)
        return box
