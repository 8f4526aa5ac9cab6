"""What holds when a process of Atoll dies at the worst moment."""
import contextlib
import os
import signal
import threading
import unittest

import atoll
from atoll import SLOWNESS
from host_state import HostState


class Load:
    """Clients that create, use and delete sandboxes until stopped; remembers what was acknowledged.

    A delete that the kill leaves without an answer may have happened or not: the daemon records it
    before it answers. So what was asked for is remembered beside what was acknowledged.
    """

    def __init__(self, daemon, image, clients=4):
        self.daemon, self.image = daemon, image
        self.created, self.asked, self.deleted = set(), set(), set()
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self._run) for _ in range(clients)]

    def _run(self):
        while not self.stopping.is_set():
            try:
                box = self.daemon.create(self.image)
                self.created.add(box)
                self.daemon.run(box, 'echo x >/file')
                if len(self.created) % 2:
                    self.asked.add(box)
                    self.daemon.delete(box)
                    self.deleted.add(box)
            except (OSError, atoll.http.client.HTTPException, atoll.ApiError, ValueError):
                return  # the daemon has died

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join()


def known(daemon):
    """Ids of all sandboxes in state Running."""
    found, page = set(), 1
    while True:
        answer = daemon.request('GET', f'/v1/sandboxes?pageSize=100&page={page}')
        found |= {item['id'] for item in answer['items'] if item['status']['state'] == 'Running'}
        if not answer['pagination']['hasNextPage']:
            return found
        page += 1


class DaemonDies(unittest.TestCase):
    """SIGKILL for atolld."""

    def test_sandboxes_run_on_and_are_adopted(self):
        with atoll.Daemon() as daemon:
            image = daemon.import_busybox()
            boxes = [daemon.create(image) for _ in range(3)]
            for number, box in enumerate(boxes):
                daemon.run(box, f'echo {number} >/file')
            daemon.kill()
            daemon.start()
            for number, box in enumerate(boxes):
                # The entrypoint counts: it is what the user left running.
                done = daemon.run(box, 'cat /file; ps | grep -c "[s]leep 100000"')
                self.assertEqual(done.stdout.splitlines(), [str(number), '1'])

    def test_nothing_acknowledged_is_lost_under_load(self):
        with atoll.Daemon() as daemon:
            image = daemon.import_busybox()
            for _ in range(3):
                with Load(daemon, image) as load:
                    atoll.until(lambda load=load: len(load.created) >= 12, 60 * SLOWNESS)
                    daemon.kill()
                daemon.start()
                running = known(daemon)
                self.assertEqual(load.created - load.asked - running, set(), 'lost')
                self.assertEqual(load.deleted & running, set(), 'back from the dead')
                for box in running & load.created:
                    self.assertEqual(daemon.run(box, 'echo here').stdout, 'here')
                for box in running:
                    daemon.delete(box)

    def test_kill_under_load_leaves_nothing_behind(self):
        with atoll.Daemon() as daemon:
            daemon.delete(daemon.create(daemon.import_busybox()))
        before = HostState.capture()
        with atoll.Daemon() as daemon:
            image = daemon.import_busybox()
            for _ in range(3):
                with Load(daemon, image) as load:
                    atoll.until(lambda load=load: len(load.created) >= 8, 60 * SLOWNESS)
                    daemon.kill()
                daemon.start()
        self.assertEqual(before.await_same(30 * SLOWNESS), [])

    def test_what_expired_meanwhile_is_gone_after_the_restart(self):
        with atoll.Daemon() as daemon:
            box = daemon.create(daemon.import_busybox())
            daemon.stop()
            daemon.start()
            self.assertIn(box, known(daemon))


class SlotsDie(unittest.TestCase):
    def test_a_create_takes_another_slot(self):
        """The host's out-of-memory killer may choose an execd that waits for its sandbox."""
        with atoll.Daemon() as daemon:
            image = daemon.import_busybox()
            daemon.delete(daemon.create(image))
            spawner = daemon.spawner_pid()

            def parked():
                return [pid for pid in atoll.children(spawner) if atoll.comm(pid) == 'execd']
            atoll.until(lambda: len(parked()) >= 8, 20 * SLOWNESS)
            killed = parked()
            for pid in killed:
                with contextlib.suppress(ProcessLookupError):  # of the deleted one, on its way out
                    os.kill(pid, signal.SIGKILL)
            # One that is still dying could be taken, and its sandbox die with it.
            atoll.until(lambda: not set(killed) & set(atoll.children(spawner)), 20 * SLOWNESS)
            for _ in range(3):
                self.assertEqual(daemon.run(daemon.create(image), 'echo here').stdout, 'here')


class SpawnerDies(unittest.TestCase):
    """SIGKILL for atoll-spawner. Its successor starts another (stop_test), or a daemon that starts."""

    def test_sandboxes_run_on_and_creates_go_on(self):
        with atoll.Daemon() as daemon:
            image = daemon.import_busybox()
            old = daemon.create(image)
            daemon.run(old, 'echo kept >/file')
            pid = daemon.spawner_pid()
            os.kill(pid, signal.SIGKILL)
            self.assertEqual(daemon.run(old, 'cat /file').stdout, 'kept')
            daemon.another_spawner(pid)

            def created():
                try:
                    return daemon.create(image)
                except atoll.ApiError as refused:
                    self.assertEqual(refused.status, 429)
                    return None
            new = atoll.until(created, 20 * SLOWNESS, 'a new sandbox')
            self.assertEqual(daemon.run(new, 'echo new').stdout, 'new')
            daemon.stop()
            daemon.start()
            self.assertEqual(daemon.run(old, 'cat /file').stdout, 'kept')

    def test_kill_under_load_leaves_nothing_behind(self):
        with atoll.Daemon() as daemon:
            daemon.delete(daemon.create(daemon.import_busybox()))
        before = HostState.capture()
        with atoll.Daemon() as daemon:
            image = daemon.import_busybox()
            with Load(daemon, image) as load:
                atoll.until(lambda: len(load.created) >= 8, 60 * SLOWNESS)
                os.kill(daemon.spawner_pid(), signal.SIGKILL)
            daemon.stop()
            daemon.start()
        self.assertEqual(before.await_same(30 * SLOWNESS), [])

    def test_both_killed(self):
        with atoll.Daemon() as daemon:
            daemon.delete(daemon.create(daemon.import_busybox()))
        before = HostState.capture()
        with atoll.Daemon() as daemon:
            box = daemon.create(daemon.import_busybox())
            os.kill(daemon.spawner_pid(), signal.SIGKILL)
            daemon.kill()
            daemon.start()
            self.assertEqual(daemon.run(box, 'echo here').stdout, 'here')
        self.assertEqual(before.await_same(30 * SLOWNESS), [])


if __name__ == '__main__':
    unittest.main()
