"""What a sandbox does behind every wall."""
import threading

import atoll
from atoll import until


class Served:
    """Cases for a class that has a `daemon` and its sandbox `box`."""
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

    def test_many_connections_at_once(self):
        answers = []
        ask = lambda: answers.append(self.box.call('GET', '/command/status/none').status)
        threads = [threading.Thread(target=ask) for _ in range(300)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(set(answers), {404}, answers)
