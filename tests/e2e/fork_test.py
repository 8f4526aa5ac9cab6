"""Forks as a client sees them: the files of one sandbox in many others, all of them or none, and
nothing left when they have gone."""
import os
import subprocess
import unittest

import atoll
from snapshots import SEED, UNTIL, Snapshots


class Forks(Snapshots):

    def fork(self, box, count, headers=None):
        answer = self.daemon.request('POST', f'/v1/sandboxes/{box}/fork', {'count': count},
                                     headers=headers or {})
        children = [item['id'] for item in answer['items']]
        for child in children:
            self.addCleanup(self.gone, child)
        return children

    def image_layers(self):
        """Those that stay, once nothing of earlier tests is left."""
        return atoll.until(lambda: len(self.layers()) == 1 and set(self.layers()), UNTIL,
                           'only the image has layers')

    def all(self):
        return {item['id'] for item in self.daemon.request('GET', '/v1/sandboxes?pageSize=200')['items']}


class ForkTest(Forks):

    def test_files_and_settings_without_what_is_one_sandbox_s(self):
        box = self.box(env={'MINE': 'kept'}, metadata={'team': 'ml'}, timeout=600,
                       resourceLimits={'memory': '96Mi'})
        self.out(box, SEED + '; mkdir /t; echo text > /t/plain; rm /bin/attack')
        self.daemon.run(box, 'sleep 4711', background=True)
        answer = self.daemon.request('POST', f'/v1/sandboxes/{box}/fork', {'count': 3})
        self.assertIn('processes', answer['notInherited'])
        children = [item['id'] for item in answer['items']]
        parent = self.daemon.request('GET', f'/v1/sandboxes/{box}')
        for item in answer['items']:
            self.addCleanup(self.gone, item['id'])
            for same in ('image', 'entrypoint', 'metadata', 'expiresAt'):
                self.assertEqual(item[same], parent[same])
            self.assertEqual(item['status']['state'], 'Running')
        for child in children:
            self.assertEqual(self.out(child, 'cat /t/plain; echo $MINE; ls /bin/attack 2>&1 | wc -l'),
                             'text\nkept\n1')
            self.assertNotIn('4711', self.out(child, 'cat /proc/[0-9]*/cmdline | tr "\\0" " "'))
            self.assertNotIn('seed', self.daemon.run(child, 'cat /etc/machine-id').stdout)
        everyone = [box, *children]
        for command in ('hostname', 'echo $OPENSANDBOX_ID', 'cat /etc/hosts'):
            self.assertEqual(len({self.out(one, command) for one in everyone}), 4, command)
        self.assertEqual(len({str(self.daemon.execd_headers(one)) for one in everyone}), 4)
        # They go on apart.
        self.out(children[0], 'echo other > /t/plain; touch /t/own')
        for one in (box, *children[1:]):
            self.assertEqual(self.out(one, 'cat /t/plain; ls /t'), 'text\nplain')

    def test_children_have_children(self):
        box = self.box()
        self.out(box, 'echo 0 > /n0')
        for number in range(1, 4):
            box = self.fork(box, 2)[1]
            self.out(box, f'echo {number} > /n{number}')
        self.assertEqual(self.out(box, 'cat /n?'), '0\n1\n2\n3')

    def test_a_paused_parent_stays_paused(self):
        box = self.box()
        self.out(box, 'echo here > /file')
        self.daemon.request('POST', f'/v1/sandboxes/{box}/pause')
        self.assertEqual(self.out(self.fork(box, 1)[0], 'cat /file'), 'here')
        state = self.daemon.request('GET', f'/v1/sandboxes/{box}')['status']['state']
        self.assertEqual(state, 'Paused')

    def test_a_large_change(self):
        box = self.box()
        self.out(box, 'dd if=/dev/urandom of=/big bs=1M count=24 2>/dev/null; md5sum < /big > /sum; '
                      'i=0; while [ $i -lt 500 ]; do i=$((i+1)); echo $i > /n$i; done')
        for child in self.fork(box, 2):
            self.assertEqual(self.out(child, 'md5sum < /big | cmp - /sum && ls /n* | wc -l'), '500')

    def test_refusals_have_no_effect(self):
        box = self.box()
        before = (self.all(), list(self.image_layers()))
        path = f'/v1/sandboxes/{box}/fork'
        for body in ({'count': 0}, {'count': 65}, {'count': 'x'}, []):
            with self.assertRaises(atoll.ApiError) as caught:
                self.daemon.request('POST', path, body)
            self.assertEqual(caught.exception.status, 422, body)
        self.refused(404, 'DOCKER::SANDBOX_NOT_FOUND', 'POST', '/v1/sandboxes/none/fork')
        self.out(box, 'i=0; while [ $i -lt 300 ]; do i=$((i+1)); mkdir d && cd d; done')
        with self.assertRaises(atoll.ApiError) as caught:
            self.fork(box, 4)
        self.assertIn('nested deeper than', caught.exception.message)
        atoll.until(lambda: (self.all(), self.layers()) == before, UNTIL, 'nothing is left')
        self.out(box, 'rm -r /d')
        self.assertEqual(len(self.fork(box, 4)), 4)

    def test_a_repeated_request(self):
        box = self.box()
        key = {'Idempotency-Key': 'fork-once'}
        first = self.fork(box, 3, headers=key)
        before = self.all()
        self.assertEqual(set(self.fork(box, 3, headers=key)), set(first))
        self.assertEqual(self.all(), before)

    def test_the_layer_goes_with_the_last_child(self):
        image = self.image_layers()
        box = self.box()
        self.out(box, 'echo kept > /kept')
        children = self.fork(box, 2)
        self.assertEqual(len(set(self.layers()) - image), 1)
        self.daemon.delete(box)
        self.daemon.delete(children[0])
        self.daemon.kill()
        self.daemon.start()
        self.assertEqual(self.out(children[1], 'cat /kept'), 'kept')
        self.daemon.delete(children[1])
        atoll.until(lambda: set(self.layers()) == image, UNTIL, 'the layer is gone')

    def test_its_verb(self):
        box = self.box()
        self.out(box, 'echo forked > /note')
        done = subprocess.run([atoll.BUILD / 'atoll', 'fork', box, '-n', '2'], check=False,
                              env=self.daemon.client_env(), capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stdout.split()), 2)
        for child in done.stdout.split():
            self.addCleanup(self.gone, child)
            self.assertEqual(self.out(child, 'cat /note'), 'forked')


class DeathTest(Forks):
    """Who dies in the middle leaves all children or none, and the parent as it was."""

    def begin_fork(self, box, count):
        return self.ask_aside(
            lambda: self.daemon.request('POST', f'/v1/sandboxes/{box}/fork', {'count': count}))

    def moments(self, before):
        layers = lambda: set(self.layers()) - before
        pending = lambda: [item for item in self.daemon.request('GET', '/v1/sandboxes')['items']
                           if item['status']['state'] == 'Pending']
        return (lambda: True, layers, lambda: any(name.isdigit() for name in layers()), pending)

    def box_to_fork(self):
        box = self.box()
        self.out(box, 'dd if=/dev/urandom of=/big bs=1M count=8 2>/dev/null; md5sum < /big > /sum; '
                      'i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo $i > /n$i; done')
        return box

    def check(self, box, others):
        children = self.all() - others - {box}
        self.assertIn(len(children), (0, 6))
        for child in children:
            self.assertEqual(self.out(child, 'md5sum < /big | cmp - /sum && ls /n* | wc -l'), '300')
            self.daemon.delete(child)
        self.assertEqual(self.out(box, 'echo on'), 'on')

    def test_the_daemon_is_killed(self):
        box = self.box_to_fork()
        image, others = self.image_layers(), self.all() - {box}
        for moment in self.moments(image) * 2:
            asking = self.begin_fork(box, 6)
            atoll.until(lambda m=moment: m() or not asking.is_alive(), UNTIL, 'the moment')
            self.daemon.kill()
            asking.join()
            self.daemon.start()
            self.check(box, others)
            atoll.until(lambda: set(self.layers()) == image, UNTIL, 'nothing half is left')

    def test_the_spawner_is_killed(self):
        box = self.box_to_fork()
        image, others = self.image_layers(), self.all() - {box}
        for moment in self.moments(image):
            asking = self.begin_fork(box, 6)
            atoll.until(lambda m=moment: m() or not asking.is_alive(), UNTIL, 'the moment')
            before = self.daemon.spawner_pid()
            os.kill(before, 9)
            asking.join()
            self.daemon.another_spawner(before)
            atoll.until(self.daemon.healthy, UNTIL, 'it serves')
            settled = lambda: not any(item['status']['state'] == 'Pending' for item in
                                      self.daemon.request('GET', '/v1/sandboxes')['items'])
            atoll.until(settled, UNTIL, 'nothing is on its way')
            self.check(box, others)


if __name__ == '__main__':
    unittest.main()
