"""The web console's server, asked as its pages ask it."""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

import cases
from cases import IMAGE, case, check, equal

SERVER = str(pathlib.Path(sys.executable).parent / 'sandbox-console-server')


class World:
    """The server, and the sandbox that the cases share."""

    def __init__(self, port):
        self.api = f'http://127.0.0.1:{port}/api/v1'
        self.connection = self.box = None

    def ask(self, method, path, body=None):
        request = urllib.request.Request(
            self.api + path, method=method, headers={'Content-Type': 'application/json'},
            data=None if body is None else json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise AssertionError(f'{method} {path}: {error.code} {error.read()[:300]}') from error
        return json.loads(text) if text else None

    def on_box(self, method, path, body=None):
        return self.ask(method, f'/connections/{self.connection}/sandboxes/{self.box}{path}', body)

    def run(self, command):
        """The finished command."""
        started = self.on_box('POST', '/commands', {'command': command, 'cwd': '/tmp'})
        return self.on_box('GET', f'/commands/{started["command_id"]}')


@case('console/connection')
def _(world):
    made = world.ask('POST', '/connections', {
        'name': 'here', 'endpoint': f'http://{cases.DOMAIN}', 'credentials': {'api_key': cases.KEY}})
    world.connection = made['id']
    told = world.ask('POST', f'/connections/{world.connection}/test')
    check(told['ok'], told)


@case('console/create_list_get')
def _(world):
    made = world.ask('POST', f'/connections/{world.connection}/sandboxes', {
        'image': IMAGE, 'name': 'shown', 'ttl_seconds': 600})
    world.box = made.get('sandbox_id') or made['id']
    check(world.box in json.dumps(world.ask('GET', '/sandboxes')), 'it is not listed')
    check('running' in json.dumps(world.on_box('GET', '')), 'it does not run')


@case('console/command')
def _(world):
    done = world.run('echo out; echo bad >&2; pwd')
    equal((done['stdout'], done['stderr'], done['exit_code']), ('out\n/tmp\n', 'bad\n', 0))
    equal(world.run('exit 3')['exit_code'], 3)


@case('console/files')
def _(world):
    path = urllib.parse.quote('/tmp/note')
    world.on_box('PUT', f'/file?path={path}', {'content': 'written\n'})
    equal(world.on_box('GET', f'/file?path={path}')['content'], 'written\n')
    listed = world.on_box('GET', '/files?path=/tmp')
    check('/tmp/note' in [entry['path'] for entry in listed['entries']], listed)
    world.on_box('DELETE', f'/file?path={path}')
    equal(world.run('ls /tmp/note || echo gone')['stdout'], 'gone\n')


@case('console/pause_and_resume')
def _(world):
    check('paused' in json.dumps(world.on_box('POST', '/pause')), 'it is not paused')
    check('running' in json.dumps(world.on_box('POST', '/resume')), 'it is not resumed')


@case('console/delete')
def _(world):
    world.on_box('DELETE', '')


def main():
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, 'EXPLORER_DATABASE_URL':
                       f'sqlite+aiosqlite:///{folder}/console.db'}
        with subprocess.Popen([SERVER, '--host', '127.0.0.1', '--port', str(port)], cwd=folder,
                              env=environment, stdout=sys.stderr) as server:
            try:
                until_answers(server, port)
                cases.run_plain(World(port))
            finally:
                server.terminate()


def until_answers(server, port):
    deadline = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection(('127.0.0.1', port), 1).close()
        except OSError:
            check(time.monotonic() < deadline, 'the console is not up')
        try:
            raise AssertionError(f'the console has ended: {server.wait(0.1)}')
        except subprocess.TimeoutExpired:
            pass


if __name__ == '__main__':
    main()
