"""Pools: what is built ahead, what a claim brings, and that nobody gets what was another's."""
import os
import re
import signal
import threading
import unittest

import atoll
from atoll import SLOWNESS
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
                ({'resourceLimits': {'memory': '64Mi'}}, 'echo here', 'here'),
                ({'extensions': {'poolRef': 'warm', 'readOnlyRootFilesystem': 'true'}},
                 'touch /x 2>/dev/null || echo refused', 'refused')):
            before = self.daemon.metric(cold)
            box = self.claim(**fields)
            self.assertEqual(self.daemon.run(box, command).stdout, expected)
            self.assertEqual(self.daemon.metric(cold), before + 1)
        self.assertEqual(status(self.daemon), {'total': 5, 'allocated': 3, 'available': 2})

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


class RoomTest(unittest.TestCase):
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
        small = self.create(resourceLimits={'memory': '64Mi'})
        self.until_parked(4)
        again = self.create(resourceLimits={'memory': '64Mi'})
        self.assertEqual(claimed(self.daemon), before + 2)
        for one in (small, again):
            more = 'dd if=/dev/zero of=/dev/null bs=100M count=1'
            self.assertNotEqual(self.daemon.run(one, more).exit_code, 0)
            self.assertEqual(self.daemon.run(one, more.replace('100M', '10M')).exit_code, 0)
        # No third pool: both were used a moment ago.
        self.create(resourceLimits={'memory': '65Mi'})
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
                            created.append(claim(daemon, env={'MINE': 'yes'}))
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
