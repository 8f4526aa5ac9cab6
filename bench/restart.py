"""What bench/restart runs: how long nobody is answered when a daemon or the spawner goes and comes."""
import argparse
import concurrent.futures
import os
import pathlib
import signal
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'tests/e2e'))

import atoll  # pylint: disable=wrong-import-position

PROMISES = {'daemon, SIGTERM': 0.25, 'spawner, SIGKILL': 0.5}
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
            if error.status != 503:
                raise
    gap = time.perf_counter() - began
    daemon.delete(box)
    return gap


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--output', required=True)
    parser.add_argument('--sandboxes', type=int, default=1000)
    parser.add_argument('--rounds', type=int, default=5)
    options = parser.parse_args()
    times = {'daemon, SIGTERM': [], 'daemon, SIGKILL': [], 'spawner, SIGKILL': []}
    ends = []
    with atoll.Daemon(runtime_overcommit=0) as daemon:
        image = daemon.import_busybox()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: daemon.create(image, resourceLimits=SMALL),
                          range(options.sandboxes)))
        for _ in range(options.rounds):
            gap, ended = daemon_gap(daemon, signal.SIGTERM)
            times['daemon, SIGTERM'].append(gap)
            ends.append(ended)
            times['daemon, SIGKILL'].append(daemon_gap(daemon, signal.SIGKILL)[0])
            times['spawner, SIGKILL'].append(spawner_gap(daemon, image))
    lines = [f'With {options.sandboxes} sandboxes, {options.rounds} rounds, ms:', '',
             '| Goes, and comes back | nobody is answered: median | worst | promise |',
             '|---|---|---|---|']
    kept = True
    for name, samples in times.items():
        median, promise = statistics.median(samples), PROMISES.get(name)
        kept = kept and (promise is None or median <= promise)
        lines.append(f'| {name} | {median * 1e3:.0f} | {max(samples) * 1e3:.0f} | '
                     f'{"" if promise is None else f"{promise * 1e3:.0f}"} |')
    lines.append('')
    lines.append(f'Of SIGTERM, {statistics.median(ends) * 1e3:.0f} ms until the old one has ended.')
    text = '\n'.join(lines) + '\n'
    pathlib.Path(options.output).write_text(text, encoding='utf-8')
    print(text)
    return 0 if kept else 1


if __name__ == '__main__':
    sys.exit(main())
