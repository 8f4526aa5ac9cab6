"""What a program in a sandbox takes its machine to be: the limits, found as runtimes find them."""
import os
import pathlib
import re
import unittest

import atoll
from atoll import SLOWNESS, until
from box import Box, shell_image
from isolated import Session

MIB = 1 << 20


def mounts(mountinfo):
    """What each hierarchy is mounted at, by controller ("" for v2): (root, place)."""
    found = {}
    for line in mountinfo.splitlines():
        head, _, tail = line.partition(' - ')
        kind, _, options = tail.split(' ')
        if kind == 'cgroup2':
            found[''] = tuple(head.split(' ')[3:5])
        elif kind == 'cgroup':
            found.update({word: tuple(head.split(' ')[3:5]) for word in options.split(',')})
    return found


class LimitsSeen(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.image = shell_image(cls.daemon, host_programs=['/usr/bin/nproc', '/usr/bin/taskset', '/usr/bin/getconf'])

    def box(self, entrypoint=('sleep', '1000'), **limits):
        box = Box(self.daemon, self.image, entrypoint=entrypoint,
                  resourceLimits={'cpu': '1', 'memory': '512Mi', **limits})
        self.addCleanup(self.daemon.delete, box.id)
        return box

    def test_processors(self):
        """nproc, Go, Node, Python and the JVM all ask which processors they may run on."""
        host = int(self.box(cpu='100').out('nproc'))
        for cpu, wanted in (('500m', 1), ('1', 1), ('1500m', min(2, host)), ('2', min(2, host))):
            box = self.box(cpu=cpu, entrypoint=['sh', '-c', 'nproc >/tmp/entrypoint; sleep 1000'])
            session = box.call('POST', '/session').json['session_id']
            run = box.events(f'/session/{session}/run', {'command': 'nproc'})
            box.out('until [ -s /tmp/entrypoint ]; do sleep 0.01; done')
            with self.subTest(cpu=cpu):
                self.assertEqual(box.out('nproc; nproc & wait; cat /tmp/entrypoint').split(),
                                 [str(wanted)] * 3)
                self.assertEqual(run[2]['text'], str(wanted))

    def test_online_processors(self):
        """glibc's sysconf, with it os.cpu_count(), and lscpu read a file of /sys."""
        online = 'cat /sys/devices/system/cpu/online; getconf _NPROCESSORS_ONLN'
        host = pathlib.Path('/sys/devices/system/cpu/online').read_text(encoding='ascii').strip()
        count = os.sysconf('SC_NPROCESSORS_ONLN')
        self.assertGreater(count, 1)
        for cpu, wanted in (('500m', ['0', '1']), ('1', ['0', '1']), ('100', [host, str(count)])):
            with self.subTest(cpu=cpu):
                box = self.box(cpu=cpu)
                self.assertEqual(box.out(online).split(), wanted)
                self.assertIn('Read-only', box.out('sh -c "echo 0-7 >/sys/devices/system/cpu/online" 2>&1 || :'))
                # Programs that index by a processor's number find all that there can be.
                self.assertEqual(int(box.out('getconf _NPROCESSORS_CONF')), os.sysconf('SC_NPROCESSORS_CONF'))
                session = Session(box, workspace={'path': '/tmp'})
                self.assertEqual(session.out(online).split(), wanted)

    def test_commands_are_not_all_put_on_one_processor(self):
        box = self.box(cpu='100')
        count = int(box.out('nproc'))
        self.assertGreater(count, 1)
        box = self.box()
        # Each keeps its processor busy, so that the scheduler puts a next one elsewhere; on a host
        # that is busy otherwise it takes a while.
        used = set()

        def all_used():
            box.background('timeout 2 sh -c "while :; do :; done"')
            used.add(box.out("taskset -p $$ | sed 's/.* //'"))
            return len(used) == count
        until(all_used, 60 * SLOWNESS, 'commands on every processor')

    def seen(self, box, controller, file):
        """The file's text in the group of the process that reads it."""
        info = mounts(box.out('cat /proc/self/mountinfo'))
        root, place = info.get(controller) or info['']
        self.assertEqual(root, '/', 'the mount and /proc/self/cgroup speak of different roots')
        names = rf'\([^:]*,\)\{{0,1\}}{controller}\(,[^:]*\)\{{0,1\}}' if controller in info else ''
        return box.out(f"group=$(sed -n 's/^[0-9]*:{names}://p' /proc/self/cgroup); "
                       f'cat "{place}$group/{file}"')

    def test_memory(self):
        for memory, wanted in (('512Mi', 512 * MIB), ('64Mi', 64 * MIB)):
            box = self.box(memory=memory)
            v1 = 'memory' in mounts(box.out('cat /proc/self/mountinfo'))
            file = 'memory.limit_in_bytes' if v1 else 'memory.max'
            self.assertEqual(int(self.seen(box, 'memory', file)), wanted)

    def test_open_files(self):
        """Of every process, soft and hard, and one file more is refused."""
        both = 'ulimit -Sn; ulimit -Hn'
        soft, hard = map(int, self.box().out(both).split())
        self.assertEqual(soft, min(hard, 16384))
        self.assertLessEqual(hard, 1 << 20)
        for limit in (512, hard):
            box = self.box(nofile=str(limit),
                           entrypoint=['sh', '-c', f'{{ {both}; }} >/tmp/entrypoint; sleep 1000'])
            box.out('until [ "$(wc -l </tmp/entrypoint)" = 2 ]; do sleep 0.01; done')
            with self.subTest(limit=limit):
                self.assertEqual(box.out(f'{both}; cat /tmp/entrypoint').split(), [str(limit)] * 4)
                said = box.out(f"bash -c 'exec {limit - 1}</dev/null && echo open; "
                               f"exec {limit}</dev/null && echo more' 2>&1; "
                               f'ulimit -n {limit + 1} 2>&1 || echo kept')
                self.assertIn('open', said)
                self.assertNotIn('more', said)
                self.assertIn('kept', said)

    def test_shared_memory(self):
        """/dev/shm is as large as was asked for, and holds not a page more."""
        for limits, size in (({}, 64 * MIB), ({'shm': '1Mi'}, MIB), ({'shm': '80Mi'}, 80 * MIB)):
            box = self.box(**limits)
            with self.subTest(size=size):
                self.assertEqual(box.out("df -k /dev/shm | awk 'END {print $2}'"), str(size >> 10))
                said = box.out('dd if=/dev/zero of=/dev/shm/f bs=64k 2>&1; wc -c </dev/shm/f')
                self.assertIn('No space left', said)
                self.assertEqual(said.split()[-1], str(size))

    def test_the_operators_defaults(self):
        with atoll.Daemon(limits_nofile=300, limits_shm='2Mi') as daemon:
            image = shell_image(daemon)
            seen = "ulimit -n; df -k /dev/shm | awk 'END {print $2}'"
            for limits, wanted in (({}, ['300', '2048']),
                                   ({'nofile': '400', 'shm': '3Mi'}, ['400', '3072'])):
                box = Box(daemon, image, resourceLimits=limits)
                self.assertEqual(box.out(seen).split(), wanted)

    def test_what_no_sandbox_gets(self):
        for key, texts in (('nofile', ('255', '1048577', '0', '1k')),
                           ('shm', ('0', '4095', '65Ti', 'much'))):
            for text in texts:
                with self.subTest(key=key, text=text), \
                        self.assertRaisesRegex(atoll.ApiError, f'resourceLimits.{key} .*{text}'):
                    self.box(**{key: text})

    def test_every_hierarchy_that_the_jvm_insists_on(self):
        """Without one of them it takes the whole host to be its own; where it looks for v1 is told
        by /proc/cgroups."""
        box = self.box()
        numbers = {line.split()[0]: line.split()[1]
                   for line in box.out('grep -v ^# /proc/cgroups').splitlines()}
        info = mounts(box.out('cat /proc/self/mountinfo'))
        for controller in ('memory', 'cpu', 'cpuacct', 'cpuset'):
            with self.subTest(controller=controller):
                if numbers[controller] == '0':
                    self.assertEqual(info[''], ('/', '/sys/fs/cgroup'))
                else:
                    self.assertEqual(info[controller], ('/', f'/sys/fs/cgroup/{controller}'))
        if numbers['cpu'] != '0':
            self.assertEqual((self.seen(box, 'cpu', 'cpu.cfs_quota_us'),
                              self.seen(box, 'cpu', 'cpu.cfs_period_us')), ('100000', '100000'))
            self.assertTrue(self.seen(box, 'cpuset', 'cpuset.cpus'))

    def test_no_other_group_is_seen(self):
        """Neither the host's nor a neighbour's: only the sandbox's own."""
        neighbour, box = self.box(), self.box()
        neighbour.out('true')
        groups = box.out('find /sys/fs/cgroup -type d').splitlines()
        known = re.compile('/sys/fs/cgroup(/unified|/memory|/cpu|/cpuacct|/cpuset|/pids)?'
                           '(/execd|/run(/c[0-9]+)?)?')
        self.assertEqual([group for group in groups if not known.fullmatch(group)], [])
        alive = box.out('cat $(find /sys/fs/cgroup -name cgroup.procs) | sort -un').split()
        self.assertNotIn('0', alive)
        self.assertLess(len(alive), 20)


if __name__ == '__main__':
    unittest.main()
