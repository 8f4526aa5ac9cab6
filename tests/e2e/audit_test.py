"""The audit log of a daemon: a line for each answer, before the answer; no secret in any line; what happens when it
cannot be written."""
import http.client
import itertools
import json
import pathlib
import shutil
import subprocess
import tempfile
import threading
import unittest
import urllib.parse

from atoll import BUILD, SLOWNESS, ApiError, Daemon, until


class WithAudit(unittest.TestCase):
    """Has a daemon with an audit log and no sandbox."""

    def setUp(self):
        self.top = pathlib.Path(tempfile.mkdtemp(dir='/var/tmp'))
        self.top.chmod(0o755)
        self.addCleanup(shutil.rmtree, self.top)
        self.directory = self.top / 'audit'

    def start(self, **settings):
        daemon = Daemon(audit_enabled='on', audit_directory=str(self.directory), **settings)
        return self.enterContext(daemon)

    def lines(self, action=None, **members):
        """The lines of the log so far, those of compressed files left out."""
        lines = [json.loads(line) for path in sorted(self.directory.glob('*.jsonl'))
                 for line in path.read_text(encoding='utf-8').splitlines()]
        return [line for line in lines
                if action in (None, line['action']) and members.items() <= line.items()]

    def line(self, action, **members):
        found = self.lines(action, **members)
        self.assertEqual(len(found), 1, (action, members, found))
        return found[0]

    def verify(self, *options):
        return subprocess.run([BUILD / 'atoll', 'audit', 'verify', '--directory', self.directory, *options],
                              capture_output=True, text=True, timeout=60 * SLOWNESS, check=False)


class Events(WithAudit):

    def test_requests_have_their_lines(self):
        daemon = self.start()
        image = daemon.import_busybox()
        one = daemon.request('POST', '/v1/sandboxes',
                             {'image': {'uri': image}, 'entrypoint': ['sleep', '1000'], 'resourceLimits': {},
                              'timeout': 600}, {'X-Request-ID': 'the-create', 'User-Agent': 'sdk/1',
                                                'traceparent': f'00-{"a1" * 16}-{"b2" * 8}-01'})['id']
        created = self.line('sandbox.create')
        self.assertEqual(created['target'], {'kind': 'sandbox', 'id': one, 'image': image})
        self.assertEqual((created['outcome'], created['status']), ('success', 202))
        self.assertEqual((created['request'], created['trace']), ('the-create', 'a1' * 16))
        self.assertEqual(created['from'], {'ip': '127.0.0.1', 'agent': 'sdk/1', 'via': 'plain'})
        self.assertEqual(created['actor']['kind'], 'key')
        self.assertEqual(created['actor']['role'], 'admin')
        self.assertRegex(created['actor']['id'], '^key:[0-9a-f]{8}$')
        self.assertEqual(self.line('image.import')['target'], {'kind': 'image', 'id': image})
        self.assertEqual(self.line('daemon.start')['actor'], {'kind': 'daemon'})

        daemon.run(one, 'TOKEN=abc echo hello there', cwd='/tmp')
        what = self.line('exec.command')['what']
        self.assertEqual((what['argv0'], what['argc'], what['cwd']), ('echo', 4, '/tmp'))
        told = daemon.request('POST', '/v1/audit/hash', {'text': 'TOKEN=abc echo hello there'})
        self.assertEqual(what['argv_hmac'], told['hmac'])
        self.assertNotEqual(what['argv_hmac'], daemon.request('POST', '/v1/audit/hash', {'text': 'x'})['hmac'])
        self.line('endpoint.issue')

        execd = f'/sandboxes/{one}/proxy/44772'
        token = daemon.execd_headers(one)
        daemon.send('GET', f'{execd}/files/download?path=/etc/passwd', headers=token).read()
        self.assertEqual(self.line('file.read')['status'], 200)
        for _ in range(3):
            daemon.send('GET', f'/sandboxes/{one}/proxy/8080/x').read()
        self.assertEqual(self.line('port.open')['what']['port'], '8080')
        self.assertEqual(self.line('port.open')['status'], 502)

        daemon.request('PUT', f'/v1/sandboxes/{one}/networkpolicy',
                       {'defaultAction': 'deny', 'egress': [{'action': 'allow', 'target': 'one.example'}]})
        daemon.request('PATCH', f'/v1/sandboxes/{one}/networkpolicy', [{'action': 'allow', 'target': 'two.example'}])
        first, second = self.lines('policy.change')
        self.assertEqual((first['what']['default'], first['what']['added']), ('deny', 'allow one.example'))
        self.assertEqual(second['what'], {'rules': 2, 'added': 'allow two.example'})

        daemon.request('POST', f'/v1/sandboxes/{one}/pause')
        daemon.request('POST', f'/v1/sandboxes/{one}/resume')
        daemon.request('PATCH', f'/v1/sandboxes/{one}/metadata', {'team': 'red'})
        daemon.delete(one)
        for action in ('sandbox.pause', 'sandbox.resume', 'sandbox.label', 'sandbox.delete'):
            self.assertEqual(self.line(action)['target'], created['target'], action)
        self.assertEqual(daemon.send('DELETE', '/v1/sandboxes/nobody').status, 404)
        self.assertEqual(self.lines('sandbox.delete')[1]['outcome'], 'refused')

        for key in ('', 'wrong'):
            self.assertEqual(daemon.send('GET', '/v1/sandboxes', headers={'OPEN-SANDBOX-API-KEY': key}).status, 401)
        self.assertEqual([line['what']['reason'] for line in self.lines('login.failed')], ['missing_key', 'wrong_key'])

        head = daemon.request('GET', '/v1/audit/head')
        checked = self.verify('--head', f'{head["seq"]}:{head["hash"]}')
        self.assertEqual(checked.returncode, 0, checked.stdout)
        daemon.stop()
        self.assertEqual(self.lines()[-1]['action'], 'daemon.stop')
        self.assertEqual(self.verify().returncode, 0)

    def test_the_daemon_tells_what_no_request_causes(self):
        daemon = self.start()
        image = daemon.import_busybox()
        ended = daemon.create(image, entrypoint=['true'])
        killed = daemon.create(image, resourceLimits={'memory': '32Mi'})
        daemon.run(killed, 'x=1; while :; do x=$x$x; done')
        until(lambda: self.lines('sandbox.end') and self.lines('sandbox.oom'), 30 * SLOWNESS, 'both lines')
        self.assertEqual(self.lines('sandbox.end')[0]['target']['id'], ended)
        self.assertEqual(self.lines('sandbox.oom')[0]['target']['id'], killed)

    def test_refused_keys_are_bounded(self):
        daemon = self.start()
        connection = daemon.connection()
        for _ in range(200):
            daemon.send('GET', '/v1/sandboxes', headers={'OPEN-SANDBOX-API-KEY': 'x'}, connection=connection).read()
        lines = self.lines('login.failed')
        self.assertLess(len(lines), 200)
        left_out = sum(line['what'].get('left_out', 0) for line in lines)
        self.assertGreater(len(lines) + left_out, 0)

    def test_the_log_is_read_by_pages(self):
        daemon = self.start()
        for number in range(5):
            daemon.send('DELETE', f'/v1/sandboxes/nobody{number}').read()
        found, after = [], 0
        while True:
            answer = daemon.send('GET', f'/v1/audit?action=sandbox.*&limit=2&after={after}')
            page = [json.loads(line) for line in answer.read().splitlines()]
            found += page
            after = int(answer.getheader('Atoll-Audit-Next'))
            self.assertLessEqual(len(page), 2)
            if not page:
                break
        self.assertEqual([line['target']['id'] for line in found], [f'nobody{number}' for number in range(5)])
        one = daemon.send('GET', '/v1/audit?target=nobody3').read().splitlines()
        self.assertEqual(len(one), 1)
        for wrong in ('limit=0', 'limit=1001', 'since=yesterday', 'target=%22', 'color=red'):
            self.assertEqual(daemon.send('GET', f'/v1/audit?{wrong}').status, 400, wrong)

    def test_a_level_of_none_writes_no_line(self):
        daemon = self.start(audit_level=['*=none', 'exec.*=full'])
        sandbox = daemon.create(daemon.import_busybox())
        daemon.run(sandbox, 'echo --password hunter2 API_KEY=c4n4ry https://me:c4n4ry@host/')
        self.assertEqual({line['action'] for line in self.lines()}, {'daemon.start', 'exec.command'})
        self.assertEqual(self.line('exec.command')['what']['command'],
                         'echo --password *** API_KEY=*** https://***@host/')


class Secrets(WithAudit):

    def test_no_line_holds_a_secret(self):
        canaries = [f'c4n4ry{number:03d}' for number in range(200)]
        fresh = itertools.cycle(canaries)
        used = set()

        def secret():
            used.add(value := next(fresh))
            return value
        daemon = self.start()
        image = daemon.import_busybox()
        sandbox = daemon.request('POST', '/v1/sandboxes', {
            'image': {'uri': image}, 'entrypoint': ['sh', '-c', 'sleep 1000', secret()], 'resourceLimits': {},
            'env': {f'A{number}': secret() for number in range(20)},
            'metadata': {f'label{number}': secret() for number in range(20)},
            'networkPolicy': {'defaultAction': 'allow'},
            'extensions': {'x.note': secret()}}, {'Idempotency-Key': secret(), 'Cookie': f'a={secret()}'})['id']
        token = daemon.execd_headers(sandbox)
        daemon.request('PATCH', f'/v1/sandboxes/{sandbox}/metadata', {'other': secret()})
        execd = f'/sandboxes/{sandbox}/proxy/44772'
        for body in ({'command': f'echo {secret()}', 'envs': {'B': secret()}},
                     {'command': f'TOKEN={secret()} sh -c true'}, {'command': f"printf '{secret()}'"},
                     {'argv': ['echo', secret(), f'--password={secret()}']},
                     {'command': f'curl -u me:{secret()} http://u:{secret()}@127.0.0.1:9/?token={secret()}'}):
            daemon.send('POST', f'{execd}/command', body, token).read()
        daemon.send('POST', f'{execd}/code', {'code': f'print("{secret()}")', 'context': {'language': 'command'}},
                    token).read()
        daemon.send('POST', f'{execd}/session', {'cwd': '/', 'envs': {'S': secret()}}, token).read()
        for method, path in (('GET', 'files/download?path=/'), ('GET', 'files/info?path=/'),
                             ('GET', 'directories/list?path=/'), ('DELETE', 'files?path=/'),
                             ('GET', 'files/search?path=/&pattern=')):
            daemon.send(method, f'{execd}/{path}{secret()}', headers=token).read()
        daemon.send('POST', f'{execd}/files/mv', [{'src': f'/{secret()}', 'dest': f'/{secret()}'}], token).read()
        daemon.send('POST', f'{execd}/files/replace', {f'/{secret()}': {'old': secret(), 'new': secret()}},
                    token).read()
        for port in range(8000, 8020):
            daemon.send('GET', f'/sandboxes/{sandbox}/proxy/{port}/{secret()}?q={secret()}',
                        headers={'Authorization': f'Bearer {secret()}', 'X-Note': secret()}).read()
        daemon.send('GET', f'/v1/sandboxes?metadata=label1%3D{secret()}').read()
        daemon.send('POST', f'/v1/sandboxes/{sandbox}/fork', {'count': 1, secret(): secret()}).read()
        daemon.send('POST', '/v1/volumes', {'name': 'data', 'labels': {'a': secret()}}).read()
        daemon.send('POST', '/v1/pools', {'name': 'p', 'image': {'uri': image}, 'env': {'P': secret()}}).read()
        daemon.send('POST', '/v1/templates', {'image': {'uri': image}, 'env': {'T': secret()}}).read()
        daemon.send('POST', '/v1/sandboxes', {
            'image': {'uri': f'https://me:{secret()}@registry.example/x', 'auth': {
                'username': secret(), 'password': secret()}}, 'entrypoint': [], 'resourceLimits': {}}).read()
        for header in ({'OPEN-SANDBOX-API-KEY': secret()},
                       {'OPEN-SANDBOX-API-KEY': '', 'Authorization': f'Bearer {secret()}'},
                       {'User-Agent': f'curl --token {secret()}'}):
            daemon.send('GET', '/v1/sandboxes', headers=header).read()
            daemon.send('DELETE', '/v1/sandboxes/x', headers=header).read()
        while len(used) < len(canaries):
            daemon.send('POST', f'{execd}/command',
                        {'command': f'true {secret()}', 'cwd': '/', 'envs': {'E': secret()}}, token).read()
        daemon.delete(sandbox)
        places = {'audit': ''.join(path.read_text('utf-8') for path in self.directory.iterdir()),
                  'log': daemon.log.read_text('utf-8'),
                  'metrics': daemon.send('GET', '/v1/metrics').read().decode(),
                  'events': daemon.send('GET', '/v1/events?follow=false').read().decode()}
        for place, text in places.items():
            self.assertEqual([canary for canary in canaries if canary in text], [], place)
        self.assertGreater(len(self.lines()), 60)


class Failure(WithAudit):

    def mount(self, size):
        self.directory.mkdir(exist_ok=True)
        subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={size},mode=755', 'audit', self.directory], check=True)
        self.addCleanup(subprocess.run, ['umount', '-l', self.directory], check=True)

    def refusal(self, daemon, method, path, body=None, headers=None):
        answer = daemon.send(method, path, body, headers)
        return answer.status, json.loads(answer.read() or '{}').get('code')

    def test_a_full_disk_refuses_changes_and_nothing_else(self):
        self.mount('128m')
        daemon = self.start()
        image = daemon.import_busybox()
        sandboxes = [daemon.create(image) for _ in range(3)]
        token = daemon.execd_headers(sandboxes[0])
        daemon.kill()
        # The next daemon finds no room to reserve.
        for path in self.directory.glob('*.jsonl'):
            subprocess.run(['truncate', '-s', str(path.stat().st_size), path], check=True)
        subprocess.run(['mount', '-o', 'remount,size=1m', self.directory], check=True)
        daemon.start()
        before = len(self.lines())
        unavailable = (503, 'AUDIT_UNAVAILABLE')
        self.assertIn('audit', daemon.request('GET', '/health')['troubles'])
        self.assertEqual(self.refusal(daemon, 'POST', '/v1/sandboxes',
                                      {'image': {'uri': image}, 'entrypoint': ['sleep'], 'resourceLimits': {}}),
                         unavailable)
        self.assertEqual(len(daemon.request('GET', '/v1/sandboxes')['items']), 3)
        self.assertEqual(self.refusal(daemon, 'POST', f'/sandboxes/{sandboxes[0]}/proxy/44772/command',
                                      {'command': 'touch /tmp/done'}, token), unavailable)
        self.assertEqual(self.refusal(daemon, 'PATCH', f'/v1/sandboxes/{sandboxes[0]}/metadata', {'a': 'b'}),
                         unavailable)
        daemon.request('POST', f'/v1/sandboxes/{sandboxes[1]}/pause')
        daemon.delete(sandboxes[2])
        self.assertEqual(len(self.lines()), before)

        subprocess.run(['mount', '-o', 'remount,size=128m', self.directory], check=True)
        until(lambda: daemon.healthy(), 20 * SLOWNESS, 'the log is written again')
        gap = self.line('audit.gap')['what']
        self.assertIn('sandbox.create=1', gap['by_action'])
        self.assertIn('sandbox.delete=1', gap['by_action'])
        self.assertIn('exec.command=1', gap['by_action'])
        self.assertEqual(daemon.run(sandboxes[0], 'test ! -e /tmp/done && echo none').stdout.strip(), 'none')
        checked = self.verify()
        self.assertEqual(checked.returncode, 0, checked.stdout)
        self.assertIn('gap at line', checked.stdout)

    def test_continue_counts_and_goes_on(self):
        self.mount('1m')
        daemon = self.start(audit_on_failure='continue')
        daemon.create(daemon.import_busybox())
        self.assertIn('audit', daemon.request('GET', '/health')['troubles'])
        self.assertGreater(daemon.metric('audit_missed_total'), 1)

    def test_no_answer_without_its_line_after_kill_9(self):
        daemon = self.start()
        image = daemon.import_busybox()
        sandbox = daemon.create(image)
        token = daemon.execd_headers(sandbox)
        answered, stop = [], threading.Event()

        def client(number):
            connection = None
            for count in itertools.count():
                if stop.is_set():
                    return
                name = f'request-{number}-{count}'
                calls = [('PATCH', f'/v1/sandboxes/{sandbox}/metadata', {'count': str(count)}, {}),
                         ('POST', f'/sandboxes/{sandbox}/proxy/44772/command', {'command': 'true'}, token),
                         ('DELETE', '/v1/sandboxes/nobody', None, {})]
                method, path, body, headers = calls[count % len(calls)]
                try:
                    connection = connection or daemon.connection()
                    answer = daemon.send(method, path, body, {**headers, 'X-Request-ID': name}, connection)
                    answered.append(name)
                    answer.read()
                except (OSError, http.client.HTTPException):
                    connection = None
                    stop.wait(0.01)
        threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(5):
                enough = len(answered) + 100
                until(lambda: len(answered) > enough, 60 * SLOWNESS, 'a hundred answers')
                daemon.kill()
                daemon.start()
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        told = {line.get('request') for line in self.lines()}
        self.assertEqual([name for name in answered if name not in told], [])
        report = json.loads(self.verify('--json').stdout)
        self.assertTrue(report['good'], report)
        self.assertEqual(len(report['boots']), 6)


if __name__ == '__main__':
    unittest.main()
