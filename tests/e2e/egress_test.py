"""What a policy allows works, and nothing else does: names, addresses, ports, flows."""
import json
import time
import unittest

from atoll import SLOWNESS, until
from box import shell_image
from egress import FAMILIES, V4, V6, EgressTest, policy, request, rule


class Names(EgressTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.b = cls.box(policy())
        cls.internet.certificate('good.example')

    def found(self, *names):
        """Those of the names that have an answer, in both families the same."""
        found = []
        for name in names:
            answers = [self.b.dig(name, net.kind) for net in FAMILIES]
            self.assertIn({answer.rcode for answer in answers}, ({'NOERROR'}, {'NXDOMAIN'}), name)
            if answers[0].rcode == 'NOERROR':
                found.append(name)
                self.assertTrue(all(answer.addresses() for answer in answers), name)
        return found

    def test_exact(self):
        self.b.policy('PUT', policy('Good.Example'))
        self.assertEqual(self.found('good.example', 'GOOD.example', 'good.example.',
                                    'sub.good.example', 'evil.example', 'example'),
                         ['good.example', 'GOOD.example', 'good.example.'])

    def test_wildcard_without_its_apex(self):
        self.internet.zone('a.b.good.example', A=[V4.at(77)], AAAA=[V6.at(77)])
        self.internet.zone('notgood.example', A=[V4.at(77)], AAAA=[V6.at(77)])
        self.b.policy('PUT', policy('*.good.example'))
        self.assertEqual(self.found('good.example', 'sub.good.example', 'a.b.good.example',
                                    'notgood.example'),
                         ['sub.good.example', 'a.b.good.example'])

    def test_first_rule_decides(self):
        names = ('good.example', 'sub.good.example', 'other.example')
        for rules, wanted in (
                (policy('!sub.good.example', '*.good.example', 'good.example'), names[:1]),
                (policy('*.good.example', '!sub.good.example'), names[1:2]),
                (policy('!good.example', 'good.example'), ()),
                (policy('!*.good.example', default='allow'), (names[0], names[2])),
                (policy('sub.good.example', '!*.good.example', default='allow'), names)):
            with self.subTest(rules):
                self.b.policy('PUT', rules)
                self.assertEqual(self.found(*names), list(wanted))

    def test_learned_address_and_its_services(self):
        self.b.policy('PUT', policy('good.example'))
        for net in FAMILIES:
            with self.subTest(net):
                address = net.at(10)
                self.assert_refused(self.b.udp(address, 9999))
                self.assertEqual(self.b.lookup('good.example', net), [address])
                self.assert_echo(self.b.udp(address, 9999))
                self.assert_echo(self.b.tcp(address, 7777, send=b'hello', want=5))
                self.assert_served(self.b.http(address, 'good.example'), 'good.example', address)
                self.assert_certificate(self.b.tls(address, 'good.example'), 'good.example')
                self.assertIn(address, self.b.learned())
                entry = self.b.learned()[address]
                self.assertEqual(entry['name'], 'good.example')
                self.assertTrue(0 < entry['expiresInSeconds'] <= 420, entry)

    def test_aliases(self):
        self.internet.zone('alias.example', CNAME='cdn.elsewhere.example', ttl=30)
        self.internet.zone('cdn.elsewhere.example', CNAME='good.example', ttl=30)
        self.b.policy('PUT', policy('alias.example'))
        self.assertEqual(self.b.lookup('alias.example'), [V4.at(10)])
        self.assert_echo(self.b.udp(V4.at(10), 9))
        self.assert_served(self.b.http(V4.at(10), 'alias.example'), 'alias.example')
        # The name at its end is not the sandbox's to ask for.
        self.assertEqual(self.found('cdn.elsewhere.example', 'good.example'), [])
        self.b.policy('PUT', policy('alias.example', '!*.elsewhere.example', default='allow'))
        self.assertEqual(self.b.lookup('alias.example'), [])

    def test_ports_of_a_name(self):
        self.b.policy('PUT', policy(rule('good.example', ports=[7000], protocol='tcp')))
        for net in FAMILIES:
            self.b.lookup('good.example', net)
            self.assert_echo(self.b.tcp(net.at(10), 7000, send=b'hello', want=5))
            for port in (7001, 22):
                self.assert_refused(self.b.tcp(net.at(10), port, send=b'x'))
            self.assert_refused(self.b.udp(net.at(10), 7000))
            self.assertIsNone(self.b.http(net.at(10), 'good.example').served)
        self.b.policy('PUT', policy(rule('good.example', ports=[443])))
        self.b.lookup('good.example')
        self.assert_certificate(self.b.tls(V4.at(10), 'good.example'), 'good.example')
        self.assertIsNone(self.b.http(V4.at(10), 'good.example').served)

    def test_web_sockets_and_long_answers(self):
        self.b.policy('PUT', policy('good.example'))
        self.b.lookup('good.example')
        upgrade = request('good.example', more='Connection: Upgrade\r\nUpgrade: echo\r\n')
        outcome = self.b.tcp(V4.at(10), 80, send=upgrade, then=b'after it\0\xff')
        self.assertIn(b' 101 ', outcome.data)
        self.assertTrue(outcome.data.endswith(b'after it\0\xff'), outcome)
        size = 3_000_000
        outcome = self.b.tcp(V4.at(10), 80, length=1, all=1, send=request(
            'good.example', f'/bytes/{size}', more='Connection: close\r\n'))
        self.assertGreater(int(outcome.data), size)
        first = request('good.example', '/1')
        answer = self.b.http(V4.at(10), 'good.example', send=first, then=request(
            'good.example', '/2', more='Connection: close\r\n'))
        self.assertEqual((answer.data.count(b'"path": "/1"'), answer.data.count(b'"path": "/2"')),
                         (1, 1), answer)


class Addresses(EgressTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.b = cls.box(policy())

    def reached(self, *addresses):
        """Those that answer, by both protocols the same."""
        found = []
        for address in addresses:
            outcomes = [self.b.tcp(address, 7777, send=b'hello', want=5),
                        self.b.udp(address, 7777), self.b.tcp(address, 443),
                        self.b.udp(address, 443)]
            if outcomes[0].word == 'ok':
                found.append(address)
                self.assertEqual({outcome.word for outcome in outcomes}, {'ok'}, outcomes)
            else:
                for outcome in outcomes:
                    self.assert_refused(outcome)
        return found

    def test_addresses_and_prefixes(self):
        for net in FAMILIES:
            wide = net.at(0) + ('/24' if net is V4 else '/48')
            narrow = net.at(16) + ('/28' if net is V4 else '/124')
            inside, next_to_it = net.at(17), net.at(33)
            for rules, wanted in (
                    (policy(net.at(17)), [inside]),
                    (policy(net.prefix(net.at(17))), [inside]),
                    (policy(wide), [inside, next_to_it]),
                    (policy(narrow), [inside]),
                    (policy(f'!{narrow}', wide), [next_to_it]),
                    (policy(wide, f'!{narrow}'), [inside, next_to_it]),
                    (policy(f'!{narrow}', net.everything), [next_to_it, net.away(1)]),
                    (policy(f'!{wide}', default='allow'), [net.away(1)]),
                    (policy(net.at(17), f'!{wide}', default='allow'), [inside, net.away(1)])):
                with self.subTest(rules):
                    self.b.policy('PUT', rules)
                    self.assertEqual(self.reached(inside, next_to_it, net.away(1)), wanted)

    def test_ports_and_protocols(self):
        for net in FAMILIES:
            wide = net.at(0) + ('/24' if net is V4 else '/48')
            self.b.policy('PUT', policy(rule(wide, ports=[7000, 443], protocol='tcp'),
                                        rule(net.at(9), ports=[7000], protocol='udp'),
                                        rule(net.at(8), ports=[5000])))
            for address, port, tcp, udp in (
                    (net.at(9), 7000, True, True), (net.at(9), 443, True, False),
                    (net.at(9), 7001, False, False), (net.at(7), 7000, True, False),
                    (net.at(8), 5000, True, True), (net.at(8), 5001, False, False)):
                with self.subTest(net, address=address, port=port):
                    outcomes = (self.b.tcp(address, port), self.b.udp(address, port))
                    for outcome, allowed in zip(outcomes, (tcp, udp)):
                        if allowed:
                            self.assertEqual(outcome.word, 'ok')
                        else:
                            self.assert_refused(outcome)
            # A port that is denied before a prefix that is allowed.
            self.b.policy('PUT', policy(rule(wide, 'deny', ports=[25]), wide))
            self.assert_refused(self.b.tcp(net.at(9), 25, send=b'x'))
            self.assert_echo(self.b.tcp(net.at(9), 26, send=b'hello', want=5))

    def test_guarded_only_when_named(self):
        named = {'169.254.169.254': '169.254.169.254', '10.66.0.7': '10.66.0.0/24',
                 'fd00:ec2::254': 'fd00:ec2::254', 'fd66::7': 'fd66::/64',
                 '100.64.0.9': '100.64.0.9/32', '192.168.77.3': '192.168.77.0/24'}
        for rules in (policy(default='allow'), policy('0.0.0.0/0', '::/0'),
                      policy('0.0.0.0/1', '128.0.0.0/1', '::/1', '8000::/1')):
            self.b.policy('PUT', rules)
            self.assertEqual(self.reached(*named, V4.at(1), V6.at(1)), [V4.at(1), V6.at(1)])
        self.b.policy('PUT', policy(*named.values()))
        self.assertEqual(self.reached(*named), list(named))

    def test_ping_goes_where_everything_goes(self):
        for net in FAMILIES:
            self.b.policy('PUT', policy(net.at(17)))
            self.assertEqual(self.b.ping(net.at(17)).word, 'ok')
            self.assertNotEqual(self.b.ping(net.at(18), wait=500).word, 'ok')

    def test_name_and_address_are_two_questions(self):
        self.b.policy('PUT', policy(V4.at(10), 'other.example'))
        self.assertEqual(self.b.dig('good.example').rcode, 'NXDOMAIN')  # lives at that address
        self.assert_served(self.b.http(V4.at(10), 'evil.example'), 'evil.example', V4.at(10))
        self.b.policy('PUT', policy(f'!{V4.at(10)}', 'good.example'))
        self.b.lookup('good.example')
        self.assert_refused(self.b.tcp(V4.at(10), 7777, send=b'x'))


class Flows(EgressTest):
    """What runs is cut when it is allowed no longer, and goes on while it is."""

    def cut(self, box, name, send=b'after'):
        """What is sent later does not arrive."""
        until(lambda: box.poke(name, send, wait=300 * SLOWNESS).word != 'ok', 30 * SLOWNESS,
              f'{name} is cut')
        self.assertNotEqual(box.poke(name, b'much later', wait=100).word, 'ok')
        for packet in self.internet.packets():
            self.assertFalse(bytes.fromhex(packet['payload']).startswith(b'much later'), packet)

    def test_address(self):
        for net in FAMILIES:
            box = self.box(policy(net.at(1), net.at(2)))
            for udp in (False, True):
                for number in (1, 2):
                    box.flow(f'{number}{udp}', net.at(number), 7777, udp)
                    self.assert_echo(box.poke(f'{number}{udp}'), b'ping')
            box.policy('DELETE', [net.at(1)])
            for udp in (False, True):
                self.assert_echo(box.poke(f'2{udp}', b'still'), b'still')
                self.cut(box, f'1{udp}')
            box.policy('PUT', policy('good.example', rule(net.at(2), ports=[7777])))
            self.assert_echo(box.poke('2False', b'kept'), b'kept')

    def test_learned(self):
        self.internet.zone('two.example', A=[V4.at(40)], AAAA=[V6.at(40)], ttl=300)
        for net in FAMILIES:
            box = self.box(policy('good.example', 'two.example'))
            for name, number in (('good', 10), ('two', 40)):
                box.lookup(f'{name}.example', net)
                for udp in (False, True):
                    box.flow(f'{name}{udp}', net.at(number), 7777, udp)
            box.policy('PATCH', [rule('third.example')])  # nothing changes for them
            for name in ('good', 'two'):
                self.assert_echo(box.poke(f'{name}False', b'same'), b'same')
            box.policy('DELETE', ['good.example'])
            for udp in (False, True):
                self.assert_echo(box.poke(f'two{udp}', b'still'), b'still')
                self.cut(box, f'good{udp}')
            self.assertNotIn(net.at(10), box.learned())
            self.assertIn(net.at(40), box.learned())

    def test_spliced(self):
        for net in FAMILIES:
            box = self.box(policy('good.example', 'other.example'))
            for name, number in (('good', 10), ('other', 11)):
                box.lookup(f'{name}.example', net)
                box.flow(name, net.at(number), 80)
                ask = request(f'{name}.example', '/before', 'HEAD')
                self.assertIn(b' 200 ', box.poke(name, ask, want=30).data)
            # The next request would be judged by itself; what belongs to one that was allowed is not.
            begun = request('good.example', '/', 'POST', 'Content-Length: 100000\r\n')
            self.assertEqual(box.poke('good', begun, wait=300 * SLOWNESS).word, 'timeout')
            box.policy('DELETE', ['good.example'])
            ask = request('other.example', '/after', 'HEAD')
            self.assertIn(b' 200 ', box.poke('other', ask, want=30).data)
            self.cut(box, 'good')

    def test_to_deny_all_and_back(self):
        box = self.box(policy(default='allow'))
        box.flow('one', V4.at(1), 7777)
        box.policy('PUT', '')
        self.cut(box, 'one')
        box.policy('PUT', policy(default='allow'))
        self.assert_echo(box.tcp(V4.at(1), 7777, send=b'hello', want=5))


class Expiry(EgressTest):
    def test_learned_addresses_expire(self):
        """With the answer's own time, and a grace that is bounded."""
        self.internet.zone('short.example', A=[V4.at(50)], AAAA=[V6.at(50)], ttl=1)
        self.internet.zone('long.example', A=[V4.at(51)], AAAA=[V6.at(51)], ttl=86400)
        box = self.box(policy('*.example'))
        for net in FAMILIES:
            box.lookup('short.example', net)
            box.lookup('long.example', net)
        learned = box.learned()
        for net in FAMILIES:
            short = learned[net.at(50)]['expiresInSeconds']
            self.assertTrue(0 < short <= 61, learned)
            self.assertTrue(short < learned[net.at(51)]['expiresInSeconds'] <= 3660, learned)
            self.assert_echo(box.udp(net.at(50), 9))
        deadline = time.monotonic() + 65
        for net in FAMILIES:
            until(lambda net=net: net.at(50) not in box.learned(), deadline - time.monotonic())
            self.assert_refused(box.udp(net.at(50), 10))
            self.assert_echo(box.udp(net.at(51), 9))
        self.assert_nothing_reached(port=10)


class Tls(EgressTest):
    """A real client, whose server wants a key of another group than it offers first."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.image = shell_image(cls.daemon, 'tls:latest', bash=False,
                                programs=['tests/support/net-probe'],
                                host_programs=['/usr/bin/openssl'])
        cls.internet.certificate('good.example')
        cls.b = cls.box(policy('good.example'))

    def test_a_hello_that_is_asked_for_again(self):
        for net in FAMILIES:
            with self.subTest(net):
                command = self.b.background(
                    "printf 'GET / HTTP/1.0\\r\\nHost: good.example\\r\\n\\r\\n' | "
                    'openssl s_client -connect good.example:443 -servername good.example '
                    f'-{4 if net is V4 else 6} -tls1_3 -groups X25519:P-256 -ign_eof -msg')
                logs = until(lambda: self.finished(command), 20 * SLOWNESS, 'openssl to end')
                self.assertEqual(logs.count('], ClientHello'), 2, logs)
                self.assertIn('HTTP/1.1 200', logs)

    def finished(self, command):
        status = json.loads(self.b.call('GET', f'/command/status/{command}').body)
        return not status['running'] and self.b.call('GET', f'/command/{command}/logs').body.decode()


if __name__ == '__main__':
    unittest.main()
