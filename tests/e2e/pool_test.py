"""Pools: what is built ahead, what a claim brings, and that nobody gets what was another's."""
import json
import os
import pathlib
import re
import signal
import threading
import unittest

import atoll
from atoll import SLOWNESS
from box import shell_image
from host_state import HostState

UNTIL = 20 * SLOWNESS
# Deaths of each process; the long run has more.
ROUNDS = int(os.environ.get('ATOLL_ROUNDS', '1'))


def capacity(parked=2, most=50, **fields):
    return {'bufferMin': parked, 'bufferMax': parked, 'poolMin': 0, 'poolMax': most, **fields}


def make(daemon, image, name='warm', **fields):
    return daemon.request('POST', '/v1/pools', {'name': name, 'image': {'uri': image},
                                                'capacitySpec': capacity(), **fields})


def status(daemon, name='warm'):
    return daemon.request('GET', f'/v1/pools/{name}')['status']


def creates(daemon, name='warm'):
    return daemon.request('GET', f'/v1/pools/{name}')['creates']


def filled(daemon, parked=2, name='warm'):
    atoll.until(lambda: status(daemon, name)['available'] == parked, UNTIL,
                f'pool {name} has {parked} parked sandboxes')


def claim(daemon, name='warm', **fields):
    body = {'entrypoint': ['sleep', '100000'], 'extensions': {'poolRef': name}, **fields}
    return daemon.request('POST', '/v1/sandboxes', body)['id']


def claimed(daemon):
    return daemon.metric('pool_creates_total{result="claimed"}')


class PoolTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon(runtime_parked_sandboxes=8)
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.daemon.start()
        cls.image = cls.daemon.import_busybox()

    def setUp(self):
        make(self.daemon, self.image)
        self.addCleanup(self.clean)
        filled(self.daemon)

    def clean(self):
        for box in self.daemon.request('GET', '/v1/sandboxes?pageSize=100')['items']:
            self.daemon.delete(box['id'])
        for pool in self.daemon.request('GET', '/v1/pools')['items']:
            self.daemon.request('DELETE', f'/v1/pools/{pool["name"]}')

    def refused(self, method, path, body=None):
        with self.assertRaises(atoll.ApiError) as caught:
            self.daemon.request(method, path, body)
        return caught.exception.status, caught.exception.code

    def claim(self, **fields):
        return claim(self.daemon, **fields)

    def test_it_is_made_changed_and_removed(self):
        pool = self.daemon.request('GET', '/v1/pools/warm')
        self.assertEqual((pool['name'], pool['capacitySpec'], pool['resourceLimits']),
                         ('warm', capacity(), {}))
        self.assertEqual(pool['status'], {'total': 2, 'allocated': 0, 'available': 2})
        self.assertEqual(self.daemon.request('GET', '/pools')['items'], [pool])
        changed = self.daemon.request('PUT', '/v1/pools/warm', {'capacitySpec': capacity(1)})
        self.assertEqual((changed['capacitySpec'], changed['status']['available']), (capacity(1), 1))
        self.daemon.request('PUT', '/v1/pools/warm', {'capacitySpec': capacity(3)})
        filled(self.daemon, 3)
        self.daemon.request('DELETE', '/v1/pools/warm')
        gone = (404, 'KUBERNETES::POOL_NOT_FOUND')
        self.assertEqual(self.refused('GET', '/v1/pools/warm'), gone)
        self.assertEqual(self.refused('DELETE', '/v1/pools/warm'), gone)
        self.assertEqual(self.refused('PUT', '/v1/pools/warm', {'capacitySpec': capacity()}), gone)

    def test_what_is_refused_changes_nothing(self):
        good = {'name': 'other', 'image': {'uri': self.image}, 'capacitySpec': capacity()}
        wrong = ((422, {'name': 'Other'}), (422, {'name': '-'}), (422, {'name': 'x' * 254}),
                 (422, {'name': None}), (422, {'image': None}), (422, {'template': {}}),
                 (422, {'capacitySpec': None}), (422, {'capacitySpec': {'bufferMin': 1}}),
                 (422, {'capacitySpec': capacity(-1)}), (422, {'resourceLimits': {'cpu': 1}}),
                 (400, {'capacitySpec': capacity(2, bufferMin=3)}),
                 (400, {'capacitySpec': capacity(0)}), (400, {'capacitySpec': capacity(2, 1, poolMin=2)}),
                 # 8 altogether, and 2 are kept.
                 (400, {'capacitySpec': capacity(7)}), (400, {'resourceLimits': {'coffee': '1'}}),
                 (404, {'image': {'uri': 'no/such:image'}}), (409, {'name': 'warm'}))
        for expected, fields in wrong:
            with self.subTest(fields=fields):
                self.assertEqual(self.refused('POST', '/v1/pools', {**good, **fields})[0], expected)
        self.assertEqual(self.refused('PUT', '/v1/pools/warm', {'capacitySpec': capacity(9)})[0], 400)
        for fields in ({'extensions': {'poolRef': 'none'}},
                       {'image': {'uri': 'another:image'}}, {'snapshotId': 's'},
                       {'lifecycle': {'preStart': {'command': ['true']}}}):
            with self.subTest(fields=fields), self.assertRaises(atoll.ApiError):
                self.claim(**fields)
        self.assertEqual(status(self.daemon), {'total': 2, 'allocated': 0, 'available': 2})
        self.assertEqual(len(self.daemon.request('GET', '/v1/pools')['items']), 1)

    def test_a_claim_brings_all_that_tells_sandboxes_apart(self):
        before = claimed(self.daemon)
        policy = {'defaultAction': 'deny', 'egress': []}
        box = self.claim(env={'WHO': 'me'}, metadata={'mark': 'here'}, timeout=600,
                         networkPolicy=policy, resourceRequests={'memory': '64Mi'},
                         entrypoint=['sh', '-c', 'echo $WHO $OPENSANDBOX_ID >/said; sleep 1000'])
        self.assertEqual(claimed(self.daemon), before + 1)
        shown = self.daemon.request('GET', f'/v1/sandboxes/{box}')
        self.assertEqual((shown['metadata'], shown['status']['state']), ({'mark': 'here'}, 'Running'))
        self.assertEqual(shown['allocation'],
                         {'mode': 'pool', 'poolRef': 'warm', 'state': 'allocated'})
        self.assertIn('expiresAt', shown)
        said = self.daemon.run(box, 'until [ -s /said ]; do :; done; cat /said; hostname')
        self.assertEqual(said.stdout.split(), ['me', box, box.replace('-', '')[:12]])
        told = self.daemon.request('GET', f'/v1/sandboxes/{box}/networkpolicy')
        self.assertEqual(told['policy']['defaultAction'], 'deny')
        self.assertNotEqual(self.daemon.run(box, 'nslookup -timeout=2 example.com').exit_code, 0)
        filled(self.daemon)
        self.assertEqual(status(self.daemon)['allocated'], 1)

    def test_nobody_gets_what_was_anothers(self):
        seen, tokens = set(), set()
        for number in range(5):
            filled(self.daemon)
            box = self.claim(env={f'SECRET_{number}': 'mine'}, metadata={})
            inside = self.daemon.run(box, 'ls -A /tmp /root; cat /proc/[0-9]*/environ | tr "\\0" "\\n";'
                                          f' echo kept >/tmp/of-{number}; ps').stdout
            self.assertEqual(set(re.findall(r'SECRET_\d', inside)), {f'SECRET_{number}'})
            self.assertNotIn('of-', inside.split('SECRET', 1)[0])
            # What waited has run nothing.
            self.assertEqual(len(re.findall('sleep 100000', inside)), 1)
            seen.add(box)
            tokens.add(self.daemon.execd_headers(box)['X-EXECD-ACCESS-TOKEN'])
            if number % 2:
                self.daemon.delete(box)
        self.assertEqual((len(seen), len(tokens)), (5, 5))

    def test_what_waits_is_nobodys(self):
        """Neither listed nor reachable, before it is claimed and after another was deleted."""
        self.assertEqual(self.daemon.request('GET', '/v1/sandboxes')['items'], [])
        sockets = self.daemon.waiting()
        self.assertEqual(len(sockets), 2)
        for box in sockets:
            self.assertEqual(self.refused('GET', f'/v1/sandboxes/{box}')[0], 404)
            self.assertEqual(self.refused('DELETE', f'/v1/sandboxes/{box}')[0], 404)
            path = f'/sandboxes/{box}/proxy/44772/ping'
            self.assertEqual(self.daemon.send('GET', path).status, 404)
        self.assertIn(self.claim(), sockets)

    def test_many_at_once_get_one_each(self):
        self.daemon.request('PUT', '/v1/pools/warm', {'capacitySpec': capacity(6)})
        filled(self.daemon, 6)
        boxes = []
        threads = [threading.Thread(target=lambda: boxes.append(self.claim())) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(set(boxes)), 16)
        for box in boxes:
            self.assertEqual(self.daemon.run(box, 'echo here').stdout, 'here')

    def test_what_no_member_is_is_built(self):
        cold = 'pool_creates_total{result="cold"}'
        volume = {'name': 'v', 'mountPath': '/data', 'pvc': {'claimName': 'pooled',
                                                             'deleteOnSandboxTermination': True}}
        for fields, command, expected in (
                ({'volumes': [volume]}, 'grep -c " /data " /proc/self/mounts', '1'),
                ({'extensions': {'poolRef': 'warm', 'readOnlyRootFilesystem': 'true'}},
                 'touch /x 2>/dev/null || echo refused', 'refused')):
            before = self.daemon.metric(cold)
            box = self.claim(**fields)
            self.assertEqual(self.daemon.run(box, command).stdout, expected)
            self.assertEqual(self.daemon.metric(cold), before + 1)
        self.assertEqual(status(self.daemon), {'total': 4, 'allocated': 2, 'available': 2})
        self.assertEqual(creates(self.daemon),
                         {'claimed': 0, 'cold': {'volumes': 1, 'read_only_root': 1}})

    def test_it_gives_no_more_than_it_may(self):
        self.daemon.request('PUT', '/v1/pools/warm', {'capacitySpec': capacity(1, 2)})
        boxes = [self.claim(), self.claim()]
        response = self.daemon.send('POST', '/v1/sandboxes', {'extensions': {'poolRef': 'warm'}})
        self.assertEqual((response.status, response.getheader('Retry-After')), (429, '1'))
        self.assertIn(b'KUBERNETES::POOL_CAPACITY_EXHAUSTED', response.read())
        self.assertEqual(self.refused('DELETE', '/v1/pools/warm'), (409, 'KUBERNETES::POOL_IN_USE'))
        # A child is not of its parent's pool.
        child = self.daemon.request('POST', f'/v1/sandboxes/{boxes[1]}/fork')['items'][0]
        self.assertNotIn('allocation', child)
        self.daemon.delete(boxes[0])
        atoll.until(lambda: status(self.daemon)['allocated'] == 1, UNTIL, 'it counts no more')
        self.claim()

    def test_its_image(self):
        self.assertEqual(self.refused('DELETE', f'/v1/images/{self.image}'), (409, 'IMAGE::IN_USE'))
        self.daemon.request('POST', '/v1/images/prune?all=true')
        self.assertEqual(self.daemon.run(self.claim(), 'echo here').stdout, 'here')

    def test_one_that_dies_is_replaced(self):
        spawner = self.daemon.spawner_pid()
        sockets = self.daemon.waiting
        old = sockets()
        for pid in atoll.children(spawner):
            if atoll.comm(pid) == 'execd':
                os.kill(pid, signal.SIGKILL)
        atoll.until(lambda: not old & sockets() and len(sockets()) == 2, UNTIL, 'others are there')
        self.assertEqual(self.daemon.run(self.claim(), 'echo here').stdout, 'here')
        self.assertTrue(self.daemon.healthy())


class LimitsTest(unittest.TestCase):
    """Members serve creates with any limits: the claim sets them before anything runs."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon(runtime_parked_sandboxes=8)
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.daemon.start()
        cls.image = shell_image(cls.daemon, host_programs=['/usr/bin/nproc', '/usr/bin/getconf'])

    def setUp(self):
        self.addCleanup(self.clean)

    def clean(self):
        for box in self.daemon.request('GET', '/v1/sandboxes?pageSize=100')['items']:
            self.daemon.delete(box['id'])
        for pool in self.daemon.request('GET', '/v1/pools')['items']:
            self.daemon.request('DELETE', f'/v1/pools/{pool["name"]}')

    def claim(self, entrypoint=('sleep', '100000'), **limits):
        """A create with these limits, which gets a parked sandbox."""
        waiting, before = self.daemon.waiting(), claimed(self.daemon)
        box = claim(self.daemon, entrypoint=list(entrypoint), resourceLimits=limits)
        self.assertIn(box, waiting)
        self.assertEqual(claimed(self.daemon), before + 1)
        return box

    def limit(self, box, controller, v1, v2):
        """The limit of commands, as a program in the sandbox reads it."""
        return self.daemon.run(box, f'cat /sys/fs/cgroup/{controller}/run/{v1} 2>/dev/null || '
                                    f'cat /sys/fs/cgroup/run/{v2}').stdout

    def test_those_of_the_python_sdk(self):
        """A pool without limits, and the limits that opensandbox 1.1.1 sends with every create."""
        make(self.daemon, self.image)
        filled(self.daemon)
        box = self.claim(['sh', '-c', 'nproc >/at-start; sleep 100000'], cpu='1', memory='2Gi')
        self.assertEqual(creates(self.daemon), {'claimed': 1, 'cold': {}})
        self.assertEqual(self.limit(box, 'memory', 'memory.limit_in_bytes', 'memory.max'), str(2 << 30))
        seen = self.daemon.run(box, 'until [ -s /at-start ]; do :; done; cat /at-start; nproc; '
                                    'getconf _NPROCESSORS_ONLN').stdout.split()
        self.assertEqual(seen, ['1', '1', '1'])
        shown = self.daemon.request('GET', f'/v1/sandboxes/{box}')
        self.assertEqual(shown['allocation']['state'], 'allocated')

    def test_what_is_seen_inside(self):
        """Every limit, lower and higher than the member's, is that of a sandbox that was built."""
        look = ('nproc; getconf _NPROCESSORS_ONLN; cat /sys/devices/system/cpu/online; ulimit -Sn; '
                "ulimit -Hn; df -k /dev/shm | awk 'NR == 2 {print $2}'")
        low = {'cpu': '1', 'memory': '64Mi', 'pids': '50', 'shm': '4Mi', 'nofile': '700'}
        high = {'cpu': '100', 'memory': '300Mi', 'pids': '900', 'shm': '100Mi', 'nofile': '900'}
        for built, wanted in (({'cpu': '100', 'memory': '200Mi'}, low),
                              ({'cpu': '1', 'memory': '200Mi', 'pids': '60'}, high)):
            make(self.daemon, self.image, resourceLimits=built)
            filled(self.daemon)
            box = self.claim(**wanted)
            cold = self.daemon.create(self.image, resourceLimits=wanted)
            for one in (box, cold):
                self.assertEqual(self.limit(one, 'pids', 'pids.max', 'pids.max'), wanted['pids'])
                self.assertEqual(int(self.limit(one, 'memory', 'memory.limit_in_bytes', 'memory.max')),
                                 int(wanted['memory'][:-2]) << 20)
            self.assertEqual(self.daemon.run(box, look).stdout, self.daemon.run(cold, look).stdout)
            self.clean()

    def test_they_hold(self):
        """An out-of-memory kill and a fork bomb, below and above the limits of the members."""
        make(self.daemon, self.image, resourceLimits={'memory': '128Mi', 'pids': '100'})
        filled(self.daemon)
        take = 'dd if=/dev/zero of=/dev/null bs={} count=1'
        bomb = ('i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i + 1)); done 2>/dev/null')
        count = 'set -- /proc/[0-9]*; echo $#'  # forks nothing
        for memory, pids, fits, too_much in (('48Mi', 30, '24M', '90M'), ('256Mi', 160, '180M', '400M')):
            filled(self.daemon)
            box = self.claim(memory=memory, pids=str(pids))
            self.assertEqual(self.daemon.run(box, take.format(fits)).exit_code, 0)
            self.assertNotEqual(self.daemon.run(box, take.format(too_much)).exit_code, 0)
            self.daemon.run(box, bomb, background=True)
            most = []

            def full(box=box, most=most, pids=pids):
                most.append(int(self.daemon.run(box, count).stdout))
                return most[-1] >= pids - 5
            # The shell ends when it cannot fork, so there is room for the command that counts.
            atoll.until(full, UNTIL, 'no further process')
            # Beside the commands: process 1, and what it starts, within its reserve.
            self.assertLessEqual(max(most), pids + 16)

    def test_open_files_that_a_pool_limits(self):
        make(self.daemon, self.image, resourceLimits={'nofile': '500'})
        filled(self.daemon)
        box = claim(self.daemon, resourceLimits={'nofile': '600'})
        self.assertEqual(self.daemon.run(box, 'ulimit -n').stdout, '600')
        self.assertEqual(creates(self.daemon), {'claimed': 0, 'cold': {'open_files': 1}})
        self.assertEqual(self.daemon.metric('pool_cold_total{reason="open_files"}'), 1)
        self.claim(memory='64Mi', nofile='500')

    def test_a_spawner_that_dies_before_the_start(self):
        """The create fails as one that is built does; nothing is left, and the pool fills again."""
        make(self.daemon, self.image)
        filled(self.daemon)
        waiting = self.daemon.waiting()
        spawner = self.daemon.spawner_pid()
        os.kill(spawner, signal.SIGSTOP)
        answers = []

        def create():
            response = self.daemon.send('POST', '/v1/sandboxes', {
                'entrypoint': ['sleep', '100000'], 'extensions': {'poolRef': 'warm'},
                'resourceLimits': {'memory': '2Gi'}})
            answers.append((response.status, response.read()))
        thread = threading.Thread(target=create)
        thread.start()
        # The member is the create's.
        atoll.until(lambda: status(self.daemon)['available'] == 1, UNTIL, 'the claim')
        os.kill(spawner, signal.SIGKILL)
        thread.join()
        self.daemon.another_spawner(spawner)
        # The answer is that of a create whose spawner is gone while it is built: a client may try again.
        self.assertEqual((answers[0][0], json.loads(answers[0][1])['code']),
                         (429, 'GENERAL::UNAVAILABLE'))
        self.assertEqual(self.daemon.request('GET', '/v1/sandboxes')['items'], [])
        filled(self.daemon)
        atoll.until(lambda: not waiting & self.daemon.waiting(), UNTIL, 'the former members are gone')
        self.assertEqual(len(self.daemon.waiting()), 2)
        atoll.until(self.daemon.healthy, UNTIL, 'all agrees')
        self.claim(memory='2Gi')


class RoomTest(unittest.TestCase):
    def test_new_limits_count_once(self):
        """Room for two and a half sandboxes of a size that only claims bring."""
        with atoll.Daemon(runtime_overcommit=1) as daemon:
            image = daemon.import_busybox()
            make(daemon, image, resourceLimits={'memory': '16Mi'})
            total = int(re.search(r'MemTotal: +([0-9]+) kB',
                                  pathlib.Path('/proc/meminfo').read_text(encoding='ascii'))[1])
            each = total * 2 // 5
            promised = lambda: daemon.metric('host_memory_promised_bytes')
            for _ in range(2):
                filled(daemon)
                boxes = [claim(daemon, resourceLimits={'memory': f'{each}Ki'}) for _ in range(2)]
                self.assertEqual(promised(), 2 * each * 1024)
                with self.assertRaises(atoll.ApiError) as caught:
                    claim(daemon, resourceLimits={'memory': f'{each}Ki'})
                self.assertEqual(caught.exception.status, 429)
                self.assertEqual(promised(), 2 * each * 1024)
                for box in boxes:
                    daemon.delete(box)
                atoll.until(lambda: promised() == 0, UNTIL, 'nothing is promised')
            self.assertGreaterEqual(claimed(daemon), 2)

    def test_what_is_parked_gives_way(self):
        with atoll.Daemon(limits_max_sandboxes=3) as daemon:
            image = daemon.import_busybox()
            make(daemon, image, capacitySpec=capacity(3))
            filled(daemon, 3)
            boxes = [daemon.create(image) for _ in range(3)]
            self.assertEqual(status(daemon)['available'], 0)
            with self.assertRaises(atoll.ApiError) as caught:
                daemon.create(image)
            self.assertEqual(caught.exception.status, 429)
            daemon.delete(boxes[0])
            filled(daemon, 1)


class AutomaticTest(unittest.TestCase):
    """Pools that make themselves, of what creates ask for."""

    def setUp(self):
        self.daemon = atoll.Daemon(runtime_parked_sandboxes=8, runtime_automatic_pools=2)
        self.addCleanup(self.daemon.__exit__)
        self.daemon.start()
        self.image = self.daemon.import_busybox()

    def parked(self):
        """The ids of those that wait: nobody sees them."""
        seen = {box['id'] for box in self.daemon.request('GET', '/v1/sandboxes?pageSize=100')['items']}
        return self.daemon.waiting() - seen

    def until_parked(self, wanted):
        atoll.until(lambda: len(self.parked()) == wanted, UNTIL, f'{wanted} wait')

    def create(self, **fields):
        box = self.daemon.create(self.image, **fields)
        self.addCleanup(self.daemon.delete, box)
        return box

    def test_the_second_create_claims(self):
        self.create()
        self.until_parked(2)
        before = claimed(self.daemon)
        waiting = self.parked()
        # A claim brings what tells it from another; the image's own entrypoint too.
        box = self.create(env={'WHO': 'me'}, entrypoint=['sh', '-c', 'echo $WHO >/said; sleep 1000'])
        self.assertIn(box, waiting)
        self.assertEqual(claimed(self.daemon), before + 1)
        self.assertEqual(self.daemon.run(box, 'until [ -s /said ]; do :; done; cat /said').stdout, 'me')
        shown = self.daemon.request('GET', f'/v1/sandboxes/{box}')
        self.assertNotIn('allocation', shown)
        self.assertEqual(self.daemon.request('GET', '/v1/pools')['items'], [])
        self.until_parked(2)
        # Others are built as they are asked for.
        volume = {'name': 'v', 'mountPath': '/data', 'pvc': {'claimName': 'mine',
                                                             'deleteOnSandboxTermination': True}}
        box = self.create(volumes=[volume])
        self.assertEqual(self.daemon.run(box, 'grep -c " /data " /proc/self/mounts').stdout, '1')
        # Limits come with the claim.
        small = self.create(resourceLimits={'memory': '64Mi'})
        self.until_parked(2)
        again = self.create(resourceLimits={'memory': '64Mi'})
        self.assertEqual(claimed(self.daemon), before + 3)
        for one in (small, again):
            more = 'dd if=/dev/zero of=/dev/null bs=100M count=1'
            self.assertNotEqual(self.daemon.run(one, more).exit_code, 0)
            self.assertEqual(self.daemon.run(one, more.replace('100M', '10M')).exit_code, 0)
        # Each image has a pool, and no third one: both were used a moment ago.
        for name in ('other:1', 'other:2'):
            self.daemon.import_image(atoll.image_archive('busybox'), name)
            self.addCleanup(self.daemon.delete, self.daemon.create(name))
        self.until_parked(4)
        self.assertEqual(self.daemon.metric('pool_automatic'), 2)

    def test_many_at_once(self):
        boxes = []

        def some():
            for _ in range(8):
                box = self.daemon.create(self.image)
                boxes.append((box, self.daemon.run(box, 'hostname').stdout))
                self.daemon.delete(box)

        threads = [threading.Thread(target=some) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(dict(boxes)), 64)
        for box, name in boxes:
            self.assertEqual(name, box.replace('-', '')[:12])

    def test_their_image_may_go(self):
        other = 'other:1'
        self.daemon.import_image(atoll.image_archive('busybox'), other)
        self.daemon.delete(self.daemon.create(other, resourceLimits={'memory': '66Mi'}))
        atoll.until(self.parked, UNTIL, 'they wait')
        self.daemon.request('DELETE', f'/v1/images/{other}')
        with self.assertRaises(atoll.ApiError):
            self.daemon.create(other)

    def test_a_daemon_that_dies_leaves_none(self):
        self.create()
        atoll.until(lambda: len(self.parked()) >= 2, UNTIL, 'they wait')
        before = self.parked()
        self.daemon.kill()
        self.daemon.start()
        atoll.until(lambda: not before & self.parked(), UNTIL, 'those are gone')
        self.create()


class DeathTest(unittest.TestCase):
    """SIGKILL at any moment: nothing acknowledged is lost, nothing is left, pools fill again."""

    def round(self, kill):
        with atoll.Daemon() as daemon:
            daemon.delete(daemon.create(daemon.import_busybox()))
        before = HostState.capture()
        with atoll.Daemon() as daemon:
            make(daemon, daemon.import_busybox(), capacitySpec=capacity(3, 200))
            filled(daemon, 3)
            for _ in range(ROUNDS):
                created, stopping = [], threading.Event()

                def client(created=created, stopping=stopping):
                    while not stopping.is_set():
                        try:
                            created.append(claim(daemon, env={'MINE': 'yes'}, resourceLimits={
                                'memory': f'{64 + len(created) % 2}Mi', 'shm': '1Mi'}))
                        except (OSError, atoll.http.client.HTTPException, atoll.ApiError, ValueError):
                            return
                threads = [threading.Thread(target=client) for _ in range(3)]
                for thread in threads:
                    thread.start()
                atoll.until(lambda created=created: len(created) >= 8, 60 * SLOWNESS)
                kill(daemon)
                stopping.set()
                for thread in threads:
                    thread.join()
                filled(daemon, 3)
                atoll.until(daemon.healthy, UNTIL, 'all agrees')
                for box in created:
                    self.assertEqual(daemon.run(box, 'echo $MINE').stdout, 'yes')
                    daemon.delete(box)
                for box in daemon.request('GET', '/v1/sandboxes?pageSize=100')['items']:
                    daemon.delete(box['id'])
                parked = daemon.waiting()
                self.assertLessEqual(len(parked), 3)
        self.assertEqual(before.await_same(30 * SLOWNESS), [])

    def test_of_the_daemon(self):
        def kill(daemon):
            daemon.kill()
            daemon.start()
        self.round(kill)

    def test_of_the_spawner(self):
        self.round(atoll.Daemon.kill_spawner)


if __name__ == '__main__':
    unittest.main()
