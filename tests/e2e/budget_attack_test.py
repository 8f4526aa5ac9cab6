"""Attacks on what the kernel counts for all sandboxes together: a neighbour and the host have theirs.

The table is in runtime/spawner/SHARED_BUDGETS.md.
"""
import ctypes
import os
import unittest

import atoll
from atoll import SLOWNESS, until
from box import Box, shell_image

LIBC = ctypes.CDLL(None, use_errno=True)
# Each user namespace is charged to a user of its own, and has the limits of one.
BY_SANDBOX = ('inotify', 'queues', 'signals')
# Locked memory is each user's inside, and charged; terminals have a number of their own.
COUNTED = (*BY_SANDBOX, 'locked', 'terminals')


class Budgets(unittest.TestCase):
    """An attacker `a` and its neighbour `b`."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.image = shell_image(cls.daemon, programs=['tests/support/budget-probe'])
        cls.a, cls.b = Box(cls.daemon, cls.image), Box(cls.daemon, cls.image)

    def take(self, box, *names, **members):
        """Name → (how many there were, what ended it)."""
        lines = box.out('/bin/budget-probe ' + ' '.join(names), **members).splitlines()
        pairs = dict(line.split(': ') for line in lines)
        return {name: (int(value.split()[0]), value.split()[1]) for name, value in pairs.items()}

    def unharmed(self):
        self.assertEqual(self.b.out('echo alive'), 'alive')
        box = self.daemon.create(self.image)
        self.assertEqual(self.daemon.run(box, 'echo new').stdout, 'new')
        self.daemon.delete(box)
        self.assertEqual(self.daemon.request('GET', '/health')['status'], 'healthy')

    def test_what_all_share_nobody_takes(self):
        for uid in (0, 1000):
            self.assertEqual(
                self.take(self.a, 'socket-filters', 'seccomp-filters', 'prctl-filters',
                          'flow-labels', 'aio-contexts', 'huge-pages', uid=uid),
                {'socket-filters': (0, 'ENOPROTOOPT'), 'seccomp-filters': (0, 'EINVAL'),
                 'prctl-filters': (0, 'EINVAL'), 'flow-labels': (0, 'ENOPROTOOPT'),
                 'aio-contexts': (0, 'ENOSYS'), 'huge-pages': (0, 'ENOMEM')})
        self.unharmed()

    def test_the_entrypoint_takes_no_more(self):
        box = Box(self.daemon, self.image,
                  entrypoint=['/bin/budget-probe', 'socket-filters', 'seccomp-filters', 'hold'])
        log = lambda: box.call('GET', '/.atoll/entrypoint/logs').body.decode()
        until(lambda: 'held' in log(), 30 * SLOWNESS, 'it has tried')
        self.assertIn('socket-filters: 0 ENOPROTOOPT\nseccomp-filters: 0 EINVAL\n',
                      log().replace('\r', ''))
        self.daemon.delete(box.id)

    def test_what_is_counted_by_user_is_counted_by_sandbox(self):
        alone = {name: self.take(self.b, name)[name] for name in (*COUNTED, 'timers')}
        self.assertEqual({**alone, 'inotify': None}, {
            'inotify': None, 'queues': (9, 'EMFILE'), 'signals': (16384, 'EAGAIN'),
            'locked': (8, 'ENOMEM'), 'terminals': (64, 'ENOSPC'), 'timers': (16384, 'EAGAIN')})
        self.assertEqual(alone['inotify'][1], 'EMFILE')
        attack = self.a.background(f'/bin/budget-probe {" ".join(COUNTED)} hold')
        log = lambda: self.a.call('GET', f'/command/{attack}/logs').body.decode()
        until(lambda: 'held' in log(), 20 * SLOWNESS, 'all is taken')
        # All users of the attacker's together.
        self.assertEqual(self.take(self.a, *BY_SANDBOX, uid=1000),
                         {name: (0, alone[name][1]) for name in BY_SANDBOX})
        self.assertEqual({name: self.take(self.b, name)[name] for name in COUNTED},
                         {name: alone[name] for name in COUNTED})
        # Of the host's root, in whose name all is made.
        instance = LIBC.inotify_init1(os.O_CLOEXEC)
        self.assertGreaterEqual(instance, 0, os.strerror(ctypes.get_errno()))
        os.close(instance)
        self.unharmed()
        self.a.call('DELETE', f'/command?id={attack}')

    def test_full_pipes_are_had_beside_one_who_takes_all(self):
        """Each user of a sandbox is one of its own on the host, even its root: 16,384 pages."""
        attack = self.a.background('/bin/budget-probe pipes hold')
        log = lambda: self.a.call('GET', f'/command/{attack}/logs').body.decode()
        until(lambda: 'held' in log(), 30 * SLOWNESS, 'all are taken')
        self.assertEqual(self.take(self.a, 'pipes'), {'pipes': (0, 'EDQUOT')})
        for box, uid in ((self.a, 1000), (self.b, 0)):
            count, end = self.take(box, 'pipes', uid=uid)['pipes']
            self.assertGreater(count, 1000)
            self.assertEqual(end, 'EDQUOT')
        self.a.call('DELETE', f'/command?id={attack}')

    def test_descriptors_in_flight_are_had_beside_one_who_takes_all(self):
        """Each id's own too: as many as it may have open, in messages of 253."""
        attack = self.a.background('/bin/budget-probe descriptors hold')
        log = lambda: self.a.call('GET', f'/command/{attack}/logs').body.decode()
        until(lambda: 'held' in log(), 30 * SLOWNESS, 'all are taken')
        self.assertEqual(self.take(self.a, 'descriptors'), {'descriptors': (0, 'ETOOMANYREFS')})
        messages = int(self.b.out('ulimit -Hn')) // 253 + 1
        for box, uid in ((self.a, 1000), (self.b, 0)):
            self.assertEqual(self.take(box, 'descriptors', uid=uid),
                             {'descriptors': (messages, 'ETOOMANYREFS')})
        self.unharmed()
        self.a.call('DELETE', f'/command?id={attack}')

    def test_a_terminal_that_cannot_be_had_is_refused(self):
        attack = self.a.background('/bin/budget-probe terminals hold')
        log = lambda: self.a.call('GET', f'/command/{attack}/logs').body.decode()
        until(lambda: 'held' in log(), 30 * SLOWNESS, 'all are taken')
        answer = self.a.call('POST', '/pty')
        self.assertEqual((answer.status, answer.json['code']), (500, 'RUNTIME_ERROR'))
        self.assertIn('pseudo-terminal', answer.json['message'])
        answer = self.b.call('POST', '/pty')
        self.assertEqual(answer.status, 201)
        self.b.call('DELETE', f'/pty/{answer.json["session_id"]}')
        self.a.call('DELETE', f'/command?id={attack}')
        until(lambda: self.a.call('POST', '/pty').status == 201, 30 * SLOWNESS, 'they come back')


if __name__ == '__main__':
    unittest.main()
