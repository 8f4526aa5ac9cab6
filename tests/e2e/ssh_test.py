"""sshd as Debian ships it. What it needs of the kernel is told in runtime/spawner."""
import unittest

import atoll
from atoll import SLOWNESS, until
from box import Box


class Ssh(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.daemon.import_image(atoll.image_archive('ssh'), 'ssh:latest')

    def box(self, **fields):
        box = Box(self.daemon, 'ssh:latest', entrypoint=['sleep', '99999'],
                  resourceLimits={'cpu': '2', 'memory': '1Gi', 'pids': '1000'}, **fields)
        self.addCleanup(self.daemon.delete, box.id)
        return box

    def test_sshd_logs_somebody_in(self):
        box = self.box()
        box.out('useradd -m -s /bin/bash dev && '
                'ssh-keygen -q -t ed25519 -N "" -f /tmp/key && '
                'install -d -o dev -m 700 ~dev/.ssh && '
                'install -o dev -m 600 /tmp/key.pub ~dev/.ssh/authorized_keys && '
                'mkdir -p /srv/jail/pub && echo jailed >/srv/jail/pub/file')
        box.background('exec /usr/sbin/sshd -D -e -p 2222')
        ssh = ('ssh -p 2222 -i /tmp/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null '
               '-o LogLevel=ERROR dev@127.0.0.1 ')
        until(lambda: box.out(ssh + 'id -un; true').splitlines()[-1:] == ['dev'], 30 * SLOWNESS, 'a login')
        self.assertEqual(box.out(ssh + "'echo $((6 * 7)); exit 0'"), '42')
        self.assertIn('/dev/pts/', box.out(ssh.replace('ssh ', 'ssh -tt ', 1) + 'tty'))
        # One that is confined sees its directory and nothing else.
        box.background('exec /usr/sbin/sshd -D -e -p 2223 -o ChrootDirectory=/srv/jail '
                       '-o ForceCommand=internal-sftp')
        sftp = ('echo "ls /" | sftp -b - -P 2223 -i /tmp/key -o StrictHostKeyChecking=no '
                '-o UserKnownHostsFile=/dev/null -o LogLevel=ERROR dev@127.0.0.1 2>&1; true')
        until(lambda: '/pub' in box.out(sftp), 30 * SLOWNESS, 'a confined login')
        self.assertNotIn('etc', box.out(sftp))


if __name__ == '__main__':
    unittest.main()
