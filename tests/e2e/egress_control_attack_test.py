"""Attacks on the rules themselves and on when they hold, played as root of the sandbox: G12 G13
G14."""
import unittest

from atoll import SLOWNESS, until
from egress import FAMILIES, TOKEN, V4, V6, policy, request, rule
from egress_attack import AttackTest


class Windows(AttackTest):
    """G12: before the rules stand, while they change, when changing them fails."""

    def race(self, net, count, allowed=False):
        return (f"/bin/net-probe 'race {net.at(1 if allowed else 66)} 7777 count={count} "
                f"wait={100 * SLOWNESS}'")

    def test_first_instructions(self):
        """The entrypoint tries from its first instruction on."""
        for net in FAMILIES:
            script = (f'{self.race(net, 20)} >/tmp/denied; {self.race(net, 1, True)} >/tmp/allowed; '
                      'exec sleep 100000')
            with self.cell('G12', net, 'create'):
                for number in range(10):
                    self.internet.clear()
                    with self.own_box(policy(net.at(1)),
                                      entrypoint=['/bin/sh', '-c', script]) as box:
                        done = until(lambda box=box: box.out('cat /tmp/allowed 2>/dev/null; true'),
                                     20 * SLOWNESS, f'entrypoint {number}')
                        self.assertEqual(done.split()[:2], ['ok', '1'])
                        self.assertEqual(box.out('cat /tmp/denied'), 'ok 0 refused')
                    self.assert_nothing_reached(destination=net.at(66))

    def hammer(self, box, net, allowed=False):
        """Attempts until /tmp/stop is there, in the background."""
        name = 'allowed' if allowed else 'denied'
        box.out(f'rm -f /tmp/stop /tmp/{name}')
        box.background(f'until [ -e /tmp/stop ]; do {self.race(net, 50, allowed)} '
                       f'>>/tmp/{name}; done; echo end >>/tmp/{name}')
        until(lambda: box.out(f'cat /tmp/{name} 2>/dev/null; true'), 30 * SLOWNESS)

    def harvest(self, box, name):
        """What the hammer counted: lines "ok N refused"."""
        box.out('touch /tmp/stop')
        lines = until(lambda: (lambda text: text.endswith('end') and text)(
            box.out(f'cat /tmp/{name}')), 30 * SLOWNESS).splitlines()[:-1]
        self.assertTrue(lines)
        return [int(line.split()[1]) for line in lines]

    def test_while_it_changes(self):
        """Denied before and after is denied in between; allowed before and after, allowed."""
        def attack(box, net):
            self.hammer(box, net)
            self.hammer(box, net, allowed=True)
            many = [f'n{i}.example' for i in range(300)]
            for _ in range(6):
                box.policy('PUT', policy(net.at(1), *many))
                box.policy('PATCH', [rule(net.at(2), 'deny')])
                box.policy('PUT', policy(net.prefix(net.at(1)), rule(net.at(66), ports=[1])))
                box.policy('PUT', policy(f'!{net.at(66)}', net.at(1), default='allow'))
                box.policy('DELETE', [net.at(5)])
            self.assertEqual(sum(self.harvest(box, 'denied')), 0)
            reached = self.harvest(box, 'allowed')
            self.assertEqual(set(reached), {50})
            self.assert_only(box, net, net.at(1), net.at(66))

        self.each_cell('G12', lambda net: policy(net.at(1)), attack)

    def test_changes_that_fail(self):
        def attack(box, net):
            self.hammer(box, net)
            bad = ['{', '{"egress": [{"action": "allow", "target": "::/0"}, {"target": 1}]}',
                   '{"defaultAction": "allow", "egress": "all"}', '{"defaultAction": "allow", "x": 1}',
                   '{"defaultAction": "allow", "egress": [' + ','.join(
                       '{"action":"allow","target":"n%d.example"}' % i for i in range(4097)) + ']}']
            for body in bad:
                self.assertIn(box.egress_call('PUT', '/policy', body).status, (400, 413))
            for body in ('[{"action":"allow","target":"0.0.0.0/0"},{}]', '[7]'):
                self.assertEqual(box.egress_call('PATCH', '/policy', body).status, 400)
            self.assertEqual(sum(self.harvest(box, 'denied')), 0)
            self.assertEqual(box.policy()['policy'], policy(net.at(1)))
            self.assert_only(box, net, net.at(1), net.at(66))

        self.each_cell('G12', lambda net: policy(net.at(1)), attack)

    def test_while_the_daemon_dies_and_starts(self):
        def attack(box, net):
            self.hammer(box, net)
            for end in (self.daemon.kill, self.daemon.stop):
                end()
                self.daemon.start()
            box.headers, box.endpoint = self.daemon.execd_headers(box.id), None
            self.assertEqual(sum(self.harvest(box, 'denied')), 0)
            self.assert_only(box, net, net.at(1), net.at(66))

        self.each_cell('G12', lambda net: policy(net.at(1)), attack)


class Tampering(AttackTest):
    """G13: the rules, their keeper and their API, from inside."""
    # Everywhere, so that nothing but the rules keeps sandboxes from it.
    settings = {'server_host': '::'}

    def assert_enforced(self, box, net):
        self.assertEqual(box.policy()['policy'], policy(net.at(1), 'good.example'))
        self.assertEqual(box.lookup('good.example', net), [net.at(10)])
        self.assert_refused(box.tcp(net.at(66), 7777, send=b'x'))
        self.assertIsNone(box.http(net.at(10), 'evil.example').served)
        self.assert_only(box, net, net.at(1), net.at(66))

    def test_as_root_inside(self):
        def attack(box, net):
            names = ('netfilter', 'xfrm', 'packet', 'raw', 'raw6', 'unshare-net', 'clone-net',
                     'clone3-user-net', 'setns', 'bpf', 'ptrace-1')
            results = dict(line.split(': ') for line in
                           box.out('/bin/attack ' + ' '.join(names)).splitlines())
            self.assertEqual(set(results), set(names))
            for name, result in results.items():
                self.assertRegex(result, '^E[A-Z]+$', name)
            own, family = box.own_address(net), '-6' if net is V6 else '-4'
            commands = (f'ip {family} address add {net.at(99)} dev eth0',
                        f'ip {family} route add {net.at(66)} dev eth0',
                        f'ip {family} rule add from all table 7',
                        f'ip {family} route del default', f'ip {family} address del {own} dev eth0',
                        'ip link set eth0 address 02:00:00:00:00:09', 'ip link set eth0 down',
                        'ip link add name x type veth',
                        'echo 1 >/proc/sys/net/ipv4/ip_forward',
                        'echo 1 >/proc/sys/net/ipv4/conf/all/accept_source_route')
            for command in commands:
                self.assertNotEqual(box.out(f'({command}) >/dev/null 2>&1; echo $?'), '0', command)
            box.out('kill -9 1; kill -STOP 1; true')  # execd
            self.assertEqual(box.own_address(net), own)
            self.assert_enforced(box, net)
            # They fail for want of rights, not of sense.
            for command in commands:
                box.in_namespace('sh', '-c', command.replace('ip ', 'busybox ip ', 1))

        self.each_cell('G13', lambda net: policy(net.at(1), 'good.example'), attack)

    def test_its_own_resolver_configuration(self):
        def attack(box, net):
            box.out('echo nameserver 8.8.8.8 >/etc/resolv.conf; '
                    f'echo {net.at(66)} good.example >>/etc/hosts; true')
            self.assertEqual(box.dig('evil.example', net.kind, '8.8.8.8').rcode, 'NXDOMAIN')
            self.assert_refused(box.tcp(net.at(66), 7777, send=b'x'))
            self.assert_served(box.http(net.at(66), 'good.example'), 'good.example', net.at(10))
            box.gateway = lambda family=V4: '8.8.8.8'
            self.assert_enforced(box, net)

        self.each_cell('G13', lambda net: policy(net.at(1), 'good.example'), attack)

    def test_no_part_of_the_keeper_is_inside(self):
        def attack(box, net):
            self.assertEqual([name for name in box.processes() if 'atoll' in name], [])
            words = box.out('cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr "\\0" "\\n"; '
                            'env; find / -xdev -name "*egress*" 2>/dev/null; true')
            token = box.find_endpoint()['headers'][TOKEN]
            for word in (token, 'EGRESS', self.daemon.key):
                self.assertNotIn(word, words)
            listening = 'netstat -ltn | grep LISTEN || true'
            self.assertEqual(box.out(listening), '')
            box.background('nc -ll -p 6001 -e cat')
            self.assertIn(':6001 ', until(lambda: box.out(listening), 30 * SLOWNESS))
            self.assert_enforced(box, net)

        self.each_cell('G13', lambda net: policy(net.at(1), 'good.example'), attack)

    def test_the_api_from_inside(self):
        """Not even with the right token: there is no way to it."""
        def attack(box, net):
            port = int(self.daemon.url.rpartition(':')[2])
            token = box.find_endpoint()['headers'][TOKEN]
            change = request('x', f'/sandboxes/{box.id}/proxy/18080/policy', 'PUT',
                             f'{TOKEN}: {token}\r\nConnection: close\r\n', '{"defaultAction":"allow"}')
            lo = '127.0.0.1' if net is V4 else '::1'
            for address in (lo, box.gateway(net), net.host, box.own_address(net)):
                for number in (port, 18080, 80):
                    answer = box.http(address, 'x', number, send=change, wait=500 * SLOWNESS)
                    self.assertIn(answer.status, (None, 403), (address, number))
            # The proxy of its execd, as a client of the sandbox has it.
            answer = box.call('PUT', '/proxy/18080/policy', '{"defaultAction":"allow"}',
                              {TOKEN: token})
            self.assertGreaterEqual(answer.status, 400)
            self.assert_enforced(box, net)

        self.each_cell('G13', lambda net: policy(net.at(1), 'good.example'), attack)


class Hooks(AttackTest):
    """G14: what belongs to the operator, set from a create request."""
    ENVIRONMENT = {
        'OPENSANDBOX_EGRESS_DENY_WEBHOOK': 'http://203.0.113.1/hook',
        'OPENSANDBOX_EGRESS_POLICY_FILE': '/tmp/policy.json',
        'OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT': 'true',
        'ATOLL_NETWORK_DENIAL_WEBHOOK': 'http://203.0.113.1/hook',
        'ATOLL_NETWORK_DENY_UNLESS_ASKED': 'false', 'HTTP_PROXY': 'http://203.0.113.66',
        'http_proxy': 'http://203.0.113.66', 'LD_PRELOAD': '/tmp/x.so'}
    # Those that no request may name.
    OPERATORS = {
        'OPENSANDBOX_EGRESS_RULES': '{"defaultAction":"allow"}', 'OPENSANDBOX_EGRESS_MODE': 'dns',
        'OPENSANDBOX_EGRESS_TOKEN': 'mine', 'OPENSANDBOX_EGRESS_HTTP_ADDR': ':19000',
        'OPENSANDBOX_EGRESS_MAX_RULES': '0', 'OPENSANDBOX_EGRESS_DNS_UPSTREAM': '203.0.113.66',
        'OPENSANDBOX_EGRESS_NAMESERVER_EXEMPT': '203.0.113.66',
        'OPENSANDBOX_EGRESS_MITMPROXY_SCRIPT': '/tmp/script.py', 'OPENSANDBOX_EGRESS_SANDBOX_ID': 'x'}
    EXTENSIONS = {'network.denial_webhook': 'http://203.0.113.1/hook', 'network.policy': 'none',
                  'egress.mode': 'dns', 'opensandbox.io/egress': 'off',
                  'network.dns': '203.0.113.66', 'network.allow_always': '0.0.0.0/0'}

    def test_environment_and_extensions(self):
        for net in FAMILIES:
            for moment, fields in (('create', {'env': self.ENVIRONMENT}),
                                   ('create', {'extensions': self.EXTENSIONS}),
                                   ('create', {'metadata': {'egress': 'off', 'network': 'host'}}),
                                   ('runtime', {'env': self.ENVIRONMENT})):
                with self.cell('G14', net, moment):
                    self.play_hooks(net, moment, fields)
            for name, value in self.OPERATORS.items():
                with self.cell('G14', net, 'create'):
                    self.play_hooks(net, 'create', {'env': {name: value}})

    def play_hooks(self, net, moment, fields):
        given = policy('good.example', net.at(2))
        try:
            box = self.box(given if moment == 'create' else policy(), **fields)
        except Exception as error:  # pylint: disable=broad-except
            # Refused whole is as good, where there is no meaning.
            self.assertEqual(getattr(error, 'status', None), 400, error)
            self.assertTrue('extensions' in fields or fields['env'].keys() <= self.OPERATORS.keys(), fields)
            return
        self.assertFalse(fields.get('env', {}).keys() & self.OPERATORS.keys())
        try:
            self.internet.clear()
            if moment == 'runtime':
                box.policy('PUT', given)
            box.out('echo \'{"defaultAction":"allow"}\' >/tmp/policy.json')
            self.assertEqual(box.policy()['enforcementMode'], 'dns+nft')
            self.assertEqual(box.policy()['policy'], given)
            self.assertEqual(box.egress_call('GET', '/policy', headers={TOKEN: 'mine'}).status, 401)
            self.assertEqual(box.dig('evil.example', net.kind).rcode, 'NXDOMAIN')
            self.assert_refused(box.udp(net.at(66), 9))
            self.assertIsNone(box.http(net.at(10), 'evil.example').served)
            self.assertEqual(box.lookup('good.example', net), [net.at(10)])
            self.assert_only(box, net, net.at(2), net.at(66), net.at(1))
            self.assertEqual(self.internet.requests(path='/hook'), [])
        finally:
            self.daemon.delete(box.id)


if __name__ == '__main__':
    unittest.main()
