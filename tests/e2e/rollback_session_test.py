"""Rollbacks of sandboxes with isolated sessions: the sessions end with the version that they were in, and live on if it
does, whoever dies when. Record, spawner, kernel and disk then agree."""
import http.client
import os
import pathlib
import signal
import threading
import time
import unittest

import atoll
from atoll import SLOWNESS
from box import Box
from isolated import SESSION, Session, text_of
from rollback_test import ASKED, BUILT, RECORDED, STEPS, Rollbacks
from snapshots import UNTIL

# Seconds that a session's process sleeps, which tell it from all others.
HELD, RUN = 4711001, 4711002


def asleep(seconds):
    """Whether a process on the host sleeps so long."""
    return any(text_of(path / 'cmdline') == f'sleep\0{seconds}\0'
               for path in pathlib.Path('/proc').glob('[0-9]*'))


class Sessions(Rollbacks):
    def box_and_snapshot(self):
        box = self.box()
        self.out(box, 'mkdir -p /workspace /data; chmod 777 /workspace /data; echo snapshot > /mark')
        snapshot = self.take(box)
        self.out(box, 'echo later > /mark')
        return Box.of(self.daemon, box), snapshot

    def used(self, box):
        """Two sessions, with processes that the session's shell has left, and open files of their own."""
        sessions = [Session(box, workspace={'path': '/workspace', 'mode': mode}) for mode in ('rw', 'overlay')]
        for session in sessions:
            session.out(f'kept=1; exec 9>/workspace/held; echo x >&9; (setsid sleep {HELD} &)')
        atoll.until(lambda: asleep(HELD), UNTIL, 'they run')
        return sessions

    def aside(self, ask):
        """Asks in a thread; the list gets its answer, or the error of a connection that was cut."""
        answers = []

        def run():
            try:
                answers.append(ask())
            except (OSError, http.client.HTTPException) as error:
                answers.append(error)
        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join)
        return thread, answers

    def top(self):
        return next(group for group in atoll.groups_named('atoll' + self.daemon.instance())
                    if (group / 'cgroup.freeze').exists() or 'unified' in str(group))

    def session_groups(self):
        return [str(group) for group in atoll.fitting(f'{self.top()}/s*/run/x*')]

    def session_uppers(self):
        return [str(path) for path in atoll.fitting(f'{self.daemon.data_dir}/store/fs/uppers/*/x*')]

    def nothing_is_left(self):
        """Sessions, and all of the version that they were in."""
        atoll.until(lambda: not asleep(HELD) and not asleep(RUN), UNTIL, 'their processes have ended')
        atoll.until(lambda: len(self.records()) == 1, UNTIL, 'one record is left')
        atoll.until(lambda: not self.session_groups(), UNTIL, f'no group is left: {self.session_groups()}')
        atoll.until(lambda: not self.session_uppers(), UNTIL, f'no file is left: {self.session_uppers()}')
        self.assertEqual(len(self.sockets()), 1)

    def are_gone(self, box, sessions):
        for session in sessions:
            self.assertEqual(session.call('GET').status, 404)
            self.assertEqual(session.call('POST', '/run', {'code': 'true'}).status, 404)
        self.assertEqual(box.call('GET', SESSION + 's').json, {'sessions': []})
        # Their numbers are free again, and their files did not come along.
        again = Session(box, workspace={'path': '/workspace', 'mode': 'overlay'})
        self.assertEqual(again.out('cat /mark; ls /workspace'), 'snapshot')
        self.assertEqual(again.delete().status, 200)


class RollbackTest(Sessions):
    def test_sessions_end_with_their_version(self):
        for paused in (False, True):
            with self.subTest(paused=paused):
                box, snapshot = self.box_and_snapshot()
                sessions = self.used(box)
                # The pause may come before the first byte of the answer; then the answer is an error.
                running, answers = self.aside(
                    lambda: sessions[0].call('POST', '/run', {'code': f'sleep {RUN}'}))
                atoll.until(lambda: asleep(RUN), UNTIL, 'the run')
                if paused:
                    self.daemon.request('POST', f'/v1/sandboxes/{box.id}/pause')
                    atoll.until(lambda: self.state(box.id) == 'Paused', UNTIL, 'the pause')
                answer = self.roll_back(box.id, snapshot)
                self.assertEqual(answer['status']['state'], 'Running')
                running.join(UNTIL)
                self.assertFalse(running.is_alive(), 'its client waits on')
                self.assertTrue(answers)
                self.nothing_is_left()
                self.are_gone(box, sessions)
                self.daemon.delete(box.id)

    def test_one_that_is_being_made_holds_no_rollback(self):
        """Its first process stands still from its birth: the group that it is born in does."""
        box, snapshot = self.box_and_snapshot()
        run = self.top() / box.group().rpartition('/')[2] / 'run'
        (run / 'cgroup.freeze').write_text('1', encoding='ascii')
        making, answers = self.aside(lambda: box.call('POST', SESSION, {'workspace': {'path': '/workspace'}}))
        atoll.until(lambda: 'populated 1' in text_of(run / 'x1/cgroup.events'), UNTIL, 'it is born')
        began = time.monotonic()
        self.assertEqual(self.roll_back(box.id, snapshot)['status']['state'], 'Running')
        self.assertLess(time.monotonic() - began, 8 * SLOWNESS, 'it waited for the patience of sessions')
        making.join(UNTIL)
        self.assertFalse(making.is_alive(), 'its client waits on')
        self.assertNotEqual(getattr(answers[0], 'status', 0), 201)
        self.nothing_is_left()
        self.are_gone(box, [])

    def test_a_session_that_is_asked_for_meanwhile_is_of_one_version(self):
        box, snapshot = self.box_and_snapshot()
        for step in STEPS:
            self.out(box.id, 'echo later > /mark')
            asking, spawner = self.reach(step, box.id, snapshot)
            making, answers = self.aside(lambda: box.call('POST', SESSION, {'workspace': {'path': '/workspace'}}))
            self.let_go(self.daemon.process.pid)
            self.let_go(spawner)
            asking.join()
            making.join(UNTIL)
            self.assertFalse(making.is_alive(), 'its client waits on')
            made = getattr(answers[0], 'status', 0) == 201
            self.assertEqual(self.out(box.id, 'cat /mark'), 'snapshot', step)
            if made:
                path = f'{SESSION}/{answers[0].json["session_id"]}'
                # It was made in the version that has ended, or in this one, where it can be used.
                self.assertIn(box.call('DELETE', path).status, (200, 404), step)
            self.nothing_is_left()


class DeathTest(Sessions):
    def check(self, box, sessions, step):
        atoll.until(self.daemon.healthy, UNTIL, 'it serves')
        atoll.until(lambda: self.state(box.id) == 'Running', UNTIL, 'it runs')
        mark = self.out(box.id, 'cat /mark')
        if step != BUILT:
            self.assertEqual(mark, 'snapshot' if step >= RECORDED else 'later', step)
        if mark == 'snapshot':
            self.nothing_is_left()
            self.are_gone(box, sessions)
            return
        # What was not rolled back goes on.
        atoll.until(lambda: len(self.records()) == 1, UNTIL, 'one record is left')
        self.assertEqual(len(self.session_groups()), 2, step)
        for session in sessions:
            self.assertEqual(session.out('echo $kept; cat /workspace/held'), '1\nx', step)
            self.assertEqual(session.delete().status, 200)
        self.nothing_is_left()

    def die(self, who):
        """In the middle of a rollback, at each of its steps."""
        box, snapshot = self.box_and_snapshot()
        for step in STEPS:
            self.out(box.id, 'echo later > /mark')
            sessions = self.used(box)
            asking, spawner = self.reach(step, box.id, snapshot)
            if 'daemon' in who:
                self.daemon.kill()
            if 'spawner' in who:
                os.kill(spawner, signal.SIGKILL)
                self.let_go(self.daemon.process.pid)
            self.let_go(spawner)
            asking.join()
            if 'daemon' in who:
                self.daemon.start()
            else:
                self.daemon.another_spawner(spawner)
            self.check(box, sessions, step)

    def test_the_daemon_is_killed(self):
        self.die(['daemon'])

    def test_the_spawner_is_killed(self):
        self.die(['spawner'])

    def test_both_are_killed(self):
        self.die(['daemon', 'spawner'])

    def test_the_spawner_is_killed_while_one_is_made(self):
        """And the rollback is asked for: what the builder has made is nobody's, and ends with its version."""
        box, snapshot = self.box_and_snapshot()
        run = self.top() / box.group().rpartition('/')[2] / 'run'
        (run / 'cgroup.freeze').write_text('1', encoding='ascii')
        making, answers = self.aside(lambda: box.call('POST', SESSION, {'workspace': {'path': '/workspace'}}))
        atoll.until(lambda: 'populated 1' in text_of(run / 'x1/cgroup.events'), UNTIL, 'it is born')
        asking, spawner = self.reach(ASKED, box.id, snapshot)
        os.kill(spawner, signal.SIGKILL)
        self.let_go(self.daemon.process.pid)
        asking.join()
        self.daemon.another_spawner(spawner)
        atoll.until(self.daemon.healthy, UNTIL, 'it serves')
        self.assertEqual(self.roll_back(box.id, snapshot)['status']['state'], 'Running')
        making.join(UNTIL)
        self.assertFalse(making.is_alive(), 'its client waits on')
        self.assertNotEqual(getattr(answers[0], 'status', 0), 201)
        self.nothing_is_left()
        self.are_gone(box, [])


if __name__ == '__main__':
    unittest.main()
