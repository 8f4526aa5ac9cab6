"""What programs find a root file system, its /dev and its process 1 to be: as under runc."""
import unittest

from isolated import Isolated

STAT = 'stat -c %d / /etc /etc/hosts /etc/passwd /bin /bin/busybox {0} {0}/new {0}/new/file'


class Root(Isolated):

    def one_device(self, told):
        self.assertEqual(len(told.split()), 9)
        self.assertEqual(len(set(told.split())), 1, told)

    def test_one_device_and_the_right_inodes(self):
        self.box.out('mkdir -p /opt/new; echo x >/opt/new/file')
        self.one_device(self.box.out(STAT.format('/opt')))
        self.assertEqual(self.box.out('attack inodes-differ'), 'inodes-differ: ENOENT')
        # Blocks, of files too.
        whole, one = (int(self.box.out(f'du -{flags} /bin').split()[0]) for flags in ('s', 'sx'))
        self.assertEqual(whole, one)
        self.assertGreater(one, 1000)

    def test_in_a_session_too(self):
        self.box.out('mkdir -p /w/low; echo low >/w/low/file')
        session = self.session(workspace={'path': '/w'})
        session.out('mkdir new; echo x >new/file')
        told = session.out('stat -c "%d %i" . low low/file new new/file; ls -1i . low new').splitlines()
        self.assertEqual(len({line.split()[0] for line in told[:5]}), 1, told)
        self.assertEqual(len({line.split()[1] for line in told[:5]}), 5, told)
        self.box.out('rm -r /w')

    def test_root_owns_dev(self):
        self.assertEqual(self.box.out('stat -c "%u:%g %a" /dev /dev/null /dev/fd | uniq; mkfifo /dev/pipe; '
                                      'ln -s null /dev/link; echo text >/dev/file; cat /dev/file; ls -l /dev/link; '
                                      'rm /dev/pipe /dev/link /dev/file').splitlines()[:3],
                         ['0:0 755', '0:0 666', '0:0 777'])
        for node in ('c 1 1', 'b 254 0'):
            self.assertIn('Operation not permitted', self.box.out(f'mknod /dev/node {node} 2>&1; true'))
        self.assertEqual(self.box.out('touch /dev/x 2>&1; true', uid=1000), 'touch: /dev/x: Permission denied')

    def test_a_log_socket(self):
        self.box.out("syslogd -S -O /tmp/log; timeout 30 sh -c 'until [ -S /dev/log ]; do :; done; logger heard; "
                     "until grep -q heard /tmp/log; do :; done'; told=$?; kill $(pidof syslogd); exit $told")

    def test_a_session_has_a_dev_of_its_own(self):
        self.box.out('mkfifo /dev/pipe')
        session = self.session()
        self.assertEqual(session.out('ls /dev/pipe 2>&1; echo x >/dev/null; ls -d /dev/pts /dev/shm; '
                                     'touch /dev/x 2>&1; true').splitlines(),
                         ['ls: /dev/pipe: No such file or directory', '/dev/pts', '/dev/shm',
                          'touch: /dev/x: Read-only file system'])
        self.box.out('rm /dev/pipe')

    def test_what_stands_for_null_is_nobodys_input(self):
        """Its memory, were execd to hand on what it finds there."""
        self.box.out('mv /dev/null /dev/kept; ln -s /proc/self/mem /dev/null')
        self.assertEqual(self.box.out('readlink /proc/self/fd/0; head -c 1 | wc -c').splitlines()[1:], ['0'])
        self.box.out('rm /dev/null; mkfifo /dev/null')
        self.assertEqual(self.box.out('wc -c'), '0')
        self.box.out('rm /dev/null; mv /dev/kept /dev/null')

    def test_only_root_signals_process_1(self):
        for ids in ({'uid': 65534, 'gid': 65534}, {'uid': 65534}, {'uid': 1000, 'gid': 65534}):
            with self.subTest(ids):
                self.assertIn('Operation not permitted', self.box.out('kill -TERM 1 2>&1; true', **ids))
        self.assertEqual(self.box.out('echo alive'), 'alive')

    def test_calls_that_have_another_way(self):
        told = self.box.out('attack name-to-handle prlimit-1')
        self.assertEqual(told, 'name-to-handle: ENOSYS\nprlimit-1: EPERM')


if __name__ == '__main__':
    unittest.main()
