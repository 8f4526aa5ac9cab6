"""Sandboxes with a network policy, in front of the fake internet.

    class Names(EgressTest):
        def test_allowed(self):
            box = self.box({'egress': [{'action': 'allow', 'target': 'good.example'}]})
            box.lookup('good.example')
            self.assert_served(box.http(V4.at(10), 'good.example'), 'good.example')
"""
import collections
import contextlib
import http.client
import json
import shlex
import subprocess
import unittest
import urllib.parse

import atoll
import dns_wire
import tls_hello
from atoll import SLOWNESS
from box import Box, shell_image
from internet import HOST, Internet

TOKEN = 'OPENSANDBOX-EGRESS-AUTH'
# What nobody answers is waited for so long; what is refused is refused at once.
SILENCE_MS = 300 * SLOWNESS
PATIENCE_MS = 5000 * SLOWNESS

Outcome = collections.namedtuple('Outcome', 'word data')
Answer = collections.namedtuple('Answer', 'status text headers')


class Family:
    """The addresses of tests, in one family."""

    def __init__(self, number, name, kind, near, far, everything):
        self.number, self.name, self.kind = number, name, kind
        self.near, self.far, self.everything = near, far, everything
        self.host = HOST[0 if number == 4 else 1]

    def at(self, number):
        return self.near % number

    def away(self, number):
        return self.far % number

    def prefix(self, address):
        """The address alone, as a prefix."""
        return f'{address}/{32 if self.number == 4 else 128}'

    def __repr__(self):
        return self.name


V4 = Family(4, 'IPv4', 'A', '203.0.113.%d', '198.51.100.%d', '0.0.0.0/0')
V6 = Family(6, 'IPv6', 'AAAA', '2001:db8:1::%d', '2001:db8:2::%d', '::/0')
FAMILIES = (V4, V6)


def rule(target, action='allow', **more):
    return {'action': action, 'target': target, **more}


def policy(*rules, default='deny'):
    """Texts are targets that are allowed, or denied with a "!" before them."""
    return {'defaultAction': default,
            'egress': [item if isinstance(item, dict) else
                       rule(item[1:], 'deny') if item.startswith('!') else rule(item)
                       for item in rules]}


class WebAnswer:
    """What an HTTP request got: `status` (None: nothing that is HTTP), `served` what the fake
    internet says of the request, `text`."""

    def __init__(self, outcome):
        self.word, self.data = outcome
        head, _, self.text = self.data.decode('latin-1').partition('\r\n\r\n')
        self.status = int(head.split()[1]) if head.startswith('HTTP/1.') else None
        # Of the first answer, if there are more.
        self.served = (json.JSONDecoder().raw_decode(self.text)[0]
                       if self.text.startswith('{"method"') else None)

    def __repr__(self):
        return f'{self.word} {self.data[:400]}'


def request(host, path='/', method='GET', more='', body=''):
    if body:
        more += f'Content-Length: {len(body)}\r\n'
    return f'{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n{body}'.encode('latin-1')


class EgressBox(Box):
    """One sandbox, the API of its policy, and a program inside that speaks to the network."""

    def __init__(self, daemon, image, **fields):
        super().__init__(daemon, image, **fields)
        self.process = None
        self.endpoint = None

    # ---- the API of its policy

    def find_endpoint(self):
        if self.endpoint is None:
            self.endpoint = self.daemon.request('GET', f'/v1/sandboxes/{self.id}/endpoints/18080')
        return self.endpoint

    def send_egress(self, method, path='/policy', body=None, headers=None):
        """As a client with the endpoint's headers, unless `headers` are given. Returns the connection."""
        endpoint = self.find_endpoint()
        url = urllib.parse.urlsplit('http://' + endpoint['endpoint'])
        if body is not None and not isinstance(body, (str, bytes)):
            body = json.dumps(body)
        connection = http.client.HTTPConnection(url.netloc, timeout=60 * SLOWNESS)
        connection.request(method, url.path + path, body,
                           endpoint.get('headers', {}) if headers is None else headers)
        return connection

    def egress_call(self, *request, **more):
        connection = self.send_egress(*request, **more)
        response = connection.getresponse()
        answer = Answer(response.status, response.read().decode(), response.headers)
        connection.close()
        return answer

    def policy(self, method='GET', body=None):
        """The decoded answer, which must be a success."""
        answer = self.egress_call(method, '/policy', body)
        assert answer.status == 200, answer
        return json.loads(answer.text)

    def network(self):
        return self.daemon.request('GET', f'/v1/sandboxes/{self.id}/network')

    def learned(self):
        return {entry['address']: entry for entry in self.network()['learned']}

    # ---- the probe

    @staticmethod
    def _outcomes(text):
        outcomes = []
        for line in text.splitlines():
            word, _, data = line.partition(' ')
            outcomes.append(Outcome(word, bytes.fromhex(data) if len(data) % 2 == 0 and all(
                digit in '0123456789abcdef' for digit in data) else data))
        return outcomes

    @staticmethod
    def action(*words, **options):
        """The text of one; bytes become hexadecimal, from_ is from."""
        for name, value in options.items():
            value = value.hex() if isinstance(value, bytes) else int(value) if isinstance(
                value, bool) else value
            words += (f'{name.rstrip("_")}={value}',)
        return ' '.join(map(str, words))

    def probe(self, *actions):
        """Plays actions inside, as root of the sandbox; one Outcome each."""
        return self._outcomes(self.out('/bin/net-probe ' + ' '.join(map(shlex.quote, actions))))

    def play(self, *words, **options):
        return self.probe(self.action(*words, **options))[0]

    def in_namespace(self, *command):
        """A command of the host in the sandbox's network namespace, with all capabilities: more
        than any program inside can ever get."""
        self.process = self.process or self.host_pid()
        return subprocess.run(['nsenter', f'--net=/proc/{self.process}/ns/net', *command],
                              check=True, stdout=subprocess.PIPE, text=True).stdout

    def forge(self, *words, **options):
        """Like play, with all capabilities of the host."""
        return self._outcomes(self.in_namespace(atoll.BUILD / 'tests/support/net-probe',
                                                self.action(*words, **options)))[0]

    def tcp(self, address, port, **options):
        return self.play('tcp', address, port, **{'wait': PATIENCE_MS, **options})

    def udp(self, address, port, send=b'hello', **options):
        return self.play('udp', address, port, send=send, **{'wait': PATIENCE_MS, **options})

    def ping(self, address, **options):
        return self.play('ping', address, **{'wait': PATIENCE_MS, **options})

    def http(self, address, host, port=80, path='/', **options):
        """One request; `then` another one on the same connection."""
        send = options.pop('send', None) or request(host, path, more='Connection: close\r\n')
        return WebAnswer(self.tcp(address, port, **{'send': send, 'all': 1, **options}))

    def tls(self, address, name=None, *extensions, port=443, **options):
        """A ClientHello and what comes first in return."""
        send = options.pop('send', None) or tls_hello.client_hello(name, *extensions)
        return self.tcp(address, port, **{'send': send, 'want': 300, **options})

    def flow(self, name, address, port, udp=False):
        """Keeps a connection open, for `poke`."""
        command = self.background('/bin/net-probe ' + shlex.quote(self.action(
            'flow', f'/tmp/{name}', address, port, udp=udp, wait=PATIENCE_MS)))
        logs = lambda: self.call('GET', f'/command/{command}/logs').body.decode().strip()
        first = atoll.until(logs, 30 * SLOWNESS, f'a flow to {address}:{port}')
        assert first.startswith('ok'), f'flow to {address}:{port}: {first}'
        return name

    def poke(self, name, send=b'ping', **options):
        """Sends over that connection; the other side echoes."""
        return self.play('poke', f'/tmp/{name}', send=send,
                         **{'wait': PATIENCE_MS, 'want': len(send), **options})

    # ---- names

    def gateway(self, family=V4):
        if family is V4:
            return self.out('grep nameserver /etc/resolv.conf').split()[1]
        return self.out('ip -6 route show default').split()[2]

    def own_address(self, family):
        word = 'inet' if family is V4 else 'inet6'
        lines = self.out('ip address show eth0').splitlines()
        return next(line.split()[1].partition('/')[0] for line in lines
                    if line.split()[0] == word)

    def dig_bytes(self, query, server=None, tcp=False, **options):
        server = server or self.gateway()
        if not tcp:
            return self.udp(server, 53, query, **options)
        outcome = self.tcp(server, 53, send=len(query).to_bytes(2, 'big') + query, **{
            'prefixed': 1, **options})
        return Outcome(outcome.word, outcome.data[2:])

    def dig(self, name, kind='A', server=None, tcp=False, **query):
        """The answer, which must come."""
        outcome = self.dig_bytes(dns_wire.query(name, kind, **query), server, tcp)
        assert outcome.word == 'ok', f'{name} {kind}: {outcome}'
        return dns_wire.Message(outcome.data)

    def lookup(self, name, family=V4):
        """Its addresses, none if there is no answer with any."""
        return self.dig(name, family.kind).addresses()


class EgressTest(unittest.TestCase):
    """One fake internet and one daemon; `settings` are the daemon's."""
    settings = {}

    @classmethod
    def setUpClass(cls):
        cls.internet = cls.enterClassContext(Internet())
        cls.daemon = cls.enterClassContext(atoll.Daemon(
            **{'network_dns': [Internet.DNS], **cls.settings}))
        cls.image = shell_image(cls.daemon, bash=False, programs=['tests/support/net-probe'])
        # Names that most tests use.
        for number, name in enumerate(('good', 'other', 'evil'), 10):
            cls.internet.zone(f'{name}.example', A=[V4.at(number)], AAAA=[V6.at(number)], ttl=60)
            cls.internet.zone(f'sub.{name}.example', A=[V4.at(number + 10)],
                              AAAA=[V6.at(number + 10)], ttl=60)

    @classmethod
    def box(cls, network_policy=None, **fields):
        if network_policy is not None:
            fields['networkPolicy'] = network_policy
        return EgressBox(cls.daemon, cls.image, **fields)

    @contextlib.contextmanager
    def own_box(self, network_policy=None, **fields):
        box = self.box(network_policy, **fields)
        try:
            yield box
        finally:
            self.daemon.delete(box.id)

    # ---- verdicts

    def assert_echo(self, outcome, data=b'hello'):
        self.assertEqual(outcome, Outcome('ok', data))

    def assert_served(self, answer, host, address=None):
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(answer.served['host'], host)
        if address:
            self.assertEqual(answer.served['address'], address)

    def assert_certificate(self, outcome, name):
        self.assertIn(name.encode(), outcome.data, outcome)

    def assert_refused(self, outcome):
        """At once, with no byte of an answer."""
        self.assertIn(outcome.word, ('refused', 'unreachable', 'prohibited', 'reset'),
                      outcome)
        self.assertEqual(outcome.data, b'')

    def assert_nothing_reached(self, **packets):
        """Of what was sent until now. The caller has seen something arrive that was sent later, over
        the same link."""
        self.assertEqual(self.internet.packets(**packets), [])
