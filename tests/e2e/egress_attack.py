"""What the attack tests have in common: one cell for each attack × address family × time at which
the policy was given; the verdicts are kept for egress_matrix."""
import contextlib
import ipaddress
import json
import struct

import atoll
from egress import FAMILIES, EgressTest, policy

RESULTS = atoll.BUILD / 'egress-matrix'
MOMENTS = ('create', 'runtime')


class AttackTest(EgressTest):
    cells = []

    @classmethod
    def setUpClass(cls):
        cls.cells = []
        cls.addClassCleanup(cls._keep)
        super().setUpClass()

    @classmethod
    def _keep(cls):
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f'{cls.__name__}.json').write_text(json.dumps(cls.cells), encoding='utf-8')

    @contextlib.contextmanager
    def cell(self, row, net, moment):
        entry = {'row': row, 'attack': self._testMethodName.removeprefix('test_'),
                 'family': net.name, 'moment': moment, 'passed': False}
        self.cells.append(entry)
        with self.subTest(f'{row} {net.name} {moment}'):
            yield
            entry['passed'] = True

    def each_cell(self, row, given, attack, families=FAMILIES, **fields):
        """`attack(box, net)` in a new sandbox with the policy `given` (or given(net)), at create and
        at runtime."""
        for net in families:
            rules = given(net) if callable(given) else given
            for moment in MOMENTS:
                with self.cell(row, net, moment):
                    with self.own_box(rules if moment == 'create' else policy(), **fields) as box:
                        if moment == 'runtime':
                            box.policy('PUT', rules)
                        self.internet.clear()
                        attack(box, net)

    def assert_only(self, box, net, allowed, *attacked):
        """The address `allowed` is reached now, and by then nothing has reached the others."""
        self.assert_echo(box.udp(allowed, 9))
        self.internet.await_packets(destination=allowed, port=9)
        for address in attacked:
            self.assert_nothing_reached(destination=address)
        self.assertEqual({packet['source'] for packet in
                          self.internet.packets(destination=allowed)}, {net.host})


# ---- packets by hand

def checksum(data):
    data += b'\0' * (len(data) % 2)
    total = sum(struct.unpack(f'>{len(data) // 2}H', data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def packed(address):
    return ipaddress.ip_address(address).packed


def ip_packet(source, destination, protocol, payload, offset=0, more=False, identity=0x4154):
    """IPv4 or IPv6; `offset` in bytes. The kernel fills in what is 0 of IPv4."""
    source, destination = packed(source), packed(destination)
    if len(source) == 4:
        head = struct.pack('>BBHHHBBH', 0x45, 0, 20 + len(payload), identity,
                           offset >> 3 | (0x2000 if more else 0), 64, protocol, 0)
        whole = head + source + destination
        return whole[:10] + struct.pack('>H', checksum(whole)) + whole[12:] + payload
    if offset or more:
        payload = struct.pack('>BBHI', protocol, 0, offset | more, identity) + payload
        protocol = 44
    return struct.pack('>IHBB', 0x60000000, len(payload), protocol, 64) + source + destination + payload


def _transport(source, destination, protocol, segment, at):
    pseudo = packed(source) + packed(destination) + struct.pack('>II', len(segment), protocol)
    return segment[:at] + struct.pack('>H', checksum(pseudo + segment)) + segment[at + 2:]


def udp_segment(source, destination, port, payload, own_port=40000, protocol=17):
    segment = struct.pack('>4H', own_port, port, 8 + len(payload), 0) + payload
    return _transport(source, destination, protocol, segment, 6)


def tcp_segment(source, destination, port, payload=b'', flags=0x18, own_port=40000):
    segment = struct.pack('>HHIIBBHHH', own_port, port, 1000, 2000, 0x50, flags, 65535, 0,
                          0) + payload
    return _transport(source, destination, 6, segment, 16)


def icmp_message(source, destination, kind, payload):
    message = bytes([kind, 0, 0, 0]) + payload
    if ':' in source:
        return _transport(source, destination, 58, message, 2)
    return message[:2] + struct.pack('>H', checksum(message)) + message[4:]


def sctp_init(port, mark, own_port=40000):
    """RFC 9260 sections 3.1 and 3.3.2; four bytes `mark` are its tag and its first number."""
    chunk = struct.pack('>BBH4sIHH4s', 1, 0, 20, mark, 65536, 1, 1, mark)
    packet = struct.pack('>HHII', own_port, port, 0, 0) + chunk
    crc = 0xffffffff  # CRC32c, reflected
    for byte in packet:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return packet[:8] + struct.pack('<I', ~crc & 0xffffffff) + chunk
