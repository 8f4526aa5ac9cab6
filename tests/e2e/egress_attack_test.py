"""Attacks on what names and addresses lead to, played as root of the sandbox: G1 G2 G3 G6 G9."""
import unittest

import dns_wire
from atoll import SLOWNESS, until
from egress import V4, V6, policy, rule
from egress_attack import AttackTest
from internet import HOST, Internet


class DirectAddresses(AttackTest):
    def test_only_a_name_is_allowed(self):
        """G1: the policy has names only; addresses that no name led to are closed."""
        def attack(box, net):
            for address in (net.at(66), net.away(1), net.at(10)):  # the last not looked up yet
                for port in (22, 53, 7777):
                    if port != 53:
                        self.assert_refused(box.tcp(address, port, send=b'x'))
                        self.assert_refused(box.udp(address, port))
                for port in (80, 443):
                    self.assert_refused(box.udp(address, port))
                # To be judged by a name that they do not say.
                self.assertNotEqual(box.tcp(address, 443, send=b'SSH-2.0-x\r\n',
                                            wait=1000 * SLOWNESS).word, 'ok')
                self.assertIsNone(box.http(address, str(address)).served)
                self.assertNotEqual(box.ping(address, wait=300 * SLOWNESS).word, 'ok')
            self.assert_nothing_reached(destination=net.at(10))
            box.lookup('good.example', net)
            self.assert_only(box, net, net.at(10), net.at(66), net.away(1))

        self.each_cell('G1', policy('good.example'), attack)

    def test_deny_all(self):
        """G1: nothing at all."""
        def attack(box, net):
            for port in (22, 80, 443):
                self.assert_refused(box.tcp(net.at(10), port, send=b'x'))
                self.assert_refused(box.udp(net.at(10), port))
            self.assertEqual(box.lookup('good.example', net), [])
            box.policy('PUT', policy(net.at(1)))
            self.assert_only(box, net, net.at(1), net.at(10))

        self.each_cell('G1', policy(), attack)


class ManyElements(AttackTest):
    """One answer that leads to more than the kernel's answers have room for."""

    def test_what_was_learned_is_forgotten(self):
        """G6: each address at each port is an element; all of them go with the policy."""
        ports = range(7777, 7777 + 32)
        given = policy(*[rule('crowd.example', ports=list(ports)[at:at + 16]) for at in (0, 16)])

        def attack(box, net):
            addresses = [net.at(number) for number in range(10, 20)]
            self.internet.zone('crowd.example', A=[V4.at(number) for number in range(10, 20)],
                               AAAA=[V6.at(number) for number in range(10, 20)], ttl=60)
            self.assertEqual(sorted(box.lookup('crowd.example', net)), sorted(addresses))
            for address in addresses:
                self.assert_echo(box.tcp(address, ports[0], send=b'hello', want=5))
            box.policy('PUT', policy(net.at(1)))
            for address in addresses:
                self.assert_refused(box.tcp(address, ports[0], send=b'hello'))

        self.each_cell('G6', given, attack)


class Tunnels(AttackTest):
    """G2: names as payload."""

    def asked(self, suffix):
        return [item for item in self.internet.questions() if item['name'].endswith(suffix)]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.internet.zone('*.tunnel.example', TXT=['down'], A=[V4.at(99)], AAAA=[V6.at(99)])
        cls.internet.zone('*.wide.example', TXT=['down'], A=[V4.at(98)], AAAA=[V6.at(98)])

    def test_names_outside_of_the_policy(self):
        def attack(box, net):
            server = box.gateway(net)
            for kind in ('A', 'AAAA', 'TXT', 'CNAME', 'MX', 'NULL', 'ANY', 'SRV', 65280):
                answer = box.dig('c2VjcmV0.tunnel.example', kind, server)
                self.assertIn(answer.rcode, ('NXDOMAIN', 'NOTIMP', 'REFUSED'), kind)
                self.assertEqual(answer.answers, [])
            answer = box.dig('c2VjcmV0.tunnel.example', 'A', server, tcp=True)
            self.assertEqual(answer.rcode, 'NXDOMAIN')
            self.assertEqual(box.lookup('good.example', net), [net.at(10)])
            self.assertEqual(self.asked('tunnel.example'), [])

        self.each_cell('G2', policy('good.example'), attack)

    def test_other_resolvers(self):
        """Port 53 of any address is ours; other ways to a resolver are closed."""
        def attack(box, net):
            servers = (('8.8.8.8', Internet.DNS, V4.at(66)) if net is V4 else
                       ('2001:4860:4860::8888', net.at(53), net.at(66)))
            for server in servers:
                for tcp in (False, True):
                    self.assertEqual(box.dig('x.tunnel.example', 'A', server, tcp).rcode,
                                     'NXDOMAIN')
                    self.assertEqual(box.dig('good.example', net.kind, server, tcp).addresses(),
                                     [net.at(10)])
                for port in (853, 5353, 443):
                    self.assert_refused(box.udp(server, port))
                self.assert_refused(box.tcp(server, 853, send=b'x'))
            # DNS over TLS to what is allowed otherwise.
            self.assert_refused(box.tcp(net.at(10), 853, send=b'x'))
            self.assert_refused(box.udp(net.at(10), 853))
            self.assert_only(box, net, net.at(10), *(item for item in servers
                                                     if item != Internet.DNS))
            self.assertEqual({item['server'] for item in self.internet.questions()} -
                             {Internet.DNS}, set())
            self.assertEqual(self.asked('tunnel.example'), [])

        self.each_cell('G2', policy('good.example'), attack)

    def test_known_resolvers_over_https(self):
        """Also where everything is allowed, unless a rule names them."""
        def attack(box, net):
            for name in ('dns.google', 'cloudflare-dns.com', 'dns.quad9.net'):
                self.internet.zone(name, A=[V4.at(97)], AAAA=[V6.at(97)])
                self.assertEqual(box.dig(name, net.kind).rcode, 'NXDOMAIN')
                self.assertIsNone(box.http(net.at(97), name).served)
            self.assert_refused(box.tcp(net.at(66), 853, send=b'x'))
            self.assert_only(box, net, net.at(67), net.at(97), net.at(66))
            box.policy('PATCH', [rule('dns.google')])
            self.assertEqual(box.lookup('dns.google', net), [net.at(97)])

        self.each_cell('G2', policy('!never.example', default='allow'), attack)

    def test_payload_below_an_allowed_name(self):
        """What must be allowed to work is made slow and narrow."""
        def attack(box, net):
            tag = f'{net.number}{len(self.cells)}'
            server = box.gateway(net)
            for name in ('.'.join(['x' * 60] * 3 + ['y' * 10, 'wide.example']),
                         '.'.join(['x'] * 10 + ['wide.example'])):
                self.assertEqual(box.dig(name, net.kind, server).rcode, 'NXDOMAIN', name)
            for kind in ('NULL', 'ANY', 65280):
                self.assertEqual(box.dig(f'kind{tag}.wide.example', kind, server).answers, [])
            answer = box.dig(f'edns{tag}.wide.example', net.kind, server,
                             options={10: b'cookie--', 65001: b'payload'})
            self.assertEqual(answer.rcode, 'NOERROR')
            self.assertEqual([item['edns'] for item in self.asked('wide.example')], [{}])
            queries = [dns_wire.query(f'n{i}-{tag}.wide.example', net.kind) for i in range(600)]
            for part in range(0, 600, 100):
                box.probe(*(box.action('udp', server, 53, send=query, wait=500 * SLOWNESS)
                            for query in queries[part:part + 100]))
            count = len(self.asked(f'-{tag}.wide.example'))
            self.assertTrue(100 < count < 400, count)
            with self.own_box(policy('*.wide.example')) as other:
                self.assertEqual(other.lookup(f'other{tag}.wide.example', net), [net.at(98)])

        self.each_cell('G2', policy('*.wide.example'), attack)


class Rebinding(AttackTest):
    """G3: allowed names that answer with what nobody from outside should name."""
    PRIVATE = {V4: ['127.0.0.1', '10.66.0.7', '10.200.255.254', '172.16.0.1', '192.168.77.1',
                    '169.254.169.254', '100.64.0.1', '0.0.0.0', '224.0.0.1', '255.255.255.255',
                    HOST[0]],
               V6: ['::1', '::', 'fe80::1', 'fd66::7', 'fd00:ec2::254', 'fc00::1', 'ff02::1',
                    '::ffff:10.66.0.7', '::ffff:127.0.0.1', '64:ff9b::a42:7', '2002:a42:7::1',
                    HOST[1]]}

    def test_private_answers(self):
        def attack(box, net):
            for number, address in enumerate([*self.PRIVATE[net], box.own_address(net)]):
                name = f'n{number}.rebind.example'
                self.internet.zone(name, **{net.kind: [address], 'ttl': 0})
                answer = box.dig(name, net.kind)
                self.assertEqual(answer.addresses(), [], address)
                self.internet.zone(name, **{net.kind: [net.at(10), address], 'ttl': 0})
                self.assertNotIn(address, box.lookup(name, net))
                self.internet.zone(name, CNAME=f'end.{name}', ttl=0)
                self.internet.zone(f'end.{name}', **{net.kind: [address], 'ttl': 0})
                self.assertEqual(box.lookup(name, net), [])
                self.assertNotIn(address, box.learned())
            self.assertEqual(box.lookup('good.example', net), [net.at(10)])
            self.assert_only(box, net, net.at(10), *self.PRIVATE[net])

        self.each_cell('G3', policy('*.rebind.example', 'good.example'), attack)

    def test_rebound_between_the_lookup_and_the_connection(self):
        """The proxy asks itself, and refuses what it is told then."""
        def attack(box, net):
            for number, address in enumerate(self.PRIVATE[net]):
                name = f'{net.number}-{number}.later.example'
                self.internet.zone(name, ttl=0, turns={net.kind: [[net.at(30)], [address]]})
                self.assertEqual(box.lookup(name, net), [net.at(30)])
                self.assertIsNone(box.http(net.at(30), name).served, address)
                self.assertEqual(box.tls(net.at(30), name).data[:1] in (b'', b'\x15'), True)
            box.lookup('good.example', net)
            self.assert_served(box.http(net.at(30), 'good.example'), 'good.example', net.at(10))
            self.assert_only(box, net, net.at(10), *self.PRIVATE[net])

        self.each_cell('G3', policy('*.later.example', 'good.example'), attack)

    def test_unless_named(self):
        """A private address that the policy names is an answer like others."""
        def attack(box, net):
            inside = '10.66.0.7' if net is V4 else 'fd66::7'
            self.internet.zone('inside.example', **{net.kind: [inside]})
            self.assertEqual(box.lookup('inside.example', net), [inside])
            self.assert_echo(box.udp(inside, 9))
            box.policy('PUT', policy('inside.example'))
            self.assertEqual(box.lookup('inside.example', net), [])
            self.assert_refused(box.udp(inside, 10))

        self.each_cell('G3', lambda net: policy(
            'inside.example', '10.66.0.0/24' if net is V4 else 'fd66::/64'), attack)


class LearnedSet(AttackTest):
    """G6: what lookups leave behind."""

    def test_pinned_before_the_policy_changed(self):
        def attack(box, net):
            box.lookup('other.example', net)
            box.lookup('good.example', net)
            box.flow('pinned', net.at(11), 7777)
            self.assert_echo(box.poke('pinned'), b'ping')
            box.policy('DELETE', ['other.example'])
            until(lambda: box.poke('pinned', b'later', wait=300 * SLOWNESS).word != 'ok',
                  30 * SLOWNESS, 'the flow is cut')
            self.internet.clear()
            self.assertNotEqual(box.poke('pinned', b'later', wait=100).word, 'ok')
            self.assert_refused(box.udp(net.at(11), 9))
            self.assert_refused(box.tcp(net.at(11), 7777, send=b'x'))
            self.assertIsNone(box.http(net.at(11), 'other.example').served)
            self.assertNotIn(net.at(11), box.learned())
            self.assert_echo(box.udp(net.at(10), 9))
            self.internet.await_packets(destination=net.at(10), port=9)
            self.assertEqual([packet for packet in self.internet.packets(destination=net.at(11))
                              if packet['payload']], [])

        self.each_cell('G6', policy('good.example', 'other.example'), attack)

    def test_records_that_nobody_asked_for(self):
        """Only what the chain from the question leads to is learned, or even passed on."""
        def attack(box, net):
            tag = f'{net.number}{len(self.cells)}'
            more = [('evil.example', net.kind, net.at(66)), (f'p{tag}.good.example', 'NS', 'x.y')]
            self.internet.zone(f'p{tag}.good.example', **{net.kind: [net.at(40)]}, answer_more=more,
                               additional=[('evil.example', net.kind, net.at(67))])
            answer = box.dig(f'p{tag}.good.example', net.kind)
            told = [item[3] for item in answer.answers + answer.authority + answer.additional]
            for address in (net.at(66), net.at(67)):
                self.assertNotIn(address, told)
                self.assertNotIn(address, box.learned())
                self.assert_refused(box.udp(address, 9))
            self.assertEqual(box.dig('evil.example', net.kind).rcode, 'NXDOMAIN')
            box.lookup('good.example', net)
            self.assert_only(box, net, net.at(10), net.at(66), net.at(67))

        self.each_cell('G6', policy('good.example', '*.good.example'), attack)

    def test_learned_by_another_sandbox(self):
        def attack(box, net):
            with self.own_box(policy('other.example')) as other:
                self.assertEqual(other.lookup('other.example', net), [net.at(11)])
                self.assert_echo(other.udp(net.at(11), 8))
                self.assert_refused(box.udp(net.at(11), 9))
                self.assert_refused(box.tcp(net.at(11), 7777, send=b'x'))
                self.assertEqual(box.learned(), {})
                box.lookup('good.example', net)
                self.assert_echo(box.udp(net.at(10), 9))
                self.internet.await_packets(destination=net.at(10), port=9)
                self.assert_nothing_reached(destination=net.at(11), port=9)

        self.each_cell('G6', policy('good.example'), attack)

    def test_name_that_moved(self):
        """Connections by name go where the name is now; what it left is kept for a bounded time."""
        def attack(box, net):
            name = f'm{net.number}{len(self.cells)}.good.example'
            self.internet.zone(name, ttl=0, turns={net.kind: [[net.at(40)], [net.at(41)]]})
            self.assertEqual(box.lookup(name, net), [net.at(40)])
            self.assert_served(box.http(net.at(40), name), name, net.at(41))
            self.assertLessEqual(box.learned()[net.at(40)]['expiresInSeconds'], 61)

        self.each_cell('G6', policy('*.good.example'), attack)


class Metadata(AttackTest):
    """G9: what the provider tells the machine, and its network."""
    ADDRESSES = {V4: ('169.254.169.254', '169.254.170.2', '100.64.0.1'),
                 V6: ('fd00:ec2::254', 'fe80::a9fe:a9fe', '64:ff9b::a9fe:a9fe')}

    def unreached(self, box, net):
        for address in self.ADDRESSES[net]:
            target = address + ('%eth0' if address.startswith('fe80') else '')
            for port in (80, 443, 7777):
                outcome = box.http(target, '169.254.169.254', port, '/latest/meta-data/',
                                   wait=300 * SLOWNESS)
                self.assertIsNone(outcome.served, (address, port))
                self.assertNotEqual(box.udp(target, port, wait=200 * SLOWNESS).word, 'ok')
        if net is V6:
            mapped = box.tcp('::ffff:169.254.169.254', 80, send=b'x', wait=300 * SLOWNESS)
            self.assertNotEqual(mapped.word, 'ok')
        self.assert_only(box, net, net.at(1), *self.ADDRESSES[net], '169.254.169.254')

    def test_everything_is_allowed(self):
        self.each_cell('G9', policy(default='allow'), self.unreached)

    def test_everything_is_allowed_by_prefix(self):
        self.each_cell('G9', policy('0.0.0.0/0', '::/0'), self.unreached)

    def test_everything_and_a_name_is_allowed(self):
        self.each_cell('G9', policy('good.example', default='allow'), self.unreached)

    def test_named(self):
        """The control: it can be reached, by those whom their policy names it to."""
        def attack(box, net):
            address = self.ADDRESSES[net][0]
            self.assert_served(box.http(address, 'metadata'), 'metadata', address)
            self.assert_echo(box.udp(address, 9))
            box.policy('DELETE', [address])
            self.internet.clear()
            self.unreached(box, net)

        self.each_cell('G9', lambda net: policy(self.ADDRESSES[net][0], net.at(1)), attack)


if __name__ == '__main__':
    unittest.main()
