#!/usr/bin/python3
"""What a sandbox was, did and printed, and why it ended, can be read when it is gone: whatever ended it, whatever
happened to the daemon, by its tenant, and for as long as configured."""
import datetime
import json
import os
import random
import re
import subprocess
import threading
import unittest

import atoll
from atoll import SLOWNESS, until
from tenants_test import TENANTS, UNKNOWN, TenantsDaemon

UNTIL = 30 * SLOWNESS
FOR_EVER = 'exec sleep 99999'


class WithDaemon(unittest.TestCase):
    SETTINGS = {}

    def setUp(self):
        self.daemon = self.enterContext(atoll.Daemon(**self.SETTINGS))
        self.image = self.daemon.import_busybox()

    def box(self, script=FOR_EVER, **fields):
        return self.daemon.create(self.image, entrypoint=['sh', '-c', script], **fields)

    def past(self, box):
        return self.daemon.request('GET', f'/v1/history/{box}')

    def is_past(self, box):
        return self.daemon.send('GET', f'/v1/history/{box}').status == 200

    def log(self, box, query=''):
        answer = self.daemon.send('GET', f'/v1/history/{box}/logs{query}')
        text = answer.read().decode()
        self.assertEqual(answer.status, 200, text)
        return [line.partition(' ')[2] for line in text.splitlines()]

    def listed(self, query=''):
        return [item['id'] for item in self.daemon.request('GET', f'/v1/history{query}')['items']]

    def await_state(self, box, state):
        until(lambda: self.daemon.request('GET', f'/v1/sandboxes/{box}')['status']['state'] == state, UNTIL)

    def await_log(self, box, wanted):
        read = lambda: self.daemon.send('GET', f'/v1/sandboxes/{box}/diagnostics/logs').read().decode()
        until(lambda: wanted in read(), UNTIL, f'it prints {wanted}')


class Ends(WithDaemon):
    def test_whatever_ends_a_sandbox(self):
        failed = self.box('echo hello; exit 3', metadata={'name': 'failed', 'job': '7'},
                          env={'TOKEN': 'hunter2'}, resourceLimits={'memory': '64Mi'})
        self.await_state(failed, 'Failed')
        self.await_log(failed, 'hello')
        self.assertFalse(self.is_past(failed), 'it can be read yet')
        expired = self.box(timeout=3600)
        soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=3)
        self.daemon.request('POST', f'/v1/sandboxes/{expired}/renew-expiration', {'expiresAt': f'{soon:%Y-%m-%dT%H:%M:%SZ}'})
        live = self.box()
        deleted = self.box('echo last words; ' + FOR_EVER)
        self.await_log(deleted, 'last words')
        for box in (failed, deleted):
            self.daemon.delete(box)
            self.assertTrue(self.is_past(box), 'at once')
            self.assertIn(box, self.listed())
        until(lambda: self.is_past(expired), UNTIL, 'it expires')
        self.daemon.shutdown()
        self.daemon.start()
        boxes = (deleted, expired, live)
        self.assertEqual([self.past(box)['status']['reason'] for box in boxes], ['USER_DELETE', 'EXPIRED', 'SHUTDOWN'])
        self.assertEqual(self.log(deleted), ['last words'])
        past = self.past(failed)
        self.assertEqual(past['status']['state'], 'Failed')
        self.assertEqual(past['status']['message'], 'exit code 3')
        self.assertEqual(past['metadata'], {'name': 'failed', 'job': '7'})
        self.assertEqual(past['env'], ['TOKEN'])
        self.assertEqual(past['resourceLimits']['memory'], '64Mi')
        self.assertEqual(past['entrypoint'], ['sh'])
        self.assertEqual([line.split()[3] for line in past['events']], ['Created', 'Running', 'Failed', 'Deleted'])
        self.assertNotIn('hunter2', json.dumps(past))
        self.assertEqual(self.log(failed), ['hello'])
        # The routes of upstream do not know it.
        for route in ('', '/diagnostics/logs', '/diagnostics/events', '/diagnostics/inspect', '/network'):
            self.assertEqual(self.daemon.send('GET', f'/v1/sandboxes/{failed}{route}').status, 404, route)
        self.assertNotIn(failed, json.dumps(self.daemon.request('GET', '/v1/sandboxes')))

    def test_a_shutdown_ends_all(self):
        box = self.box('echo here; ' + FOR_EVER)
        self.await_log(box, 'here')
        self.daemon.shutdown()
        self.daemon.start()
        self.assertEqual(self.past(box)['status']['reason'], 'SHUTDOWN')
        self.assertEqual(self.log(box), ['here'])

    def test_denials(self):
        box = self.box(networkPolicy={'defaultAction': 'deny', 'egress': []})
        denials = lambda: self.daemon.request('GET', f'/v1/sandboxes/{box}/network')['denials']
        self.daemon.run(box, 'nslookup evil.example')
        until(lambda: any(one.get('hostname') == 'evil.example' for one in denials()), UNTIL)
        self.daemon.delete(box)
        until(lambda: self.past(box)['denials'], UNTIL)
        self.daemon.kill()
        self.daemon.start()
        self.assertIn('evil.example', [one.get('hostname') for one in self.past(box)['denials']])

    def test_filters_and_pages(self):
        boxes = []
        for number in range(5):
            boxes.append(self.box(metadata={'job': str(number % 2)}))
            self.daemon.delete(boxes[-1])
        gone = lambda box: self.daemon.request('GET', f'/v1/history/{box}')['goneAt']
        until(lambda: self.daemon.metric('history_entries') == 5, UNTIL, 'all are gone')
        latest_first = boxes[::-1]
        self.assertEqual(sorted(self.listed()), sorted(boxes))
        self.assertEqual(sorted(self.listed('?label=job=1')), sorted([boxes[1], boxes[3]]))
        self.assertEqual(len(self.listed('?label=job')), 5)
        self.assertEqual(self.listed('?label=none'), [])
        self.assertEqual(self.listed('?state=failed'), [])
        self.assertEqual(self.listed('?until=2020-01-01T00:00:00Z'), [])
        # They do not go in the order of their deletions.
        self.assertEqual(len(self.listed(f'?since={min(map(gone, boxes))}')), 5)
        pages, cursor = [], ''
        while True:
            page = self.daemon.request('GET', f'/v1/history?limit=2{cursor}')
            pages.append([item['id'] for item in page['items']])
            if 'next' not in page:
                break
            cursor = f'&cursor={page["next"]}'
        self.assertEqual([len(page) for page in pages], [2, 2, 1])
        self.assertEqual(sorted(sum(pages, [])), sorted(latest_first))
        for wrong in ('?since=yesterday', '?limit=0', '?limit=201', '?cursor=x', '?colour=red'):
            self.assertEqual(self.daemon.send('GET', f'/v1/history{wrong}').status, 400, wrong)

    def test_a_part_of_the_log(self):
        box = self.box('seq 1 5000; ' + FOR_EVER)
        self.await_log(box, ' 5000\n')
        self.daemon.delete(box)
        self.assertEqual(self.log(box), [str(n) for n in range(1, 5001)])
        self.assertEqual(self.log(box, '?tail=2'), ['4999', '5000'])
        self.assertEqual(self.log(box, '?tail=2&since=1h'), ['4999', '5000'])
        self.assertEqual(self.daemon.send('GET', f'/v1/history/{UNKNOWN}/logs').status, 404)


class Kills(WithDaemon):
    def test_a_kill_at_any_moment_loses_nobody(self):
        """After each kill a sandbox whose deletion was answered is in the history, any other is there or in it."""
        choose = random.Random(int(os.environ.get('ATOLL_SEED', '7')))
        gone = []
        for round_ in range(6):
            boxes = [self.box(f'echo {round_}; {FOR_EVER}') for _ in range(8)]
            for box in boxes:
                self.await_log(box, f' {round_}\n')
            answered, asked = [], []
            def delete(boxes=boxes, answered=answered, asked=asked):
                for box in boxes:
                    asked.append(box)
                    try:
                        self.daemon.delete(box)
                    except OSError:
                        return
                    answered.append(box)
            thread = threading.Thread(target=delete)
            thread.start()
            wanted = choose.randrange(1, 8)
            until(lambda: len(asked) >= wanted, UNTIL)
            self.daemon.kill()
            thread.join()
            self.daemon.start()
            for box in boxes:
                there = self.daemon.send('GET', f'/v1/sandboxes/{box}').status == 200
                self.assertNotEqual(there, self.is_past(box), box)
                if box in answered:
                    self.assertFalse(there)
                if there:
                    self.daemon.delete(box)
                gone.append((box, str(round_)))
        self.daemon.kill()
        self.daemon.start()
        for box, line in gone:
            self.assertTrue(self.is_past(box))
            self.assertEqual(self.log(box), [line])
        print(f'# {len(gone)} sandboxes through 7 kills', flush=True)


class Limits(WithDaemon):
    SETTINGS = {'history_max_bytes': '256Ki'}

    def test_the_oldest_go_first(self):
        boxes = []
        for _ in range(6):
            boxes.append(self.box(f'seq 1 12000; {FOR_EVER}'))
            self.await_log(boxes[-1], ' 12000\n')
            self.daemon.delete(boxes[-1])
            until(lambda: self.is_past(boxes[-1]), UNTIL)
        until(lambda: 0 < self.daemon.metric('history_bytes') <= 256 << 10, UNTIL, 'it fits')
        until(lambda: not self.is_past(boxes[0]), UNTIL, 'the oldest goes')
        self.assertTrue(self.is_past(boxes[-1]))
        until(lambda: not (self.daemon.data_dir / 'state/logs' / boxes[0]).exists(), UNTIL, 'and its log')


class Off(WithDaemon):
    SETTINGS = {'history_keep': '0'}

    def test_nothing_is_kept(self):
        box = self.box('echo here; ' + FOR_EVER)
        self.await_log(box, 'here')
        self.daemon.delete(box)
        self.assertFalse(self.is_past(box))
        self.assertEqual(self.listed(), [])
        until(lambda: not (self.daemon.data_dir / 'state/logs' / box).exists(), UNTIL, 'its log goes')
        self.assertEqual(self.daemon.send('GET', f'/v1/history/{box}/logs').status, 404)


class Teams(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = cls.enterClassContext(TenantsDaemon(
            TENANTS.replace('name = "blue"', 'name = "blue"\nhistory = { keep = "0" }')))
        admin = {'OPEN-SANDBOX-API-KEY': cls.daemon.new_key('admin')}
        with open(atoll.image_archive('busybox'), 'rb') as archive:
            assert cls.daemon.send('POST', '/v1/images?name=busybox:latest', archive, admin).status == 201
        cls.keys = {role: cls.daemon.new_key(role) for role in
                    ('viewer', 'developer', 'operator', 'auditor', 'admin')}
        cls.blue = cls.daemon.new_key('developer', 'blue')

    def gone(self, key):
        body = {'image': {'uri': 'busybox:latest'}, 'entrypoint': ['sh', '-c', 'echo secret; exec sleep 99999'],
                'resourceLimits': {}, 'metadata': {'name': 'web', 'team': 'plum'}, 'env': {'COLOUR': 'mauve'}}
        status, text = self.daemon.ask(key, 'POST', '/v1/sandboxes', body)
        self.assertEqual(status, 202, text)
        box = json.loads(text)['id']
        logs = f'/v1/sandboxes/{box}/diagnostics/logs'
        until(lambda: 'secret' in self.daemon.ask(key, 'GET', logs)[1], UNTIL)
        self.assertEqual(self.daemon.ask(key, 'DELETE', f'/v1/sandboxes/{box}')[0], 204)
        return box

    def test_who_reads_what(self):
        box = self.gone(self.keys['developer'])
        def answers(key):
            return [self.daemon.ask(key, 'GET', path)
                    for path in ('/v1/history', f'/v1/history/{box}', f'/v1/history/{box}/logs')]
        for role in ('viewer', 'developer', 'admin'):
            listed, past, log = answers(self.keys[role])
            self.assertEqual([listed[0], past[0], log[0]], [200, 200, 200], role)
            self.assertIn(box, listed[1])
            self.assertEqual(json.loads(past[1])['metadata'], {'name': 'web', 'team': 'plum'})
            self.assertEqual(json.loads(past[1])['env'], ['COLOUR'])
            self.assertIn('secret', log[1])
        listed, past, log = answers(self.keys['operator'])
        self.assertEqual([listed[0], past[0], log[0]], [200, 200, 403])
        for text in (listed[1], past[1]):
            self.assertIn(box, text)
            for hidden in ('plum', 'COLOUR', 'mauve', 'entrypoint', 'message', 'events'):
                self.assertNotIn(hidden, text)
        self.assertEqual(json.loads(past[1])['metadata'], {'name': 'web', 'team': '***'})
        # Whether a guess of a label is right is not told either.
        self.assertEqual(self.daemon.ask(self.keys['operator'], 'GET', '/v1/history?label=team=plum')[0], 403)
        self.assertEqual([status for status, _ in answers(self.keys['auditor'])], [403, 403, 403])
        # Another team learns nothing, not even that it was there.
        listed, *others = answers(self.blue)
        self.assertEqual((listed[0], json.loads(listed[1])['items']), (200, []))
        for path, (status, text) in zip(('', '/logs'), others):
            unknown = self.daemon.ask(self.blue, 'GET', f'/v1/history/{UNKNOWN}{path}')
            self.assertEqual((status, text.replace(box, UNKNOWN)), unknown)
            self.assertEqual(status, 404)

    def test_a_team_may_have_none(self):
        box = self.gone(self.blue)
        self.assertEqual(self.daemon.ask(self.keys['admin'], 'GET', f'/v1/history/{box}')[0], 404)


class Page(WithDaemon):
    def test_every_line_of_the_page(self):
        """docs/history.md, as somebody types it."""
        page = (atoll.TOP / 'docs/history.md').read_text(encoding='utf-8')
        lines = ''.join(re.findall(r'^```sh\n(.*?)^```', page, re.M | re.S))
        lines = re.sub(r'\bbusybox\b', self.image, lines)
        script = ''.join(f"echo '$' {json.dumps(line).replace('$', chr(92) + '$')}\n"
                         f"{line}{' || [ $? = 3 ]' if 'wait' in line else ''}\n" for line in lines.splitlines())
        done = subprocess.run(['bash', '-eu', '-o', 'pipefail'], input=script, text=True, timeout=120, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**self.daemon.client_env(), 'PATH': f'{atoll.BUILD}:/usr/bin:/bin'})
        self.assertEqual(done.returncode, 0, done.stdout)
        said = {part.split('\n', 1)[0].strip(): part.split('\n', 1)[1]
                for part in re.split(r'^\$ ', done.stdout, flags=re.M) if '\n' in part}
        self.assertRegex(said['atoll ps -a --gone --filter label=job=7'], r'Failed +3 .*Z\n$')
        self.assertEqual(said['atoll logs $id'], 'hello\n')
        self.assertIn('Failed CONTAINER_EXITED_ERROR: exit code 3', said['atoll events $id'])
        self.assertIn('"goneAt"', said['atoll inspect $id'])

    def atoll(self, *words, fails=False):
        done = subprocess.run([atoll.BUILD / 'atoll', *words], env=self.daemon.client_env(), text=True, timeout=60,
                              capture_output=True, check=False)
        self.assertEqual(done.returncode != 0, fails, done.stderr)
        return done.stderr if fails else done.stdout

    def test_the_history_is_looked_at_last(self):
        gone = self.box('echo old; ' + FOR_EVER, metadata={'name': 'web'})
        self.await_log(gone, 'old')
        self.daemon.delete(gone)
        self.assertEqual(self.atoll('logs', 'web'), 'old\n')
        self.assertEqual(self.atoll('logs', gone[:8]), 'old\n')
        self.assertIn('USER_DELETE', self.atoll('events', 'web'))
        self.assertEqual(json.loads(self.atoll('inspect', 'web'))[0]['id'], gone)
        new = self.box('echo new; ' + FOR_EVER, metadata={'name': 'web'})
        self.await_log(new, 'new')
        self.assertEqual(self.atoll('logs', 'web'), 'new\n')
        self.assertEqual(self.atoll('ps', '-q'), f'{new}\n')
        self.assertEqual(self.atoll('ps', '-aq'), f'{new}\n')
        self.assertEqual(sorted(self.atoll('ps', '-aq', '--gone').split()), sorted([new, gone]))
        self.assertEqual(self.atoll('ps', '--gone', '--format', '{{.ID}} {{.Gone}}', '-f', f'id={new}'), f'{new} \n')
        self.assertIn(gone, [item['id'] for item in json.loads(self.atoll('ps', '--gone', '--json'))['items']])
        for verb in ('logs', 'inspect', 'events'):
            self.assertIn("there is no sandbox 'nothing'", self.atoll(verb, 'nothing', fails=True))
            self.assertIn('not found', self.atoll(verb, UNKNOWN, fails=True))


if __name__ == '__main__':
    unittest.main()
