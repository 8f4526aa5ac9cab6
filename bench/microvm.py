"""The group "microvm": sandboxes in virtual machines that QEMU emulates, beside those of namespaces."""
import os
import pathlib
import time

import driver
import atoll  # pylint: disable=wrong-import-order
from box import Box, shell_image  # pylint: disable=wrong-import-order

ROUNDS = 10
COMMANDS = 15
VM = atoll.BUILD / 'conformance/vm'
ROWS = [driver.row('create, parked', 'create → end of the first command, in a machine that had booted', 'ms',
                   {'at_most': 0.5, 'over': 'microvm/create, cold'}),
        driver.row('create, cold', 'the same, in a machine that boots for it', 'ms'),
        driver.row('command', '`true` as a command', 'ms'),
        driver.row('command, namespace', 'the same in a sandbox of namespaces', 'ms'),
        driver.row('memory, parked', 'of all processes of a machine that waits (PSS)', 'MiB'),
        driver.row('memory', 'of all processes of a machine whose sandbox has run commands (PSS)', 'MiB')]
LIMITS = {'limits__memory': '256Mi', 'limits__cpu': '1'}


def milliseconds(what):
    began = time.perf_counter()
    what()
    return (time.perf_counter() - began) * 1e3


def machines():
    """For each machine, by the pid of its QEMU: the pids of all its processes."""
    parents = {}
    monitors = []
    for path in pathlib.Path('/proc').glob('[0-9]*'):
        try:
            parents[int(path.name)] = int((path / 'stat').read_text(encoding='utf-8').rpartition(')')[2].split()[1])
            if (path / 'cmdline').read_bytes().split(b'\0')[0].endswith(b'qemu-system-x86_64'):
                monitors.append(int(path.name))
        except OSError:  # it has ended
            continue
    return {pid: [parents[pid], *(other for other, parent in parents.items() if parent == parents[pid])]
            for pid in monitors}


def mebibytes(pids):
    texts = [pathlib.Path(f'/proc/{pid}/smaps_rollup').read_text(encoding='ascii') for pid in pids]
    return sum(int(line.split()[1]) for text in texts for line in text.splitlines() if line.startswith('Pss:')) / 1024


def ticks(pid):
    return sum(int(field) for field in
               pathlib.Path(f'/proc/{pid}/stat').read_text(encoding='ascii').rpartition(')')[2].split()[11:13])


def waiting(*others):
    """The pid of the only machine beside others, once it has booted: it has nothing to do then."""
    second = os.sysconf('SC_CLK_TCK')
    marks = {}

    def idle():
        found = set(machines()) - set(others)
        if len(found) != 1:
            return None
        pid = found.pop()
        now, used = time.monotonic(), ticks(pid)
        since, before = marks.setdefault(pid, (now, used))
        if now - since < 1:
            return None
        marks[pid] = (now, used)
        return pid if before > second / 2 and used - before <= second / 20 else None
    return atoll.until(idle, 240, 'a machine waits')


def delete(daemon, box, machine):
    daemon.delete(box.id)
    atoll.until(lambda: machine not in machines(), 60, 'its machine has gone')


def first_output(daemon, image, **fields):
    def create():
        boxes.append(Box(daemon, image, **fields))
        boxes[0].out('echo hi')
    boxes = []
    return milliseconds(create), boxes[0]


def measure(take):
    settings = {'secure_runtime__vm_dir': str(VM), 'secure_runtime__vm_accel': 'tcg', 'secure_runtime__type': 'microvm',
                'secure_runtime__minimum': 'namespace', **LIMITS}
    with atoll.Daemon(**settings, secure_runtime__vm_parked=1) as parked, atoll.Daemon(**settings) as cold:
        images = {daemon: shell_image(daemon) for daemon in (parked, cold)}
        for _ in range(take.samples or ROUNDS):
            machine = waiting()
            take.add('memory, parked', mebibytes(machines()[machine]))
            took, box = first_output(parked, images[parked])
            take.add('create, parked', took)
            assert machine in machines(), 'another machine was taken'
            following = waiting(machine)
            for _ in range(COMMANDS):
                take.add('command', milliseconds(lambda box=box: box.out('true')))
            take.add('memory', mebibytes(machines()[machine]))
            delete(parked, box, machine)
            took, box = first_output(cold, images[cold])
            take.add('create, cold', took)
            delete(cold, box, waiting(following))
            _, box = first_output(cold, images[cold], extensions={'isolation': 'namespace'})
            for _ in range(COMMANDS):
                take.add('command, namespace', milliseconds(lambda box=box: box.out('true')))
            cold.delete(box.id)


if __name__ == '__main__':
    driver.Take('microvm', lambda _: ROWS).run(measure)
