"""SIGKILL of the spawner, or of the daemon, at each step of a pause that gives memory back and of the way
from it: no sandbox is lost, none is changed, and nothing is left."""
import os
import signal
import unittest

import atoll
from atoll import SLOWNESS, until
from host_state import HostState
from swap_area import MIB, SIZE, SOON, Holder, areas, clean, gone, image, swapped

# Processes beside the spawner, one for each step; each is there for milliseconds.
STEPS = ['atoll-swap', 'atoll-pageout', 'atoll-fetch']


class ReclaimCrash(unittest.TestCase):
    def setUp(self):
        self.addCleanup(clean)
        self.daemon = self.enterContext(atoll.Daemon(pause_swap_size=f'{4 * SIZE // MIB}Mi',
                                                     pause_memory='reclaim'))
        self.box = Holder(self.daemon, image(self.daemon))
        self.spawner = self.daemon.spawner_pid()

    def await_step(self, name, otherwise):
        """As soon as the spawner has a child of that name; or when it must have been missed."""
        until(lambda: name in map(atoll.comm, atoll.children(self.spawner)) or otherwise(), SOON, name)

    def whole(self, kill):
        """After `kill` at each step."""
        for step in STEPS:
            with self.subTest(step=step):
                self.box.pause()
                if step == 'atoll-fetch':
                    self.box.reclaimed()
                    self.box.resume()
                    self.await_step(step, gone)
                else:
                    self.await_step(step, self.box.told)
                kill()
                until(self.daemon.healthy, SOON, 'all agrees')
                if step != 'atoll-fetch':
                    self.assertEqual(self.box.state()['state'], 'Paused')
                    self.assertGreater(self.box.reclaimed(), SIZE)
                    self.box.resume()
                self.assertEqual(self.box.ask(), self.box.sum)
                until(gone, SOON, 'nothing is in swap, and nothing to swap to')
        with self.subTest(step='in swap'):
            self.box.pause()
            self.box.reclaimed()
            kill()
            until(self.daemon.healthy, SOON, 'all agrees')
            self.assertGreater(self.box.reclaimed(), SIZE)
            self.assertGreater(swapped(self.box), SIZE)
            self.box.resume()
            self.assertEqual(self.box.ask(), self.box.sum)
            until(gone, SOON)
        with self.subTest(step='its end'):
            self.box.pause()
            self.box.reclaimed()
            self.daemon.request('DELETE', f'/v1/sandboxes/{self.box.id}')
            kill()
            until(self.daemon.healthy, SOON, 'all agrees')
            until(gone, SOON)

    def kill_spawner(self):
        os.kill(self.spawner, signal.SIGKILL)
        self.daemon.another_spawner(self.spawner)
        self.spawner = self.daemon.spawner_pid()

    def kill_daemon(self):
        self.daemon.kill()
        self.daemon.start()

    def test_the_spawner(self):
        self.whole(self.kill_spawner)

    def test_the_daemon(self):
        self.whole(self.kill_daemon)

    def test_both(self):
        def kill():
            os.kill(self.spawner, signal.SIGKILL)
            self.kill_daemon()
            self.spawner = self.daemon.spawner_pid()
        self.whole(kill)

    def test_an_upgrade_of_the_spawner(self):
        self.whole(self.daemon.upgrade_spawner)


class Servants(unittest.TestCase):
    def test_one_that_is_killed(self):
        """Whatever does a step may die alone: then the memory stays, and the pause stands."""
        self.addCleanup(clean)
        with atoll.Daemon(pause_swap_size=f'{4 * SIZE // MIB}Mi', pause_memory='reclaim') as daemon:
            box = Holder(daemon, image(daemon))
            spawner = daemon.spawner_pid()
            for name in STEPS:
                box.pause()
                if name == 'atoll-fetch':
                    box.reclaimed()
                    box.resume()
                found = lambda name=name: [pid for pid in atoll.children(spawner) if atoll.comm(pid) == name]
                pids = until(lambda: found() or (gone() and ['none']) if name == 'atoll-fetch'
                             else found() or (box.told() and ['none']), SOON, name)
                for pid in pids:
                    if pid != 'none':
                        os.kill(pid, signal.SIGKILL)
                if name != 'atoll-fetch':
                    until(box.told, SOON)
                    self.assertEqual(box.state()['state'], 'Paused')
                    box.resume()
                self.assertEqual(box.ask(), box.sum)
                until(gone, SOON, 'nothing is left')
        self.assertEqual(areas(), {})


class Leftovers(unittest.TestCase):
    def test_the_end_of_all(self):
        self.addCleanup(clean)
        with atoll.Daemon() as daemon:
            daemon.delete(daemon.create(daemon.import_busybox()))
        before = HostState.capture()
        with atoll.Daemon(pause_swap_size=f'{4 * SIZE // MIB}Mi', pause_memory='reclaim') as daemon:
            box = Holder(daemon, image(daemon))
            box.pause()
            box.reclaimed()
            self.assertEqual(len(areas()), 1)
        self.assertTrue(gone())
        self.assertEqual(before.await_same(SOON), [])


if __name__ == '__main__':
    unittest.main()
