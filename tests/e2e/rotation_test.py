"""A reload that replaces the API key ends what the old one has opened, and says who did what."""
import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import tempfile
import unittest

from atoll import BUILD, SLOWNESS, Daemon, until
from box import Box

OLD, NEW = 'the-first-key-of-all', 'another-key-in-its-place'


def until_end(stream):
    """Reads a response, or a socket, to its end; what it has sent."""
    seen = b''
    read = getattr(stream, 'read1', None) or stream.recv
    try:
        while piece := read(4096):
            seen += piece
    except ConnectionError:  # cut, not ended
        pass
    return seen


def rotate(daemon, old, new):
    text = daemon.config.read_text(encoding='utf-8')
    before = len(daemon.log.read_text(encoding='utf-8'))
    daemon.config.write_text(text.replace(old, new), encoding='utf-8')
    daemon.process.send_signal(signal.SIGHUP)
    until(lambda: 'the API key was replaced' in daemon.log.read_text(encoding='utf-8')[before:],
          30 * SLOWNESS, 'the reload')
    daemon.key = daemon.configured_key = NEW


class Rotation(unittest.TestCase):

    def status(self, daemon, path='/v1/sandboxes', **headers):
        return daemon.send('GET', path, headers=headers).status

    def test_what_the_old_key_opened_ends(self):
        with Daemon(server_api_key=OLD) as daemon:
            image = daemon.import_busybox()
            box = Box(daemon, image, entrypoint=['sh', '-c', 'echo on; exec sleep 100000'])
            secure = Box(daemon, image, secureAccess=True)
            endpoint = lambda port: daemon.request(
                'GET', f'/v1/sandboxes/{secure.id}/endpoints/{port}')['headers']
            old = {port: endpoint(port) for port in (8080, 18080, 44772)}

            follow = daemon.send('GET', f'/v1/sandboxes/{box.id}/diagnostics/logs?follow=true')
            self.assertIn(b'on', follow.readline())
            command = box.open('POST', '/command', {'command': 'echo begun; sleep 100000'})
            self.assertTrue(command.readline())
            watch = box.open('GET', '/metrics/watch')
            self.assertTrue(watch.readline())
            terminal = box.call('POST', '/pty', {}).json['session_id']
            web_socket = box.websocket(f'/pty/{terminal}/ws')
            # A request whose body is still coming.
            upload = daemon.connection()
            upload.putrequest('POST', '/v1/images?name=x')
            upload.putheader('OPEN-SANDBOX-API-KEY', OLD)
            upload.putheader('Content-Length', '10')
            upload.endheaders(b'12345')
            background = box.background('sleep 100000')

            rotate(daemon, OLD, NEW)
            for stream in (follow, command, watch, web_socket.sock, upload.sock):
                until_end(stream)

            for refused in ({'OPEN-SANDBOX-API-KEY': OLD},
                            {'OPEN-SANDBOX-API-KEY': '', 'Authorization': f'Bearer {OLD}'},
                            {'Authorization': f'Bearer {OLD}'}):
                self.assertEqual(self.status(daemon, **refused), 401, refused)
            self.assertEqual(self.status(daemon), 200)
            self.assertEqual(self.status(daemon, **{'OPEN-SANDBOX-API-KEY': '',
                                                    'Authorization': f'Bearer {NEW}'}), 200)
            self.assertEqual(box.call('GET', '/ping').status, 401)
            none = {'OPEN-SANDBOX-API-KEY': ''}
            for port, path in ((8080, '/'), (18080, '/policy'), (44772, '/ping')):
                way = f'/sandboxes/{secure.id}/proxy/{port}{path}'
                self.assertEqual(self.status(daemon, way, **none, **old[port]), 401, port)
                self.assertNotEqual(self.status(daemon, way, **none, **endpoint(port)), 401, port)

            again = Box.of(daemon, box.id)
            self.assertEqual(again.out('echo well'), 'well')
            # What it has started goes on: it is the sandbox's.
            self.assertTrue(again.status(background)['running'])

    def test_a_published_port_takes_the_new_key(self):
        """`atoll run -p` reads the file of the key anew."""
        serve = 'mkdir /www; echo published >/www/index.html; exec httpd -f -p 80 -h /www'
        with Daemon() as daemon:
            image = daemon.import_busybox()
            environment = {'PATH': os.environ['PATH'], 'ATOLL_RUN_DIR': str(daemon.run_dir)}
            said = subprocess.run([BUILD / 'atoll', 'run', '-d', '-p', '127.0.0.1::80', image,
                                   'sh', '-c', serve], env=environment, text=True, check=True,
                                  capture_output=True, timeout=60 * SLOWNESS).stderr
            port = int(re.search(r'127\.0\.0\.1:(\d+)', said)[1])

            def page():
                one = http.client.HTTPConnection('127.0.0.1', port, timeout=20 * SLOWNESS)
                with contextlib.closing(one), contextlib.suppress(OSError, http.client.HTTPException):
                    one.request('GET', '/')
                    return one.getresponse().read()
                return None
            until(lambda: page() == b'published\n', 30 * SLOWNESS, 'the page')
            rotate(daemon, '[server]\n', f'[server]\napi_key = "{NEW}"\n')
            until(lambda: page() == b'published\n', 30 * SLOWNESS, 'the page, by the new key')

    def test_a_configured_key_replaces_the_one_that_was_made(self):
        with Daemon() as daemon:
            made = daemon.key
            self.assertEqual(self.status(daemon), 200)
            box = Box(daemon, daemon.import_busybox())
            with open(daemon.config, 'a', encoding='utf-8') as config:
                config.write('[log]\nlevel = "info"\n')
            rotate(daemon, '[server]\n', f'[server]\napi_key = "{NEW}"\n')
            self.assertEqual(self.status(daemon), 200)
            self.assertEqual(self.status(daemon, **{'OPEN-SANDBOX-API-KEY': made}), 401)
            self.assertEqual(box.call('GET', '/ping').status, 401)
            # Root's command line tool finds it where it looks.
            key = (daemon.data_dir / 'state/api_key').read_text(encoding='ascii').strip()
            self.assertEqual(key, NEW)
            # And the one that was made is gone for good.
            daemon.stop()
            daemon.start()
            self.assertEqual(self.status(daemon, **{'OPEN-SANDBOX-API-KEY': made}), 401)
            self.assertEqual(self.status(daemon), 200)


class Told(unittest.TestCase):
    """The log's answer to: who did this?"""

    def test_a_line_for_each_deed_and_each_refusal(self):
        with Daemon() as daemon:
            log = lambda: daemon.log.read_text(encoding='utf-8')
            lines = lambda *words: [line for line in log().splitlines()
                                    if all(word in line for word in words)]
            image = daemon.import_busybox()
            box = daemon.create(image, entrypoint=['sh', '-c', 'exit 3'])
            until(lambda: lines('sandbox ended', box), 30 * SLOWNESS, 'its end is told')
            other, lives = daemon.create(image), daemon.create(image)
            daemon.delete(other)
            self.assertEqual(daemon.send('POST', '/v1/sandboxes', {
                'image': {'uri': 'nothing'}, 'entrypoint': ['x'], 'resourceLimits': {}}).status, 400)
            for headers in ({'OPEN-SANDBOX-API-KEY': 'wrong\u00e9'.encode('latin-1')},
                            {'OPEN-SANDBOX-API-KEY': ''}):
                self.assertEqual(daemon.send('DELETE', f'/v1/sandboxes/{box}',
                                             headers=headers).status, 401)
            self.assertEqual(daemon.send('GET', f'/sandboxes/{lives}/proxy/44772/ping', headers={
                'OPEN-SANDBOX-API-KEY': '', 'X-EXECD-ACCESS-TOKEN': 'x'}).status, 401)

            who = re.search(r'POST /sandboxes by=(key:[0-9a-f]{8}) ', log())[1]
            whence = 'from=127.0.0.1:'
            for deed in (('POST /images ', 'status=201', 'name=busybox:latest'),
                         ('POST /sandboxes ', 'status=202', f'sandbox={box}'),
                         ('POST /sandboxes ', 'status=400', 'code='),
                         ('DELETE /sandboxes/{sandbox_id} ', 'status=204', f'sandbox={other}')):
                self.assertEqual(len(lines(*deed, f'by={who}', whence)), 1, deed)
            refused = lines('access refused', whence)
            self.assertEqual([re.search(r'reason=(\S+)', line)[1] for line in refused],
                             ['wrong_key', 'missing_key', 'sandbox_token'])
            self.assertTrue(all(' warning ' in line for line in refused))
            self.assertNotIn(who, ''.join(refused))
            self.assertIn('by=nobody', refused[1])
            for secret in (daemon.key, 'wrong'):
                self.assertFalse([line for line in log().splitlines()
                                  if secret in line.replace('wrong_key', '')])

    def test_who_tries_keys_does_not_fill_the_log(self):
        with Daemon() as daemon:
            connection = daemon.connection()
            for number in range(200):
                daemon.send('GET', '/v1/sandboxes', connection=connection, headers={
                    'OPEN-SANDBOX-API-KEY': f'guess-{number}'}).read()
            told = daemon.log.read_text(encoding='utf-8').count('access refused')
            self.assertTrue(0 < told < 200, told)
            self.assertEqual(daemon.metric('auth_failures_total{reason="wrong_key"}'), 200)

    def test_a_reload_leaves_no_configuration_in_the_journal(self):
        # What the unit's ExecReload runs first.
        with tempfile.TemporaryFile('w+') as out:
            info = os.fstat(out.fileno())
            check = lambda **more: subprocess.run(
                [BUILD / 'atolld', '--check-config', '--config', '/dev/null'], stdout=out, check=True,
                env={**os.environ, **more})
            check(JOURNAL_STREAM=f'{info.st_dev}:{info.st_ino}')
            self.assertEqual(out.tell(), 0)
            check()
            self.assertGreater(out.tell(), 0)

    def test_json(self):
        with Daemon(log_format='json') as daemon:
            box = daemon.create(daemon.import_busybox())
            lines = [json.loads(line)
                     for line in daemon.log.read_text(encoding='utf-8').splitlines()]
            self.assertIn(box, [line.get('sandbox') for line in lines
                                if line['msg'] == 'POST /sandboxes'])
            for line in lines:
                self.assertLessEqual({'time', 'level', 'process', 'msg'}, set(line))


if __name__ == '__main__':
    unittest.main()
