"""Isolated sessions in virtual machines: the cases of sandboxes of namespaces, where a machine's kernel makes them."""
import os
import unittest

import isolated_change_test
import isolated_test
import isolated_user_test
from atoll import SLOWNESS, until
from box import Box
from isolated import Isolated, Session
from machine import SETTINGS, WHOLE, Shared


def in_a_machine(cases, always, never=()):
    """A class of cases: some in each run, and all but those that look from the host at the guest's kernel when there
    is time."""
    names = {name for name in dir(cases) if name.startswith('test_')}
    assert {*always, *never} <= names, {*always, *never} - names
    others = never if WHOLE else names - {*always}
    return type(cases.__name__, (cases,), {'settings': SETTINGS, '__module__': __name__, **dict.fromkeys(others)})


Contract = in_a_machine(isolated_test.Contract, ['test_capabilities', 'test_identity', 'test_runs', 'test_what_a_run_leaves'])
Mounts = in_a_machine(isolated_test.Mounts, ['test_binds', 'test_modes'])
Limits = in_a_machine(isolated_test.Limits, ['test_memory', 'test_processes'],
                      ['test_groups_are_not_nested_without_end', 'test_made_and_ended_without_end'])
# A machine has more memory than test_limits_of_the_sandbox_hold asks for.
Attacks = in_a_machine(isolated_test.Attacks, ['test_no_mounts_no_namespaces_no_chroot', 'test_no_process_but_its_own',
                                               'test_what_is_hidden_stays_hidden'],
                       ['test_everything_goes', 'test_it_has_namespaces_of_its_own',
                        'test_its_mounts_stay_its_own_and_go', 'test_limits_of_the_sandbox_hold'])
Identity = in_a_machine(isolated_user_test.Identity, ['test_runs_and_files_are_as_ever', 'test_whom_it_is_inside_and_to_its_sandbox'])
UserAttacks = in_a_machine(isolated_user_test.Attacks, ['test_no_rights_over_anything_else'])
Changes = in_a_machine(isolated_change_test.Changes, ['test_as_the_sessions_user', 'test_commit'])


class Within(Isolated):
    """What those cases see from the host, seen from the guest."""
    settings = SETTINGS

    def test_namespaces(self):
        session = self.session(share_net=False)
        links = 'for n in mnt pid uts ipc net cgroup user; do echo $n=$(readlink /proc/self/ns/$n); done'
        inside, outside = (dict(line.split('=') for line in out(links).splitlines())
                           for out in (session.out, self.box.out))
        self.assertEqual({n for n in inside if inside[n] == outside[n]}, {'user'})
        self.assertEqual(session.out('hostname; grep -c : /proc/net/dev'), 'sandbox\n1')

    def test_everything_goes(self):
        groups = lambda: self.box.out('ls -d /sys/fs/cgroup/run/x* 2>/dev/null; true')
        for _ in range(3):
            session = self.session(workspace={'path': '/workspace'})
            session.out('echo x >/workspace/x; (setsid sleep 4249 &)')
            self.assertNotEqual(groups(), '')
            self.assertEqual(self.files(), ['x'])
            self.assertEqual(session.delete().status, 200)
            self.assertEqual(groups(), '')
            self.assertEqual(self.box.out('pgrep -f "sleep 4249"; true'), '')
            until(lambda: self.files() == [], 30 * SLOWNESS, 'its files are gone')

    def test_no_way_to_the_initramfs(self):
        """Where the uppers of all sessions are mounted."""
        session = self.session(workspace={'path': '/workspace'})
        for way in ('fd/6/../../..', 'task/1/fd/6/../../..', 'root/..', 'cwd/..'):
            self.assertNotIn('sessions', session.run(f'ls /proc/1/{way} 2>/dev/null')[0])
        self.assertEqual(self.box.out('cat /proc/mounts | grep -c /sessions; true'), '0')

    def files(self):
        """Those that sessions have written, as the host has them on its disk."""
        found = []
        for folder, _, names in os.walk(self.daemon.top):
            # The volatile mark of the guest's overlay is in its work directory.
            if '/upper' in folder.partition('/sessions/')[2]:
                found += names
        return found


class Lives(Shared):

    def test_it_outlives_daemon_and_spawner_and_a_pause(self):
        self.box.out('mkdir -p /w')
        session = Session(self.box, workspace={'path': '/w'})
        self.addCleanup(session.delete)
        session.out('kept=yes; echo kept >/w/f')
        self.daemon.kill()
        self.daemon.start()
        self.assertEqual(session.out('echo $kept; cat /w/f'), 'yes\nkept')
        self.daemon.kill_spawner()
        until(lambda: self.daemon.request('GET', '/health')['status'] == 'healthy', 30 * SLOWNESS, 'a new spawner')
        path = f'/v1/sandboxes/{self.box.id}'
        self.daemon.request('POST', path + '/pause')
        until(lambda: self.state(self.box)['state'] == 'Paused', 60 * SLOWNESS, 'it stands still')
        self.daemon.request('POST', path + '/resume')
        self.assertEqual(session.out('echo $kept; cat /w/f'), 'yes\nkept')
        self.assertEqual(Session(self.box, workspace={'path': '/w'}).out('cat /w/f 2>/dev/null; echo new'), 'new')

    def test_a_fork_has_none(self):
        self.box.out('mkdir -p /w')
        session = Session(self.box, workspace={'path': '/w'})
        self.addCleanup(session.delete)
        session.out('echo secret >/w/f')
        fork = self.daemon.request('POST', f'/v1/sandboxes/{self.box.id}/fork', {'count': 1})['items'][0]['id']
        self.addCleanup(self.daemon.delete, fork)
        fork = Box.of(self.daemon, fork)
        self.assertEqual(fork.call('GET', '/v1/isolated/sessions').json, {'sessions': []})
        self.assertEqual(Session(fork, workspace={'path': '/w'}).out('cat /w/f 2>/dev/null; echo none'), 'none')


if __name__ == '__main__':
    unittest.main()
