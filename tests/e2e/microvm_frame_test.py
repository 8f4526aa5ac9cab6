"""Frames of a hostile guest: what its tap passes on, written to its link by the host's root."""
import struct
import unittest

from egress import FAMILIES, V4, V6, policy
from egress_attack import ip_packet, packed, udp_segment
from egress_packet_attack_test import PacketTest
from machine import SETTINGS, MachineTest

KINDS = {V4: 0x0800, V6: 0x86dd}
TAGS = {'priority': [(0x8100, 0)], 'VLAN': [(0x8100, 7)], '802.1ad': [(0x88a8, 0)],
        '802.1ad and VLAN': [(0x88a8, 7), (0x8100, 0)]}


class Frames(MachineTest, PacketTest):
    settings = SETTINGS

    def setUp(self):
        self.machine = self.enterContext(self.own_box(policy(V4.at(1), V6.at(1))))
        # None of the machine's programs is a process of the host.
        self.machine.out('echo up')
        self.machine.process = self.part('guard')
        link = self.machine.in_namespace('ip', '-o', 'link', 'show', 'eth0').split()
        self.mac = bytes.fromhex(link[link.index('link/ether') + 1].replace(':', ''))
        near = self.machine.in_namespace('ip', 'neighbour').split()
        self.gateway = bytes.fromhex(near[near.index('lladdr') + 1].replace(':', ''))

    def send(self, packet, kind, tags=(), source=None, destination=None):
        head = b''.join(struct.pack('>HH', *tag) for tag in tags) + struct.pack('>H', kind)
        return self.machine.forge('packet', 'eth0', send=(
            (destination or self.gateway) + (source or self.mac) + head + packet)).word

    def datagram(self, net, destination, source=None, payload=b'evil'):
        source = source or self.machine.own_address(net)
        return ip_packet(source, destination, 17, udp_segment(source, destination, 9, payload))

    def test_nothing_gets_out(self):
        with self.own_box(policy(V4.at(1), V6.at(1)), extensions={'isolation': 'namespace'}) as sibling:
            for net in FAMILIES:
                own, kind = self.machine.own_address(net), KINDS[net]
                near = sibling.own_address(net)
                for source in (near, self.machine.gateway(net), net.host, net.at(1)):
                    for tags in ((), *TAGS.values()):
                        self.send(self.datagram(net, net.at(1), source), kind, tags)
                for destination in (net.at(66), near, net.host, self.machine.gateway(net)):
                    for tags in ((), *TAGS.values()):
                        self.send(self.datagram(net, destination), kind, tags)
                for source in (b'\x02evil!', self.gateway, b'\xff' * 6):
                    self.send(self.datagram(net, net.at(1)), kind, source=source)
                # Tunnels, and frames to everybody on the link.
                for outer, number in ((V4, 4 if net is V4 else 41), (V6, 4 if net is V4 else 41), (V4, 47)):
                    for target in (outer.at(1), self.machine.gateway(outer)):
                        self.send(ip_packet(self.machine.own_address(outer), target, number,
                                            self.datagram(net, net.at(66))), KINDS[outer])
                self.send(self.datagram(net, net.at(66)), kind, destination=b'\xff' * 6)
                self.assertEqual(self.send(self.datagram(net, net.at(1), payload=b'well'), kind), 'ok')
                self.internet.await_packets(destination=net.at(1), payload=b'well'.hex())
            asks = ip_packet('0.0.0.0', '255.255.255.255', 17, struct.pack(
                '>4H', 68, 67, 8 + 240, 0) + b'\1\1\6\0evil' + bytes(232))
            self.send(asks, KINDS[V4], destination=b'\xff' * 6)
            # More than the link carries, and more than its header says.
            for size in (1600, 9000):
                self.send(self.datagram(V4, V4.at(66), payload=b'evil' * (size // 4)), KINDS[V4])
            for victim in (sibling.own_address(V4), self.machine.gateway()):
                self.send(b'\0\1\x08\0\6\4\0\2' + self.mac + packed(victim) + self.mac + packed(victim), 0x0806,
                          destination=b'\xff' * 6)
            self.assertEqual(sibling.network()['counters']['packetsOut'], 0)
            for net in FAMILIES:
                self.assert_nothing_reached(destination=net.at(66))
                self.assert_only_marked(sibling, net, net.at(1))
                self.assert_only_marked(self.machine, net, net.at(1))


if __name__ == '__main__':
    unittest.main()
