"""The group "snapshot": how long a sandbox stands still for one, and what a restore costs."""
import time

import driver
import atoll  # pylint: disable=wrong-import-order

ROUNDS = 10
MI = 1 << 20
HELD = 'the sandbox is asked to stand still → it goes on; '
ROWS = [driver.row('held, 1 MiB changed', HELD + 'the files were there before', 'ms', {'at_most': 10}),
        driver.row('held, 1 GiB changed', HELD + 'written just before', 'ms', {'at_most': 50}),
        driver.row('taken, 1 GiB', 'request → Ready', 'ms'),
        driver.row('cold create', 'request → the answer of a first command', 'ms'),
        driver.row('restore', 'the same, from a snapshot', 'ms'),
        driver.row('fork of 10', 'request → ten children run; 1 MiB changed', 'ms', {'at_most': 40}),
        driver.row('fork of 10, first outputs', 'the same → a first command in each, one after the other',
                   'ms')]
FORKED = 10


def metric(daemon, name):
    lines = daemon.send('GET', '/v1/metrics').read().decode().splitlines()
    return float([line for line in lines if name in line and line[0] != '#'][0].split()[-1])


def held_ms(daemon):
    """What all snapshots so far have cost their sandboxes."""
    return metric(daemon, 'snapshot_held_seconds_total') * 1e3


def take_one(daemon, box):
    """(its id, held, all of it), in ms."""
    before, began = held_ms(daemon), time.perf_counter()
    snapshot = daemon.request('POST', f'/v1/sandboxes/{box}/snapshots', {})['id']
    while (status := daemon.request('GET', f'/v1/snapshots/{snapshot}')['status'])['state'] == 'Creating':
        pass
    took = (time.perf_counter() - began) * 1e3
    assert status['state'] == 'Ready', status
    return snapshot, held_ms(daemon) - before, took


def first_command(daemon, **source):
    began = time.perf_counter()
    body = {'entrypoint': ['sleep', '100000'], 'resourceLimits': {}, **source}
    box = daemon.request('POST', '/v1/sandboxes', body)['id']
    daemon.run(box, 'true')
    took = (time.perf_counter() - began) * 1e3
    daemon.delete(box)
    return took


def fork(daemon, box):
    """(until they run, until each has answered a command), in ms."""
    began = time.perf_counter()
    answer = daemon.request('POST', f'/v1/sandboxes/{box}/fork', {'count': FORKED})
    children = [item['id'] for item in answer['items']]
    running = (time.perf_counter() - began) * 1e3
    for child in children:
        daemon.run(child, 'true')
    answered = (time.perf_counter() - began) * 1e3
    for child in children:
        daemon.delete(child)
    return running, answered


def measure(take):
    with atoll.Daemon() as daemon:
        image = daemon.import_busybox()
        box = daemon.create(image, resourceLimits={'memory': '2Gi'})
        daemon.run(box, 'dd if=/dev/urandom of=/base bs=1M count=64; sync')
        snapshot = take_one(daemon, box)[0]
        for _ in range(take.samples or ROUNDS):
            daemon.run(box, 'dd if=/dev/urandom of=/small bs=1M count=1')
            one, held, _ = take_one(daemon, box)
            take.add('held, 1 MiB changed', held)
            daemon.request('DELETE', f'/v1/snapshots/{one}')
            take.add('cold create', first_command(daemon, image={'uri': image}))
            take.add('restore', first_command(daemon, snapshotId=snapshot))
        small = daemon.create(image)
        for _ in range(take.samples or ROUNDS):
            daemon.run(small, 'dd if=/dev/urandom of=/small bs=1M count=1')
            atoll.settled(lambda: metric(daemon, 'slots{state="ready"}'))
            running, answered = fork(daemon, small)
            take.add('fork of 10', running)
            take.add('fork of 10, first outputs', answered)
        for _ in range(3):
            daemon.run(box, 'dd if=/dev/urandom of=/large bs=1M count=1024')
            one, held, took = take_one(daemon, box)
            take.add('held, 1 GiB changed', held)
            take.add('taken, 1 GiB', took)
            daemon.request('DELETE', f'/v1/snapshots/{one}')


if __name__ == '__main__':
    driver.Take('snapshot', lambda _: ROWS).run(measure)
