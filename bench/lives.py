"""The group "lives": many short lives, hostile ones, copied ones and ones cut off by a kill among them, and
what they leave in the kernel, on the disk and in us."""
import concurrent.futures
import http.client
import os
import pathlib
import random
import re
import signal

import driver
import atoll  # pylint: disable=wrong-import-order

LIVES = 100000
KILLS = 20  # of the daemon and the spawner by turns, in each part of the run
# What is done with one beside its command, and how often of a hundred times.
KINDS = {'plain': 60, 'paused': 14, 'forked': 8, 'hostile': 8, 'restored': 5, 'rolled back': 5}
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


def number_of(path):
    return len(pathlib.Path(path).read_text(encoding='utf-8').splitlines())


def files_below(top):
    return sum(len(folders) + len(files) for _, folders, files in os.walk(top))


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
        'mounts': number_of('/proc/self/mountinfo'),
        'mounts of the spawner': number_of(f'/proc/{daemon.spawner_pid()}/mountinfo'),
        'files of the store': files_below(daemon.data_dir / 'store'),
        'files of the run directory': files_below(daemon.run_dir),
    }
    for name, pid in processes.items():
        found[f'descriptors of the {name}'] = len(os.listdir(f'/proc/{pid}/fd'))
        found[f'memory of the {name}'] = number(f'/proc/{pid}/status', r'RssAnon:\s+(\d+)')
    return found


# What is left, in what; and whether each life that left one would show a hundred times over.
LEFT = [('dying cgroups (v2)', '', True), ('cgroups of the memory controller', '', True),
        ('dentries', '', False), ('unreclaimable slab', 'KiB', False),
        ('per-cpu memory', 'KiB', False), ('tracked flows', '', False), ('links', '', True),
        ('mounts', '', True), ('mounts of the spawner', '', True), ('files of the store', '', True),
        ('files of the run directory', '', True),
        ('descriptors of the daemon', '', True), ('memory of the daemon', 'KiB', False),
        ('descriptors of the spawner', '', True), ('memory of the spawner', 'KiB', False)]


def rows(samples):
    lives = samples or LIVES
    # The others were cut off by kills, eight at most by each while a daemon starts and a spawner comes.
    yield driver.row('finished, before', f'of {lives // 10} lives', '')
    yield driver.row('finished', f'of {lives} more', '')
    for name, unit, grows in LEFT:
        yield driver.row(f'{name}, before', f'after {lives // 10} lives', unit)
        bounds = [{'at_most': lives // 100, 'less': f'lives/{name}, before', 'must': True}] if grows else []
        yield driver.row(name, f'after {lives} more', unit, *bounds)


def live(daemon, image, number_of_life):
    kind = random.Random(number_of_life).choices(list(KINDS), KINDS.values())[0]
    box = daemon.create(image, resourceLimits={'memory': '64Mi', 'pids': '64'})
    path = f'/v1/sandboxes/{box}'
    daemon.run(box, LIFE if kind == 'hostile' else 'echo $$ >/file')
    if kind == 'paused':
        daemon.request('POST', f'{path}/pause')
        daemon.request('POST', f'{path}/resume')
    elif kind == 'forked':
        for child in daemon.request('POST', f'{path}/fork', {'count': 2})['items']:
            daemon.run(child['id'], 'cat /file')
            daemon.delete(child['id'])
    elif kind in ('restored', 'rolled back'):
        snapshot = daemon.request('POST', f'{path}/snapshots', {})['id']
        told = lambda: daemon.request('GET', f'/v1/snapshots/{snapshot}')['status']['state']
        atoll.until(lambda: told() != 'Creating', 60)
        if kind == 'restored':
            body = {'snapshotId': snapshot, 'entrypoint': ['sleep', '100000'], 'resourceLimits': {}}
            daemon.delete(daemon.request('POST', '/v1/sandboxes', body)['id'])
        else:
            daemon.request('POST', f'{path}/rollback', {'snapshotId': snapshot})
            daemon.run(box, 'cat /file')
        # The snapshot is swept with those of lives that were cut off: what was restored may still be going.
    daemon.delete(box)


def attempt(daemon, image, number_of_life):
    """Whether it was not cut off by a kill."""
    try:
        live(daemon, image, number_of_life)
        return True
    except (OSError, http.client.HTTPException, ValueError, atoll.ApiError):
        return False


def kill(daemon, which):
    """The daemon, or the spawner under it: the next one starts by itself."""
    if which % 2:
        os.kill(daemon.spawner_pid(), signal.SIGKILL)
        atoll.until(lambda: daemon.spawner_pid() and
                    daemon.request('GET', '/health')['status'] == 'healthy', 60)
    else:
        daemon.kill()
        daemon.start()


def sweep(daemon):
    """What lives that were cut off have left, and the snapshots of all."""
    for box in daemon.request('GET', '/v1/sandboxes?pageSize=200')['items']:
        daemon.delete(box['id'])
    told = lambda path: daemon.request('GET', path)['items']
    atoll.until(lambda: not told('/v1/sandboxes'), 120)
    while found := told('/v1/snapshots?pageSize=200'):
        for snapshot in found:
            atoll.until(lambda one=snapshot: removed(daemon, one['id']), 120)


def removed(daemon, snapshot):
    try:
        daemon.request('DELETE', f'/v1/snapshots/{snapshot}')
        return True
    except atoll.ApiError as error:
        if error.code != 'SNAPSHOT::DELETE_CONFLICT':
            raise
        return False


def measure(take):
    lives = take.samples or LIVES
    with atoll.Daemon(runtime_overcommit=0) as daemon:
        image = daemon.import_busybox()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            # The first tenth fills what is only filled once: stocks, heaps, caches.
            first = 0
            for count, when in ((lives // 10, ', before'), (lives, '')):
                finished = 0
                for part in range(KILLS):
                    numbers = range(first + part * count // KILLS, first + (part + 1) * count // KILLS)
                    running = [pool.submit(attempt, daemon, image, one) for one in numbers]
                    for one in running[:len(running) // 2]:
                        one.result()
                    kill(daemon, part)
                    finished += sum(one.result() for one in running)
                    sweep(daemon)
                first += count
                take.add('finished' + when, finished)
                # Dying groups and namespaces are freed behind grace periods.
                atoll.until(lambda: not os.listdir(daemon.data_dir / 'store/trash'), 120)
                atoll.settled(lambda: number(unified() + '/cgroup.stat', DYING), 5, 60)
                for name, value in state(daemon).items():
                    take.add(name + when, value)


if __name__ == '__main__':
    driver.Take('lives', rows).run(measure)
