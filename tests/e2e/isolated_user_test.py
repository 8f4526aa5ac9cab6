"""Isolated sessions with a user namespace of their own: whom their processes are, and to whom."""
import re
import unittest

from box import Box, shell_image
from isolated import SESSION, Isolated, Session

NAMESPACES = ('unshare-user', 'unshare-net', 'unshare-mount', 'clone-user', 'clone-net',
              'clone-each-odd', 'clone3-user', 'clone3-user-net', 'setns')
MOUNTS = ('mount', 'remount', 'umount', 'open-tree', 'fsopen', 'pivot', 'chroot', 'mknod-block')
PROCESS_ONE = ('ptrace-1', 'mem-1', 'environ-1', 'fd-1', 'maps-1', 'cwd-1', 'root-1', 'vm-read-1',
               'prlimit-1')


class Mapped(Isolated):
    def mapped(self, **request):
        return self.session(uid_mode='userns', **request)

    def attack(self, session, *names):
        outcomes = dict(line.split(': ') for line in session.out('attack ' + ' '.join(names)).splitlines())
        if self.settings:
            # The kernel of a machine lists the numbers to its root, but nobody gets at the files.
            outcomes.pop('fd-1', None)
            self.assertNotEqual(session.code('readlink /proc/1/task/1/fd/6 2>/dev/null')[0], 0)
            self.assertNotEqual(session.code('cat </proc/1/task/1/fd/0 2>/dev/null')[0], 0)
        return outcomes


class Identity(Mapped):
    def test_whom_it_is_inside_and_to_its_sandbox(self):
        session = self.mapped(uid=4000000000, gid=4242)
        self.assertEqual(session.out('id -u; id -g; id -G'), '4000000000\n4242\n4242')
        self.assertEqual({k: session.state()[k] for k in ('uid', 'gid', 'uid_mode')},
                         {'uid': 4000000000, 'gid': 4242, 'uid_mode': 'userns'})
        session.out('echo x >made; mkdir sub')
        self.assertEqual(session.upload('/workspace/sent', b'x').status, 200)
        self.assertEqual(session.out('stat -c "%u %g" made sub sent | uniq'), '4000000000 4242')
        self.assertEqual(self.box.out('cd /workspace; stat -c "%u %g" made sub sent | uniq; '
                                      'rm -r made sub sent'), '0 0')

    def test_runs_and_files_are_as_ever(self):
        session = self.mapped(workspace={'path': '/workspace'}, uid=1000, limits={'pids': 50})
        session.out('kept=yes; cd /tmp')
        _, last = session.run('sleep 4250', timeout_seconds=1)
        self.assertEqual(last['error']['ename'], 'RuntimeError')
        self.assertEqual(session.out('echo $kept $PWD'), 'yes /tmp')
        run = session.call('POST', '/run', {'code': 'echo out; sleep 4251', 'background': True})
        self.assertEqual(run.status, 202)
        session.out('echo new >/workspace/new')
        self.assertIn({'path': '/workspace/new', 'kind': 'added', 'type': 'file', 'size': 4},
                      session.call('GET', '/diff').json['items'])
        self.assertEqual(session.call('POST', '/commit').status, 200)
        self.assertEqual(self.box.out('stat -c "%u %g" /workspace/new; rm -r /workspace/new '
                                      '/workspace/.execd'), '0 0')
        self.assertEqual(session.delete().status, 200)

    def test_of_an_image_with_a_user(self):
        """The session is to its sandbox who commands are, whatever it calls itself."""
        box = Box(self.daemon, shell_image(self.daemon, name='of-dev:latest', user='dev'))
        self.addCleanup(lambda: self.daemon.delete(box.id))
        session = Session(box, workspace={'path': '/srv/devs', 'mode': 'rw'}, uid_mode='userns',
                          uid=0, gid=0)
        session.out('test $(id -u) = 0; echo x >made')
        self.assertEqual(box.out('stat -c "%u %g" /srv/devs/made'), '1000 1000')
        for name, outcome in self.attack(session, *PROCESS_ONE).items():
            self.assertIn(outcome, ('EPERM', 'EACCES'), name)
        self.assertEqual(box.out('echo 1 >/srv/roots; chmod 600 /srv/roots; cat /srv/roots', uid=0), '1')
        self.assertNotEqual(session.code('cat /srv/roots 2>/dev/null')[0], 0)
        self.assertEqual(session.delete().status, 200)

    def test_ids_that_are_none(self):
        for uid in (4294967295, -1):
            self.refused(self.box.call('POST', SESSION, {'workspace': {'path': '/workspace'},
                                                         'uid_mode': 'userns', 'uid': uid}),
                         400, 'INVALID_REQUEST_BODY')


class Attacks(Mapped):
    def test_root_of_its_own_has_no_right_over_others_files(self):
        self.box.out('cd /data; echo 1 >ours; echo 2 >theirs; chmod 600 ours theirs; chown dev theirs')
        try:
            session = self.mapped(uid=0, gid=0, extra_writable=['/data'])
            self.assertEqual(session.out('id -u; cat /data/ours'), '0\n1')
            for attempt in ('cat /data/theirs', 'echo x >/data/theirs', 'chmod 666 /data/theirs',
                            'chown 0 /data/theirs', 'chown dev /data/ours', 'chgrp dev /data/ours',
                            'setuidgid dev true', 'setuidgid nobody cat /data/ours'):
                self.assertNotEqual(session.code(attempt + ' 2>/dev/null')[0], 0, attempt)
            self.assertGreaterEqual(
                session.call('GET', '/files/download?path=/data/theirs').status, 400)
            # Which root of the sandbox's namespace has.
            self.assertEqual(self.session(uid=0, extra_writable=['/data']).out('cat /data/theirs'), '2')
            self.assertEqual(self.box.out('cd /data; stat -c "%u %a" ours theirs; cat theirs'),
                             '0 600\n1000 600\n2')
        finally:
            self.box.out('rm /data/ours /data/theirs')

    def test_no_rights_over_anything_else(self):
        for uid in (0, 1000):
            session = self.mapped(uid=uid)
            for name, outcome in self.attack(session, *NAMESPACES, *MOUNTS, *PROCESS_ONE).items():
                self.assertIn(outcome, ('EPERM', 'EACCES', 'ENOSYS', 'ENOSPC'), (uid, name))
            # The filter is one wall; that the namespace can have none beneath is the other.
            self.assertEqual(set(session.out('cat /proc/sys/user/max_*_namespaces').split()), {'0'})
            self.assertNotEqual(session.code('echo 9 >/proc/sys/user/max_user_namespaces 2>/dev/null')[0], 0)
            self.assertEqual(session.out('grep -E "Seccomp|NoNewPrivs" /proc/self/status | tr -d "\t\n"'),
                             'NoNewPrivs:1Seccomp:2Seccomp_filters:1')
            self.assertNotEqual(session.code('kill -9 1; kill -STOP 1; ls /proc/1/fd/0')[0], 0)
            self.assertEqual(session.out('echo alive'), 'alive')
        self.assertEqual(session.out('grep -E "Cap(Inh|Prm|Eff|Amb)" /proc/self/status | '
                                     'tr -d "\t\n0-"'), 'CapInh:CapPrm:CapEff:CapAmb:')

    def test_it_is_one_of_its_own(self):
        first, second = self.mapped(uid=1000), self.mapped(uid=1000)
        user = 'readlink /proc/self/ns/user'
        self.assertEqual(len({first.out(user), second.out(user), self.box.out(user)}), 3)
        # Two ids, of which one is execd's.
        for file in ('uid_map', 'gid_map'):
            lines = first.out(f'cat /proc/self/{file}').splitlines()
            self.assertEqual([re.split(' +', line.strip())[2] for line in lines], ['1', '1'])
        first.out('echo secret >/tmp/s; sleep 4252 &')
        self.assertEqual(second.out('cat /tmp/s /proc/[0-9]*/cmdline 2>/dev/null | tr "\\0" " " | '
                                    'grep -cE "[s]ecret|[s]leep 4252"; true'), '0')


if __name__ == '__main__':
    unittest.main()
