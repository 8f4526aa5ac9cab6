"""Credentials that a sandbox never holds: put into its requests on the way out, to the servers that
they are for, by a proxy that it cannot get at."""
import base64
import concurrent.futures
import contextlib
import json
import os
import pathlib
import signal
import statistics
import sys
import tempfile
import threading
import time
import unittest

import atoll
import process_memory
from atoll import SLOWNESS
from box import parse_events, shell_image
from egress import V4, EgressBox, EgressTest, policy
from usage_test import Groups

KEY = 'key-of-the-other'
CURL = '/usr/bin/curl'


def credential(name, value):
    return {'name': name, 'source': {'type': 'inline', 'value': value}}


def binding(name, *hosts, auth=None, **match):
    return {'name': name, 'match': {'hosts': list(hosts), **match},
            'auth': auth or {'type': 'bearer', 'credential': 'token'}}


def vault(*bindings, **values):
    return {'credentials': [credential(*item) for item in (values or {'token': 'sk-one'}).items()],
            'bindings': list(bindings)}


class VaultTest(EgressTest):
    """A daemon whose host believes the fake internet's certificates."""

    @classmethod
    def setUpClass(cls):
        directory = cls.enterClassContext(tempfile.TemporaryDirectory())
        os.chmod(directory, 0o755)
        cls.authorities = pathlib.Path(directory, 'authorities.pem')
        cls.authorities.write_text('', encoding='ascii')
        os.environ['SSL_CERT_FILE'] = str(cls.authorities)
        cls.addClassCleanup(os.environ.pop, 'SSL_CERT_FILE')
        super().setUpClass()
        cls.image = shell_image(cls.daemon, name='vault:latest', bash=False,
                                programs=['tests/support/net-probe'], host_programs=[CURL])
        texts = [cls.internet.certificate(name) for name in (
            'good.example', 'sub.good.example', 'other.example')]
        cls.authorities.write_text(''.join(texts), encoding='ascii')

    def setUp(self):
        self.internet.clear()

    def safe_box(self, *names, **fields):
        box = self.box(policy(*(names or ('good.example', '*.good.example', 'other.example'))),
                       credentialProxy={'enabled': True}, **fields)
        self.addCleanup(self.daemon.delete, box.id)
        return box

    def put(self, box, document, method='POST', status=None):
        answer = box.egress_call(method, '/credential-vault', document)
        self.assertEqual(answer.status, status or {'POST': 201, 'PATCH': 200}[method], answer.text)
        return json.loads(answer.text) if answer.text.startswith('{') else answer.text

    def interceptors(self):
        spawner = self.daemon.spawner_pid()
        found = []
        for process in pathlib.Path('/proc').glob('[0-9]*'):
            try:
                state, parent = (process / 'stat').read_text(encoding='ascii').rpartition(')')[2].split()[:2]
                if (process / 'comm').read_text(encoding='ascii') == 'atoll-intercept\n' and (
                        int(parent) == spawner and state != 'Z'):
                    found.append(process)
            except (FileNotFoundError, ProcessLookupError):
                pass
        return found

    def curl(self, box, *words):
        """What it printed: the answer's head and body. It finds whom to trust by itself."""
        result = box.call('POST', '/command', {
            'argv': [CURL, '-sS', '-i', '-m', str(20 * SLOWNESS), *words]})
        return ''.join(event.get('text', '') for event in parse_events(result.body)
                       if event['type'] in ('stdout', 'stderr'))

    def arrived(self, **wanted):
        """The one request of that kind that the server has seen: its headers, lower case."""
        found = self.internet.requests(**wanted)
        self.assertEqual(len(found), 1, found)
        return found[0], {name.lower(): value for name, value in found[0]['headers']}


class Injection(VaultTest):
    def test_bearer_over_tls(self):
        box = self.safe_box()
        answer = self.put(box, vault(binding('api', 'good.example')))
        self.assertEqual(answer['revision'], 1)
        self.assertNotIn('sk-one', json.dumps(answer))
        text = self.curl(box, 'https://good.example/v1/x?y=z')
        self.assertIn('HTTP/1.1 200', text)
        request, headers = self.arrived(host='good.example')
        self.assertTrue(request['tls'])
        self.assertEqual((request['sni'], request['path']), ('good.example', '/v1/x?y=z'))
        self.assertEqual(headers['authorization'], 'Bearer sk-one')

    def test_others_are_spliced_with_their_own_certificates(self):
        box = self.safe_box()
        self.put(box, vault(binding('api', 'good.example')))
        # The sandbox knows neither server's authority: only what is intercepted is believed.
        self.assertIn('self-signed certificate', self.curl(box, 'https://other.example/'))
        self.assertIn('HTTP/1.1 200', self.curl(box, '-k', 'https://other.example/'))
        _, headers = self.arrived(host='other.example')
        self.assertNotIn('authorization', headers)

    def test_each_kind(self):
        box = self.safe_box()
        self.put(box, vault(
            binding('a', 'good.example', paths=['/basic'],
                    auth={'type': 'basic', 'credential': 'pair'}),
            binding('b', 'good.example', paths=['/key'],
                    auth={'type': 'apiKey', 'name': 'x-api-key', 'credential': 'key'}),
            binding('c', 'good.example', paths=['/custom'],
                    auth={'type': 'customHeaders',
                          'headers': [{'name': 'X-One', 'credential': 'key'},
                                      {'name': 'X-Two', 'credential': 'token'}]}),
            binding('d', 'good.example', paths=['/put/*'], methods=['PUT', 'POST'],
                    auth={'type': 'passthrough', 'substitutions': [
                        {'credential': 'token', 'placeholder': '@@TOKEN@@',
                         'in': ['path', 'query', 'header', 'body']}]}),
            token='sk a/b', key=KEY, pair=base64.b64encode(b'user:password').decode()))
        for path in ('basic', 'key', 'custom'):
            self.curl(box, '-H', 'X-Api-Key: of the sandbox', '-H', 'Authorization: its own',
                      f'https://good.example/{path}')
        _, headers = self.arrived(path='/basic')
        self.assertEqual(headers['authorization'], 'Basic dXNlcjpwYXNzd29yZA==')
        _, headers = self.arrived(path='/key')
        self.assertEqual(headers['x-api-key'], KEY)
        self.assertEqual(headers['authorization'], 'its own')
        _, headers = self.arrived(path='/custom')
        self.assertEqual((headers['x-one'], headers['x-two']), (KEY, 'sk a/b'))
        self.curl(box, '-X', 'PUT', '-H', 'X-Mine: <@@TOKEN@@>', '-H',
                  'Content-Type: application/json', '-d', '{"t": "@@TOKEN@@"}',
                  'https://good.example/put/x?q=@@TOKEN@@')
        request, headers = self.arrived(method='PUT')
        self.assertEqual(request['path'], '/put/x?q=sk%20a%2Fb')
        self.assertEqual(headers['x-mine'], '<sk a/b>')
        self.assertEqual(json.loads(request['body']), {'t': 'sk a/b'})
        self.assertEqual(int(headers['content-length']), len(request['body']))

    def test_plain_http_where_the_binding_says_so(self):
        box = self.safe_box()
        self.put(box, vault(binding('api', 'good.example', schemes=['http'])))
        self.assertIn('HTTP/1.1 200', self.curl(box, 'http://good.example/a', '--next', '-sS', '-i',
                                                'http://good.example/b'))
        for path in ('/a', '/b'):
            request, headers = self.arrived(path=path)
            self.assertFalse(request['tls'])
            self.assertEqual(headers['authorization'], 'Bearer sk-one')

    def test_answers_do_not_give_it_back(self):
        box = self.safe_box()
        self.put(box, vault(binding('api', 'good.example')))
        text = self.curl(box, 'https://good.example/mirror')
        self.assertIn('X-Mirrored-Authorization: [REDACTED]', text)
        self.assertNotIn('sk-one', text.partition('\r\n\r\n')[0])

    def test_large_bodies_both_ways_and_many_requests(self):
        box = self.safe_box()
        self.put(box, vault(binding('api', 'good.example')))
        box.out('head -c 3000000 /dev/zero >/tmp/large')
        text = self.curl(box, '-o', '/tmp/got', '-T', '/tmp/large', '-H', 'Expect: 100-continue',
                         'https://good.example/bytes/5000000')
        self.assertEqual(text, '')
        self.assertEqual(box.out('tail -c 5000000 /tmp/got | tr -d "\\0" | wc -c'), '0')
        _, headers = self.arrived(method='PUT')
        self.assertEqual(headers['content-length'], '3000000')
        urls = [f'https://good.example/n/{n}' for n in range(20)]
        self.assertEqual(self.curl(box, *urls).count('HTTP/1.1 200'), 20)
        for n in range(20):
            self.assertEqual(self.arrived(path=f'/n/{n}')[1]['authorization'], 'Bearer sk-one')

    def test_many_bodies_at_once(self):
        box = self.safe_box()
        self.put(box, vault(binding('api', 'good.example', schemes=['http'], auth={
            'type': 'passthrough', 'substitutions': [
                {'credential': 'token', 'placeholder': '@@', 'in': ['body']}]})))
        command = ' & '.join(
            f'{CURL} -sS -d "t=@@&n={n}" http://good.example/many >/dev/null' for n in range(40))
        box.out(command + ' & wait')
        self.assertEqual({found['body'] for found in self.internet.requests(path='/many')},
                         {f't=sk-one&n={n}' for n in range(40)})
        self.curl(box, 'http://good.example/bare')
        self.assertNotIn('content-length', self.arrived(path='/bare')[1])

    def test_who_will_not_send_more_is_answered(self):
        box = self.safe_box()
        self.put(box, vault(binding('api', 'good.example', schemes=['http'])))
        request = r'GET / HTTP/1.1\r\nHost: good.example\r\n\r\n'
        self.assertIn('200 OK', box.out(f"printf '{request}' | nc -w 9 {V4.at(10)} 80"))

    def test_web_sockets_get_it_and_other_protocols_nothing(self):
        box = self.safe_box()
        self.put(box, vault(binding('api', 'good.example', schemes=['http'])))
        for protocol, status in (('websocket', b' 101 '), ('h2c', b' 200 ')):
            outcome = box.tcp(V4.at(10), 80, send=(
                f'GET /{protocol} HTTP/1.1\r\nHost: good.example\r\nConnection: Upgrade\r\n'
                f'Upgrade: {protocol}\r\n\r\n').encode(), want=12)
            self.assertIn(status, outcome.data, outcome)
            _, headers = self.arrived(path=f'/{protocol}')
            self.assertEqual(headers['authorization'], 'Bearer sk-one')
            self.assertEqual('upgrade' in headers, protocol == 'websocket')


class Attacks(VaultTest):
    def test_no_other_host_over_a_connection_that_is_for_one(self):
        box = self.safe_box()
        self.put(box, vault(binding('api', 'good.example', schemes=['http', 'https']),
                            binding('api2', 'other.example', schemes=['http', 'https'])))
        self.assertIn('HTTP/1.1 403', self.curl(box, '-H', 'Host: other.example',
                                                'https://good.example/'))
        first = box.http(V4.at(10), 'good.example', send=(
            b'GET /1 HTTP/1.1\r\nHost: good.example\r\n\r\n'
            b'GET /2 HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\n\r\n'))
        self.assertIn(b'403', first.data)
        self.assertEqual([found['path'] for found in self.internet.requests()], ['/1'])

    def test_a_server_that_is_another_one_gets_nothing(self):
        """Somebody on the way to it, as who has its name's address."""
        box = self.safe_box('evil.example')
        self.internet.certificate('evil.example')  # that nobody on the host has signed for
        self.put(box, vault(binding('api', 'evil.example')))
        text = self.curl(box, 'https://evil.example/')
        self.assertIn('HTTP/1.1 502', text)
        self.assertIn('is not accepted', text)
        self.assertEqual(self.internet.requests(), [])

    def test_the_host_cannot_be_taken_out(self):
        box = self.safe_box()
        self.put(box, vault(binding('api', 'good.example')))
        self.curl(box, '-H', 'Connection: Host', 'https://good.example/')
        self.assertEqual(self.arrived()[1]['host'], 'good.example')

    def test_a_port_that_is_not_the_schemes_gets_nothing(self):
        box = self.safe_box()
        self.put(box, vault(binding('api', 'good.example', schemes=['http', 'https'])))
        outcome = box.tcp(V4.at(10), 443, send=b'GET /there HTTP/1.1\r\nHost: good.example\r\n\r\n', want=1)
        self.assertNotIn(b'sk-one', outcome.data)
        self.assertEqual(self.internet.requests(path='/there'), [])

    def test_paths_that_two_servers_read_differently(self):
        box = self.safe_box()
        self.put(box, vault(binding('api', 'good.example', paths=['/v1/*'])))
        for path in ('/v1/../admin', '/v1/%2e%2e/admin', '/v1/..%2fadmin'):
            self.assertIn('HTTP/1.1 403', self.curl(box, '--path-as-is',
                                                    f'https://good.example{path}'), path)
        self.curl(box, 'https://good.example/v2')
        self.assertNotIn('authorization', self.arrived()[1])

    def test_fields_cannot_be_taken_out_again(self):
        box = self.safe_box()
        self.put(box, vault(binding('api', 'good.example')))
        self.curl(box, '-H', 'Connection: Authorization, close', 'https://good.example/')
        self.assertEqual(self.arrived()[1]['authorization'], 'Bearer sk-one')

    def test_nothing_of_it_is_in_the_sandbox(self):
        box = self.safe_box()
        self.put(box, vault(binding('api', 'good.example'), token='sk-needle-in-no-haystack'))
        self.curl(box, 'https://good.example/')
        found = box.out('env; grep -rl sk-needle /proc/[0-9]*/environ /proc/[0-9]*/cmdline /etc '
                        '/opt /tmp /run 2>/dev/null; true')
        self.assertNotIn('needle', found)
        pem = box.out('cat /opt/opensandbox/mitmproxy-ca-cert.pem')
        self.assertIn('BEGIN CERTIFICATE', pem)
        self.assertNotIn('PRIVATE', box.out('cat /opt/opensandbox/*'))

    def test_two_sandboxes_have_two_authorities(self):
        one, other = self.safe_box(), self.safe_box()
        self.put(one, vault(binding('api', 'good.example')))
        pem = other.out('cat /opt/opensandbox/mitmproxy-ca-cert.pem')
        self.assertNotEqual(one.out('cat /opt/opensandbox/mitmproxy-ca-cert.pem'), pem)
        # And the other's requests are its own.
        self.assertIn('HTTP/1.1 200', self.curl(other, '-k', 'https://good.example/'))
        self.assertNotIn('authorization', self.arrived()[1])

    def test_its_interceptor_cannot_do_anything_else(self):
        box = self.safe_box()
        self.put(box, vault(binding('api', 'good.example')))
        interceptor, = self.interceptors()
        status = dict(line.split(':\t', 1) for line in (interceptor / 'status').read_text(
            encoding='ascii').splitlines() if ':\t' in line)
        self.assertEqual(status['Seccomp'], '2')
        self.assertEqual(status['NoNewPrivs'], '1')
        self.assertEqual({status[name] for name in ('CapEff', 'CapPrm', 'CapBnd', 'CapInh')},
                         {'0' * 16})
        self.assertNotIn('0', status['Uid'].split())
        self.assertNotIn(b'sk-one', (interceptor / 'cmdline').read_bytes() + (
            interceptor / 'environ').read_bytes())
        # The vault's own file is closed when it has been read.
        atoll.until(lambda: not self.files_of(interceptor), 30 * SLOWNESS, 'no file is open')

    def files_of(self, process):
        links = {os.readlink(fd) for fd in (process / 'fd').iterdir()}
        return [link for link in links if not link.startswith(
            ('socket:', 'anon_inode:', '/dev/null', str(self.daemon.run_dir / 'spawner.log')))]

    def test_one_that_is_killed_is_started_again_and_one_that_is_deleted_ends(self):
        box = self.safe_box()
        self.put(box, vault(binding('api', 'good.example')))
        first, = self.interceptors()
        os.kill(int(first.name), 9)
        atoll.until(lambda: not self.interceptors(), 10 * SLOWNESS, 'its end')
        atoll.until(lambda: 'HTTP/1.1 200' in self.curl(box, 'https://good.example/'),
                    30 * SLOWNESS, 'an interceptor again')
        self.assertEqual({dict(map(tuple, found['headers']))['Authorization']
                          for found in self.internet.requests()}, {'Bearer sk-one'})
        answer = box.egress_call('DELETE', '/credential-vault')
        self.assertEqual(answer.status, 204)
        atoll.until(lambda: not self.interceptors(), 10 * SLOWNESS, 'its end')
        self.internet.clear()
        self.curl(box, '-k', 'https://good.example/')
        self.assertNotIn('authorization', self.arrived()[1])


class Memory(VaultTest):
    def test_no_secret_outlives_its_vault(self):
        box = self.safe_box()
        gone = []
        request = b'GET /held HTTP/1.1\r\nHost: good.example\r\n\r\n'
        for life in range(6):
            secrets = [f'sk-{life}-{os.urandom(size).hex()}' for size in (4, 24, 24, 300)]
            short, first, second, long = secrets
            document = vault(
                binding('api', 'good.example', schemes=['https', 'http'], paths=['/v1/*', '/held']),
                binding('put', 'good.example', paths=['/put/*'], methods=['POST'],
                        auth={'type': 'passthrough', 'substitutions': [
                            {'credential': name, 'placeholder': f'@@{name}@@',
                             'in': ['path', 'query', 'header', 'body']} for name in ('short', 'long')]}),
                token=first, short=short, long=long)
            # A client that keeps its connection.
            connection = self.daemon.connection()
            self.addCleanup(connection.close)
            endpoint = box.find_endpoint()
            connection.request('POST', '/' + endpoint['endpoint'].split('/', 1)[1]
                               + '/credential-vault', json.dumps(document), endpoint['headers'])
            answer = connection.getresponse()
            self.assertEqual(answer.status, 201, answer.read())
            answer.read()
            self.curl(box, 'https://good.example/v1/x')
            self.curl(box, 'https://good.example/put/@@short@@?q=@@long@@', '-H', 'X-A: @@short@@',
                      '-d', 'b=@@long@@')
            # This connection goes on, and its interceptor with it.
            flow = box.flow(f'kept{life}', V4.at(10), 80)
            self.assertIn(b' 200 ', box.poke(flow, request, want=12).data)
            holders = {'atolld': self.daemon.process.pid}
            holders.update((f'atoll-intercept {process.name}', int(process.name))
                           for process in self.interceptors())
            # So this test can see them.
            for pid in holders.values():
                seen = process_memory.found_in(pid, [first, short, long])
                self.assertTrue(seen or len(holders) > 2, pid)
            self.assertEqual(process_memory.found_in(self.daemon.process.pid, [first, short, long]),
                             {first, short, long})
            self.put(box, {'credentials': {'replace': [credential('token', second)]}}, 'PATCH')
            # Its answer comes behind the rest of the one before.
            box.poke(flow, request, want=1)
            atoll.until(lambda life=life: len(self.internet.requests(path='/held')) == 2 * life + 2,
                        30 * SLOWNESS, 'the second request on the connection')
            self.assertEqual(box.egress_call('DELETE', '/credential-vault').status, 204)
            gone += secrets
        self.assertTrue(self.interceptors())
        holders['atoll-spawner'] = self.daemon.spawner_pid()
        process_memory.await_wiped(holders, gone)


class Accounts(VaultTest):
    """An interceptor works for one sandbox, which is charged for it."""
    settings = {'usage_keep_days': 30}

    def requests(self, box, count, path='n'):
        """Each over a connection of its own, with two handshakes."""
        text = self.curl(box, '-m', '300', '-H', 'Connection: close', '-o', '/dev/null', '-w', '%{http_code} ',
                         f'https://good.example/{path}/[1-{count}]')
        self.assertEqual(text.count('200 '), count, text[-300:])

    @staticmethod
    def seconds_of(process):
        """Processor time, as the kernel counts it for the process."""
        fields = (process / 'stat').read_text(encoding='ascii').rpartition(')')[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    def billed(self, box):
        self.daemon.request('GET', '/v1/usage?by=tenant')  # reads all counters
        answer = self.daemon.request('GET', '/v1/usage?by=sandbox')
        return next(item['cpu_seconds'] for item in answer['items'] if item['key'] == box.id)

    def group_of(self, box):
        top = Groups(self.daemon).top
        return top / box.group().rpartition('/')[2]

    def test_its_time_is_the_sandboxs(self):
        box = self.safe_box()
        self.put(box, vault(binding('api', 'good.example')))
        interceptor, = self.interceptors()
        group = self.group_of(box)
        # In every hierarchy that limits, v1's too.
        places = (interceptor / 'cgroup').read_text(encoding='ascii')
        for line in places.splitlines():
            if {'cpu', 'memory', 'pids', ''} & set(line.split(':')[1].split(',')):
                self.assertIn(f'/{group.name}', line)
        self.assertIn(f'/{group.name}/intercept\n', places)
        self.requests(box, 20)
        before = self.seconds_of(interceptor), Groups.cpu_of(group / 'intercept'), self.billed(box)
        inside = Groups.cpu_of(group) - before[1]
        self.requests(box, 300)
        own, leaf, bill = (now - then for now, then in zip(
            (self.seconds_of(interceptor), Groups.cpu_of(group / 'intercept'), self.billed(box)), before))
        inside = Groups.cpu_of(group) - Groups.cpu_of(group / 'intercept') - inside
        # Each handshake is a signature, so this cannot be cheap.
        self.assertGreater(own, 0.1)
        self.assertAlmostEqual(leaf, own, delta=0.05 + 0.05 * own)
        self.assertAlmostEqual(bill, leaf + inside, delta=0.1 + 0.05 * bill)
        print(f'300 requests: process {own:.2f} s, its group {leaf:.2f} s, billed {bill:.2f} s', file=sys.stderr)

    def test_its_time_is_limited_with_the_sandboxs(self):
        box = self.safe_box(resourceLimits={'cpu': '100m', 'memory': '64Mi'})
        self.put(box, vault(binding('api', 'good.example')))
        group = self.group_of(box)
        used, began = Groups.cpu_of(group), time.monotonic()
        shown = []
        with concurrent.futures.ThreadPoolExecutor() as pool:
            working = pool.submit(self.requests, box, 60)
            while not working.done():
                shown.append(box.call('GET', '/metrics').json['cpu_used_pct'])
            working.result()
        used, wall = Groups.cpu_of(group) - used, time.monotonic() - began
        self.assertLess(used, 0.1 * wall + 0.1, f'{wall} s')
        share = Groups.cpu_of(group / 'intercept') / used
        self.assertGreater(share, 0.2)
        # The interceptor is in what is shown. A busy host may keep the sandbox below its limit.
        percent = 100 * used / (0.1 * wall)
        self.assertGreater(statistics.mean(shown), percent * (1 - share / 2), (percent, share, shown))

    def test_it_is_out_of_the_sandboxs_reach(self):
        box = self.safe_box(resourceLimits={'memory': '64Mi'})
        self.put(box, vault(binding('api', 'good.example')))
        interceptor, = self.interceptors()
        self.assertNotIn('intercept', box.out('cat /proc/[0-9]*/comm'))
        self.assertIn('No such process', box.out(f'kill -KILL {interceptor.name} 2>&1 || true'))
        # Its group can be seen, and says neither which process it has nor does as it is told.
        files = lambda name: f'$(find /sys/fs/cgroup -path "*/intercept/{name}" 2>/dev/null)'
        self.assertIn('0', box.out(f'cat {files("cgroup.procs")}').split())
        self.assertEqual(box.out(f'for f in {files("cgroup.procs")} {files("tasks")}; do grep -vx 0 $f; done; true'), '')
        box.out(f'for f in {files("cgroup.kill")} {files("cgroup.freeze")}; do (echo 1 >$f) 2>/dev/null; done; true')
        self.assertTrue((interceptor / 'stat').exists())
        # A sandbox that has taken all of its memory does not take the interceptor's.
        box.background('head -c 60000000 /dev/zero | tail >/dev/null')
        self.requests(box, 20)
        self.assertEqual(self.interceptors(), [interceptor])

    def test_a_pause_holds_it_and_nobody_else(self):
        box = self.safe_box()
        self.put(box, vault(binding('api', 'good.example', schemes=['http'])))
        group = self.group_of(box)
        flow = box.flow('kept', V4.at(10), 80)
        request = b'GET /held HTTP/1.1\r\nHost: good.example\r\n\r\n'
        answer = box.poke(flow, request, want=12).data
        self.assertIn(b' 200 ', answer)
        # The body may come behind the head. What is left of it would be taken for the next answer.
        while not answer.endswith(b'}'):
            answer += box.poke(flow, b'', want=1).data
        self.daemon.request('POST', f'/v1/sandboxes/{box.id}/pause')
        atoll.until(lambda: box.state()['state'] == 'Paused', 30 * SLOWNESS, 'its pause')
        self.assertIn('frozen 1', (group / 'intercept/cgroup.events').read_text(encoding='ascii'))
        began = time.monotonic()
        self.put(box, {'credentials': {'replace': [credential('token', 'sk-two')]}}, 'PATCH', 409)
        other = self.safe_box()
        self.put(other, vault(binding('api', 'good.example')))
        self.assertLess(time.monotonic() - began, 10 * SLOWNESS)
        self.daemon.request('POST', f'/v1/sandboxes/{box.id}/resume')
        atoll.until(lambda: box.state()['state'] == 'Running', 30 * SLOWNESS, 'its run')
        # The connection goes on.
        self.assertIn(b' 200 ', box.poke(flow, request, want=12).data)

    def test_one_that_is_deleted_while_it_is_paused_takes_it_along(self):
        box = self.box(policy('good.example'), credentialProxy={'enabled': True})
        self.put(box, vault(binding('api', 'good.example')))
        group = self.group_of(box)
        self.daemon.request('POST', f'/v1/sandboxes/{box.id}/pause')
        self.daemon.delete(box.id)
        atoll.until(lambda: not self.interceptors() and not group.exists(), 30 * SLOWNESS, 'all is gone')

    def test_it_ends_with_a_sandbox_that_ends_by_itself(self):
        box = self.box(policy('good.example'), credentialProxy={'enabled': True})
        self.put(box, vault(binding('api', 'good.example', schemes=['http'])))
        group = self.group_of(box)
        # This connection would hold it.
        box.flow('kept', V4.at(10), 80)
        os.kill(box.host_pid(), 9)
        atoll.until(lambda: not self.interceptors() and not group.exists(), 30 * SLOWNESS, 'its end')

    def test_a_client_is_told_to_come_again_if_the_spawner_dies(self):
        box = self.safe_box('good.example')
        spawner = self.daemon.spawner_pid()
        os.kill(spawner, signal.SIGSTOP)
        connection = box.send_egress('POST', '/credential-vault', vault(binding('api', 'good.example')))
        # The daemon takes requests in their order, so it has asked the spawner when it answers this one.
        self.daemon.request('GET', '/v1/sandboxes')
        os.kill(spawner, signal.SIGKILL)
        answer = connection.getresponse()
        self.assertEqual((answer.status, answer.headers['Retry-After']), (503, '1'), answer.read())
        connection.close()

        def made():
            answer = box.egress_call('POST', '/credential-vault', vault(binding('api', 'good.example')))
            self.assertIn(answer.status, (201, 503), answer.text)
            return answer.status == 201
        atoll.until(made, 30 * SLOWNESS, 'it was right to come again')

    def test_it_outlives_the_spawner_and_moves_with_a_rollback(self):
        box = self.safe_box()
        self.put(box, vault(binding('api', 'good.example')))
        first, = self.interceptors()
        self.daemon.kill_spawner()
        atoll.until(self.daemon.healthy, 30 * SLOWNESS, 'another spawner')
        self.assertTrue((first / 'stat').exists())
        self.assertIn('HTTP/1.1 200', self.curl(box, 'https://good.example/'))
        snapshot = self.daemon.request('POST', f'/v1/sandboxes/{box.id}/snapshots', {})['id']
        self.addCleanup(self.daemon.request, 'DELETE', f'/v1/snapshots/{snapshot}')
        atoll.until(lambda: self.daemon.request('GET', f'/v1/snapshots/{snapshot}')['status'][
            'state'] == 'Ready', 30 * SLOWNESS, 'the snapshot')
        self.daemon.request('POST', f'/v1/sandboxes/{box.id}/rollback', {'snapshotId': snapshot})
        atoll.until(lambda: not first.exists(), 30 * SLOWNESS, 'that of the old version ends')
        box.cgroup = None
        self.assertIn('HTTP/1.1 200', self.curl(box, 'https://good.example/'))
        self.assertGreater(Groups.cpu_of(self.group_of(box) / 'intercept'), 0)


class Routes(VaultTest):
    def test_vault_and_policy_agree(self):
        box = self.safe_box('good.example')
        text = self.put(box, vault(binding('api', 'other.example')), status=400)
        self.assertIn('other.example', text)
        self.put(box, vault(binding('api', 'good.example')))
        answer = box.egress_call('PUT', '/policy', policy('other.example'))
        self.assertEqual(answer.status, 400, answer)
        self.assertIn('good.example', answer.text)
        # Nothing has changed.
        self.assertEqual(box.policy()['policy']['egress'][0]['target'], 'good.example')
        self.assertIn('HTTP/1.1 200', self.curl(box, 'https://good.example/'))
        box.egress_call('DELETE', '/credential-vault')
        box.policy('PUT', policy('other.example'))

    def test_a_policy_that_closes_cuts_what_is_intercepted(self):
        box = self.safe_box()
        self.put(box, vault(binding('api', 'good.example', schemes=['http'])))
        flow = box.flow('kept', V4.at(10), 80)
        request = b'GET /held HTTP/1.1\r\nHost: good.example\r\n\r\n'
        self.assertIn(b' 200 ', box.poke(flow, request, want=12).data)
        self.put(box, {'bindings': {'delete': ['api']}}, 'PATCH')
        box.policy('PUT', policy('other.example'))
        self.assertNotIn(b' 200 ', box.poke(flow, request, want=12).data)
        self.assertEqual(len(self.internet.requests(path='/held')), 1)

    def test_life_of_a_vault(self):
        box = self.safe_box()
        self.assertEqual(box.egress_call('GET', '/credential-vault').status, 404)
        self.put(box, vault(binding('api', 'good.example')))
        self.put(box, vault(binding('api', 'good.example')), status=409)
        self.put(box, {'expectedRevision': 7}, 'PATCH', 409)
        changed = self.put(box, {'expectedRevision': 1, 'credentials': {
            'replace': [credential('token', 'sk-two')]}}, 'PATCH')
        self.assertEqual((changed['revision'], changed['credentials'][0]['revision']), (2, 2))
        self.curl(box, 'https://good.example/')
        self.assertEqual(self.arrived()[1]['authorization'], 'Bearer sk-two')
        for path, status in (('credentials', 200), ('bindings', 200), ('credentials/token', 200),
                             ('bindings/api', 200), ('bindings/none', 404), ('_active', 403),
                             ('credentials/token/x', 404)):
            answer = box.egress_call('GET', '/credential-vault/' + path)
            self.assertEqual(answer.status, status, path)
            self.assertNotIn('sk-', answer.text)
        self.assertEqual(box.egress_call('PUT', '/credential-vault').status, 405)
        self.assertEqual(box.egress_call('GET', '/credential-vault', headers={}).status, 401)

    def test_who_has_not_asked_for_one(self):
        box = self.box(policy('good.example'))
        self.addCleanup(self.daemon.delete, box.id)
        text = self.put(box, vault(binding('api', 'good.example')), status=412)
        self.assertIn('credentialProxy', text)
        self.assertEqual(box.out('ls /opt/opensandbox 2>/dev/null; true'), '')

    def test_it_lives_on_through_pause_and_rollback_and_ends_with_the_daemon(self):
        box = self.safe_box()
        self.put(box, vault(binding('api', 'good.example')))
        self.daemon.request('POST', f'/v1/sandboxes/{box.id}/pause')
        atoll.until(lambda: box.state()['state'] == 'Paused', 30 * SLOWNESS, 'its pause')
        self.daemon.request('POST', f'/v1/sandboxes/{box.id}/resume')
        atoll.until(lambda: box.state()['state'] == 'Running', 30 * SLOWNESS, 'its run')
        self.curl(box, 'https://good.example/')
        self.assertEqual(self.arrived()[1]['authorization'], 'Bearer sk-one')
        self.daemon.stop()
        self.daemon.start()
        box.endpoint = None
        self.assertEqual(box.egress_call('GET', '/credential-vault').status, 404)
        self.internet.clear()
        self.curl(box, '-k', 'https://good.example/')
        self.assertNotIn('authorization', self.arrived()[1])
        # The authority is what it was: what runs inside has read it.
        self.put(box, vault(binding('api', 'good.example')))
        self.internet.clear()
        self.curl(box, 'https://good.example/')
        self.assertEqual(self.arrived()[1]['authorization'], 'Bearer sk-one')

    def test_a_vault_that_is_made_during_a_rollback_is_in_force_behind_it(self):
        box = self.safe_box()
        snapshot = self.daemon.request('POST', f'/v1/sandboxes/{box.id}/snapshots', {})['id']
        self.addCleanup(self.daemon.request, 'DELETE', f'/v1/snapshots/{snapshot}')
        atoll.until(lambda: self.daemon.request('GET', f'/v1/snapshots/{snapshot}')['status'][
            'state'] == 'Ready', 30 * SLOWNESS, 'the snapshot')
        with self.rolled_back(box, snapshot):
            self.while_refused(box, 'POST', vault(binding('api', 'good.example')))
        self.assertIn('HTTP/1.1 200', self.curl(box, 'https://good.example/'))
        self.assertEqual(self.arrived()[1]['authorization'], 'Bearer sk-one')
        with self.rolled_back(box, snapshot):
            self.while_refused(box, 'DELETE')
        self.internet.clear()
        self.curl(box, '-k', 'https://good.example/')
        self.assertNotIn('authorization', self.arrived()[1])

    @contextlib.contextmanager
    def rolled_back(self, box, snapshot):
        """At the end; meanwhile it is on its way."""
        back = threading.Thread(target=self.daemon.request, args=(
            'POST', f'/v1/sandboxes/{box.id}/rollback', {'snapshotId': snapshot}))
        back.start()
        yield
        back.join()

    def while_refused(self, box, method, document=None):
        """It is, while the sandbox has no processes."""
        refused = lambda: box.egress_call(method, '/credential-vault', document).status == 409
        atoll.until(lambda: not refused(), 30 * SLOWNESS, f'{method} of the vault')

    def test_forks_have_authorities_of_their_own(self):
        box = self.safe_box()
        self.put(box, vault(binding('api', 'good.example')))
        child, = self.daemon.request('POST', f'/v1/sandboxes/{box.id}/fork', {'count': 1})['items']
        self.addCleanup(self.daemon.delete, child['id'])
        child = EgressBox.of(self.daemon, child['id'])
        child.process = child.endpoint = None
        self.assertEqual(child.egress_call('GET', '/credential-vault').status, 404)
        self.put(child, vault(binding('api', 'good.example'), token='sk-child'))
        self.assertIn('HTTP/1.1 200', self.curl(child, 'https://good.example/'))
        self.assertEqual(self.arrived()[1]['authorization'], 'Bearer sk-child')


if __name__ == '__main__':
    unittest.main()
