#!/usr/bin/python3
"""Two teams on one host: who may do what, over the wire and by the command line."""
import http.client
import http.server
import json
import os
import re
import signal
import subprocess
import threading
import unittest

import atoll
from until import until

TENANTS = '''
[[tenants]]
name = "red"
max = { sandboxes = 50, memory = "32Gi" }
self_service = true

[[tenants]]
name = "blue"
api_keys = ["blue-key-of-the-file"]

[[tests]]
tenant = "red"
accept = ["POST /sandboxes"]
deny = ["POST /images/prune"]
'''
ROLES = ('viewer', 'developer', 'operator', 'auditor', 'admin')
UNKNOWN = '00000000-0000-4000-8000-000000000000'
NOBODY = 65534


class TenantsDaemon(atoll.Daemon):
    """A daemon with tenants. Its client is root, who needs no key."""

    def __init__(self, text=TENANTS, provider='file', **settings):
        super().__init__(**settings)
        self.tenants = self.top / 'tenants.toml'
        self.write(text)
        with self.config.open('a', encoding='utf-8') as config:
            config.write(f'[tenants]\nprovider = "{provider}"\n'
                         f'file = "{self.tenants}"\n')

    def write(self, text):
        self.tenants.write_text(text, encoding='utf-8')
        self.tenants.chmod(0o644)

    def client_env(self):
        return {**os.environ, 'ATOLL_RUN_DIR': str(self.run_dir)}

    def cli(self, *words, key=None, code=0):
        """What a call of the client prints."""
        env = self.client_env() if key is None else {**os.environ, 'ATOLL_SERVER': self.url,
                                                     'ATOLL_API_KEY': key}
        done = subprocess.run([atoll.BUILD / 'atoll', *words], env=env, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode != code:
            raise AssertionError(f'{words}: {done.returncode} {done.stdout} {done.stderr}')
        return done.stdout + done.stderr if code else done.stdout

    def new_key(self, role, tenant='red', **options):
        words = ['key', 'add', '--role', role]
        if role in ('viewer', 'developer'):
            words += ['--tenant', tenant]
        for name, value in options.items():
            words += [f'--{name}', value]
        return self.cli(*words).strip()

    def ask(self, key, method, path, body=None):
        """Status and text of an answer."""
        response = self.send(method, path, body, {'OPEN-SANDBOX-API-KEY': key} if key else {})
        return response.status, response.read().decode()

    def reload(self):
        """Returns when the daemon has answered a SIGHUP, and what it has logged since."""
        before = self.log.stat().st_size
        self.process.send_signal(signal.SIGHUP)
        said = lambda: self.log.read_text(encoding='utf-8')[before:]
        until(lambda: 'reload' in said() and said().endswith('\n'), 20 * atoll.SLOWNESS, 'an answer to SIGHUP')
        return said()


class Tenants(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = cls.enterClassContext(TenantsDaemon())
        with open(atoll.image_archive('busybox'), 'rb') as archive:
            cls.admin = cls.daemon.new_key('admin')
            headers = {'OPEN-SANDBOX-API-KEY': cls.admin}
            assert cls.daemon.send('POST', '/v1/images?name=busybox:latest', archive, headers).status == 201
        cls.keys = {role: cls.daemon.new_key(role) for role in ROLES}
        cls.blue = cls.daemon.new_key('developer', 'blue')

    def create(self, key, **fields):
        body = {'image': {'uri': 'busybox:latest'}, 'entrypoint': ['sleep', '100000'], 'resourceLimits': {},
                **fields}
        status, text = self.daemon.ask(key, 'POST', '/v1/sandboxes', body)
        self.assertEqual(status, 202, text)
        box = json.loads(text)['id']
        self.addCleanup(lambda: self.daemon.ask(self.admin, 'DELETE', f'/v1/sandboxes/{box}'))
        return box

    def test_root_needs_no_key(self):
        self.assertRegex(self.daemon.cli('whoami'), r'^admin of the host \(root(:\d+)?\)$')
        log = self.daemon.log.read_text(encoding='utf-8')
        self.assertRegex(log, r'root entered by admin.sock by=root')

    def test_nobody_else_enters_by_the_socket_of_root(self):
        path = self.daemon.run_dir / 'admin.sock'
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        path.chmod(0o666)
        self.addCleanup(path.chmod, 0o600)
        attempt = f'''
import os, socket
os.setgid({NOBODY}); os.setuid({NOBODY})
with socket.socket(socket.AF_UNIX) as s:
    s.connect({str(path)!r})
    try:
        s.sendall(b"GET /v1/whoami HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
        print(s.recv(100))
    except OSError:
        print(b"")
'''
        told = subprocess.run(['python3', '-c', attempt], capture_output=True, text=True, check=True)
        self.assertEqual(told.stdout.strip(), "b''")

    def test_every_route_by_every_role(self):
        """The page says what the daemon does."""
        page = (atoll.TOP / 'docs/roles.md').read_text(encoding='utf-8')
        rows = re.findall(r'^\| `([A-Z]+) (/[^`]*)` \|(.*)\|$', page.partition('## Port')[0], re.M)
        self.assertGreater(len(rows), 60)
        box = self.create(self.keys['developer'])
        for method, pattern, cells in rows:
            may = dict(zip(ROLES, (cell.strip() for cell in cells.split('|'))))
            path = pattern.replace('{sandbox_id}', box).replace('{tenant}', 'red').replace('{port}', '80')
            path = re.sub(r'\?(\w+)$', r'?\1=oci', re.sub(r'\{[^}]*\}', 'none', path))
            for prefix in ('', '/v1'):
                for role in ROLES:
                    if (method, pattern) == ('POST', '/shutdown') and role == 'admin':
                        continue
                    if method == 'DELETE' and pattern == '/sandboxes/{sandbox_id}' and may[role] != '–':
                        continue
                    with self.subTest(route=f'{method} {prefix}{path}', role=role):
                        status, text = self.daemon.ask(self.keys[role], method, prefix + path)
                        if may[role] == '–':
                            self.assertEqual(status, 403, text)
                            self.assertNotEqual(may[json.loads(text)['needs']], '–')
                        else:
                            self.assertNotIn(status, (401, 403), text)
                with self.subTest(route=f'{method} {prefix}{path}', role='nobody'):
                    status, text = self.daemon.ask('', method, prefix + path)
                    self.assertEqual(status == 401, may['admin'] != 'open', text)

    def test_the_other_team_sees_nothing(self):
        box = self.create(self.keys['developer'], metadata={'name': 'secret-project'})
        for method, path in (('GET', ''), ('GET', '/diagnostics/logs'), ('GET', '/network'), ('POST', '/pause'),
                             ('DELETE', ''), ('GET', '/endpoints/44772'), ('PATCH', '/metadata')):
            def told(sandbox, method=method, path=path):
                status, text = self.daemon.ask(self.blue, method, f'/v1/sandboxes/{sandbox}{path}',
                                               {} if method == 'PATCH' else None)
                return status, text.replace(sandbox, 'ID')
            with self.subTest(method=method, path=path):
                self.assertEqual(told(box), told(UNKNOWN))
                self.assertEqual(told(box)[0], 404)
        _, text = self.daemon.ask(self.blue, 'GET', '/v1/sandboxes')
        self.assertNotIn(box, text)
        self.assertNotIn('secret-project', text)
        _, text = self.daemon.ask(self.keys['viewer'], 'GET', '/v1/sandboxes')
        self.assertIn(box, text)

    def test_an_auditor_reads_names_and_states_only(self):
        box = self.create(self.keys['developer'], entrypoint=['sleep', '98765'],
                          metadata={'name': 'web', 'customer': 'whose-name'})
        for path in (f'/v1/sandboxes/{box}', '/v1/sandboxes'):
            _, text = self.daemon.ask(self.keys['auditor'], 'GET', path)
            self.assertIn(box, text)
            self.assertIn('"web"', text)
            self.assertNotIn('whose-name', text)
            self.assertNotIn('98765', text)
        # Nor can guesses find the contents.
        for path in ('/v1/sandboxes?metadata=customer%3Dwhose-name', '/v1/snapshots?label=customer',
                     '/v1/templates?metadata=customer%3Dx'):
            status, text = self.daemon.ask(self.keys['auditor'], 'GET', path)
            self.assertEqual((status, json.loads(text)['code']), (403, 'FORBIDDEN'), path)

    def test_an_auditor_reads_no_messages(self):
        """They quote what tenants write: the path of a program, what it prints."""
        box = self.create(self.keys['developer'], entrypoint=['/opt/secret-program'])
        atoll.until(lambda: 'secret-program' in self.daemon.ask(
            self.keys['developer'], 'GET', f'/v1/sandboxes/{box}')[1].partition('"status"')[2], 20 * atoll.SLOWNESS,
            'its owner reads why it failed')
        for path, status in ((f'/v1/sandboxes/{box}', 200), ('/v1/sandboxes', 200),
                             (f'/v1/sandboxes/{box}/network', 200), ('/v1/templates', 200),
                             (f'/v1/sandboxes/{box}/diagnostics/events', 403)):
            answer, text = self.daemon.ask(self.keys['auditor'], 'GET', path)
            self.assertEqual(answer, status, text)
            self.assertNotIn('secret-program', text)
        self.assertEqual(json.loads(self.daemon.ask(self.keys['auditor'], 'GET', f'/v1/sandboxes/{box}')[1])['status']
                         ['state'], 'Failed')

    def test_upstreams_keys_are_taken(self):
        status, text = self.daemon.ask('blue-key-of-the-file', 'GET', '/v1/whoami')
        self.assertEqual(status, 200)
        self.assertEqual(json.loads(text)['tenant'], 'blue')
        self.assertIn('keys without expiry', self.daemon.log.read_text(encoding='utf-8'))
        self.assertNotIn('blue-key-of-the-file', self.daemon.log.read_text(encoding='utf-8'))

    def test_keys_by_the_command_line(self):
        key = self.daemon.new_key('viewer', name='ci', expires='2d', route='GET /sandboxes')
        self.assertRegex(key, r'^atl_[a-z2-7]{8}_[\w-]{43}$')
        self.assertEqual(self.daemon.ask(key, 'GET', '/v1/sandboxes')[0], 200)
        self.assertEqual(self.daemon.ask(key, 'GET', '/v1/volumes')[0], 403)
        identity = 'k_' + key[4:12]
        self.assertRegex(self.daemon.cli('key', 'ls', '--tenant', 'red'),
                         rf'(?m)^{identity} +viewer +active +ci +20\S+Z +20\S+Z$')
        self.assertIn('only routes', self.daemon.cli('whoami', key=self.keys['developer']) + self.daemon.cli(
            'key', 'ls', '--tenant', 'red', '--format', 'only routes {{.Id}}'))
        following = self.daemon.cli('key', 'rotate', '--tenant', 'red', '--grace', '1h', identity).strip()
        self.assertEqual(self.daemon.ask(key, 'GET', '/v1/sandboxes')[0], 200)
        self.assertEqual(self.daemon.ask(following, 'GET', '/v1/sandboxes')[0], 200)
        self.daemon.cli('key', 'rm', '--tenant', 'red', identity)
        self.assertEqual(self.daemon.ask(key, 'GET', '/v1/sandboxes')[0], 401)
        self.assertEqual(self.daemon.ask(following, 'GET', '/v1/sandboxes')[0], 200)
        self.assertIn('revoked', self.daemon.cli('key', 'ls', '--tenant', 'red'))
        # A developer of a tenant with self_service handles the keys of his own.
        own = self.daemon.cli('key', 'add', '--role', 'viewer', key=self.keys['developer']).strip()
        self.assertEqual(self.daemon.ask(own, 'GET', '/v1/sandboxes')[0], 200)
        self.assertIn('self_service', self.daemon.cli('key', 'add', key=self.blue, code=1))
        self.assertIn('NAME=VALUE', self.daemon.cli('key', 'add', '--max', 'memory', code=2))
        self.assertIn('90d', self.daemon.cli('key', 'add', '--expires', 'soon', code=2))

    def test_tenants_by_the_command_line(self):
        self.assertRegex(self.daemon.cli('tenant', 'ls'), r'(?m)^red +red +1 +memory=32Gi sandboxes=50$')
        self.assertEqual(self.daemon.cli('tenant', 'ls', '-q', key=self.blue), 'blue\n')
        self.assertEqual(json.loads(self.daemon.cli('tenant', 'show', 'red'))['max']['memory'], '32Gi')
        self.assertIn('not found', self.daemon.cli('tenant', 'show', 'red', key=self.blue, code=2))
        self.assertEqual(self.daemon.cli('tenant', 'check', str(self.daemon.tenants)),
                         f'{self.daemon.tenants}: 2 tenants, 2 tests passed\n')
        bad = self.daemon.top / 'bad.toml'
        bad.write_text(TENANTS.replace('deny', 'accept = ["GET /nope"]\ndeny').replace(
            'accept = ["POST /sandboxes"]\n', ''), encoding='utf-8')
        self.assertIn("there is no route 'GET /nope'", self.daemon.cli('tenant', 'check', str(bad), code=2))
        self.assertEqual(self.daemon.cli('complete', '--', 'tenant', 'show', ''), 'blue\nred\n')

    def test_sandboxes_of_all_by_the_command_line(self):
        red, blue = self.create(self.keys['developer']), self.create(self.blue)
        owners = dict(line.split() for line in self.daemon.cli('ps', '--format', '{{.ID}} {{.Tenant}}').splitlines())
        self.assertEqual((owners[red], owners[blue]), ('red', 'blue'))
        of_blue = self.daemon.cli('--tenant', 'blue', 'ps', '-q').split()
        self.assertIn(blue, of_blue)
        self.assertNotIn(red, of_blue)
        # A role that may not look inside is told so, instead of an empty table.
        self.assertIn('reason', self.daemon.cli('stats', '--no-stream', red, key=self.admin, code=1))
        # A name goes before the start of another's id.
        named = self.create(self.keys['developer'], metadata={'name': red[:4]})
        self.assertEqual(json.loads(self.daemon.cli('--json', 'inspect', red[:4]))[0]['id'], named)

    def test_an_admin_by_the_command_line(self):
        box = self.create(self.keys['developer'])
        told = self.daemon.cli('exec', box, 'echo', 'inside', key=self.admin, code=125)
        self.assertIn('reason', told)
        why = ('--reason', 'outage of web & more')
        self.assertEqual(self.daemon.cli(*why, 'exec', box, 'echo', 'inside', key=self.admin), 'inside\n')
        env = {**os.environ, 'ATOLL_SERVER': self.daemon.url, 'ATOLL_API_KEY': self.admin}
        seen, client = atoll.at_a_terminal(b'', *why, 'exec', '-it', box, 'echo', 'inside', env=env)
        self.assertEqual(client.wait(30 * atoll.SLOWNESS), 0, seen)
        self.assertIn(b'inside', seen)
        _, events = self.daemon.ask(self.keys['viewer'], 'GET', f'/v1/sandboxes/{box}/diagnostics/events')
        self.assertIn('outage of web & more', events)
        # A name is the host's unless its tenant is told, and another tenant's word counts for nothing.
        self.assertEqual(self.daemon.ask(self.keys['developer'], 'POST', '/v1/volumes', {'name': 'data'})[0], 201)
        remove = ('volume', 'rm', 'data')
        self.assertIn('does not exist', self.daemon.cli(*remove, key=self.admin, code=2))
        self.assertIn('does not exist', self.daemon.cli('--tenant', 'red', *remove, key=self.blue, code=2))
        self.daemon.cli('--tenant', 'red', *remove, key=self.admin)

    def test_root_runs_things_without_a_key(self):
        self.assertEqual(self.daemon.cli('run', '--rm', 'busybox', 'echo', 'hello'), 'hello\n')

    def test_a_backup_has_the_keys(self):
        status, text = self.daemon.ask(self.admin, 'GET', '/v1/backup')
        self.assertEqual(status, 200, text[:200])
        self.assertIn('keys.db', json.loads(text)['files'])

    def test_no_secret_is_written_anywhere(self):
        key = self.daemon.new_key('developer')
        self.daemon.ask(key, 'GET', '/v1/sandboxes')
        self.daemon.ask(key[:-1] + '#', 'GET', '/v1/sandboxes')
        secret = key[13:-1].encode()
        for path in [self.daemon.log, *self.daemon.data_dir.glob('state/*.db*')]:
            self.assertNotIn(secret, path.read_bytes(), path)


class RevokedKeysAfterARestore(unittest.TestCase):
    def test_they_are_told_and_can_be_revoked_again(self):
        daemon = self.enterContext(TenantsDaemon(audit_enabled='on'))
        revoked, kept = daemon.new_key('developer'), daemon.new_key('developer')
        status = lambda key: daemon.ask(key, 'GET', '/v1/sandboxes')[0]
        file = daemon.top / 'state.json'
        daemon.cli('backup', str(file))
        made_at = json.loads(file.read_text(encoding='utf-8'))['createdAt']
        name = 'k_' + revoked[4:12]
        daemon.cli('key', 'rm', '--tenant', 'red', name)
        self.assertEqual((status(revoked), status(kept)), (401, 200))
        daemon.shutdown()
        (daemon.data_dir / 'state').rename(daemon.data_dir / 'state.old')
        done = subprocess.run([atoll.BUILD / 'atolld', '--config', daemon.config, 'restore', file], text=True,
                              check=False, timeout=60 * atoll.SLOWNESS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(f'revoked after the backup of {made_at} are valid again', done.stdout)
        daemon.start()
        self.assertEqual((status(revoked), status(kept)), (200, 200), 'as docs/operating.md warns')
        told = [json.loads(line) for line in daemon.cli(
            'audit', 'search', '--action', 'key.*', '--since', made_at, '--json').splitlines()]
        again = [line['what']['id'] for line in told if line['action'] == 'key.revoke']
        self.assertEqual(again, [name])
        daemon.cli('key', 'rm', '--tenant', 'red', *again)
        self.assertEqual((status(revoked), status(kept)), (401, 200))


class KilledWhileKeysAreMade(unittest.TestCase):
    def test_an_answered_key_is_there_after_kill_9(self):
        daemon = self.enterContext(TenantsDaemon())
        admin = daemon.new_key('admin')
        headers = {'OPEN-SANDBOX-API-KEY': admin}
        made, revoked, stop = [], [], threading.Event()

        def maker(number):
            connection = None
            while not stop.is_set():
                try:
                    connection = connection or daemon.connection()
                    answer = daemon.send('POST', '/v1/tenants/red/keys', {'role': 'viewer'}, headers, connection)
                    told = json.loads(answer.read())
                    made.append(told['key'])
                    if number % 2:
                        path = f'/v1/tenants/red/keys/{told["id"]}'
                        if daemon.send('DELETE', path, None, headers, connection).status == 204:
                            revoked.append(told['key'])
                        connection = None
                except (OSError, http.client.HTTPException):
                    connection = None
                    stop.wait(0.01)
        threads = [threading.Thread(target=maker, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(3):
                enough = len(made) + 40
                until(lambda: len(made) > enough, 60 * atoll.SLOWNESS, 'forty keys')
                daemon.kill()
                daemon.start()
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        known = {key['id']: key['state'] for key in
                 json.loads(daemon.ask(admin, 'GET', '/v1/tenants/red/keys')[1])['items']}
        state = {secret: known.get('k_' + secret.split('_')[1]) for secret in made}
        self.assertEqual([secret for secret in made if state[secret] is None], [])
        self.assertEqual([secret for secret in revoked if state[secret] != 'revoked'], [])
        alive = next(secret for secret in made if state[secret] == 'active')
        self.assertEqual(daemon.ask(alive, 'GET', '/v1/whoami')[0], 200)
        self.assertEqual(daemon.ask(revoked[0], 'GET', '/v1/whoami')[0], 401)


class Page(unittest.TestCase):
    def test_every_line_of_the_page(self):
        """docs/teams.md, as somebody types it."""
        page = (atoll.TOP / 'docs/teams.md').read_text(encoding='utf-8')
        files = re.findall(r'^```toml\n(.*?)^```', page, re.M | re.S)
        blocks = re.findall(r'^```sh\n(.*?)^```', page, re.M | re.S)
        self.assertEqual(len(blocks[0].splitlines()), 10)
        lines = 'began=$(date +%s%N)\n' + blocks[0] + 'took=$(($(date +%s%N) - began))\necho $took\n' + ''.join(blocks[1:])
        self.assertEqual(files[0], '[tenants]\nprovider = "file"\n[usage]\nkeep_days = 90\n')
        with TenantsDaemon(files[1], usage_keep_days=90) as daemon:
            with open(atoll.image_archive('busybox'), 'rb') as archive:
                headers = {'OPEN-SANDBOX-API-KEY': daemon.new_key('admin')}
                self.assertEqual(daemon.send('POST', '/v1/images?name=busybox:latest', archive, headers).status, 201)
            lines = (lines.replace('/etc/atoll/tenants.toml', str(daemon.tenants))
                     .replace('systemctl restart atolld', 'true')
                     .replace('audit verify', f'audit verify --directory {daemon.top}/audit')
                     .replace('systemctl reload atolld', f'kill -HUP {daemon.process.pid}'))
            script = ''.join(f"echo '$' {json.dumps(line).replace('$', chr(92) + '$')}\n{line}\n"
                             for line in lines.splitlines())
            done = subprocess.run(['bash', '-eu', '-o', 'pipefail'], input=script, text=True, timeout=120, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  env={**daemon.client_env(), 'PATH': f'{atoll.BUILD}:/usr/bin:/bin'})
            self.assertEqual(done.returncode, 0, done.stdout)
            said = re.split(r'^\$ ', done.stdout, flags=re.M)
            told = {line.split('\n', 1)[0].strip(): line.split('\n', 1)[1] for line in said if '\n' in line}
            took = int(told['echo $took']) / 1e9
            print(f'# the ten lines of docs/teams.md: {took:.1f} s', flush=True)
            self.assertLess(took, 10 * atoll.SLOWNESS)
            self.assertRegex(told['ATOLL_API_KEY=$red atoll usage --by label:job'], r'(?m)^site +\d')
            self.assertIn('memory', told['ATOLL_API_KEY=$red atoll run -d --memory 64Gi busybox sleep 1000 || true'])
            self.assertRegex(told[f'atoll audit verify --directory {daemon.top}/audit'],
                             r'(?s)^[1-9]\d* lines in .*\ngood: no line was changed')
            self.assertIn('web', told['ATOLL_API_KEY=$red atoll ps'])
            self.assertNotIn('web', told['ATOLL_API_KEY=$blue atoll ps'])
            self.assertIn('web', told['atoll ps'])


class Reload(unittest.TestCase):
    def test_a_file_is_taken_whole_or_not_at_all(self):
        with TenantsDaemon() as daemon:
            blue, red = daemon.new_key('developer', 'blue'), daemon.new_key('developer')
            status = lambda key: daemon.ask(key, 'GET', '/v1/sandboxes')[0]
            daemon.write(TENANTS.replace('name = "blue"', 'name = "blue"\nweigth = 3'))
            self.assertIn('tenants.weigth is not known here', daemon.reload())
            daemon.write(TENANTS.replace('deny', 'deny = ["GET /health"]\n#'))
            self.assertIn('the test of deny', daemon.reload())
            self.assertEqual((status(red), status(blue), status('blue-key-of-the-file')), (200, 200, 200))
            daemon.write('[[tenants]]\nname = "red"\n[[tenants]]\nname = "green"\n')
            self.assertIn('reloaded', daemon.reload())
            self.assertEqual((status(red), status(blue), status('blue-key-of-the-file')), (200, 401, 401))
            self.assertEqual(status(daemon.new_key('viewer', 'green')), 200)
            # The keys of the store survive the daemon, and so does the refusal.
            daemon.kill()
            daemon.start()
            self.assertEqual((status(red), status(blue)), (200, 401))
            daemon.tenants.unlink()
            self.assertIn('does not exist', daemon.reload())
            self.assertEqual(status(red), 200)

    def test_a_tenant_adopts_what_was_there(self):
        daemon = TenantsDaemon()
        tenants = daemon.config.read_text(encoding='utf-8')
        daemon.config.write_text(tenants.partition('[tenants]')[0], encoding='utf-8')
        with daemon:
            image = daemon.import_busybox()
            old = daemon.create(image)
            daemon.request('POST', '/v1/volumes', {'name': 'data'})
            self.assertEqual(daemon.request('GET', '/v1/volumes/data?tenant=red')['name'], 'data', 'there are none')
            daemon.stop()
            daemon.config.write_text(tenants + 'adopt = "red"\n', encoding='utf-8')
            daemon.start()
            admin, red, blue = (daemon.new_key('admin'), daemon.new_key('developer'),
                                daemon.new_key('developer', 'blue'))
            sees = lambda key, box: daemon.ask(key, 'GET', f'/v1/sandboxes/{box}')[0]
            self.assertEqual((sees(admin, old), sees(red, old), sees(blue, old)), (200, 200, 404))
            body = {'image': {'uri': image}, 'entrypoint': ['sleep', '100000'], 'resourceLimits': {}}
            of_host = json.loads(daemon.ask(admin, 'POST', '/v1/sandboxes', body)[1])['id']
            daemon.stop()
            daemon.start()
            self.assertEqual((sees(admin, of_host), sees(red, of_host), sees(red, old)), (200, 404, 200))

    def test_a_start_that_would_be_ambiguous_is_refused(self):
        for settings, text, words in (
                ({'server_api_key': '0123456789'}, TENANTS, 'both set'),
                ({}, '[[tenant]]\n', 'tenant is not known here'),
                ({}, TENANTS.replace('deny', 'accept'), 'line')):
            daemon = TenantsDaemon(text, **settings)
            try:
                with self.assertRaisesRegex(AssertionError, words):
                    daemon.start()
            finally:
                daemon.process.wait()
                subprocess.run(['rm', '-rf', daemon.top], check=True)


class Provider(http.server.ThreadingHTTPServer):
    """Says whose a key is, as OpenSandbox's tenant service does."""

    def __init__(self):
        super().__init__(('127.0.0.1', 0), Answer)
        self.keys, self.asked = {'key-of-red': 'red'}, []
        self.thread = threading.Thread(target=self.serve_forever)
        self.thread.start()

    def stop(self):
        if self.thread.is_alive():
            self.shutdown()
            self.server_close()
            self.thread.join()


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):  # pylint: disable=invalid-name
        key = self.headers['OPEN-SANDBOX-API-KEY']
        self.server.asked.append((key, self.headers['X-Daemon']))
        known = self.server.keys.get(key)
        body = json.dumps({'namespace': known, 'ttl': 1}).encode()
        self.send_response(200 if known else 401)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


class Hook(http.server.BaseHTTPRequestHandler):
    """Keeps what it is told."""

    def do_POST(self):  # pylint: disable=invalid-name
        self.server.told.append(json.loads(self.rfile.read(int(self.headers['Content-Length']))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


class Denials(unittest.TestCase):
    def test_the_webhook_hears_whose_sandbox_it_is(self):
        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Hook)
        server.told = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        for end in (server.server_close, thread.join, server.shutdown):
            self.addCleanup(end)
        with TenantsDaemon(network_denial_webhook=f'http://127.0.0.1:{server.server_port}/') as daemon:
            daemon.key = daemon.new_key('developer')
            box = daemon.create(daemon.import_busybox(), networkPolicy={'defaultAction': 'deny'})
            daemon.run(box, 'nslookup hooked.example')
            told = until(lambda: [one for one in server.told if one['hostname'] == 'hooked.example'],
                         30 * atoll.SLOWNESS, 'the webhook is told')[0]
            self.assertEqual((told['tenant'], told['sandboxId']), ('red', box))
            self.assertRegex(daemon.log.read_text(encoding='utf-8'), 'egress denied.*tenant=red')


class HttpProvider(unittest.TestCase):
    def test_a_service_says_whose_a_key_is(self):
        provider = Provider()
        self.addCleanup(provider.stop)
        daemon = TenantsDaemon(provider='http')
        with daemon.config.open('a', encoding='utf-8') as config:
            config.write(f'endpoint = "http://127.0.0.1:{provider.server_port}/who"\nauth_header = "X-Daemon"\n'
                         'auth_token = "of-the-daemon"\nmax_stale_seconds = 0\n')
        daemon.tenants.unlink()
        with daemon:
            status, text = daemon.ask('key-of-red', 'GET', '/v1/whoami')
            self.assertEqual((status, json.loads(text)['tenant']), (200, 'red'))
            self.assertIn(('key-of-red', 'of-the-daemon'), provider.asked)
            self.assertEqual(daemon.ask('unknown', 'GET', '/v1/whoami')[0], 401)
            # A key of the daemon's own store never leaves the host.
            own = daemon.new_key('admin')
            self.assertEqual(daemon.ask(own, 'GET', '/v1/whoami')[0], 200)
            self.assertEqual(daemon.ask(own[:-1] + '!', 'GET', '/v1/whoami')[0], 401)
            self.assertNotIn(own[:-1], ''.join(key for key, _ in provider.asked))
            provider.keys.clear()
            until(lambda: daemon.ask('key-of-red', 'GET', '/v1/whoami')[0] == 401, 30, 'the key has ended')
            provider.stop()
            status, text = daemon.ask('another', 'GET', '/v1/whoami')
            self.assertEqual((status, json.loads(text)['code']), (503, 'TENANT_PROVIDER_UNAVAILABLE'))
            self.assertRegex(daemon.cli('whoami'), '^admin of the host')


if __name__ == '__main__':
    unittest.main()
