"""A sandbox without a policy, in front of the fake internet: everything but what is guarded."""
import unittest

from atoll import until
from egress import FAMILIES, V4, V6, EgressTest
from internet import GATEWAY, HOST


class Open(EgressTest):
    """One sandbox for all cases: they change nothing."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.b = cls.box()

    def test_names_and_services(self):
        self.internet.certificate('good.example')
        for net in FAMILIES:
            with self.subTest(net):
                self.assertEqual(self.b.lookup('good.example', net), [net.at(10)])
                self.assert_echo(self.b.tcp(net.at(10), 7777, send=b'hello', want=5))
                self.assert_echo(self.b.udp(net.at(10), 443))
                answer = self.b.http(net.at(10), 'good.example', path='/a?b')
                self.assert_served(answer, 'good.example', net.at(10))
                self.assertEqual(answer.served['path'], '/a?b')
                self.assert_certificate(self.b.tls(net.at(10), 'good.example'), 'good.example')
                self.assertEqual(self.b.ping(net.at(10)).word, 'ok')
                self.assertEqual({entry['source'] for entry in
                                  self.internet.packets(destination=net.at(10))}, {net.host})

    def test_name_server(self):
        self.internet.zone('alias.example', CNAME='chain.example')
        self.internet.zone('chain.example', CNAME='good.example')
        self.internet.zone('big.example', TXT=['x' * 250] * 40)
        for server in (self.b.gateway(), self.b.gateway(V6)):
            for tcp in (False, True):
                with self.subTest(server=server, tcp=tcp):
                    self.assertEqual(self.b.dig('alias.example', 'A', server, tcp).addresses(),
                                     [V4.at(10)])
                    self.assertEqual(self.b.dig('nothing.example', 'A', server, tcp).rcode,
                                     'NXDOMAIN')
            self.assertTrue(self.b.dig('big.example', 'TXT', server).truncated)
            self.assertEqual(len(self.b.dig('big.example', 'TXT', server, True).answers), 40)

    def test_what_is_guarded(self):
        sibling = self.box()
        others = [sibling.own_address(net) for net in FAMILIES]
        sibling.background('nc -ll -p 8000 -e cat')
        until(lambda: sibling.tcp('127.0.0.1', 8000, send=b'x').word == 'ok')
        guarded = ['169.254.169.254', 'fd00:ec2::254', '10.66.0.1', '192.168.77.1', '100.64.0.1',
                   'fd66::1', '64:ff9b::a42:1', HOST[0], HOST[1], *others]
        for address in guarded:
            with self.subTest(address):
                self.assert_refused(self.b.tcp(address, 8000, send=b'x'))
                self.assert_refused(self.b.udp(address, 8000))
        for net in FAMILIES:
            self.assert_echo(self.b.udp(net.at(10), 9))
            self.internet.await_packets(destination=net.at(10), port=9)
        for address in guarded:
            self.assert_nothing_reached(destination=address)
        # Next to what is guarded.
        self.assertEqual(self.b.tcp(GATEWAY[0], 7000).word, 'ok')
        self.daemon.delete(sibling.id)


if __name__ == '__main__':
    unittest.main()
