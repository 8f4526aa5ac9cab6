"""Attacks on what is allowed by name alone, played as root of the sandbox: G4 G10 G11."""
import socket
import unittest

from atoll import SLOWNESS
from egress import V4, V6, WebAnswer, policy, request, rule
from egress_attack import AttackTest
from tls_hello import (ECH, ESNI, client_hello, extension, hello, is_alert, outer_ech,
                       records, server_names)

SHARED = 20  # one address, two names


class SpliceTest(AttackTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in ('good', 'evil'):
            cls.internet.zone(f'{name}.shared.example', A=[V4.at(SHARED)], AAAA=[V6.at(SHARED)])
            cls.internet.certificate(f'{name}.shared.example')
        for name in ('good.example', 'evil.example'):
            cls.internet.certificate(name)

    def assert_works(self, box, net):
        """Both ways to the name that is allowed, and nothing of the other has arrived."""
        name = 'good.shared.example'
        self.assertEqual(box.lookup(name, net), [net.at(SHARED)])
        self.assert_served(box.http(net.at(SHARED), name), name, net.at(SHARED))
        self.assert_certificate(box.tls(net.at(SHARED), name), name)
        arrived = self.internet.requests()
        self.assertEqual([item for item in arrived if item['host'] != name], [])
        for packet in self.internet.packets(protocol=6):
            self.assertNotIn(b'evil', bytes.fromhex(packet['payload']))

    def assert_tls_refused(self, outcome, what):
        self.assertNotIn(b'.example', outcome.data, what)
        self.assertIn(outcome.word, ('closed', 'reset', 'timeout', 'refused'), (what, outcome))
        self.assertTrue(outcome.data == b'' or is_alert(outcome.data), (what, outcome))

    def assert_http_refused(self, answer, what):
        self.assertIsNone(answer.served, what)
        self.assertNotIn(b'"served"', answer.data)
        self.assertIn(answer.status, (None, 400, 403), (what, answer))


GIVEN = policy('good.shared.example', 'good.example')


class SharedAddress(SpliceTest):
    """G4: names on one address, and names that are said to an address that is not theirs."""

    def test_other_name_of_the_address(self):
        def attack(box, net):
            box.lookup('good.shared.example', net)
            for host in ('evil.shared.example', 'EVIL.shared.example', 'evil.shared.example:80',
                         str(net.at(SHARED)) if net is V4 else f'[{net.at(SHARED)}]', '',
                         'good.shared.example.evil.example', 'xgood.shared.example',
                         'sub.good.shared.example'):
                answer = box.http(net.at(SHARED), host)
                self.assert_http_refused(answer, host)
            self.assertEqual(box.http(net.at(SHARED), 'evil.shared.example').status, 403)
            for name in ('evil.shared.example', 'EVIL.shared.example', 'sub.good.shared.example',
                         str(net.at(SHARED)), 'x' * 250):
                self.assert_tls_refused(box.tls(net.at(SHARED), name), name)
            self.assert_works(box, net)

        self.each_cell('G4', GIVEN, attack)

    def test_name_said_to_a_foreign_address(self):
        """The proxy dials what the name resolves to, never what the client dialled."""
        def attack(box, net):
            for address in (net.at(66), net.away(1)):
                for name, home in (('good.example', net.at(10)),
                                   ('good.shared.example', net.at(SHARED))):
                    self.assert_served(box.http(address, name), name, home)
                    self.assert_certificate(box.tls(address, name), name)
                self.assert_http_refused(box.http(address, 'evil.example'), address)
                self.assert_nothing_reached(destination=address)

        self.each_cell('G4', GIVEN, attack)

    def test_next_request_of_a_connection(self):
        def attack(box, net):
            address = net.at(SHARED)
            good = request('good.shared.example', '/first')
            evil = request('evil.shared.example', '/second', more='Connection: close\r\n')
            for name, options in (
                    ('after the answer', {'send': good, 'then': evil}),
                    ('at once', {'send': good + evil}),
                    ('after a body', {'send': request('good.shared.example', '/first', 'POST',
                                                      body='x' * 2000), 'then': evil}),
                    ('in the body of a GET', {'send': request(
                        'good.shared.example', '/first', body='x' * 10) + evil}),
                    ('after chunks', {'send': request(
                        'good.shared.example', '/first', 'POST',
                        more='Transfer-Encoding: chunked\r\n') + b'3\r\nabc\r\n0\r\n\r\n' + evil}),
                    ('after an allowed second one', {'send': good + good, 'then': evil})):
                answer = box.http(address, '', wait=1000 * SLOWNESS, **options)
                self.assertNotIn(b'/second', answer.data, name)
            self.assert_works(box, net)

        self.each_cell('G4', GIVEN, attack)

    def test_heads_that_can_be_read_in_two_ways(self):
        def attack(box, net):
            good, evil = 'Host: good.shared.example\r\n', 'Host: evil.shared.example\r\n'
            heads = (f'GET / HTTP/1.1\r\n{good}{evil}\r\n', f'GET / HTTP/1.1\r\n{evil}{good}\r\n',
                     f'GET http://evil.shared.example/ HTTP/1.1\r\n{good}\r\n',
                     f'GET http://good.shared.example@evil.shared.example/ HTTP/1.1\r\n{good}\r\n',
                     f'GET / HTTP/1.1\r\nHost: good.shared.example\r\n evil.shared.example\r\n\r\n',
                     f'GET / HTTP/1.1\r\n{good}Host : evil.shared.example\r\n\r\n',
                     f'GET / HTTP/1.1\r\n {evil}{good}\r\n',
                     f'GET / HTTP/1.1\nHost: evil.shared.example\n{good}\r\n',
                     f'GET / HTTP/1.1\r\nX: y\rHost: evil.shared.example\r\n{good}\r\n',
                     f'GET / HTTP/1.1\r\nHost: good.shared.example\0evil\r\n\r\n',
                     f'GET / HTTP/1.1\r\nHost: good.shared.example, evil.shared.example\r\n\r\n',
                     f'GET / HTTP/1.1\r\nHost: evil.shared.example#good.shared.example\r\n\r\n',
                     'GET / HTTP/1.1\r\n\r\n', f'GET /\r\n', f'GET / HTTP/1.0\r\n{evil}\r\n',
                     f'GET / HTTP/2.0\r\n{evil}\r\n',
                     f'CONNECT evil.shared.example:443 HTTP/1.1\r\n{good}\r\n',
                     f'CONNECT good.shared.example:443 HTTP/1.1\r\n{good}\r\n',
                     'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
                     f'POST / HTTP/1.1\r\n{good}Content-Length: 0\r\nContent-Length: 60\r\n\r\n'
                     f'GET / HTTP/1.1\r\n{evil}\r\n',
                     f'POST / HTTP/1.1\r\n{good}Content-Length: 5\r\nTransfer-Encoding: chunked'
                     f'\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n{evil}\r\n',
                     f'POST / HTTP/1.1\r\n{good}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n'
                     f'GET / HTTP/1.1\r\n{evil}\r\n')
            for head in heads:
                answer = box.http(net.at(SHARED), '', send=head.encode(), wait=300 * SLOWNESS)
                self.assert_http_refused(answer, head)
            self.assert_works(box, net)

        self.each_cell('G4', GIVEN, attack)

    def test_hellos_that_hide_the_name(self):
        def attack(box, net):
            good, evil = 'good.shared.example', 'evil.shared.example'
            cases = {
                'no name': client_hello(),
                'ECH': client_hello(good, outer_ech()),
                'ECH without a name': client_hello(None, outer_ech()),
                'empty ECH': client_hello(good, extension(ECH, b'\0')),
                'ESNI': client_hello(good, extension(ESNI, bytes(64))),
                'two names': records(hello(server_names(good, evil))),
                'two names, the other first': records(hello(server_names(evil, good))),
                'two extensions': records(hello(server_names(good), server_names(evil))),
                'NUL': client_hello(good.encode() + b'\0.' + evil.encode()),
                'NUL at the end': client_hello(good.encode() + b'\0'),
                'empty name': records(hello(server_names(''))),
                'other kind of name': records(hello(server_names(good, kind=1))),
                'not ASCII': client_hello('g\xf6\xf6d.shared.example'.encode('latin-1')),
                'SSLv2': b'\x80\x2e\x01\x03\x01' + bytes(43),
                'no hello': records(b'\x10' + b'\0\0\4abcd'),
                'application data first': records(hello(server_names(good)), kind=23),
                'too long': records(hello(server_names(good), extension(21, bytes(40000))),
                                    (16000, 16000)),
                'cut off': client_hello(good)[:-10],
                'length that lies': client_hello(good)[:5] + b'\1\0\0\4' + client_hello(good)[9:],
            }
            for what, data in cases.items():
                outcome = box.tls(net.at(SHARED), send=data, wait=300 * SLOWNESS)
                self.assert_tls_refused(outcome, what)
            # What an honest client may do: a name in other letters, records and segments as it likes.
            whole = client_hello(good, pieces=(1, 2, 30, 1))
            for data, split in ((client_hello('Good.Shared.Example'), 0), (whole, 0), (whole, 7),
                                (client_hello(good), 3), (client_hello(good), 80)):
                outcome = box.tls(net.at(SHARED), send=data, split=split)
                self.assertIn(b'shared.example', outcome.data, outcome)
            self.assert_works(box, net)

        self.each_cell('G4', GIVEN, attack)

    def test_other_ports_of_other_protocols(self):
        """TLS on port 80, HTTP on port 443, and what is neither."""
        def attack(box, net):
            address = net.at(SHARED)
            self.assert_tls_refused(box.tls(address, 'evil.shared.example', port=80), 'TLS on 80')
            answer = box.http(address, 'evil.shared.example', 443)
            self.assert_http_refused(answer, 'HTTP on 443')
            for port in (80, 443):
                for data in (b'SSH-2.0-evil\r\n', b'\0' * 100, b'\n' * 100, b'evil'):
                    outcome = box.tcp(address, port, send=data, wait=300 * SLOWNESS)
                    self.assertNotEqual(outcome.word, 'ok', (port, data, outcome))
            self.assert_works(box, net)

        self.each_cell('G4', GIVEN, attack)


class Addresses(SpliceTest):
    """What the proxy connects to is held to the rules for addresses, too."""

    def test_other_ports_of_a_guarded_address(self):
        """G8: a rule names one port of the host, a name that is allowed leads there."""
        def attack(box, net):
            self.internet.zone('trap.example', A=[V4.host], AAAA=[V6.host])
            with socket.create_server((net.host, 80), family=(
                    socket.AF_INET if net is V4 else socket.AF_INET6)) as server:
                self.assertEqual(box.http(net.at(10), 'trap.example').status, 502)
                self.assert_works(box, net)
                server.setblocking(False)
                self.assertRaises(BlockingIOError, server.accept)

        self.each_cell('G8', lambda net: policy('trap.example', rule(net.host, ports=[5432]),
                                                'good.shared.example'), attack)

    def test_connection_to_an_address_that_is_denied_now(self):
        """G6: the name stays allowed, its address does not."""
        def attack(box, net):
            box.lookup('good.example', net)
            flow = box.flow('kept', net.at(10), 80)
            asked = request('good.example')
            self.assertEqual(box.poke(flow, send=asked, want=20).word, 'ok')
            box.policy('PUT', policy('!' + net.at(10), 'good.example', 'good.shared.example'))
            self.internet.clear()
            self.assertEqual(box.poke(flow, send=asked, want=20).word, 'reset')
            self.assert_works(box, net)

        self.each_cell('G6', GIVEN, attack)


class PlainHttp(SpliceTest):
    """G11: the same rule for HTTP as for HTTPS."""

    def test_denied_name(self):
        def attack(box, net):
            box.lookup('good.shared.example', net)
            for method in ('GET', 'POST', 'HEAD', 'OPTIONS', 'DELETE', 'get'):
                answer = box.http(net.at(SHARED), '', send=request('evil.shared.example', '/',
                                                                   method))
                self.assert_http_refused(answer, method)
            self.assert_tls_refused(box.tls(net.at(SHARED), 'evil.shared.example'), 'TLS')
            upgrade = request('evil.shared.example', more='Connection: Upgrade\r\nUpgrade: echo\r\n')
            self.assert_http_refused(box.http(net.at(SHARED), '', send=upgrade), 'Upgrade')
            self.assert_works(box, net)

        self.each_cell('G11', GIVEN, attack)

    def test_denied_name_where_all_others_are_allowed(self):
        def attack(box, net):
            for address in (net.at(SHARED), net.at(66)):
                self.assert_http_refused(box.http(address, 'evil.shared.example'), address)
                self.assert_tls_refused(box.tls(address, 'evil.shared.example'), address)
            self.assert_works(box, net)

        self.each_cell('G11', policy('!evil.shared.example', default='allow'), attack)


class ForeignProxy(SpliceTest):
    """G10: the proxy knows its clients by the link that they come from."""
    # Everywhere, so that nothing but the rules keeps sandboxes from the API.
    settings = {'server_host': '::'}

    @staticmethod
    def listeners():
        """TCP ports that the host listens on."""
        ports = set()
        for file in ('/proc/net/tcp', '/proc/net/tcp6'):
            with open(file, encoding='ascii') as lines:
                for line in list(lines)[1:]:
                    fields = line.split()
                    if fields[3] == '0A':
                        ports.add(int(fields[1].rpartition(':')[2], 16))
        return ports

    def test_another_sandboxes_permission(self):
        def attack(box, net):
            with self.own_box(policy('other.example')) as thief:
                name = 'good.shared.example'
                box.lookup(name, net)
                self.assert_http_refused(thief.http(net.at(SHARED), name), 'its own connection')
                self.assert_tls_refused(thief.tls(net.at(SHARED), name), 'its own connection')
                for header in (f'X-Forwarded-For: {box.own_address(net)}\r\n',
                               f'Forwarded: for={box.own_address(net)}\r\n',
                               f'X-Real-IP: {box.own_address(net)}\r\n'):
                    answer = thief.http(net.at(SHARED), '', send=request(name, more=header))
                    self.assert_http_refused(answer, header)
                # What the other's address would be allowed; the link is not its own. An answer
                # would go to the other, and that one would reset a connection it knows nothing of.
                before = box.network()['counters']['packetsOut']
                outcome = thief.forge('tcp', net.at(SHARED), 80, from_=box.own_address(net),
                                      send=request(name), wait=300 * SLOWNESS)
                self.assertNotEqual(outcome.word, 'ok', outcome)
                self.assertEqual(box.network()['counters']['packetsOut'], before)
                self.assertEqual(self.internet.requests(), [])
                self.assert_works(box, net)

        self.each_cell('G10', GIVEN, attack)

    def test_spoken_to_directly(self):
        """The proxy is for connections that were led to it, and the daemon's API for nobody."""
        def attack(box, net):
            ports = self.listeners()
            self.assertGreater(len(ports), 2)
            connect = b'CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n'
            absolute = b'GET http://good.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n'
            for port in ports - {53}:
                for address in (box.gateway(net), net.host):
                    for data in (connect, absolute, request('good.example'),
                                 client_hello('good.example')):
                        outcome = box.tcp(address, port, send=data, wait=500 * SLOWNESS)
                        answer = WebAnswer(outcome)
                        self.assertIn(answer.status, (None, 403), (address, port, data, answer))
                        self.assertNotIn(b'example', outcome.data if answer.status is None else b'')
            self.assertEqual(self.internet.requests(), [])
            self.assert_works(box, net)

        self.each_cell('G10', GIVEN, attack)

    def test_relayed_connect(self):
        """CONNECT through a name that is allowed is refused before it reaches anybody."""
        def attack(box, net):
            data = b'CONNECT evil.example:443 HTTP/1.1\r\nHost: good.shared.example\r\n\r\n'
            for port in (80, 443):
                outcome = box.tcp(net.at(SHARED), port, send=data, want=12, wait=500 * SLOWNESS)
                self.assertNotIn(b' 200 ', outcome.data)
            self.assertEqual(self.internet.requests(method='CONNECT'), [])
            self.assert_works(box, net)

        self.each_cell('G10', GIVEN, attack)


if __name__ == '__main__':
    unittest.main()
