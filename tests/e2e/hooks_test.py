"""Lifecycle hooks: a program before the entrypoint, others on a schedule, and what is told of them."""
import re
import unittest

import atoll
from atoll import SLOWNESS, until
from box import Box, shell_image

STAY = ['sh', '-c', 'echo entrypoint >>/tmp/order; exec sleep 99999']


def sh(script):
    return ['sh', '-c', script]


class Hooks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.image = shell_image(cls.daemon)

    def box(self, entrypoint=None, **lifecycle):
        box = Box(self.daemon, self.image, entrypoint=entrypoint or STAY, lifecycle=lifecycle)
        self.addCleanup(lambda: self.daemon.delete(box.id))
        return box

    def told(self, box, what):
        """Diagnostics, as text."""
        return self.daemon.send('GET', f'/v1/sandboxes/{box.id}/diagnostics/{what}').read().decode()

    def await_log(self, box, pattern):
        until(lambda: re.search(pattern, self.told(box, 'logs?tail=1000')), 20 * SLOWNESS,
              f'the log has {pattern}')

    def await_order(self, box, wanted):
        until(lambda: box.out('cat /tmp/order 2>/dev/null || true') == wanted, 20 * SLOWNESS,
              f'/tmp/order is {wanted}')

    def await_state(self, box, state):
        until(lambda: box.state()['state'] == state, 20 * SLOWNESS, f'it is {state}')
        return box.state()


class PreStart(Hooks):
    def test_it_comes_first_and_is_waited_for(self):
        box = self.box(preStart={'command': sh('echo hook >>/tmp/order; mkfifo /tmp/go; '
                                               'read x </tmp/go')})
        until(lambda: box.out('cat /tmp/order 2>/dev/null; ls /tmp').split() == ['hook', 'go', 'order'],
              20 * SLOWNESS, 'the hook runs, and the exec API answers')
        self.assertEqual(box.state()['state'], 'Running')
        box.out('echo >/tmp/go')
        self.await_order(box, 'hook\nentrypoint')

    def test_as_the_entrypoint_would(self):
        """Its user, environment and directory; no shell reads the words; output is the sandbox's."""
        image = shell_image(self.daemon, 'hook-user:latest', user='dev')
        box = Box(self.daemon, image, entrypoint=STAY, env={'A': 'b c'}, lifecycle={
            'preStart': {'command': ['sh', '-c', 'id -u; echo "$A" "$1"; pwd; echo bad >&2', 'x', '$HOME']}})
        self.addCleanup(lambda: self.daemon.delete(box.id))
        self.await_log(box, r'Z 1000\n(.*\n)*.*Z b c \$HOME\n(.*\n)*.*Z /\n')
        self.await_log(box, 'Z bad\n')

    def test_what_it_leaves_in_the_background_goes_on(self):
        box = self.box(preStart={'command': sh('sleep 4242 & exit 0')})
        self.await_order(box, 'entrypoint')
        self.assertIn('sleep', box.processes())
        self.assertEqual(box.out("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'slee[p] 4242'"), '1')

    def test_a_failure_keeps_the_entrypoint_from_starting(self):
        box = self.box(preStart={'command': sh('echo its last words; exit 3')})
        status = self.await_state(box, 'Failed')
        self.assertEqual(status['reason'], 'ENTRYPOINT_START_FAILED')
        self.assertIn('preStart: exit status 3', status['message'])
        self.assertIn('preStart: exit status 3', self.told(box, 'events'))
        self.await_log(box, 'its last words')

    def test_a_program_that_is_not_there(self):
        box = self.box(preStart={'command': ['/nosuch']})
        self.assertIn('preStart: exec /nosuch: No such file', self.await_state(box, 'Failed')['message'])

    def test_the_time_limit_ends_all_of_it(self):
        box = self.box(preStart={'command': sh('setsid sleep 4343 & sleep 99999'), 'timeoutSeconds': 1})
        self.assertIn('preStart: signal: killed (timeout)', self.await_state(box, 'Failed')['message'])

    def test_it_goes_on_while_the_daemon_is_restarted(self):
        for end, state in (('true', 'Running'), ('exit 3', 'Failed')):
            box = self.box(preStart={'command': sh(
                f'mkfifo /tmp/go; echo waiting; read x </tmp/go; echo "went on"; {end}')})
            until(lambda: box.out('ls /tmp') == 'go', 20 * SLOWNESS, 'the hook runs')
            self.daemon.kill()
            self.daemon.start()
            self.await_log(box, 'waiting')
            box.background('echo >/tmp/go')
            self.await_log(box, 'went on')
            self.await_state(box, state)
            if state == 'Running':
                self.await_order(box, 'entrypoint')

    def test_it_can_be_deleted_meanwhile(self):
        box = Box(self.daemon, self.image, entrypoint=STAY,
                  lifecycle={'preStart': {'command': sh('sleep 99999')}})
        self.daemon.delete(box.id)
        self.assertEqual(self.daemon.send('GET', f'/v1/sandboxes/{box.id}').status, 404)


class Periodic(Hooks):
    def every(self, script, name='work', **members):
        return {'name': name, 'schedule': '@every 1s', 'command': sh(script), **members}

    def test_again_and_again(self):
        box = self.box(periodic=[self.every('echo tick >>/tmp/ticks; echo seen'),
                                 {'name': 'later', 'schedule': '0 0 1 1 *', 'command': sh('touch /tmp/later')}])
        until(lambda: box.out('cat /tmp/ticks 2>/dev/null || true').count('tick') >= 3, 20 * SLOWNESS,
              'three ticks')
        self.await_log(box, r'seen\n(.*\n)*.* seen\n')
        self.assertNotIn('later', box.out('ls /tmp'))

    def test_none_before_the_entrypoint(self):
        box = self.box(preStart={'command': sh('mkfifo /tmp/go; read x </tmp/go; sleep 2.5')},
                       periodic=[self.every('echo tick >>/tmp/order')])
        until(lambda: box.out('ls /tmp') == 'go', 20 * SLOWNESS, 'the hook runs')
        box.out('echo >/tmp/go')
        until(lambda: 'tick' in box.out('cat /tmp/order 2>/dev/null || true'), 20 * SLOWNESS, 'a tick')
        self.assertEqual(box.out('head -1 /tmp/order'), 'entrypoint')

    def test_it_never_overlaps_itself(self):
        """Another one, meanwhile, has its times."""
        box = self.box(periodic=[self.every('echo begun >>/tmp/slow; sleep 99999', name='slow'),
                                 self.every('echo tick >>/tmp/ticks', name='quick')])
        until(lambda: box.out('cat /tmp/ticks 2>/dev/null || true').count('tick') >= 4, 30 * SLOWNESS,
              'four ticks')
        self.assertEqual(box.out('cat /tmp/slow'), 'begun')

    def test_failures_are_told_and_go_on(self):
        box = self.box(periodic=[self.every('exit 3', name='bad'),
                                 self.every('setsid sleep 4444 & sleep 99999', name='slow',
                                            timeoutSeconds=1),
                                 {'name': 'absent', 'schedule': '@every 1s', 'command': ['/nosuch']}])
        self.await_log(box, r'hook bad: exit status 3\n(.*\n)*.*hook bad: exit status 3\n')
        self.await_log(box, r'hook slow: signal: killed \(timeout\)')
        self.await_log(box, 'hook absent: exec /nosuch: No such file')
        self.assertEqual(box.state()['state'], 'Running')

    def test_the_end_of_the_entrypoint_ends_all(self):
        box = self.box(entrypoint=sh('sleep 2; exit 5'), periodic=[self.every('sleep 99999')])
        self.assertIn('5', self.await_state(box, 'Failed')['message'])


class Refused(Hooks):
    def refused(self, lifecycle):
        body = {'image': {'uri': self.image}, 'entrypoint': ['sh'], 'resourceLimits': {},
                'lifecycle': lifecycle}
        response = self.daemon.send('POST', '/v1/sandboxes', body)
        text = response.read().decode()
        return response.status, text

    def test_what_cannot_be_run(self):
        good = {'name': 'a', 'schedule': '@hourly', 'command': ['true']}
        for lifecycle, word in (
                ({'preStart': {}}, 'command'), ({'preStart': {'command': []}}, 'command'),
                ({'preStart': {'command': ['']}}, 'name a program'),
                ({'preStart': {'command': ['true'], 'timeoutSeconds': 0}}, '10800'),
                ({'preStart': {'command': ['true'], 'timeoutSeconds': 10801}}, '10800'),
                ({'preStart': {'command': ['true'], 'shell': True}}, 'shell'),
                ({'prestart': {'command': ['true']}}, 'prestart'), ('true', 'dictionary'),
                ({'periodic': good}, 'list'), ({'periodic': [None]}, 'required'),
                ({'periodic': [good, good]}, 'unique'),
                ({'periodic': [{**good, 'name': ' '}]}, 'blank'),
                ({'periodic': [{**good, 'name': 'a' * 65}]}, '64'),
                ({'periodic': [{**good, 'schedule': '61 * * * *'}]}, 'minute'),
                ({'periodic': [{**good, 'timeoutSeconds': 301}]}, '300'),
                ({'periodic': [{**good, 'name': str(i)} for i in range(17)]}, '16')):
            status, text = self.refused(lifecycle)
            self.assertEqual(status, 422, (lifecycle, text))
            self.assertIn(word, text, lifecycle)
        status, text = self.refused({'preStart': {'command': ['a' * (128 << 10)]}})
        self.assertEqual(status, 400, text)
        self.assertEqual(self.daemon.request('GET', '/v1/sandboxes')['items'], [])


if __name__ == '__main__':
    unittest.main()
