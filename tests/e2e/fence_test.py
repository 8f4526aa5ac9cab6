"""The operator, or a firewall's reload, takes the network rules away under live sandboxes."""
import json
import re
import shlex
import subprocess
import unittest

from atoll import SLOWNESS, settled, until
from egress import FAMILIES, V4, EgressTest, policy

ROUNDS = 100
# Rules write into these themselves.
OWN = ('log_rate', 'flow_rate', 'gateway_flow_rate', 'connections')


def nft(*command):
    return subprocess.run(['nft', *command], check=True, stdout=subprocess.PIPE, text=True).stdout


def table_names():
    """Of the rules, without barriers'."""
    return re.findall(r'^table inet (atoll\d+)$', nft('list', 'tables'), re.M)


def table_name():
    return table_names()[0]


def table():
    """Rules and elements, without counts, and without what is left of time-outs."""
    def steady(value):
        if isinstance(value, dict):
            return {key: steady(one) for key, one in value.items()
                    if key not in ('handle', 'counter', 'expires', 'timeout')}
        if isinstance(value, list):
            return sorted(map(steady, value), key=json.dumps)
        return value

    entries = json.loads(nft('-j', 'list', 'table', 'inet', table_name()))['nftables']
    return sorted(json.dumps(steady(entry), sort_keys=True) for entry in entries
                  if 'metainfo' not in entry and entry.get('set', {}).get('name') not in OWN)


class Fence(EgressTest):
    def health(self):
        return self.daemon.request('GET', '/health')

    def repairs(self):
        return self.daemon.metric('network_repairs_total')

    def test_flushes_open_nothing(self):
        """A sandbox that may reach nothing sends all the time; the others have what they had."""
        denied = self.box(policy())
        allowed = self.box(policy('good.example', V4.at(1)))
        others = [self.box(policy(V4.at(20 + i))) for i in range(50)]
        for net in FAMILIES:
            allowed.lookup('good.example', net)
        before = settled(table)
        actions = [denied.action(protocol, net.at(2), port, wait=1, send=b'out')
                   for net in FAMILIES for protocol, port in (('udp', 9), ('tcp', 7777))]
        attack = denied.background('while :; do /bin/net-probe ' +
                                   ' '.join(map(shlex.quote, actions)) + ' >/dev/null; done')
        name = table_name()
        for i in range(ROUNDS):
            seen = self.repairs()
            nft(*(('flush', 'ruleset') if i % 2 else ('delete', 'table', 'inet', name)))
            # Counted may be one that the last round's notices have led to, too.
            until(lambda seen=seen: self.repairs() > seen and name in table_names(), 30 * SLOWNESS,
                  'the rules are back')
            if i == 0:
                self.assertIn('network', self.health()['troubles'])
        self.assertEqual(settled(table), before)
        for net in FAMILIES:
            self.assert_echo(allowed.udp(net.at(10), 9))
            self.assert_nothing_reached(destination=net.at(2))
        self.assert_echo(others[49].udp(V4.at(69), 9))
        denied.call('DELETE', f'/command?id={attack}')
        for box in (*others, denied, allowed):
            self.daemon.delete(box.id)
        until(lambda: self.health()['status'] == 'healthy', 30 * SLOWNESS, 'well again')

    def test_without_a_daemon_it_stays_shut(self):
        """However the daemon ended, and the daemons after it."""
        denied = self.box(policy())
        allowed = self.box(policy(V4.at(20)))
        actions = [denied.action(protocol, net.at(2), port, wait=1, send=b'out')
                   for net in FAMILIES for protocol, port in (('udp', 9), ('tcp', 7777))]
        # It tells of each round.
        attack = denied.background('while :; do /bin/net-probe ' +
                                   ' '.join(map(shlex.quote, actions)) +
                                   ' >/dev/null; echo >>/rounds; done')
        rounds = lambda: sum(path.stat().st_size for path in (
            self.daemon.data_dir / 'store/fs/uppers').glob('s*/upper/rounds'))
        for end in (self.daemon.stop, self.daemon.kill, self.daemon.stop):
            self.assert_echo(allowed.udp(V4.at(20), 9))
            end()
            nft('flush', 'ruleset')
            seen = rounds()
            until(lambda seen=seen: rounds() > seen + 2, 30 * SLOWNESS, 'it goes on trying')
            self.assertEqual(table_names(), [])
            self.daemon.start()
        self.assert_echo(allowed.udp(V4.at(20), 9))
        for net in FAMILIES:
            self.assert_nothing_reached(destination=net.at(2))
        nft('flush', 'ruleset')
        until(lambda: self.health()['troubles'].get('network'), 30 * SLOWNESS, 'put back')
        denied.call('DELETE', f'/command?id={attack}')
        for box in (denied, allowed):
            self.daemon.delete(box.id)
        until(lambda: self.health()['status'] == 'healthy', 30 * SLOWNESS, 'well again')


if __name__ == '__main__':
    unittest.main()
