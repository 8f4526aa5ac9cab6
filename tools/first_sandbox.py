"""Creates a sandbox through the HTTP API, runs Python in it, shows requests and latencies.

    tools/first_sandbox.py IMAGE [DAEMON_JSON]      default: /run/atoll/daemon.json
    tools/first_sandbox.py --ping SERVER_URL        exit status 0 if a daemon answers there

DAEMON_JSON is what a daemon leaves in its run directory: its URL, and where its key is.

Only Python's standard library: this is also the shortest client of the API.
"""
import http.client
import json
import statistics
import sys
import time
import urllib.parse

CODE = 'import platform; print("Hello from Python", platform.python_version(), "in", platform.node())'
ROUNDS = 20


class Client:
    """One keep-alive connection."""

    def __init__(self, url, key=''):
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=30)
        self.key = {'OPEN-SANDBOX-API-KEY': key} if key else {}

    def send(self, method, path, body=None, headers=None):
        """The response of one request, its body not yet read; SystemExit when it is refused."""
        headers = {**self.key, **(headers or {}), 'Content-Type': 'application/json'}
        self.connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        response = self.connection.getresponse()
        if response.status >= 400:
            sys.exit(f'{method} {path}: {response.status} {response.read().decode(errors="replace")}')
        return response

    def call(self, method, path, body=None):
        text = self.send(method, path, body).read()
        return json.loads(text) if text else None


class Sandbox:
    """One sandbox, from create to delete."""

    def __init__(self, client, image):
        self.client = client
        self.request = {'image': {'uri': image}, 'entrypoint': ['tail', '-f', '/dev/null'],
                        'resourceLimits': {'cpu': '1', 'memory': '512Mi'}, 'timeout': 600}
        self.id = client.call('POST', '/v1/sandboxes', self.request)['id']
        self.headers = {}

    def find_execd(self):
        """Asks for the way to execd; what it needs as headers goes with every command."""
        path = f'/v1/sandboxes/{self.id}/endpoints/44772?use_server_proxy=true'
        self.headers = self.client.call('GET', path).get('headers') or {}

    def run(self, command):
        """Runs a shell command; (output, seconds until the first output, seconds until the end)."""
        start = time.perf_counter()
        path = f'/sandboxes/{self.id}/proxy/44772/command'
        stream = self.client.send('POST', path, {'command': command}, self.headers)
        lines, first, failure, end = [], 0.0, None, 0.0
        for line in stream:
            event = json.loads(line) if line.strip() else {}
            if event.get('type') == 'stdout':
                first = first or time.perf_counter() - start
                lines.append(event['text'])
            elif event.get('type') in ('error', 'execution_complete'):
                end = time.perf_counter() - start
                failure = event.get('error')
                break
        stream.read()
        if failure:
            sys.exit(f'{command}: {failure}')
        return ''.join(lines).removesuffix('\n'), first, end

    def delete(self):
        self.client.call('DELETE', f'/v1/sandboxes/{self.id}')


def milliseconds(seconds):
    return f'{seconds * 1000:.2f} ms'


def show_one(client, image):
    sandbox = Sandbox(client, image)
    print(f'POST /v1/sandboxes {json.dumps(sandbox.request)}\n  -> id {sandbox.id}')
    sandbox.find_execd()
    print(f'POST /sandboxes/{sandbox.id}/proxy/44772/command\n  python3 -c \'{CODE}\'')
    print(f'  -> {sandbox.run(f"python3 -c {chr(39)}{CODE}{chr(39)}")[0]}')
    sandbox.delete()
    print(f'DELETE /v1/sandboxes/{sandbox.id}')


def measure(client, image):
    creates, firsts, commands, deletes = [], [], [], []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        sandbox = Sandbox(client, image)
        creates.append(time.perf_counter() - start)
        sandbox.find_execd()
        before = time.perf_counter() - start
        firsts.append(before + sandbox.run('echo ready')[1])
        commands.append(sandbox.run('true')[2])
        start = time.perf_counter()
        sandbox.delete()
        deletes.append(time.perf_counter() - start)
    print(f'\nMedians of {ROUNDS} sandboxes, over HTTP, seen by this Python client:')
    for name, values in (('create answered', creates), ('create to first command output', firsts),
                         ('command in a live sandbox', commands), ('delete answered', deletes)):
        print(f'  {name:32}{milliseconds(statistics.median(values)):>10}')


def main(arguments):
    if len(arguments) == 2 and arguments[0] == '--ping':
        try:
            Client(arguments[1]).call('GET', '/health')
        except (OSError, http.client.HTTPException):
            sys.exit(1)
        return
    if len(arguments) not in (1, 2):
        sys.exit(__doc__)
    image, daemon_json = (*arguments, '/run/atoll/daemon.json')[:2]
    with open(daemon_json, encoding='utf-8') as file:
        daemon = json.load(file)
    with open(daemon['key_file'], encoding='utf-8') as file:
        client = Client(daemon['url'], file.read().strip())
    show_one(client, image)
    measure(client, image)


if __name__ == '__main__':
    main(sys.argv[1:])
