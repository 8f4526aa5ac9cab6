"""The group "restart": how long nobody is answered when a daemon or the spawner goes and comes."""
import concurrent.futures
import os
import signal
import time

import driver
import atoll  # pylint: disable=wrong-import-order

SANDBOXES, ROUNDS = 1000, 5
SMALL = {'memory': '24Mi', 'pids': '16'}


def daemon_gap(daemon, number):
    """From the signal to the first answer of the next daemon, which is started when the old has ended."""
    began = time.perf_counter()
    daemon.process.send_signal(number)
    daemon.process.wait()
    ended = time.perf_counter() - began
    daemon.start()
    return time.perf_counter() - began, ended


def spawner_gap(daemon, image):
    """From the kill to the end of the first create that is not refused."""
    spawner = daemon.spawner_pid()
    began = time.perf_counter()
    os.kill(spawner, signal.SIGKILL)
    while True:
        try:
            box = daemon.create(image, resourceLimits=SMALL)
            break
        except atoll.ApiError as error:
            if error.status != 429:
                raise
    gap = time.perf_counter() - began
    daemon.delete(box)
    return gap


GONE = 'with 1000 sandboxes: the signal → the first answer of the next one'
ROWS = [driver.row('daemon, SIGTERM', GONE, 'ms', {'at_most': 250}),
        driver.row('daemon, SIGTERM: ended', 'the signal → the end of the old one', 'ms'),
        driver.row('daemon, SIGKILL', GONE, 'ms'),
        driver.row('spawner, SIGKILL', 'the signal → the end of the next create', 'ms',
                   {'at_most': 500})]


def measure(take):
    with atoll.Daemon(runtime_overcommit=0) as daemon:
        image = daemon.import_busybox()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: daemon.create(image, resourceLimits=SMALL), range(SANDBOXES)))
        for _ in range(take.samples or ROUNDS):
            gap, ended = daemon_gap(daemon, signal.SIGTERM)
            take.add('daemon, SIGTERM', gap * 1e3)
            take.add('daemon, SIGTERM: ended', ended * 1e3)
            take.add('daemon, SIGKILL', daemon_gap(daemon, signal.SIGKILL)[0] * 1e3)
            take.add('spawner, SIGKILL', spawner_gap(daemon, image) * 1e3)


if __name__ == '__main__':
    driver.Take('restart', lambda _: ROWS).run(measure)
