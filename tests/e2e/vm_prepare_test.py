"""`atoll vm prepare`, from a package that is made here, and what the daemon says of its result."""
import lzma
import pathlib
import struct
import subprocess
import tempfile
import unittest

import atoll

VERSION = '9.9.9-cloud-amd64'
ELF = b'\x7fELF' + bytes(range(256)) * 64
NEEDED = {'virtio_ring': '', 'virtio': 'virtio_ring', 'virtio_mmio': 'virtio,virtio_ring',
          'virtio-rng': 'virtio', 'vsock': '', 'vmw_vsock_virtio_transport': 'vsock,virtio',
          'virtio_balloon': 'virtio', 'fuse': '', 'virtiofs': 'fuse,virtio_ring', 'overlay': '',
          'unwanted': ''}
BUILT_IN = 'virtio_net'


def bzimage(kernel):
    payload = lzma.compress(kernel) + struct.pack('<I', len(kernel))
    head = bytearray(1024)
    head[0x1f1] = 1
    head[0x202:0x206] = b'HdrS'
    head[0x248:0x250] = struct.pack('<II', 0, len(payload))
    return bytes(head) + payload


class Prepare(unittest.TestCase):

    def setUp(self):
        self.work = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(dir='/var/tmp')))

    def package(self, kernel=ELF, modules=NEEDED):
        tree = self.work / 'tree'
        folder = tree / 'lib/modules' / VERSION
        (tree / 'DEBIAN').mkdir(parents=True)
        (tree / 'boot').mkdir()
        (folder / 'kernel/drivers').mkdir(parents=True)
        (tree / 'DEBIAN/control').write_text(
            'Package: linux-image-test\nVersion: 1\nArchitecture: amd64\nMaintainer: a <a@b.example>\n'
            'Description: a kernel\n', encoding='utf-8')
        (tree / 'boot' / f'vmlinuz-{VERSION}').write_bytes(bzimage(kernel))
        (folder / 'modules.builtin').write_text(f'kernel/drivers/net/{BUILT_IN}.ko\n', encoding='utf-8')
        for name, needs in modules.items():
            content = b'\x7fELF\0license=GPL\0depends=' + needs.encode() + b'\0'
            # Debian 12 has plain modules, and Debian 13 compressed ones.
            path, content = ((f'{name}.ko.xz', lzma.compress(content)) if name == 'fuse' else (f'{name}.ko', content))
            (folder / 'kernel/drivers' / path).write_bytes(content)
        subprocess.run(['dpkg-deb', '--build', '--root-owner-group', tree, self.work / 'kernel.deb'],
                       check=True, stdout=subprocess.DEVNULL)
        return self.work / 'kernel.deb'

    def prepare(self, *words):
        return subprocess.run([atoll.BUILD / 'atoll', 'vm', 'prepare', *words], capture_output=True, text=True,
                              check=False)

    def test_kernel_and_modules_in_the_order_of_loading(self):
        result = self.prepare('--from', self.package(), '--dir', self.work / 'vm')
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(VERSION, result.stdout)
        vm = self.work / 'vm'
        self.assertEqual((vm / 'kernel').read_bytes(), ELF)
        self.assertEqual((vm / 'version').read_text(encoding='utf-8'), VERSION + '\n')
        for path in vm.iterdir():
            self.assertEqual((path.stat().st_mode & 0o777, path.stat().st_uid), (0o644, 0), path)
        subprocess.run(['cpio', '-i', '--quiet', '-D', self.work, '-F', vm / 'modules'], check=True)
        order = (self.work / 'modules/order').read_text(encoding='utf-8').split()
        self.assertEqual(sorted(order), sorted(f'{name.replace("-", "_")}.ko' for name in NEEDED if name != 'unwanted'))
        for name, needs in NEEDED.items():
            for need in filter(None, needs.split(',')):
                self.assertLess(order.index(f'{need}.ko'), order.index(f'{name.replace("-", "_")}.ko'))
        self.assertIn(b'license=GPL', (self.work / 'modules/fuse.ko').read_bytes())

    def test_again_renews_and_leaves_nothing_else(self):
        package = self.package()
        for _ in range(2):
            self.assertEqual(self.prepare('--from', package, '--dir', self.work / 'vm').returncode, 0)
        self.assertEqual(sorted(path.name for path in (self.work / 'vm').iterdir()), ['kernel', 'modules', 'version'])

    def test_a_package_to_carry_elsewhere(self):
        package = self.package()
        carried = self.work / 'carried.deb'
        result = self.prepare('--from', package, '--archive', carried)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(carried.read_bytes(), package.read_bytes())

    def refused(self, package):
        result = self.prepare('--from', package, '--dir', self.work / 'vm')
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertFalse((self.work / 'vm').exists())
        return result.stderr

    def test_refuses_what_is_no_kernel(self):
        self.assertIn('no ELF file', self.refused(self.package(kernel=b'a script')))

    def test_refuses_a_package_without_a_module(self):
        modules = {name: needs for name, needs in NEEDED.items() if name != 'vsock'}
        self.assertIn('it has no module vsock', self.refused(self.package(modules=modules)))


class Refused(unittest.TestCase):
    """The daemon does not start with less than was asked for."""

    def refused(self, **settings):
        daemon = atoll.Daemon(**settings)
        self.addCleanup(daemon.__exit__)
        with self.assertRaises(AssertionError) as failed:
            daemon.start()
        return str(failed.exception)

    def test_a_host_that_was_not_prepared(self):
        with tempfile.TemporaryDirectory(dir='/var/tmp') as empty:
            pathlib.Path(empty).chmod(0o755)
            self.assertIn(f"{empty}/kernel: No such file or directory: run 'atoll vm prepare' as root",
                          self.refused(secure_runtime__vm_dir=empty, secure_runtime__vm_accel='tcg'))


if __name__ == '__main__':
    unittest.main()
