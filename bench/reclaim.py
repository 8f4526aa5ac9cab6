"""The group "reclaim": pauses that give memory back, one of 200 MiB and a crowd of 100 MiB each."""
import random
import time

import driver
import atoll  # pylint: disable=wrong-import-order
import swap_area  # pylint: disable=wrong-import-order

MIB = swap_area.MIB
ROUNDS = 10
LARGE = 200 * MIB
CROWD = 500
WOKEN = 100
ROWS = [driver.row('given back, 200 MiB', 'it is paused → reclaimedBytes is told; none of it compresses', 'ms',
                   {'at_most': 300}),
        driver.row('left, 200 MiB', 'what its group is charged for then', 'MiB', {'at_most': 4}),
        driver.row('woken, 200 MiB', 'resume → the answer of a first command', 'ms', {'at_most': 10}),
        driver.row('back, 200 MiB', 'resume → nothing of it is in swap, though nobody asks for it', 'ms',
                   {'at_most': 1000}),
        driver.row('paused', f'of {CROWD} with 100 MiB each, a quarter of which does not compress, how many gave '
                   'theirs back', '', {'at_least': CROWD}),
        driver.row('woken, a crowd', 'one of them at random: resume → the answer of a first command', 'ms',
                   {'at_most': 50, 'quantile': 0.99})]
# Keeps pages of which a quarter is random.
HOLD = """
open(R, "<", "/dev/urandom"); for (1 .. $ARGV[0] / 4096) { read(R, $x, 1024); $y .= $x . "\\0" x 3072 }
open(W, ">", "/tmp/held"); close(W); sleep"""


def woken(daemon, box):
    began = time.perf_counter()
    daemon.request('POST', f'/v1/sandboxes/{box}/resume')
    assert daemon.run(box, 'echo here').stdout == 'here'
    return (time.perf_counter() - began) * 1e3


def given_back(daemon, box):
    """In ms, from the answer to the pause on."""
    daemon.send('POST', f'/v1/sandboxes/{box}/pause').read()
    began = time.perf_counter()
    told = atoll.until(lambda: swap_area.told(daemon, box), swap_area.SOON, 'its memory is reclaimed')
    assert isinstance(told, int), told
    return (time.perf_counter() - began) * 1e3


def one(take):
    with atoll.Daemon(**swap_area.settings('1Gi')) as daemon:
        box = swap_area.Holder(daemon, swap_area.image(daemon), size=LARGE)
        for _ in range(take.samples or ROUNDS):
            take.add('given back, 200 MiB', given_back(daemon, box.id))
            take.add('left, 200 MiB', swap_area.resident(box) / MIB)
            began = time.perf_counter()
            take.add('woken, 200 MiB', woken(daemon, box.id))
            while swap_area.swapped(box) != 0:
                pass
            take.add('back, 200 MiB', (time.perf_counter() - began) * 1e3)
            assert box.ask() == box.sum, 'its memory is another'


def crowd(take):
    with atoll.Daemon(**swap_area.settings('56Gi')) as daemon:
        image = swap_area.image(daemon)
        boxes = []
        for _ in range(CROWD):
            boxes.append(daemon.create(image))
            daemon.run(boxes[-1], f"exec perl -e '{HOLD}' {100 * MIB}", background=True)
            daemon.run(boxes[-1], 'until [ -e /tmp/held ]; do usleep 10000; done')
            given_back(daemon, boxes[-1])
        take.add('paused', sum(swap_area.told(daemon, box) > 100 * MIB for box in boxes))
        for box in random.Random(1).choices(boxes, k=take.samples or WOKEN):
            take.add('woken, a crowd', woken(daemon, box))
            given_back(daemon, box)


def measure(take):
    if take.wants('given back, 200 MiB', 'left, 200 MiB', 'woken, 200 MiB', 'back, 200 MiB'):
        one(take)
    if take.wants('paused', 'woken, a crowd'):
        crowd(take)


if __name__ == '__main__':
    driver.Take('reclaim', lambda _: ROWS).run(measure)
