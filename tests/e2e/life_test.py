"""A sandbox's life as a client sees it, and what of it is left on the host."""
import concurrent.futures
import http.client
import os
import subprocess
import time
import unittest

import atoll
from atoll import SLOWNESS
from host_state import HostState


class Life(unittest.TestCase):
    """One daemon for all cases."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.image = cls.daemon.import_busybox()

    def test_runs_commands_and_tells_their_exit_codes(self):
        box = self.daemon.create(self.image)
        self.addCleanup(self.daemon.delete, box)
        done = self.daemon.run(box, 'echo out; echo err >&2; exit 7')
        self.assertEqual((done.stdout, done.stderr, done.exit_code), ('out', 'err', 7))

    def test_environment_reaches_commands(self):
        box = self.daemon.create(self.image, env={'GREETING': 'good day'})
        self.addCleanup(self.daemon.delete, box)
        self.assertEqual(self.daemon.run(box, 'echo $GREETING').stdout, 'good day')

    def test_limits_hold_inside(self):
        box = self.daemon.create(self.image, resourceLimits={'memory': '64Mi', 'pids': '64'})
        self.addCleanup(self.daemon.delete, box)
        greedy = self.daemon.run(box, "tail -c 200000000 /dev/zero | cat >/dev/null; dd if=/dev/zero of=/dev/null bs=150M count=1")
        self.assertNotEqual(greedy.exit_code, 0)
        self.assertEqual(self.daemon.run(box, 'echo alive').stdout, 'alive')

    def test_a_signal_to_everybody_ends_no_sandbox(self):
        box = self.daemon.create(self.image, entrypoint=['sh', '-c', 'sleep 100000 & wait'])
        self.addCleanup(self.daemon.delete, box)
        for signal in ('KILL', 'USR1', 'TERM', '0'):
            refused = self.daemon.run(box, f'kill -{signal} -1')
            self.assertNotEqual(refused.exit_code, 0, signal)
            self.assertIn('Operation not permitted', refused.stderr)
        self.assertEqual(self.daemon.run(box, 'pidof sleep >/dev/null && echo alive').stdout, 'alive')
        # Groups and single processes are signalled as ever, the entrypoint among them.
        self.assertEqual(self.daemon.run(box, 'setsid sleep 4711 & p=$!; kill -KILL -$p || kill -KILL $p; wait $p; '
                                              'echo $?').stdout, '137')
        self.assertEqual(self.daemon.request('GET', f'/v1/sandboxes/{box}')['status']['state'], 'Running')
        try:
            self.daemon.run(box, 'kill -9 $(pidof sleep)')
        except (atoll.ApiError, OSError, ValueError, http.client.HTTPException):
            pass  # the sandbox ends before the answer
        atoll.until(lambda: self.daemon.request('GET', f'/v1/sandboxes/{box}')['status']['state'] != 'Running',
                    30 * SLOWNESS, 'the entrypoint was ended on purpose')

    def test_gone_after_delete(self):
        box = self.daemon.create(self.image)
        self.daemon.delete(box)
        with self.assertRaises(atoll.ApiError) as refused:
            self.daemon.request('GET', f'/v1/sandboxes/{box}')
        self.assertEqual((refused.exception.status, refused.exception.code),
                         (404, 'DOCKER::SANDBOX_NOT_FOUND'))

    def test_expires(self):
        box = self.daemon.create(self.image, timeout=60)
        soon = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + 2))
        try:
            self.daemon.request('POST', f'/v1/sandboxes/{box}/renew-expiration',
                                {'expiresAt': soon})
        except atoll.ApiError as error:
            self.assertEqual(error.status, 501)  # a daemon without renewal still expires: below
            self.daemon.delete(box)
            return
        atoll.until(lambda: self._status(box) == 404, 30 * SLOWNESS, 'the sandbox has expired')

    def _status(self, box):
        response = self.daemon.send('GET', f'/v1/sandboxes/{box}')
        response.read()
        return response.status

    def test_a_hundred_at_once_all_answer(self):
        count = 100 if SLOWNESS == 1 else 20

        def one(number):
            box = self.daemon.create(self.image)
            try:
                return self.daemon.run(box, f'echo {number}').stdout
            finally:
                self.daemon.delete(box)

        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            answers = list(pool.map(one, range(count)))
        self.assertEqual(answers, [str(number) for number in range(count)])

    def test_leaves_nothing_behind(self):
        # The first one fills pools and caches.
        self.daemon.delete(self.daemon.create(self.image))
        directories = [self.daemon.data_dir, self.daemon.run_dir]
        atoll.settled(lambda: HostState.capture(directories).numbers())
        before = HostState.capture(directories)
        boxes = [self.daemon.create(self.image) for _ in range(5)]
        for box in boxes:
            # A process that survives its command, a file in the upper, a listener.
            self.daemon.run(box, 'echo x >/file; (sleep 1000 &) ; nc -l -p 9000 >/dev/null 2>&1 &')
        self.assertNotEqual(before.await_same_numbers(0), {}, 'five sandboxes cannot be seen')
        for box in boxes:
            self.daemon.delete(box)
        self.assertEqual(before.await_same_numbers(30 * SLOWNESS), {})

    def test_descriptors_do_not_grow(self):
        def descriptors():
            return [len(os.listdir(f'/proc/{pid}/fd'))
                    for pid in (self.daemon.process.pid, self.daemon.spawner_pid())]

        def rounds(count):
            for _ in range(count):
                box = self.daemon.create(self.image)
                self.daemon.run(box, 'true')
                self.daemon.delete(box)

        rounds(10)
        before = atoll.settled(descriptors)
        rounds(30)
        atoll.until(lambda: all(now <= then for now, then in zip(descriptors(), before)),
                    30 * SLOWNESS, f'no more descriptors than {before}')


class WholeDaemon(unittest.TestCase):
    """From before the daemon's start to after its end."""

    def test_shutdown_leaves_the_host_as_it_was(self):
        # Loads kernel modules and creates what outlives every daemon (cgroup roots, sysctls).
        with atoll.Daemon() as daemon:
            daemon.delete(daemon.create(daemon.import_busybox()))
        before = HostState.capture()
        with atoll.Daemon() as daemon:
            image = daemon.import_busybox()
            for _ in range(3):
                daemon.run(daemon.create(image), 'echo left running')
        self.assertEqual(before.await_same(30 * SLOWNESS), [])

    def test_two_daemons_side_by_side(self):
        with atoll.Daemon() as one, atoll.Daemon() as other:
            boxes = [(daemon, daemon.create(daemon.import_busybox())) for daemon in (one, other)]
            for daemon, box in boxes:
                self.assertEqual(daemon.run(box, 'echo yes').stdout, 'yes')
            with self.assertRaises(atoll.ApiError):
                one.request('GET', f'/v1/sandboxes/{boxes[1][1]}')

    def test_command_line_runs_and_passes_the_exit_code_on(self):
        with atoll.Daemon() as daemon:
            image = daemon.import_busybox()
            done = subprocess.run(
                [atoll.BUILD / 'atoll', 'run', image, '--', 'sh', '-c', 'echo out; exit 3'],
                env=daemon.client_env(), stdout=subprocess.PIPE, text=True, check=False)
            self.assertEqual((done.stdout, done.returncode), ('out\n', 3))


if __name__ == '__main__':
    unittest.main()
