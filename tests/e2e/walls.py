"""What a sandbox does behind every wall."""
import threading
import time

import atoll
import bucket_test
from atoll import until
from box import Box
from contexts import Contexts, texts
from egress import FAMILIES, V4, policy
from vault_test import binding, vault


class Served:
    """Cases for a class that has a `daemon`, its sandbox `box`, and makes an `other`."""
    patience = 30 * atoll.SLOWNESS

    def test_commands(self):
        stdout, stderr, last = self.box.run('echo out; echo err >&2; exit 7')
        self.assertEqual((stdout, stderr, last['error']['evalue']), (['out\n'], ['err\n'], '7'))
        self.assertEqual(self.box.out('seq 100000 | tail -n 1'), '100000')

    def test_sessions_background_and_terminals(self):
        session = self.box.call('POST', '/session').json['session_id']
        path = f'/session/{session}/run'
        self.assertEqual(self.box.events(path, {'command': 'cd /srv; x=kept'})[-1]['type'], 'execution_complete')
        told = [e['text'] for e in self.box.events(path, {'command': 'echo "$PWD $x"'}) if e['type'] == 'stdout']
        self.assertEqual(''.join(told).strip(), '/srv kept')
        command = self.box.background('echo behind; sleep 1000')
        until(lambda: self.box.call('GET', f'/command/{command}/logs').body == b'behind\n', self.patience, 'its log')
        self.assertEqual(self.box.call('DELETE', f'/command?id={command}').status, 200)
        shown, client = atoll.at_a_terminal(b'tty; exit 3\n', 'exec', '-it', self.box.id, 'bash',
                                            env=self.daemon.client_env())
        self.assertIn(b'/dev/pts/', shown)
        self.assertEqual(client.wait(self.patience), 3)

    def test_ports(self):
        self.box.background('httpd -f -p 8000 -h /srv')
        self.box.out('echo page >/srv/page')
        page = lambda: self.daemon.send('GET', self.box.port(8000) + '/page').read()
        until(lambda: page() == b'page\n', self.patience, 'the page')

    def test_files_through_the_api_and_inside(self):
        self.assertEqual(self.box.upload(({'path': '/srv/deep/file'}, b'x' * 300_000)).status, 200)
        self.assertEqual(self.box.out('wc -c </srv/deep/file'), '300000')
        self.box.out('echo inside >/srv/f; ln -s f /srv/l; mkfifo /srv/p; chown 1000:1000 /srv/f; chmod 640 /srv/f')
        self.assertEqual(self.box.get('/files/download', path='/srv/l').body, b'inside\n')
        self.assertEqual(self.box.out('stat -c "%u %g %a" /srv/f'), '1000 1000 640')

    def test_a_large_answer_and_a_client_that_leaves(self):
        self.assertEqual(len(self.box.out('head -c 3000000 /dev/zero | tr "\\0" x')), 3_000_000)
        response = self.box.open('POST', '/command', {'command': 'yes'})
        response.read(1 << 20)
        response.close()
        self.assertEqual(self.box.out('echo still'), 'still')

    def test_a_hook_before_the_entrypoint(self):
        box = self.other(entrypoint=['sh', '-c', 'echo entrypoint >>/o; exec sleep 1000'],
                         lifecycle={'preStart': {'command': ['sh', '-c', 'echo hook >>/o']}})
        until(lambda: box.out('cat /o') == 'hook\nentrypoint', 120 * atoll.SLOWNESS, 'both have run')

    def test_many_connections_at_once(self):
        answers = []
        ask = lambda: answers.append(self.box.call('GET', '/command/status/none').status)
        threads = [threading.Thread(target=ask) for _ in range(300)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(set(answers), {404}, answers)


class Networked:
    """Cases for an EgressTest whose sandboxes are behind a wall."""

    def test_names_and_addresses(self):
        with self.own_box(policy('good.example')) as box:
            for net in FAMILIES:
                with self.subTest(net):
                    self.assertEqual(box.lookup('good.example', net), [net.at(10)])
                    self.assert_served(box.http(net.at(10), 'good.example'), 'good.example')
                    self.assertNotEqual(box.tcp(net.at(12), 80, send=b'x').word, 'ok')
            self.assertEqual(box.dig('evil.example').addresses(), [])
            box.policy('PUT', policy('evil.example'))
            self.assertEqual(box.lookup('evil.example', V4), [V4.at(12)])

    def test_a_network_with_another_kind_of_sandbox(self):
        behind = self.box(extensions={'network': 'lan'})
        self.addCleanup(self.daemon.delete, behind.id)
        plain = self.box(extensions={'network': 'lan', 'isolation': 'namespace'})
        self.addCleanup(self.daemon.delete, plain.id)
        for one, other in ((behind, plain), (plain, behind)):
            other.background('nc -ll -p 8000 -e cat')
            until(lambda: other.tcp('127.0.0.1', 8000, send=b'x').word == 'ok', 120 * atoll.SLOWNESS, 'it listens')
            self.assert_echo(one.tcp(other.own_address(V4), 8000, send=b'hello', want=5))
            self.assertIn(other.own_address(V4), one.out(f'nslookup {other.id}'))


class Vaulted:
    """A case for a VaultTest whose sandboxes are behind a wall."""

    def test_credentials_and_bandwidth(self):
        box = self.safe_box(extensions={'network.bandwidth': '10M'}, resourceLimits={'memory': '256Mi'})
        self.put(box, vault(binding('api', 'good.example')))
        self.assertIn('HTTP/1.1 200', self.curl(box, 'https://good.example/v1'))
        self.assertEqual(self.arrived(host='good.example')[1]['authorization'], 'Bearer sk-one')
        size = 5_000_000  # four seconds, of which one may come at once
        head = f'POST /in HTTP/1.1\r\nHost: good.example\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n'
        began = time.monotonic()
        self.assertEqual(box.tcp(V4.at(10), 80, length=1, all=1, send=head.encode(), fill=size).word, 'ok')
        self.assertGreater(time.monotonic() - began, 2.5)


class Interpreted(Contexts):
    """A case for a class that has `settings`; `languages`: those whose kernels start soon enough there."""
    languages = {'python': ('kept = 21', 'print(kept * 2)'), 'bash': ('kept=21', 'echo $((kept * 2))'),
                 'javascript': ('let kept = 21', 'console.log(kept * 2)')}

    def test_code_contexts(self):
        with atoll.Daemon(**self.settings) as daemon:
            daemon.import_image(atoll.image_archive('kernels'), 'kernels:latest')
            self.box = Box(daemon, 'kernels:latest', resourceLimits={'cpu': '2', 'memory': '2Gi'})
            for language, (first, second) in self.languages.items():
                with self.subTest(language):
                    context = self.create(language)
                    self.run_in(context, first)
                    self.assertEqual(texts(self.run_in(context, second)), '42\n')
            self.doCleanups()


class Bucketed:
    """Cases for a buckets.Case whose sandboxes are behind a wall."""
    test_there_and_back = bucket_test.Use.test_there_and_back
    test_read_only = bucket_test.Use.test_read_only
