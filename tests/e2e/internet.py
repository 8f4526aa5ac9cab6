"""A fake internet for tests, behind the one uplink of this test's network namespace.

    with Internet() as internet, Daemon(network_dns=[internet.DNS]) as daemon:
        internet.zone('web.example', A=['203.0.113.10'], ttl=60)
        ... something in a sandbox speaks to 203.0.113.10 ...
        internet.packets(destination='203.0.113.10', port=80)

The test must run in a network namespace of its own (tap.py --alone): that is the host. The internet
is a process in another one. It answers on every address of PREFIXES: DNS on port 53 (zones as the
test sets them), web servers on 80 and 443, an echo of whatever comes on any other port of TCP and
UDP. It writes down each packet that arrives, so that "nothing got through" is seen from the far
side. Everything ends with the process.
"""
import base64
import json
import pathlib
import subprocess
import sys
import tempfile

import atoll

SERVICES = pathlib.Path(__file__).with_name('internet_services.py')
HOST = ('192.0.2.1', '2001:db8:ffff::1')
GATEWAY = ('192.0.2.2', '2001:db8:ffff::2')
PREFIXES = ('203.0.113.0/24', '198.51.100.0/24', '8.8.8.8', '1.1.1.1',
            # The clouds' metadata services, the provider's network, the company's own.
            '169.254.169.254', '169.254.170.2', '100.64.0.0/24', '10.66.0.0/24', '192.168.77.0/24',
            '2001:db8:1::/48', '2001:db8:2::/48', '2001:4860:4860::8888', 'fd00:ec2::254',
            'fd66::/64', '64:ff9b::/96')


def ip(*arguments):
    subprocess.run(['ip', *arguments], check=True)


class Internet:
    """See the text of the module."""
    DNS = '203.0.113.53'

    def __init__(self):
        self.process = self.directory = None

    def __enter__(self):
        routes = pathlib.Path('/proc/net/route').read_text(encoding='ascii').splitlines()[1:]
        assert not any(line.split()[1] == '00000000' for line in routes), \
            'this network namespace has a default route: it is not the test\'s own'
        self.directory = tempfile.TemporaryDirectory(prefix='atoll-internet.')
        self.process = subprocess.Popen([sys.executable, SERVICES], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        try:
            self.process.stdout.readline()  # it is in its namespace
            self._link()
            self.call('set_up', {'own': [f'{GATEWAY[0]}/24', f'{GATEWAY[1]}/64'],
                                 'prefixes': PREFIXES, 'directory': self.directory.name})
        except BaseException:
            self.__exit__()
            raise
        return self

    def _link(self):
        ip('link', 'add', 'up0', 'type', 'veth', 'peer', 'name', 'eth0', 'netns',
           str(self.process.pid))
        ip('address', 'add', f'{HOST[0]}/24', 'dev', 'up0')
        ip('address', 'add', f'{HOST[1]}/64', 'dev', 'up0', 'nodad')
        ip('link', 'set', 'up0', 'up')
        ip('route', 'add', 'default', 'via', GATEWAY[0])
        ip('-6', 'route', 'add', 'default', 'via', GATEWAY[1])

        # Linux answers with a few ICMP errors a second; a test that is refused more often than that
        # would wait for an answer each time.
        sysctls = pathlib.Path('/proc/sys/net')
        for limit, value in (('ipv4/icmp_ratelimit', '0'), ('ipv6/icmp/ratelimit', '0'),
                             ('ipv4/icmp_msgs_per_sec', '100000'),
                             ('ipv4/icmp_msgs_burst', '100000')):
            if (sysctls / limit).exists():  # of this namespace since Linux 6.13
                (sysctls / limit).write_text(value, encoding='ascii')

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        # The namespace ends some time after the process, and the next one wants the name.
        subprocess.run(['ip', 'link', 'delete', 'up0'], check=False, stderr=subprocess.DEVNULL)
        self.directory.cleanup()

    def call(self, name, *arguments):
        self.process.stdin.write(json.dumps([name, arguments]) + '\n')
        self.process.stdin.flush()
        result = json.loads(self.process.stdout.readline())
        if 'error' in result:
            raise AssertionError(f'{name}{arguments}: {result["error"]}')
        return result['ok']

    # ---- names

    def zone(self, name, **zone):
        """Records of a name ("*.x" for all below x): A, AAAA, TXT as lists, CNAME as a name; `ttl`;
        `turns` {type: [[…], […]]} for answers that change; `rcode`; `silent`; `truncate`;
        `answer_more`, `additional` [(owner, type, value)] for what nobody asked for."""
        self.call('zone', name, zone)

    def certificate(self, name):
        """From now on TLS has one for `name`: its text, which clients can verify by."""
        return self.call('certificate', name)

    def page(self, path, kind, data):
        """What each web server answers there, whatever it is called: bytes of this Content-Type."""
        self.call('page', path, kind, base64.b64encode(data).decode('ascii'))

    # ---- what arrived

    def clear(self):
        self.call('clear')

    def witness(self, on):
        """Off: packets are not written down, for measurements."""
        self.call('witness', on)

    @staticmethod
    def _fitting(entries, wanted):
        return [entry for entry in entries
                if all(entry[name] == value for name, value in wanted.items())]

    def packets(self, **wanted):
        """With these: protocol (number), source, destination, port, from_port, fragment, payload
        (the first 64 bytes as hexadecimal)."""
        return self._fitting(self.call('read', 'packets', 0), wanted)

    def questions(self, **wanted):
        """That the name server was asked: name, type, transport, server, edns, bytes."""
        return self._fitting(self.call('read', 'questions', 0), wanted)

    def requests(self, **wanted):
        """To web servers: method, path, host, address, tls, sni, body, headers."""
        return self._fitting(self.call('read', 'web', 0), wanted)

    def await_packets(self, **wanted):
        return atoll.until(lambda: self.packets(**wanted), 30 * atoll.SLOWNESS, f'packets {wanted}')
