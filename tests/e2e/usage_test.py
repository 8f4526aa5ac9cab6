"""What sandboxes have used: none of it is lost, and none is billed twice, whoever dies when."""
import csv
import io
import json
import os
import pathlib
import random
import re
import subprocess
import time
import unittest

import atoll
from atoll import SLOWNESS
from tenants_test import TenantsDaemon

# The long run meters more of them.
MANY = int(os.environ.get('ATOLL_USAGE_SANDBOXES', '24'))
METERED = {'usage_keep_days': 30}
# Takes processor time, holds memory of its own, and sends to the name server.
SPIN = 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'
HOLD = 'dd if=/dev/zero of=/dev/shm/held bs=1M count=4 2>/dev/null'
SEND = ('G=$(ip route | sed -n "s/default via \\([^ ]*\\).*/\\1/p"); for i in 1 2; do '
        'dd if=/dev/zero bs=1000 count=20 2>/dev/null | timeout 5 nc -w 1 $G 53; done 2>/dev/null')
# FOCUS 1.0, as its users publish it: docs.aws.amazon.com/cur, "FOCUS 1.0 with AWS columns", less those of AWS.
FOCUS = '''AvailabilityZone BilledCost BillingAccountId BillingAccountName BillingCurrency BillingPeriodEnd
BillingPeriodStart ChargeCategory ChargeClass ChargeDescription ChargeFrequency ChargePeriodEnd ChargePeriodStart
CommitmentDiscountCategory CommitmentDiscountId CommitmentDiscountName CommitmentDiscountStatus
CommitmentDiscountType ConsumedQuantity ConsumedUnit ContractedCost ContractedUnitPrice EffectiveCost
InvoiceIssuerName ListCost ListUnitPrice PricingCategory PricingQuantity PricingUnit ProviderName PublisherName
RegionId RegionName ResourceId ResourceName ResourceType ServiceCategory ServiceName SkuId SkuPriceId SubAccountId
SubAccountName Tags'''.split()


class Groups:
    """The kernel's own counters of a daemon's groups, which the test reads beside the daemon."""

    def __init__(self, daemon):
        tops = [group for group in atoll.groups_named('atoll' + daemon.instance()) if (group / 'cpu.stat').exists()
                and 'usage_usec' in (group / 'cpu.stat').read_text(encoding='ascii')]
        self.top = tops[0]

    @staticmethod
    def cpu_of(group):
        """Processor seconds, those of removed groups below included."""
        text = (group / 'cpu.stat').read_text(encoding='ascii')
        return int(re.search(r'^usage_usec (\d+)$', text, re.M)[1]) / 1e6

    def cpu(self):
        return self.cpu_of(self.top)

    def at_rest(self):
        """The same, once no slot is being prepared and no sandbox works."""
        return atoll.settled(self.cpu, seconds=60 * SLOWNESS)

    def slots(self):
        return {int(group.name[1:]): group for group in self.top.glob('s*') if group.name[1:].isdigit()}


def sleepers():
    """The slot of each sandbox whose work is done, by the seconds that its entrypoint sleeps."""
    found = {}
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            words = pathlib.Path('/proc', pid, 'cmdline').read_bytes().split(b'\0')
            group = pathlib.Path('/proc', pid, 'cgroup').read_text(encoding='ascii').rpartition('0::')[2]
        except OSError:
            continue
        if words[:1] == [b'sleep'] and (slot := re.search(r'/s(\d+)(/|$)', group, re.M)):
            found[int(words[1])] = int(slot[1])
    return found


def link_bytes(daemon, slots):
    """Bytes that these sandboxes of a daemon have sent, as the host's ends of their links count."""
    lines = pathlib.Path('/proc/net/dev').read_text(encoding='ascii').splitlines()
    received = {name.strip(): int(counters.split()[0]) for name, _, counters in
                (line.partition(':') for line in lines[2:])}
    return sum(received[f'atl{daemon.instance()}-{slot}'] for slot in slots)


def usage(daemon, **query):
    return daemon.request('GET', '/v1/usage?' + '&'.join(f'{key}={value}' for key, value in query.items()))


def of_sandboxes(daemon):
    answer = usage(daemon, by='sandbox')
    return answer, {item['key']: item for item in answer['items']}


class Usage(unittest.TestCase):

    def test_all_is_billed_once_whoever_dies(self):
        dice = random.Random(int(os.environ.get('ATOLL_USAGE_SEED', '7')))
        with atoll.Daemon(**METERED) as daemon:
            image = daemon.import_busybox()
            groups = Groups(daemon)
            # The preparation of slots is unallocated, so it has to be over when both sums begin.
            before = groups.at_rest()
            earlier = usage(daemon)['unallocated']['cpu_seconds']
            stock = [groups.cpu_of(group) for group in groups.slots().values()]
            prepared = sum(stock) / len(stock)

            stay, leave = {}, []
            for number in range(MANY):
                leaves = number % 4 == 3
                work = f'{HOLD}; {SPIN}; ' + ('exit 0' if leaves else f'{SEND}; exec sleep {1000000 + number}')
                box = daemon.create(image, entrypoint=['sh', '-c', work])
                if leaves:
                    leave.append(box)
                else:
                    stay[1000000 + number] = box
                if number % 8 == 7:
                    self.one_dies(daemon, dice)
            atoll.until(lambda: set(sleepers()) >= set(stay), 120 * SLOWNESS, 'the work is done')
            groups.at_rest()
            slots = {stay[sleep]: slot for sleep, slot in sleepers().items() if sleep in stay}
            spent_by = {box: groups.cpu_of(groups.slots()[slot]) for box, slot in slots.items()}
            sent = link_bytes(daemon, slots.values())
            for number, box in enumerate([*stay.values(), *leave]):
                daemon.delete(box)
                # Right behind the answer: the end has been read by nobody yet, or stored by nobody.
                if number % 8 == 7:
                    self.one_dies(daemon, dice)
            atoll.until(lambda: not daemon.request('GET', '/v1/sandboxes')['items'], 60 * SLOWNESS, 'all are gone')
            daemon.kill_spawner()
            atoll.until(daemon.healthy, 30 * SLOWNESS, 'the daemon has its new spawner')
            atoll.until(lambda: not os.listdir(daemon.run_dir / 'spawner/ends'), 30 * SLOWNESS,
                        'the ledger has all ends, and says so to the spawner')
            spent = groups.at_rest() - before
            answer, items = of_sandboxes(daemon)

            self.assertTrue(answer['complete'])
            self.assertEqual(set(items), {*stay.values(), *leave}, 'one for each, and no other')
            self.assertEqual(len(answer['items']), MANY, 'none twice')
            self.assertEqual(len({item['record'] for item in answer['items']}), MANY)
            self.assertEqual(sum(item['creates'] for item in answer['items']), MANY)
            billed = {box: item['cpu_seconds'] for box, item in items.items()}
            total = sum(billed.values()) + answer['unallocated']['cpu_seconds'] - earlier
            self.assertAlmostEqual(total, spent, delta=0.01 * spent)
            # A sandbox owes what its group used, less the preparation of its slot, and also its own end, which the
            # test cannot read.
            end = 0.005 * SLOWNESS
            owed = {box: cpu - prepared for box, cpu in spent_by.items()}
            too_much = sum(billed[box] - owed[box] for box in owed)
            self.assertGreater(too_much, -0.01 * sum(owed.values()))
            self.assertLess(too_much, 0.01 * sum(owed.values()) + end * len(owed))
            for box in owed:
                self.assertAlmostEqual(billed[box], owed[box] + end, delta=0.02 * SLOWNESS, msg=box)
            least = min(billed[box] for box in stay.values())
            for box in leave:
                self.assertGreater(billed[box], least / 4, 'read, though it ended by itself')
            for box, item in items.items():
                self.assertGreater(item['memory_used_gib_seconds'], 0, box)
            out = sum(items[box]['network_bytes']['out'] for box in stay.values())
            self.assertAlmostEqual(out, sent, delta=0.01 * sent)

    def one_dies(self, daemon, dice):
        if dice.random() < 0.5:
            daemon.kill()
            daemon.start()
        else:
            daemon.kill_spawner()
            atoll.until(daemon.healthy, 30 * SLOWNESS, 'the daemon has its new spawner')

    def test_bytes_count_to_the_end_of_a_sandbox_that_leaves(self):
        with atoll.Daemon(**METERED) as daemon:
            image = daemon.import_busybox()
            boxes = [daemon.create(image, entrypoint=['sh', '-c', f'{SEND}; exit 0']) for _ in range(8)]
            left = lambda: all(box['status']['state'] == 'Terminated'
                               for box in daemon.request('GET', '/v1/sandboxes')['items'])
            atoll.until(left, 60 * SLOWNESS, 'all have ended by themselves')
            stays, quiet = daemon.create(image), daemon.create(image)
            daemon.run(stays, SEND)
            items = of_sandboxes(daemon)[1]
            self.assertEqual([items[box]['commands'] for box in (stays, quiet)], [1, 0])
            # How much passes before the name server refuses it differs, but never nothing.
            least = items[quiet]['network_bytes']['out'] + 1000
            # The last reading of a sandbox is stored when its slot is gone, which is after its state tells the end.
            atoll.until(lambda: all(of_sandboxes(daemon)[1][box]['network_bytes']['out'] > least
                                    for box in [stays, *boxes]), 30 * SLOWNESS, 'all bytes are in the ledger')

    def test_a_member_begins_with_nothing_when_it_is_claimed(self):
        with atoll.Daemon(runtime_parked_sandboxes=2, **METERED) as daemon:
            work = f'{SEND}; {SPIN}; {SPIN}; echo > /up; exec sleep 100000'
            template = daemon.request('POST', '/v1/templates', {
                'image': daemon.import_busybox(), 'entrypoint': ['sh', '-c', work],
                'readiness': {'probe': 'cmd://test -s /up', 'warmupSeconds': 0}})['templateId']
            ready = lambda: daemon.request('GET', f'/v1/templates/{template}')['status']['ready'] == 1
            atoll.until(ready, 60 * SLOWNESS, 'a member is ready')
            # Its work is the host's, its time is the owner's of the template.
            self.assertEqual([item['cpu_seconds'] for item in usage(daemon)['items']], [0])
            since = time.monotonic()
            before = usage(daemon)['items'][0]['parked_seconds']
            atoll.until(lambda: usage(daemon)['items'][0]['parked_seconds'] > before + 0.5, 10 * SLOWNESS)
            self.assertLess(usage(daemon)['items'][0]['parked_seconds'], before + time.monotonic() - since)
            box = daemon.request('POST', '/v1/sandboxes', {'templateId': template, 'timeout': 600})['id']
            item = of_sandboxes(daemon)[1][box]
            self.assertLess(item['cpu_seconds'], 0.05 * SLOWNESS)
            self.assertLess(item['network_bytes']['out'], 1000)
            self.assertEqual(item['creates'], 1)
            daemon.run(box, SPIN)
            self.assertGreater(of_sandboxes(daemon)[1][box]['cpu_seconds'], 0.05)

    def test_a_tenant_sees_its_own(self):
        with TenantsDaemon(**METERED) as daemon:
            admin, red, blue = daemon.new_key('admin'), daemon.new_key('developer'), daemon.new_key('viewer', 'blue')
            with open(atoll.image_archive('busybox'), 'rb') as archive:
                daemon.send('POST', '/v1/images?name=busybox', archive, {'OPEN-SANDBOX-API-KEY': admin}).read()
            told = lambda key, query='': json.loads(daemon.ask(key, 'GET', '/v1/usage' + query)[1])
            status, text = daemon.ask(red, 'POST', '/v1/sandboxes', {
                'image': {'uri': 'busybox'}, 'entrypoint': ['sleep', '100000'], 'resourceLimits': {}})
            self.assertEqual(status, 202, text)
            self.assertEqual([item['key'] for item in told(red)['items']], ['red'])
            self.assertEqual([item['key'] for item in told(admin, '?by=sandbox')['items']], [json.loads(text)['id']])
            for query in ('', '?by=sandbox', '?by=image', '?by=label:team'):
                seen = told(blue, query)
                self.assertEqual((seen['items'], 'unallocated' in seen), ([], False), query)
            self.assertIn('unallocated', told(admin))

    def test_limits_count_by_state(self):
        with atoll.Daemon(**METERED) as daemon:
            box = daemon.create(daemon.import_busybox(), resourceLimits={'cpu': '500m', 'memory': '64Mi'})
            item = of_sandboxes(daemon)[1][box]
            self.assertGreater(item['memory_reserved_gib_seconds'], 0)
            daemon.request('POST', f'/v1/sandboxes/{box}/pause')
            atoll.until(lambda: daemon.request('GET', f'/v1/sandboxes/{box}')['status']['state'] == 'Paused',
                        10 * SLOWNESS)
            first, second = of_sandboxes(daemon)[1][box], of_sandboxes(daemon)[1][box]
            self.assertEqual(first['cpu_reserved_seconds'], second['cpu_reserved_seconds'])
            self.assertGreater(second['memory_reserved_gib_seconds'], first['memory_reserved_gib_seconds'])

    def test_a_rollback_goes_on_with_the_same_sandbox(self):
        with atoll.Daemon(**METERED) as daemon:
            box = daemon.create(daemon.import_busybox())
            snapshot = daemon.request('POST', f'/v1/sandboxes/{box}/snapshots', {})['id']
            atoll.until(lambda: daemon.request('GET', f'/v1/snapshots/{snapshot}')['status']['state'] == 'Ready',
                        20 * SLOWNESS)
            daemon.run(box, SPIN)
            daemon.request('POST', f'/v1/sandboxes/{box}/rollback', {'snapshotId': snapshot})
            daemon.run(box, SPIN)

            def both():
                items = usage(daemon, by='sandbox')['items']
                return len(items) == 2 and all(item['cpu_seconds'] > 0.02 for item in items)
            atoll.until(both, 20 * SLOWNESS, 'the part before and the part after')
            items = usage(daemon, by='sandbox')['items']
            self.assertEqual({item['key'] for item in items}, {box})
            self.assertEqual(sum(item['creates'] for item in items), 1)

    def test_snapshots_count_until_they_are_deleted(self):
        mib = 1 << 20
        with atoll.Daemon(prices_currency='EUR', prices_snapshots_gib_hour='3600', **METERED) as daemon:
            box = daemon.create(daemon.import_busybox())
            daemon.run(box, 'dd if=/dev/urandom of=/file bs=1M count=8 2>/dev/null')
            start = time.monotonic()
            snapshot = daemon.request('POST', f'/v1/sandboxes/{box}/snapshots', {})['id']
            ready = lambda: daemon.request('GET', f'/v1/snapshots/{snapshot}')['status']['state'] == 'Ready'
            atoll.until(ready, 20 * SLOWNESS)
            began = time.monotonic()
            daemon.delete(box)

            def kept():
                """MiB seconds, and between which numbers they must be."""
                least = 8 * (time.monotonic() - began)
                items = usage(daemon)['items']
                most = 8.2 * (time.monotonic() - start)
                self.assertEqual([item['key'] for item in items], [''])
                self.assertAlmostEqual(items[0]['cost'], items[0]['snapshots_gib_seconds'], places=6)
                return least, items[0]['snapshots_gib_seconds'] * 1024, most

            for _ in range(2):
                least, counted, most = kept()
                self.assertLess(least - 0.01, counted)
                self.assertLess(counted, most)
                daemon.kill()
                daemon.start()
            least = kept()[0]
            daemon.request('DELETE', f'/v1/snapshots/{snapshot}')
            ended = kept()[1]
            self.assertLess(least - 0.01, ended)
            self.assertEqual(kept()[1], ended, 'no longer')

    def test_a_step_of_the_wall_clock_bills_nothing(self):
        """The guest's clock is stepped, also while no daemon runs. Elsewhere the clock is the host's, and stays."""
        def step(seconds):
            if 'ATOLL_GUEST' in os.environ:
                time.clock_settime(time.CLOCK_REALTIME, time.time() + seconds)

        def reserved(box):
            told = lambda days: time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + 86400 * days))
            answer = usage(daemon, by='sandbox', since=told(-1), until=told(1))
            return {item['key']: item['memory_reserved_gib_seconds'] for item in answer['items']}[box]

        with atoll.Daemon(**METERED) as daemon:
            image = daemon.import_busybox()
            start = time.monotonic()
            box = daemon.create(image, resourceLimits={'memory': '1Gi'})
            began = time.monotonic()
            for seconds in (1000, -2000, 1000):
                step(seconds)
                least = time.monotonic() - began
                counted = reserved(box)
                self.assertLess(least - 0.5, counted)
                self.assertLess(counted, time.monotonic() - start + 0.1)
                daemon.kill()
                step(-seconds)
                daemon.start()
                step(seconds)
            daemon.delete(box)
            least = time.monotonic() - began
            last = lambda: reserved(box)
            atoll.until(lambda: last() > least - 1, 30 * SLOWNESS, 'the last reading is there')
            self.assertLess(last(), time.monotonic() - start + 0.1)

    def test_members_of_pools_are_nobodys(self):
        with atoll.Daemon(**METERED) as daemon:
            image = daemon.import_busybox()
            daemon.request('POST', '/v1/pools', {'name': 'p', 'image': {'uri': image}, 'capacitySpec': {
                'bufferMin': 1, 'bufferMax': 1, 'poolMin': 0, 'poolMax': 4}})
            parked = lambda: usage(daemon)['unallocated']['parked_seconds']
            atoll.until(lambda: parked() > 0.5, 30 * SLOWNESS, 'a member waits')
            self.assertEqual(usage(daemon)['items'], [])

    def test_a_sandbox_that_is_gone_says_what_it_cost(self):
        with atoll.Daemon(prices_currency='EUR', prices_cpu_hour='3600', **METERED) as daemon:
            image = daemon.import_busybox()
            box, quiet = daemon.create(image), daemon.create(image)
            # Two parts make one bill.
            snapshot = daemon.request('POST', f'/v1/sandboxes/{box}/snapshots', {})['id']
            atoll.until(lambda: daemon.request('GET', f'/v1/snapshots/{snapshot}')['status']['state'] == 'Ready',
                        20 * SLOWNESS)
            daemon.run(box, SPIN)
            daemon.request('POST', f'/v1/sandboxes/{box}/rollback', {'snapshotId': snapshot})
            daemon.run(box, SPIN)
            for gone in (box, quiet):
                daemon.delete(gone)
                past = lambda gone=gone: daemon.request('GET', f'/v1/history/{gone}')['usage']
                atoll.until(lambda past=past: past()['complete'], 20 * SLOWNESS, 'the last reading is there')
            told = {gone: daemon.request('GET', f'/v1/history/{gone}')['usage'] for gone in (box, quiet)}
            parts = [item for item in usage(daemon, by='sandbox')['items'] if item['key'] == box]
            self.assertEqual(len(parts), 2)
            for name in ('cpu_seconds', 'cost', 'commands', 'creates'):
                self.assertAlmostEqual(told[box][name], sum(part[name] for part in parts), places=6, msg=name)
            self.assertEqual(told[box]['currency'], 'EUR')
            self.assertGreater(told[box]['cost'], told[quiet]['cost'])
            listed = {item['id']: item['usage'] for item in daemon.request('GET', '/v1/history')['items']}
            for gone in (box, quiet):
                self.assertEqual({**listed[gone], 'complete': True}, told[gone])

            def said(*words):
                return subprocess.run([atoll.BUILD / 'atoll', *words], env=daemon.client_env(), check=True,
                                      capture_output=True, text=True, timeout=30 * SLOWNESS).stdout
            self.assertEqual(json.loads(said('inspect', box))[0]['usage'], told[box])
            self.assertEqual(said('ps', '-a', '--gone', '--filter', f'id={box}', '--format', '{{.Cost}}').strip(),
                             f'{told[box]["cost"]:.4f} EUR')
            self.assertIn('COST', said('ps', '-a', '--gone'))
            self.assertNotIn('COST', said('ps', '-a'))

    def test_keys_prices_and_refusals(self):
        with atoll.Daemon(prices_currency='EUR', prices_cpu_hour='3600', **METERED) as daemon:
            image = daemon.import_busybox()
            for team in ('a', 'a', "b'\"]"):
                box = daemon.create(image, metadata={'team': team.strip('\'"]') or 'x'})
                daemon.run(box, SPIN)
                daemon.delete(box)
            by_team = usage(daemon, by='label:team')
            self.assertEqual({item['key'] for item in by_team['items']}, {'a', 'b'})
            self.assertEqual(by_team['currency'], 'EUR')
            for item in by_team['items']:
                self.assertAlmostEqual(item['cost'], item['cpu_seconds'], places=6)
            self.assertEqual([item['key'] for item in usage(daemon)['items']], [''])
            self.assertEqual([item['key'] for item in usage(daemon, by='image')['items']], ['busybox:latest'])
            steps = usage(daemon, by='image', step='1h')['items']
            self.assertTrue(all(item['start'].endswith(':00:00Z') for item in steps), steps)
            for query in ('by=label:', 'by=owner', 'since=yesterday', 'step=0h', 'step=1m',
                          'since=2020-01-01T00:00:00Z&step=1h', 'since=2030-01-01T00:00:00Z'):
                answer = daemon.send('GET', '/v1/usage?' + query)
                answer.read()
                self.assertEqual(answer.status, 422, query)

    def test_the_client_shows_it(self):
        def said(*words):
            return subprocess.run([atoll.BUILD / 'atoll', 'usage', *words], env=daemon.client_env(), check=True,
                                  capture_output=True, text=True, timeout=30 * SLOWNESS).stdout
        with atoll.Daemon(prices_currency='EUR', prices_cpu_hour='3600', prices_network_gib='2', **METERED) as daemon:
            box = daemon.create(daemon.import_busybox(), metadata={'team': 'cmd'})
            daemon.run(box, SPIN)
            self.assertIn('busybox:latest', said('--by', 'image', '--since', '7d'))
            self.assertEqual(json.loads(said('--json'))['items'][0]['key'], '')
            rows = list(csv.DictReader(io.StringIO(said('--by', 'sandbox', '--csv'))))
            self.assertEqual([row['key'] for row in rows], [box])
            self.assertGreater(float(rows[0]['cpu_seconds']), 0)
            told = (atoll.TOP / 'docs/usage.md').read_text(encoding='utf-8')
            heads = said('--by', 'label:team', '--since', '7d').splitlines()[0].split()
            self.assertIn(heads, [line.split() for line in told.splitlines()], 'as docs/usage.md shows it')
            rows = list(csv.DictReader(io.StringIO(said('--by', 'label:team', '--focus'))))
            self.assertEqual(list(rows[0]), FOCUS)
            self.assertEqual(rows[0]['ChargeCategory'], 'Usage')
            charged = {row['SkuId']: row for row in rows}
            self.assertGreater(float(charged['cpu_hour']['BilledCost']), 0)
            self.assertEqual(charged['cpu_hour']['ListUnitPrice'], '3600.000000000')
            self.assertEqual(float(charged['memory_gib_hour']['BilledCost']), 0, 'it has no price')
            self.assertEqual(json.loads(rows[0]['Tags']), {'team': 'cmd'})

    def test_it_is_off_until_the_operator_wants_it(self):
        with atoll.Daemon() as daemon:
            box = daemon.create(daemon.import_busybox())
            daemon.delete(box)
            self.assertNotIn('usage', daemon.request('GET', f'/v1/history/{box}'))
            self.assertNotIn('usage', daemon.request('GET', '/v1/history')['items'][0])
            answer = daemon.send('GET', '/v1/usage')
            answer.read()
            self.assertEqual(answer.status, 501)
            self.assertFalse((daemon.data_dir / 'state/usage.db').exists())


if __name__ == '__main__':
    unittest.main()
