"""What bench/lives runs: many short hostile lives, and what they leave in the kernel and in us."""
import argparse
import concurrent.futures
import os
import pathlib
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'tests/e2e'))

import atoll  # pylint: disable=wrong-import-position

# Names that exist and names that do not, memory, a process of its own session, datagrams to groups
# that nobody has joined.
LIFE = '''
for d in 1 2 3 4 5 6 7 8 9; do mkdir -p /tmp/$d/a; for f in 1 2 3 4 5 6 7 8 9; do
: >/tmp/$d/a/$f; [ -e /tmp/$d/a/no-$f-$RANDOM ]; done; done
head -c 4000000 /dev/zero >/dev/shm/memory
for g in 1 2 3 4 5 6 7 8 9; do echo x | nc -u -w 1 224.0.1.$g 9 & done
setsid sleep 1000 &
'''

DYING = r'nr_dying_descendants (\d+)'


def number(path, pattern=r'(\d+)'):
    try:
        found = re.search(pattern, pathlib.Path(path).read_text(encoding='ascii'), re.M)
    except OSError:
        return 0
    return int(found[1]) if found else 0


def unified():
    return next(path for path in ('/sys/fs/cgroup/unified', '/sys/fs/cgroup')
                if pathlib.Path(path, 'cgroup.stat').exists())


def state(daemon):
    processes = {'daemon': daemon.process.pid, 'spawner': daemon.spawner_pid()}
    found = {
        'dying cgroups (v2)': number(unified() + '/cgroup.stat', DYING),
        'cgroups of the memory controller': number('/proc/cgroups', r'^memory\t\d+\t(\d+)'),
        'dentries': number('/proc/sys/fs/dentry-state'),
        'unreclaimable slab, KiB': number('/proc/meminfo', r'SUnreclaim: +(\d+)'),
        'per-cpu memory, KiB': number('/proc/meminfo', r'Percpu: +(\d+)'),
        'tracked flows': number('/proc/sys/net/netfilter/nf_conntrack_count'),
        'links': len(os.listdir('/sys/class/net')),
    }
    for name, pid in processes.items():
        found[f'descriptors of the {name}'] = len(os.listdir(f'/proc/{pid}/fd'))
        found[f'memory of the {name}, KiB'] = number(f'/proc/{pid}/status', r'RssAnon:\s+(\d+)')
    return found


def live(daemon, image):
    box = daemon.create(image, resourceLimits={'memory': '64Mi', 'pids': '64'})
    daemon.run(box, LIFE)
    daemon.delete(box)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--output', required=True)
    parser.add_argument('--lives', type=int, default=10000)
    options = parser.parse_args()
    columns = []
    with atoll.Daemon(runtime_overcommit=0) as daemon:
        image = daemon.import_busybox()
        begun = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            # The first tenth fills what is only filled once: stocks, heaps, caches.
            for lives in (options.lives // 10, options.lives):
                list(pool.map(lambda _: live(daemon, image), range(lives)))
                # Dying groups and namespaces are freed behind grace periods.
                atoll.until(lambda: not os.listdir(daemon.data_dir / 'store/trash'), 120)
                atoll.settled(lambda: number(unified() + '/cgroup.stat', DYING), 5, 60)
                columns.append(state(daemon))
        took = time.monotonic() - begun
    lines = [f'{options.lives} lives after {options.lives // 10}, {took:.0f} s:', '',
             '| What is left | before | after |', '|---|---|---|',
             *(f'| {name} | {columns[0][name]} | {columns[1][name]} |' for name in columns[0])]
    text = '\n'.join(lines) + '\n'
    pathlib.Path(options.output).write_text(text, encoding='utf-8')
    print(text)
    # Each life that left one of these would show a hundred times over.
    grown = [name for name in columns[0] if re.match('dying|cgroups|links|descriptors', name)
             and columns[1][name] > columns[0][name] + options.lives // 100]
    for name in grown:
        print(f'grown: {name}', file=sys.stderr)
    return 1 if grown else 0


if __name__ == '__main__':
    sys.exit(main())
