"""Many at one moment, and a spawner that does not listen: each step that was acknowledged is carried
out, once, and what was refused has no effect.

ATOLL_BURST sandboxes (400: more than a socket holds requests).
"""
import concurrent.futures
import http.client
import os
import pathlib
import queue
import re
import signal
import threading
import time
import unittest
import uuid

import atoll
from atoll import SLOWNESS, children, comm, until
from box import Box

MANY = int(os.environ.get('ATOLL_BURST', '400')) // SLOWNESS
SMALL = {'memory': '24Mi', 'pids': '16'}
PATIENCE = (30 + MANY / 20) * SLOWNESS


class Stopped:
    """The spawner, by SIGSTOP: it neither reads nor ends."""

    def __init__(self, daemon):
        self.pid = daemon.spawner_pid()

    def __enter__(self):
        os.kill(self.pid, signal.SIGSTOP)
        return self

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGCONT)


def groups(daemon):
    """Of sandboxes that hold processes, as the kernel tells; the stock's have one process each."""
    # Its janitor sits in no group of ours, and the builder of slots, which has children while it
    # makes one, in none of a slot.
    found = []
    for pid in children(daemon.spawner_pid()):
        try:
            cgroup = pathlib.Path(f'/proc/{pid}/cgroup').read_text('ascii')
        except OSError:  # ended since
            continue
        if re.search(r'/atoll\d+/s\d+', cgroup) and children(pid):
            found.append(pid)
    return found


class Many(unittest.TestCase):
    """One daemon for all cases; each leaves it empty."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon(runtime_overcommit=0).__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.image = cls.daemon.import_busybox()

    def setUp(self):
        self.connections = queue.SimpleQueue()

    def tearDown(self):
        while not self.connections.empty():
            self.connections.get().close()

    def send(self, method, path, body=None, headers=None):
        """The status, over a connection that is used again: thousands would take thousands of ports."""
        try:
            connection = self.connections.get_nowait()
        except queue.Empty:
            connection = self.daemon.connection()
        response = self.daemon.send(method, path, body, headers, connection)
        text = response.read().decode()
        self.connections.put(connection)
        if response.status >= 400:
            raise atoll.ApiError(f'{method} {path}', response.status, text)
        return atoll.json.loads(text) if text else None

    def create(self, **fields):
        return self.send('POST', '/v1/sandboxes', {
            'image': {'uri': self.image}, 'entrypoint': ['sleep', '100000'],
            'resourceLimits': SMALL, **fields})['id']

    def create_many(self, **fields):
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            boxes = list(pool.map(lambda _: self.create(**fields), range(MANY)))
        print(f'# {MANY} creates took {time.monotonic() - began:.1f} s', flush=True)
        return boxes

    def assert_gone_and_well(self):
        """Seen from the host; then as many can be made as before, and nothing has to be mended."""
        began = time.monotonic()
        until(lambda: not groups(self.daemon), PATIENCE, 'no sandbox has processes')
        print(f'# gone {time.monotonic() - began:.1f} s later', flush=True)
        self.assertEqual(self.send('GET', '/v1/sandboxes')['items'], [])
        box = self.create()
        self.assertEqual(self.daemon.run(box, 'echo here').stdout, 'here')
        self.send('DELETE', f'/v1/sandboxes/{box}')
        self.assertEqual(self.daemon.request('GET', '/health'), {'status': 'healthy'})
        text = self.daemon.send('GET', '/metrics').read().decode()
        wrong = [line for line in text.splitlines()
                 if line.startswith('atoll_differences_total') and not line.endswith(' 0')]
        self.assertEqual(wrong, [])

    def test_deletes_one_after_the_other(self):
        boxes = self.create_many()
        began = time.monotonic()
        for box in boxes:
            self.send('DELETE', f'/v1/sandboxes/{box}')
        print(f'# {MANY} deletes took {time.monotonic() - began:.1f} s', flush=True)
        self.assert_gone_and_well()

    def test_deletes_at_once_while_the_spawner_does_not_read(self):
        boxes = self.create_many()
        with Stopped(self.daemon):
            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                list(pool.map(lambda box: self.send('DELETE', f'/v1/sandboxes/{box}'), boxes))
        self.assert_gone_and_well()

    def test_deadlines_at_one_moment(self):
        boxes = self.create_many(timeout=86400)
        moment = time.time() + 5 * SLOWNESS + MANY / 100
        text = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(moment))
        for box in boxes:
            self.send('POST', f'/v1/sandboxes/{box}/renew-expiration', {'expiresAt': text})
        self.assertLess(time.time(), moment, 'slower than planned')
        until(lambda: time.time() > moment and not self.send('GET', '/v1/sandboxes')['items'],
              PATIENCE + MANY / 100)
        self.assert_gone_and_well()

    def test_exits_while_the_daemon_does_not_read(self):
        boxes = self.create_many()
        # The create is answered before the entrypoint is there, which a daemon that is stopped then
        # may not have asked for yet.
        until(lambda: len(groups(self.daemon)) == len(boxes), PATIENCE, 'all entrypoints are there')
        entrypoints = [children(pid)[0] for pid in groups(self.daemon)]
        self.daemon.process.send_signal(signal.SIGSTOP)
        try:
            for entrypoint in entrypoints:
                os.kill(entrypoint, signal.SIGKILL)
            until(lambda: not groups(self.daemon), PATIENCE, 'all have ended')
        finally:
            self.daemon.process.send_signal(signal.SIGCONT)

        def ended():
            found = self.send('GET', '/v1/sandboxes?state=Failed&pageSize=1')
            return found['pagination']['totalItems'] == len(boxes)
        until(ended, PATIENCE, 'all exits are told')
        for box in boxes:
            self.send('DELETE', f'/v1/sandboxes/{box}')
        self.assert_gone_and_well()

    def test_what_a_stopped_spawner_was_asked_for_is_not_made_later(self):
        key = {'Idempotency-Key': str(uuid.uuid4())}
        body = {'image': {'uri': self.image}, 'entrypoint': ['sleep', '100000'], 'resourceLimits': SMALL}
        refused = []

        def ask(headers):
            began = time.monotonic()
            try:
                self.daemon.request('POST', '/v1/sandboxes', body, headers)
            except atoll.ApiError as error:
                refused.append((error.status, 'stopped' in error.message, time.monotonic() - began, error.message))

        with Stopped(self.daemon):
            askers = [threading.Thread(target=ask, args=[headers]) for headers in [key] + [None] * 20]
            for asker in askers:
                asker.start()
            for asker in askers:
                asker.join()
            ask(key)
            self.assertEqual([status for status, *_ in refused], [429] * 22)
            self.assertTrue(refused[0][1] and refused[-1][1], refused)
            self.assertLess(max(seconds for _, _, seconds, _ in refused), 10 * SLOWNESS)
            self.daemon.request('GET', '/health')

        def made():
            try:
                return self.daemon.request('POST', '/v1/sandboxes', body, key)['id']
            except atoll.ApiError as error:
                self.assertEqual(error.status, 429)
                return None
        box = until(made, 20 * SLOWNESS, 'the woken spawner builds')
        self.assertEqual(self.daemon.request('POST', '/v1/sandboxes', body, key)['id'], box)
        until(lambda: len(groups(self.daemon)) == 1, 20 * SLOWNESS, 'one sandbox has processes')
        self.assertEqual([item['id'] for item in self.send('GET', '/v1/sandboxes')['items']], [box])
        self.send('DELETE', f'/v1/sandboxes/{box}')
        until(lambda: not groups(self.daemon), PATIENCE)


def kill_for_good(daemon):
    """The spawner, and the child of it that would start the next one."""
    spawner = daemon.spawner_pid()
    [successor] = [child for child in children(spawner) if comm(child) == 'atoll-successor']
    os.kill(spawner, signal.SIGSTOP)  # or it would replace the other
    os.kill(successor, signal.SIGKILL)
    os.kill(spawner, signal.SIGKILL)


class WithoutSpawner(unittest.TestCase):
    def test_a_refused_pause_never_happens(self):
        with atoll.Daemon() as daemon:
            image = daemon.import_busybox()
            box = daemon.create(image)
            daemon.run(box, 'while :; do echo x >>/beat; sleep 0.1; done', background=True)

            def beats():
                return int(daemon.run(box, 'wc -c </beat 2>/dev/null || echo 0').stdout)

            def goes_on():
                before = beats()
                until(lambda: beats() > before, 20 * SLOWNESS, 'it runs')
            kill_for_good(daemon)
            with self.assertRaises(atoll.ApiError) as refused:
                daemon.request('POST', f'/v1/sandboxes/{box}/pause')
            self.assertEqual(refused.exception.status, 503)
            self.assertEqual(daemon.request('GET', f'/v1/sandboxes/{box}')['status']['state'], 'Running')
            goes_on()
            daemon.stop()
            daemon.start()  # and with it the next spawner
            self.assertEqual(daemon.request('GET', f'/v1/sandboxes/{box}')['status']['state'], 'Running')
            daemon.delete(daemon.create(image))  # it answers, in order
            goes_on()

    def test_nor_one_that_a_stopped_spawner_has_not_read(self):
        with atoll.Daemon() as daemon:
            image = daemon.import_busybox()
            box = daemon.create(image)
            with Stopped(daemon):
                with self.assertRaises(atoll.ApiError) as refused:
                    daemon.request('POST', f'/v1/sandboxes/{box}/pause')
                self.assertEqual(refused.exception.status, 503)
            def created():
                try:
                    return daemon.create(image)
                except atoll.ApiError as error:
                    self.assertEqual(error.status, 429)
                    return None
            daemon.delete(until(created, 20 * SLOWNESS, 'the woken spawner builds'))
            self.assertEqual(daemon.request('GET', f'/v1/sandboxes/{box}')['status']['state'], 'Running')
            self.assertEqual(daemon.run(box, 'echo here').stdout, 'here')


class Differences(unittest.TestCase):
    """Where record, spawner and kernel do not agree, that is said, and mended."""

    @staticmethod
    def told(daemon, image):
        """What /health says. After so many removals it looks at once, not within half a minute."""
        for _ in range(101):
            daemon.delete(daemon.create(image))
        return until(lambda: daemon.request('GET', '/health').get('troubles', {}).get('sandboxes'),
                     60 * SLOWNESS, 'somebody says so')

    @staticmethod
    def well(daemon):
        until(lambda: daemon.request('GET', '/health')['status'] == 'healthy', 60 * SLOWNESS,
              'all is well again')

    def test_strays_are_said_and_removed(self):
        with atoll.Daemon() as daemon:
            image = daemon.import_busybox()
            group = Box.of(daemon, daemon.create(image)).group()
            upper = daemon.data_dir / 'store/fs/uppers/s4000'
            (upper / 'upper').mkdir(parents=True)
            unified = next(point for point in ('/sys/fs/cgroup', '/sys/fs/cgroup/unified')
                           if pathlib.Path(point, 'cgroup.procs').exists())
            stray = pathlib.Path(unified + group.split('/s')[0], 's4001')
            stray.mkdir()
            self.assertIn('2 slots had groups or files and no sandbox', self.told(daemon, image))
            until(lambda: not upper.exists() and not stray.exists(), 20 * SLOWNESS, 'they are gone')
            self.well(daemon)
            text = daemon.send('GET', '/metrics').read().decode()
            self.assertIn('atoll_differences_total{kind="stray"} 2', text)

    def test_a_sandbox_that_is_taken_out_of_its_groups_is_ended(self):
        """By somebody on the host: it would run on without limits."""
        with atoll.Daemon() as daemon:
            image = daemon.import_busybox()
            taken, other = daemon.create(image), daemon.create(image)
            daemon.run(taken, 'touch /taken')
            pid = next(pid for pid in children(daemon.spawner_pid())
                       if pathlib.Path(f'/proc/{pid}/root/taken').exists())
            # Where the limits are: in memory's own hierarchy, or in the one of all.
            root = next(path for path in map(pathlib.Path, ('/sys/fs/cgroup/memory', '/sys/fs/cgroup'))
                        if (path / 'cgroup.procs').exists())
            (root / 'cgroup.procs').write_text(str(pid), encoding='ascii')
            self.assertIn('1 sandboxes were out of their cgroups', self.told(daemon, image))
            state = lambda box: daemon.request('GET', f'/v1/sandboxes/{box}')['status']['state']
            until(lambda: state(taken) == 'Failed', 20 * SLOWNESS, 'it ends')
            self.assertFalse(pathlib.Path(f'/proc/{pid}/root/taken').exists())
            self.assertEqual(state(other), 'Running')
            self.assertEqual(daemon.run(other, 'echo here').stdout, 'here')
            self.well(daemon)


if __name__ == '__main__':
    unittest.main()
