"""The memory of paused sandboxes: given back to the host, and all there when they go on."""
import pathlib
import unittest

import atoll
from atoll import SLOWNESS, until
from swap_area import MIB, SIZE, SOON, Holder, areas, clean, devices, gone, group, image, resident, swapped

AREA = 3 * SIZE // 2
RECLAIM = {'pause.memory': 'reclaim'}


class Reclaim(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.addClassCleanup(clean)
        cls.daemon = atoll.Daemon(pause_swap_size=f'{AREA // MIB}Mi').__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.image = image(cls.daemon)

    def setUp(self):
        # Behind the end of its sandboxes.
        self.addCleanup(until, gone, SOON, 'no area without a paused sandbox')

    def holder(self, extensions=None, **fields):
        box = Holder(self.daemon, self.image, extensions=extensions or RECLAIM, **fields)
        self.addCleanup(self.daemon.send, 'DELETE', f'/v1/sandboxes/{box.id}')
        return box

    def test_the_host_has_it_and_all_goes_on(self):
        reclaims = self.daemon.metric('reclaims_total{result="ok"}')
        box = self.holder()
        # Both ends of a connection, a timer, a terminal, and a file that is memory.
        box.out(f'mkfifo /tmp/say /tmp/hold; head -c {SIZE // 8} /dev/urandom >/dev/shm/file')
        digest = box.out('md5sum </dev/shm/file')
        box.background('exec 3<>/tmp/hold; nc -l -p 4000 <&3 >/tmp/heard')
        until(lambda: box.out("cat /proc/net/tcp* | grep -c ':0FA0 .* 0A '; true") != '0', SOON)
        box.background('exec 3<>/tmp/say; nc 127.0.0.1 4000 <&3')
        until(lambda: box.out("cat /proc/net/tcp* | grep -c ':0FA0 .* 01 '; true") != '0', SOON)
        box.background(f'value=kept; sleep {SLOWNESS}; echo $value >/tmp/rang')
        terminal = box.websocket(f"/pty/{box.call('POST', '/pty', {}).json['session_id']}/ws")
        terminal.send(2, b'\x00word=still; echo $((40+1))\n')
        terminal.until(lambda o: isinstance(o, bytes) and b'41' in o)
        self.assertGreater(resident(box), SIZE)
        box.pause()
        told = box.reclaimed()
        self.assertGreater(told, SIZE)
        self.assertLess(resident(box), 4 * MIB)
        self.assertGreater(swapped(box), SIZE)
        self.assertGreater(sum(areas().values()), SIZE)
        self.assertEqual(self.daemon.metric('reclaims_total{result="ok"}'), reclaims + 1)
        self.assertEqual(self.daemon.metric('reclaimed_bytes'), told)
        box.resume()
        self.assertEqual(box.out('echo here'), 'here')
        # The terminal of before; its client's connection has been here all the time.
        terminal.send(2, b'\x00echo $word-$((6*7))\n')
        terminal.until(lambda o: isinstance(o, bytes) and b'still-42' in o)
        terminal.sock.close()
        # Nobody has touched it: it is fetched.
        until(lambda: swapped(box) == 0, SOON, 'all is fetched')
        self.assertGreater(resident(box), SIZE)
        until(gone, SOON, 'the area is gone')
        self.assertEqual(box.ask(), box.sum)
        self.assertEqual(box.out('md5sum </dev/shm/file'), digest)
        box.out('echo hello >/tmp/say')
        until(lambda: box.out('cat /tmp/heard') == 'hello', SOON, 'the connection stands')
        until(lambda: box.out('cat /tmp/rang 2>/dev/null; true') == 'kept', SOON, 'the timer rings')
        self.assertEqual(self.daemon.metric('reclaimed_bytes'), 0)

    def test_the_end_of_a_paused_one_frees_its_place(self):
        box, other = self.holder(), self.holder(size=SIZE // 4)
        for one in (box, other):
            one.pause()
            one.reclaimed()
        self.daemon.delete(box.id)
        until(lambda: sum(areas().values()) < SIZE, SOON, 'its place is free')
        self.assertEqual(len(areas()), 1, 'the area, for the other')
        other.resume()
        self.assertEqual(other.ask(), other.sum)

    def test_it_is_fetched_though_nobody_touches_it(self):
        """The area stays, for another, so it is not the area's end that brings it back."""
        box, other = self.holder(), self.holder(size=SIZE // 4)
        for one in (other, box):
            one.pause()
            one.reclaimed()
        box.resume()
        until(lambda: resident(box) > SIZE, SOON, 'it is fetched')
        self.assertLess(resident(other), 4 * MIB)
        self.assertEqual(len(areas()), 1)
        # What has its place there, and was never touched since, needs no other.
        box.pause()
        self.assertGreater(box.reclaimed(), SIZE)
        self.assertLess(resident(box), 4 * MIB)
        box.resume()
        other.resume()
        self.assertEqual((box.ask(), other.ask()), (box.sum, other.sum))

    def test_what_does_not_fit_stays_and_is_said(self):
        kept = self.daemon.metric('reclaims_total{result="kept"}')
        first, second = self.holder(), self.holder()
        first.pause()
        first.reclaimed()
        second.pause()
        told = until(second.told, SOON)
        self.assertIn('pause.swap_size', told)
        self.assertEqual(second.state()['state'], 'Paused')
        self.assertGreater(resident(second), SIZE)
        self.assertEqual(swapped(second), 0)
        self.assertEqual(self.daemon.metric('reclaims_total{result="kept"}'), kept + 1)
        second.resume()
        self.assertEqual(second.ask(), second.sum)
        # Then there is room for it.
        first.resume()
        until(gone, SOON)
        second.pause()
        self.assertGreater(second.reclaimed(), SIZE)
        second.resume()
        self.assertEqual((first.ask(), second.ask()), (first.sum, second.sum))

    def test_one_that_runs_is_not_swapped(self):
        """Not by what is asked for a neighbour, nor when it is short of memory itself."""
        box, runs = self.holder(), self.holder(resourceLimits={'memory': f'{4 * SIZE // MIB}Mi'})
        box.pause()
        box.reclaimed()
        self.assertEqual(runs.run(f'head -c {6 * SIZE} /dev/zero | tail -c {6 * SIZE} >/dev/null')[2]['type'], 'error')
        self.assertEqual(swapped(runs), 0)
        self.assertEqual(runs.ask(), runs.sum)
        # And what may be swapped when it stands still may not when it runs.
        limit = lambda: [(group(box) / name).read_text(encoding='ascii') for name in
                         ('memory.swappiness', 'memory.swap.max') if (group(box) / name).exists()]
        self.assertEqual(limit(), ['0\n'])
        box.resume()
        self.assertEqual(limit(), ['0\n'])

    def test_idle_ones(self):
        box = self.holder({'idle.after': str(2 * SLOWNESS), **RECLAIM})
        self.assertGreater(until(lambda: isinstance(box.told(), int) and box.told(), SOON), SIZE)
        self.assertEqual(box.state()['reason'], 'IDLE_PAUSED')
        self.assertEqual(box.ask(), box.sum)

    def test_keep(self):
        box = self.holder({'pause.memory': 'keep'})
        silent = self.holder({'network': ''})
        for one in (box, silent):
            one.pause()
            until(lambda one=one: one.state()['state'] == 'Paused', SOON)
            self.assertGreater(resident(one), SIZE)
            self.assertFalse(one.told())
        self.assertEqual(areas(), {})

    def test_nothing_lies_readable_on_a_disk(self):
        box = self.holder()
        box.out(r"yes hereismysecret | head -c 1000000 >/dev/shm/secret")
        box.pause()
        box.reclaimed()
        device, = areas()
        kind = pathlib.Path(device).name
        if kind.startswith('zram'):
            backing = pathlib.Path('/sys/block', kind, 'backing_dev')
            self.assertIn(backing.read_text(encoding='ascii') if backing.exists() else 'none\n', 'none\n')
            return
        loop, = pathlib.Path('/sys/block', kind, 'slaves').iterdir()
        self.assertIn(b'hereismysecret', pathlib.Path(device).read_bytes(), 'the control')
        self.assertNotIn(b'hereismysecret', pathlib.Path('/dev', loop.name).read_bytes())
        backing = (loop / 'loop/backing_file').read_text(encoding='utf-8')
        self.assertIn('(deleted)', backing)
        self.assertTrue(backing.startswith(str(self.daemon.data_dir)), backing)


class Operators(unittest.TestCase):
    def test_by_default(self):
        self.addCleanup(clean)
        with atoll.Daemon(pause_swap_size=f'{AREA // MIB}Mi', pause_memory='reclaim') as daemon:
            name = image(daemon)
            silent, keeps = Holder(daemon, name), Holder(daemon, name, extensions={'pause.memory': 'keep'})
            for one in (silent, keeps):
                one.pause()
            self.assertGreater(silent.reclaimed(), SIZE)
            self.assertFalse(keeps.told())
            self.assertGreater(resident(keeps), SIZE)
        until(gone, SOON, 'nothing is left')

    def test_without_an_area(self):
        with atoll.Daemon() as daemon:
            name = daemon.import_busybox()
            with self.assertRaises(atoll.ApiError) as refused:
                daemon.create(name, extensions=RECLAIM)
            self.assertEqual(refused.exception.status, 400)
            self.assertIn('pause.swap_size', refused.exception.message)
            with self.assertRaises(atoll.ApiError) as refused:
                daemon.create(name, extensions={'pause.memory': 'drop'})
            self.assertEqual(refused.exception.status, 400)
            box = daemon.create(name)
            daemon.request('POST', f'/v1/sandboxes/{box}/pause')
        self.assertEqual(devices() & set(areas()), set())


if __name__ == '__main__':
    unittest.main()
