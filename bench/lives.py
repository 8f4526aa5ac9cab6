"""The group "lives": many short hostile lives, and what they leave in the kernel and in us."""
import concurrent.futures
import os
import pathlib
import re

import driver
import atoll  # pylint: disable=wrong-import-order

LIVES = 10000
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
        'unreclaimable slab': number('/proc/meminfo', r'SUnreclaim: +(\d+)'),
        'per-cpu memory': number('/proc/meminfo', r'Percpu: +(\d+)'),
        'tracked flows': number('/proc/sys/net/netfilter/nf_conntrack_count'),
        'links': len(os.listdir('/sys/class/net')),
    }
    for name, pid in processes.items():
        found[f'descriptors of the {name}'] = len(os.listdir(f'/proc/{pid}/fd'))
        found[f'memory of the {name}'] = number(f'/proc/{pid}/status', r'RssAnon:\s+(\d+)')
    return found


# What is left, in what; and whether each life that left one would show a hundred times over.
LEFT = [('dying cgroups (v2)', '', True), ('cgroups of the memory controller', '', True),
        ('dentries', '', False), ('unreclaimable slab', 'KiB', False),
        ('per-cpu memory', 'KiB', False), ('tracked flows', '', False), ('links', '', True),
        ('descriptors of the daemon', '', True), ('memory of the daemon', 'KiB', False),
        ('descriptors of the spawner', '', True), ('memory of the spawner', 'KiB', False)]


def rows(samples):
    lives = samples or LIVES
    for name, unit, grows in LEFT:
        yield driver.row(f'{name}, before', f'after {lives // 10} lives', unit)
        bounds = [{'at_most': lives // 100, 'less': f'lives/{name}, before', 'must': True}] if grows else []
        yield driver.row(name, f'after {lives} more', unit, *bounds)


def live(daemon, image):
    box = daemon.create(image, resourceLimits={'memory': '64Mi', 'pids': '64'})
    daemon.run(box, LIFE)
    daemon.delete(box)


def measure(take):
    lives = take.samples or LIVES
    with atoll.Daemon(runtime_overcommit=0) as daemon:
        image = daemon.import_busybox()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            # The first tenth fills what is only filled once: stocks, heaps, caches.
            for count, when in ((lives // 10, ', before'), (lives, '')):
                list(pool.map(lambda _: live(daemon, image), range(count)))
                # Dying groups and namespaces are freed behind grace periods.
                atoll.until(lambda: not os.listdir(daemon.data_dir / 'store/trash'), 120)
                atoll.settled(lambda: number(unified() + '/cgroup.stat', DYING), 5, 60)
                for name, value in state(daemon).items():
                    take.add(name + when, value)


if __name__ == '__main__':
    driver.Take('lives', rows).run(measure)
