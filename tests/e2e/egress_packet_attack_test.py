"""Attacks with packets, played as root of the sandbox and, where that is not allowed to make them,
with all capabilities in its network namespace: G7 G8 G16."""
import contextlib
import pathlib
import subprocess
import unittest

import atoll
from atoll import SLOWNESS, until
from egress import V4, V6, policy, rule
from egress_attack import (AttackTest, icmp_message, ip_packet, packed, sctp_init, tcp_segment,
                           udp_segment)

TCP, UDP, SCTP, UDP_LITE = 6, 17, 132, 136
# Nothing of them is offered: IP in IP, IPv6 in IPv4, GRE, ESP, AH, OSPF, SCTP, UDP-Lite, DCCP, the
# last and the experimental ones.
PROTOCOLS = (4, 33, 41, 47, 50, 51, 89, 132, 136, 253, 255)


class PacketTest(AttackTest):
    def send_packet(self, box, net, destination, protocol, payload, source=None, **header):
        """One IP packet as it is, by what no sandbox can do."""
        packet = ip_packet(source or box.own_address(net), destination, protocol, payload, **header)
        return box.forge('raw', destination, 255, header=1, send=packet)

    def assert_only_marked(self, box, net, allowed):
        """`allowed` works, and no packet that holds "evil" has arrived."""
        self.assert_only(box, net, allowed)
        for packet in self.internet.packets():
            self.assertNotIn(b'evil', bytes.fromhex(packet['payload']), packet)


class Protocols(PacketTest):
    """G7: what is neither TCP nor UDP, or not as it should be."""
    GIVEN = policy('good.example', V4.at(1), V6.at(1))

    def test_inside(self):
        """What a program inside can try at all."""
        def attack(box, net):
            box.lookup('good.example', net)
            for address in (net.at(10), net.at(66), net.at(1)):
                for protocol in (1, *PROTOCOLS):
                    outcome = box.play('raw', address, protocol, send=b'evil')
                    self.assertNotEqual(outcome.word, 'ok', (address, protocol))
                outcome = box.play('raw', address, 255, header=1, send=ip_packet(
                    box.own_address(net), address, UDP, b'evil'))
                self.assertNotEqual(outcome.word, 'ok')
                self.assertNotEqual(box.play('sctp', address, 7777, wait=200).word, 'ok')
            self.assertNotEqual(box.play('packet', 'eth0', send=b'evil' * 20).word, 'ok')
            self.assertNotEqual(box.ping(net.at(66), wait=300 * SLOWNESS).word, 'ok')
            self.assert_only(box, net, net.at(1), net.at(66))
            self.assertEqual([packet for packet in self.internet.packets(destination=net.at(10))],
                             [])

        self.each_cell('G7', self.GIVEN, attack)

    def test_quic(self):
        """A name opens no UDP to 443 or 80, on its address or elsewhere."""
        def attack(box, net):
            box.lookup('good.example', net)
            for address in (net.at(10), net.at(66)):
                for port in (443, 80):
                    self.assert_refused(box.udp(address, port, b'evil'))
            self.assert_only_marked(box, net, net.at(10))
            box.policy('PUT', policy(rule(net.at(10), ports=[443], protocol='udp')))
            self.assert_echo(box.udp(net.at(10), 443))  # by its address: the operator's client asked

        self.each_cell('G7', self.GIVEN, attack)

    def test_other_protocols(self):
        def attack(box, net):
            own, icmp = box.own_address(net), 1 if net is V4 else 58
            box.lookup('good.example', net)
            for address in (net.at(10), net.at(66), net.at(1)):
                for protocol in PROTOCOLS:
                    self.send_packet(box, net, address, protocol, b'\x61\x6c\x1e\x61evil' * 4)
                # Connection tracking knows SCTP and UDP-Lite, and calls invalid what is not whole;
                # Linux reads the checksum of UDP-Lite as if it were UDP's.
                self.send_packet(box, net, address, SCTP, sctp_init(7777, b'evil'))
                for claimed in (UDP, UDP_LITE):
                    self.send_packet(box, net, address, UDP_LITE, udp_segment(
                        own, address, 7777, b'evil', protocol=claimed))
                for kind in (5, 13, 17, 10, 9) if net is V4 else (133, 134, 136, 137, 139, 140, 200):
                    self.send_packet(box, net, address, icmp,
                                     icmp_message(own, address, kind, b'evil' * 5))
            # An echo goes where everything goes, and nowhere else.
            echo = 8 if net is V4 else 128
            self.send_packet(box, net, net.at(66), icmp, icmp_message(own, net.at(66), echo,
                                                                      b'\0\1\0\1evil'))
            self.send_packet(box, net, net.at(1), icmp, icmp_message(own, net.at(1), echo,
                                                                     b'\0\1\0\1fine'))
            # By hand, and well: else silence means nothing.
            for address, mark in ((net.at(1), b'well'), (net.at(10), b'learned')):
                segment = udp_segment(own, address, 9, mark)
                self.assertEqual(self.send_packet(box, net, address, UDP, segment).word, 'ok')
                self.internet.await_packets(destination=address, payload=mark.hex())
            self.assertEqual({(packet['protocol'], packet['payload'][:2]) for packet in
                              self.internet.packets() if packet['protocol'] not in (TCP, UDP)},
                             {(icmp, f'{echo:02x}')})
            self.assert_only_marked(box, net, net.at(1))

        self.each_cell('G7', self.GIVEN, attack)

    def test_other_kinds_of_segments(self):
        """TCP without a handshake, to what is denied and past the proxy."""
        def attack(box, net):
            own = box.own_address(net)
            box.lookup('good.example', net)
            for address, port in ((net.at(66), 7777), (net.at(66), 80), (net.at(66), 443),
                                  (net.at(10), 80), (net.at(10), 443)):
                for flags in (0x18, 0x10, 0x11, 0x12, 0x04, 0x00, 0x29, 0xff, 0x03, 0x02):
                    segment = tcp_segment(own, address, port, b'evil' if flags != 2 else b'',
                                          flags, 41000 + flags)
                    self.send_packet(box, net, address, TCP, segment)
            self.assert_only_marked(box, net, net.at(1))
            self.assert_nothing_reached(destination=net.at(66))
            self.assert_nothing_reached(destination=net.at(10), protocol=TCP)

        self.each_cell('G7', self.GIVEN, attack)

    def test_fragments(self):
        def attack(box, net):
            own, offset = box.own_address(net), 1200
            address, denied = net.at(17), net.at(66)
            filler = b'x' * (offset - 8)
            for target, port in ((denied, 7000), (address, 7001)):
                whole = udp_segment(own, target, port, filler + b'evil')
                self.send_packet(box, net, target, UDP, whole[:offset], more=True)
                self.send_packet(box, net, target, UDP, whole[offset:], offset=offset)
                self.send_packet(box, net, target, UDP, whole[offset:], offset=offset, identity=2)
                # The port is in the second one; and one that writes over it.
                self.send_packet(box, net, target, UDP, whole[:8], more=True, identity=3)
                self.send_packet(box, net, target, UDP, whole[8:], offset=8, identity=3)
            fine = udp_segment(own, address, 7000, b'f' * len(filler) + b'ffff')
            evil = udp_segment(own, address, 7001, filler + b'evil')
            self.send_packet(box, net, address, UDP, fine[:offset], more=True, identity=4)
            self.send_packet(box, net, address, UDP, evil[:offset], more=True, identity=4)
            self.send_packet(box, net, address, UDP, fine[offset:], offset=offset, identity=4)
            self.send_packet(box, net, address, UDP, evil[offset:], offset=offset, identity=4)
            # A datagram in fragments to where it may go.
            outcome = box.udp(address, 7000, b'y' * 4000, want=4000)
            self.assertEqual((outcome.word, len(outcome.data)), ('ok', 4000))
            # Later fragments have no port; none has come without the first, or over it.
            arrived = self.internet.packets(destination=address)
            for packet in arrived:
                payload = bytes.fromhex(packet['payload'])
                self.assertEqual(payload.strip(b'y' if b'y' in payload else b'f'), b'', packet)
            self.assertEqual({packet['port'] for packet in arrived} - {0}, {7000})
            self.assert_nothing_reached(destination=denied)

        self.each_cell('G7', lambda net: policy(rule(net.at(17), ports=[7000], protocol='udp')),
                       attack)

    def test_source_routes(self):
        """IPv4 options that name another way, through the gateway or through what is allowed; on a
        host that follows them."""
        def attack(box, net):
            switches = list(pathlib.Path('/proc/sys/net/ipv4/conf').glob('*/accept_source_route'))
            self.assertGreater(len(switches), 3)
            for switch in switches:
                with contextlib.suppress(FileNotFoundError):  # the link of what has ended just now
                    switch.write_text('1', encoding='ascii')
            for hop in (box.gateway(), V4.host, V4.at(1)):
                for kind in (0x83, 0x89):  # loose, strict
                    options = bytes([kind, 11, 4]) + packed(hop) + packed(V4.at(66)) + b'\0'
                    for send in (box.play, box.forge):
                        outcome = send('udp', V4.at(66), 9, send=b'evil', options=options,
                                       wait=200 * SLOWNESS)
                        self.assertNotEqual(outcome.word, 'ok')
            # Sent on as it was, to one who may follow it; so it is no packet that cannot pass.
            self.internet.await_packets(destination=V4.at(1), payload=b'evil'.hex())
            self.assert_only(box, net, V4.at(1), V4.at(66))

        self.each_cell('G7', policy('!' + V4.at(66), default='allow'), attack, families=(V4,))

    def test_simultaneous_open(self):
        """Somebody outside opens a connection at the same moment, straight to the sandbox."""
        def attack(box, net):
            own, struck = box.own_address(net), net.at(66)
            self.internet.call('route', net.prefix(own), net.host)
            command = box.background(f"/bin/net-probe 'race {struck} 6000 port=6001 count=400 "
                                     f"wait={5 * SLOWNESS}' >/tmp/race")
            reached = self.internet.call('strike', own, 6001, struck, 6000, 20)
            until(lambda: not box.status(command)['running'], 20 * SLOWNESS)
            self.assertEqual(reached, 0)
            self.assertEqual(box.out('cat /tmp/race').split()[:2], ['ok', '0'])
            # Nobody knocks either where the sandbox listens.
            box.background('nc -ll -p 6002 -e cat')
            until(lambda: box.tcp('127.0.0.1', 6002, send=b'x').word == 'ok', 30 * SLOWNESS)
            self.assertEqual(self.internet.call('strike', own, 6002, net.at(1), 6000, 3), 0)
            self.assert_only(box, net, net.at(1), struck)

        self.each_cell('G7', self.GIVEN, attack)


class Spoofing(PacketTest):
    """G8: other sources, other sandboxes, the host."""

    def test_sources(self):
        def attack(box, net):
            with self.own_box(policy(net.at(1))) as sibling:
                sources = [sibling.own_address(net), box.gateway(net), net.host, net.at(1),
                           '127.0.0.1' if net is V4 else '::1', net.at(99)]
                for source in sources:
                    segment = udp_segment(source, net.at(1), 9, b'evil')
                    self.send_packet(box, net, net.at(1), UDP, segment, source=source)
                    query = udp_segment(source, box.gateway(net), 53, b'evil')
                    self.send_packet(box, net, box.gateway(net), UDP, query, source=source)
                self.assertEqual(sibling.network()['counters']['packetsOut'], 0)
                self.assert_only_marked(box, net, net.at(1))

        self.each_cell('G8', lambda net: policy(net.at(1)), attack)

    def test_hardware_addresses(self):
        def attack(box, net):
            own = box.own_address(net)
            link = box.in_namespace('ip', '-o', 'link', 'show', 'eth0').split()
            mac = bytes.fromhex(link[link.index('link/ether') + 1].replace(':', ''))
            near = box.in_namespace('ip', '-6' if net is V6 else '-4', 'neighbour').split()
            gateway = bytes.fromhex(near[near.index('lladdr') + 1].replace(':', ''))
            kind = b'\x08\0' if net is V4 else b'\x86\xdd'
            for source, payload in ((b'\x02evil!', b'evil'), (gateway, b'evil'),
                                    (b'\xff' * 6, b'evil'), (mac, b'well')):
                frame = gateway + source + kind + ip_packet(
                    own, net.at(1), UDP, udp_segment(own, net.at(1), 9, payload))
                self.assertEqual(box.forge('packet', 'eth0', send=frame).word, 'ok')
            self.internet.await_packets(payload=b'well'.hex())
            self.assert_only_marked(box, net, net.at(1))

        self.each_cell('G8', lambda net: policy(net.at(1)), attack)

    def test_neighbours(self):
        """ARP and neighbour advertisements change nothing that the host knows."""
        def attack(box, net):
            with self.own_box(policy(net.at(1))) as sibling:
                owners = {one.own_address(net) for one in (box, sibling)}
                known = lambda: [line for line in subprocess.run(
                    ['ip', 'neighbour', 'show'], check=True, stdout=subprocess.PIPE,
                    text=True).stdout.splitlines() if line.split()[0] in owners]
                before = known()
                self.assertEqual(len(before), 2)
                mac = b'\x02evil!'
                for victim in (sibling.own_address(net), box.gateway(net), net.host):
                    if net is V4:
                        body = (b'\0\1\x08\0\6\4\0\2' + mac + packed(victim) + mac + packed(victim))
                        frame = b'\xff' * 6 + mac + b'\x08\x06' + body
                    else:
                        message = b'\x88\0\0\0\x20\0\0\0' + packed(victim) + b'\2\1' + mac
                        frame = (b'\x33\x33\0\0\0\1' + mac + b'\x86\xdd' +
                                 ip_packet(victim, 'ff02::1', 58, message))
                    self.assertEqual(box.forge('packet', 'eth0', send=frame).word, 'ok')
                self.assert_only(sibling, net, net.at(1))
                self.assert_only(box, net, net.at(1))
                self.assertEqual(known(), before)

        self.each_cell('G8', lambda net: policy(net.at(1)), attack)

    def test_siblings(self):
        """Every pair, whatever their policies say."""
        def attack(box, net):
            for given in (policy(), policy(default='allow'), None):
                with self.own_box(given) as sibling:
                    sibling.background('nc -ll -p 8000 -e cat')
                    until(lambda: sibling.tcp('127.0.0.1', 8000, send=b'x').word == 'ok',
                          30 * SLOWNESS)
                    box.policy('PUT', policy(sibling.own_address(net), net.everything,
                                             '10.200.0.0/13', 'fd61:746c:6c00::/40',
                                             default='allow'))
                    for one, other in ((box, sibling), (sibling, box)):
                        target = other.own_address(net)
                        for port in (8000, 80, 443, 44772, 18080):
                            self.assertNotEqual(one.tcp(target, port, send=b'evil',
                                                        wait=500 * SLOWNESS).word, 'ok')
                            self.assertNotEqual(one.udp(target, port, b'evil',
                                                        wait=300 * SLOWNESS).word, 'ok')
                        self.assertNotEqual(one.ping(target, wait=200 * SLOWNESS).word, 'ok')
            self.assert_only(box, net, net.at(1))

        self.each_cell('G8', policy(default='allow'), attack)

    def test_services_of_the_host(self):
        """The API, other sandboxes' ports behind it, and whatever else listens; on every address."""
        def attack(box, net):
            port = int(self.daemon.url.rpartition(':')[2])
            server = subprocess.Popen(
                ['python3', '-c', 'import socket as s\n'
                 f'l = s.create_server(("{"::" if net is V6 else "0.0.0.0"}", 0), '
                 f'family=s.{"AF_INET6" if net is V6 else "AF_INET"}, backlog=100)\n'
                 'print(l.getsockname()[1], flush=True)\n'
                 'while True: l.accept()[0].sendall(b"reached")'], stdout=subprocess.PIPE)
            try:
                service = int(server.stdout.readline())
                lo = '127.0.0.1' if net is V4 else '::1'
                reached = subprocess.run([atoll.BUILD / 'tests/support/net-probe',
                                          f'tcp {lo} {service} send=00'], check=True,
                                         stdout=subprocess.PIPE, text=True).stdout
                self.assertTrue(reached.startswith('ok '), reached)
                for address in (net.host, box.gateway(net)):
                    for listening in (port, service, 22):
                        self.assert_refused(box.tcp(address, listening, send=b'x'))
                        self.assert_refused(box.udp(address, listening))
                    answer = box.http(address, net.host, 80, '/v1/sandboxes')
                    self.assertIn(answer.status, (None, 403))
                self.assert_only(box, net, net.at(1))
                # By its own address, and on that port: somebody has thought of it.
                box.policy('PUT', policy(rule(net.host, ports=[service]), net.at(1)))
                self.assertEqual(box.tcp(net.host, service, send=b'x').data, b'reached')
                self.assert_refused(box.tcp(net.host, port, send=b'x'))
            finally:
                server.kill()
                server.wait()
                server.stdout.close()

        self.each_cell('G8', lambda net: policy(
            '192.0.2.0/24', '2001:db8:ffff::/64', net.everything, '10.200.0.0/13',
            'fd61:746c:6c00::/40', default='allow'), attack)


class Exhaustion(PacketTest):
    """G16: one sandbox uses up what all share."""
    settings = {'network_max_connections': 64}

    @staticmethod
    def tracked():
        """Flows to the port of the attacks. The kernel's own count has the requests to the API in it."""
        with open('/proc/net/nf_conntrack', encoding='ascii') as file:
            return sum('dport=7777 ' in line for line in file)

    def test_connections_that_stay(self):
        def attack(box, net):
            before = self.tracked()
            command = box.background(f"/bin/net-probe 'many {net.at(1)} 7777 count=300 hold=1 "
                                     f"wait={20 * SLOWNESS}'")
            logs = lambda: box.call('GET', f'/command/{command}/logs').body.decode()
            line = until(lambda: 'ok' in logs() and logs(), 60 * SLOWNESS)
            # The kernel's count loses sight of a flow that is not confirmed yet.
            self.assertTrue(0 < int(line.split()[1]) <= 64 + 6, line)
            self.assertNotEqual(box.tcp(net.at(1), 7778, send=b'x', wait=300 * SLOWNESS).word, 'ok')
            with self.own_box(policy(net.at(1))) as other:
                self.assert_echo(other.tcp(net.at(1), 7777, send=b'hello', want=5))
                self.assertEqual(other.out(f"/bin/net-probe 'many {net.at(1)} 7777 count=40'"),
                                 'ok 40')
            # Far from the 300 that were tried.
            self.assertLess(self.tracked() - before, 64 + 6 + 41 + 6)
            box.call('DELETE', f'/command?id={command}')
            until(lambda: box.tcp(net.at(1), 7777, send=b'hello', want=5).word == 'ok',
                  20 * SLOWNESS)

        self.each_cell('G16', lambda net: policy(net.at(1)), attack)

    def test_flood_of_datagrams(self):
        """From every port, to what is allowed and to what is not."""
        def attack(box, net):
            before = self.tracked()
            for address in (net.at(1), net.at(66)):
                box.out(f"/bin/net-probe 'many {address} 7777 count=600 udp=1 wait=1' >/dev/null")
            self.assertLess(self.tracked() - before, 64 + 30)
            with self.own_box(policy(net.at(1))) as other:
                self.assert_only(other, net, net.at(1), net.at(66))

        self.each_cell('G16', lambda net: policy(net.at(1)), attack)

    def test_connections_to_the_proxy(self):
        """Half a head each: they are the sandbox's own, others are served."""
        def attack(box, net):
            box.lookup('good.example', net)
            command = box.background(f"/bin/net-probe 'many {net.at(10)} 80 count=200 hold=1 "
                                     f"wait={20 * SLOWNESS}'")
            logs = lambda: box.call('GET', f'/command/{command}/logs').body.decode()
            until(lambda: 'ok' in logs(), 60 * SLOWNESS)
            with self.own_box(policy('good.example')) as other:
                other.lookup('good.example', net)
                self.assert_served(other.http(net.at(10), 'good.example'), 'good.example')
            self.assertEqual(self.daemon.request('GET', '/health')['status'], 'healthy')
            box.call('DELETE', f'/command?id={command}')
            until(lambda: box.http(net.at(10), 'good.example').status == 200, 20 * SLOWNESS)

        self.each_cell('G16', policy('good.example'), attack)


if __name__ == '__main__':
    unittest.main()
