#!/usr/bin/python3
"""Two tenants that use all of the API and try everything with what the other has, while the daemon and the spawner
are killed. Nobody sees or touches what is the other's, no line of the audit log is lost, quotas hold, nothing is left.

ATOLL_HOSTILE_SECONDS (40) and ATOLL_HOSTILE_KILLS (2), from ATOLL_RANDOM_SEED (1). What a tenant does follows from
the seed and the model, but not what it meets.
"""
import collections
import json
import os
import random
import subprocess
import threading
import time
import traceback
import unittest

import atoll
from atoll import SLOWNESS, until
from host_state import HostState
from hostile_probes import Hostile
from hostile_team import LIVE, Cut, Lives
from tenants_test import TenantsDaemon

SECONDS = int(os.environ.get('ATOLL_HOSTILE_SECONDS', '40')) * SLOWNESS
KILLS = int(os.environ.get('ATOLL_HOSTILE_KILLS', '2'))
SEED = int(os.environ.get('ATOLL_RANDOM_SEED', '1'))
MOST = 4
LIMITED, FREE = 'rubicund', 'cerulean'  # no answer has these words by chance
TENANTS = f'''
[[tenants]]
name = "{LIMITED}"
max = {{ sandboxes = {MOST}, memory = "{64 * MOST}Mi" }}
self_service = true

[[tenants]]
name = "{FREE}"
self_service = true
'''


class Player(threading.Thread):
    """Lets one tenant act until the time has come."""

    def __init__(self, team, ends):
        super().__init__()
        self.team, self.ends = team, ends
        self.stopped = threading.Event()
        self.recent = collections.deque(maxlen=15)
        self.steps = collections.Counter()
        self.error = None

    def run(self):
        weights, moves = zip(*self.team.moves())
        try:
            while time.monotonic() < self.ends and not self.stopped.is_set():
                for act in (self.team.random.choices(moves, weights)[0], self.team.probe, self.team.check):
                    self.act(act)
        except BaseException:  # pylint: disable=broad-except
            self.error = f'seed {SEED}, {self.team.name} after {list(self.recent)}:\n{traceback.format_exc()}'

    def act(self, act):
        self.recent.append(act.__name__)
        try:
            act()
            self.steps[act.__name__] += 1
        except Cut:
            self.recent.append('cut')


class HostileTenants(unittest.TestCase):
    maxDiff = 4000

    def test_neither_sees_nor_touches_the_other(self):
        with atoll.Daemon() as daemon:
            daemon.delete(daemon.create(daemon.import_busybox()))
        before = HostState.capture()
        with TenantsDaemon(TENANTS, audit_enabled='on') as daemon:
            self.daemon = daemon
            self.admin = daemon.new_key('admin')
            self.auditor = daemon.new_key('auditor')
            lives = Lives(daemon)
            limited = Hostile(self, lives, LIMITED, daemon.new_key('developer', LIMITED), SEED, MOST)
            free = Hostile(self, lives, FREE, daemon.new_key('developer', FREE), SEED)
            limited.other, free.other = free, limited
            for team in (limited, free):
                with open(atoll.image_archive('busybox'), 'rb') as archive:
                    answer = daemon.send('POST', '/v1/images?name=busybox', archive, {'OPEN-SANDBOX-API-KEY': team.key})
                    self.assertEqual(answer.status, 201, answer.read())
            self.play(lives, limited, free)
            for team in (limited, free):
                team.check()
            self.quota_is_given_back(limited)
            for team in (limited, free):
                team.remove_all()
                team.check()
            self.audit_is_whole(lives, limited, free)
        self.assertEqual(before.await_same(30 * SLOWNESS), [])

    def play(self, lives, *teams):
        draw = random.Random(SEED)
        ends = time.monotonic() + SECONDS
        players = [Player(team, ends) for team in teams]
        for player in players:
            player.start()
        try:
            kills = self.kills(lives, draw, ends)
            while any(player.is_alive() for player in players) and not any(player.error for player in players):
                if kills and time.monotonic() > kills[0][0]:
                    for kill in kills.pop(0)[1]:
                        kill()
                self.quota_holds()
        finally:
            for player in players:
                player.stopped.set()
            for player in players:
                player.join()
        for player in players:
            print(f'# {player.team.name}: {player.team.requests} requests, {player.steps.total()} steps', flush=True)
        self.assertEqual([player.error for player in players if player.error], [])
        self.assertEqual(kills, [])
        for player in players:  # what was not tried proves nothing
            self.assertGreater(player.steps['probe'], 20)

    @staticmethod
    def kills(lives, draw, ends):
        """(moment, what is killed) in each part of the time; the daemon, then the spawner, then whatever."""
        part = SECONDS / max(KILLS, 1)
        first = [[lives.kill_daemon], [lives.kill_spawner]]
        kinds = first + [draw.choice([*first, [lives.kill_spawner, lives.kill_daemon]]) for _ in range(KILLS)]
        return [(ends - SECONDS + part * (number + draw.random()), kinds[number]) for number in range(KILLS)]

    def of_admin(self, path):
        response = self.daemon.send('GET', path, headers={'OPEN-SANDBOX-API-KEY': self.admin})
        text = response.read().decode()
        self.assertEqual(response.status, 200, text)
        return text

    def quota_holds(self):
        items = json.loads(self.of_admin('/v1/sandboxes?pageSize=200'))['items']
        living = [item for item in items if item['tenant'] == LIMITED and item['status']['state'] in LIVE]
        self.assertLessEqual(len(living), MOST)

    def quota_is_given_back(self, team):
        """As many as the quota has, and not one more."""
        for box in list(team.boxes):
            team.have('DELETE', f'/v1/sandboxes/{box}')
            del team.boxes[box]
        fields = {'image': {'uri': 'busybox'}, 'entrypoint': ['sleep', '100000'], 'resourceLimits': {'memory': '64Mi'},
                  'metadata': {'made': 'at-the-end', 'stage': 'new'}}
        team.making.add('at-the-end')
        for _ in range(MOST):
            # A deleted one counts until its processes are gone.
            until(lambda: team.ask('POST', '/v1/sandboxes', fields).status == 202, 30 * SLOWNESS, 'the quota is back')
        answer = team.ask('POST', '/v1/sandboxes', fields)
        self.assertEqual((answer.status, answer.json().get('used')), (403, str(MOST)), answer.text)
        team.check()

    def audit_is_whole(self, lives, *teams):
        lines = [json.loads(line) for line in self.daemon.cli('audit', 'export', '--format', 'json',
                                                              key=self.auditor).splitlines()]
        told = {line['request']: line for line in lines if 'request' in line}
        for team in teams:
            missing = {name: what for name, what in team.answered.items() if name not in told}
            self.assertEqual(missing, {}, f'lines of {len(team.answered)} changes of {team.name}')
            wrong = [line for name, line in told.items()
                     if name.startswith(f'{team.name}-') and line.get('tenant') not in (team.name, None)]
            self.assertEqual(wrong, [])
            # A line about what the other has tells no more than was asked for.
            of_other = [line for line in lines if line.get('tenant') == team.name
                        and line.get('target', {}).get('id') in team.other.ids
                        and line['target'].keys() & {'name', 'image'}]
            self.assertEqual(of_other, [])
            self.own_lines_only(team)
            print(f'# {team.name}: {len(team.answered)} answered changes, each with its line', flush=True)
        done = subprocess.run([atoll.BUILD / 'atoll', 'audit', 'verify', '--json', '--directory',
                               self.daemon.top / 'audit'], capture_output=True, text=True, timeout=60 * SLOWNESS,
                              check=False)
        report = json.loads(done.stdout)
        self.assertTrue(report['good'], report)
        self.assertEqual(len(report['boots']), lives.daemons)

    def own_lines_only(self, team):
        after, count = 0, 0
        while True:
            response = self.daemon.send('GET', f'/v1/audit?limit=1000&after={after}',
                                        headers={'OPEN-SANDBOX-API-KEY': team.key})
            page = [json.loads(line) for line in response.read().decode().splitlines()]
            self.assertEqual({line.get('tenant') for line in page} - {team.name}, set())
            count += len(page)
            if not page:
                break
            after = int(response.getheader('Atoll-Audit-Next'))
        self.assertGreater(count, 50)


if __name__ == '__main__':
    unittest.main()
