"""A sandbox on lease, over plain HTTP: there while its holder renews it, gone by itself when nobody does.

    SANDBOX_DOMAIN=127.0.0.1:8080 SANDBOX_API_KEY=… lease.py COMMAND

No package is needed. LEASE_SECONDS is how long it outlives its holder, 60 if not given.
"""
import datetime
import json
import os
import sys
import threading
import urllib.request

SERVER = f'http://{os.environ["SANDBOX_DOMAIN"]}'
KEY = {'OPEN-SANDBOX-API-KEY': os.environ.get('SANDBOX_API_KEY', ''), 'Content-Type': 'application/json'}
SECONDS = int(os.environ.get('LEASE_SECONDS', '60'))


def ask(method, path, body=None, headers=None):
    """The answer, unread; urllib.error.HTTPError if it is refused."""
    return urllib.request.urlopen(urllib.request.Request(
        SERVER + path, json.dumps(body).encode() if body is not None else None, {**KEY, **(headers or {})}, method=method))


def take():
    """The id of a sandbox; it is ours for a minute, less than which nobody gets, or longer."""
    with ask('POST', '/v1/sandboxes', {'image': {'uri': os.environ.get('SANDBOX_IMAGE', 'python:3.11')},
                                       'entrypoint': ['sleep', 'infinity'], 'timeout': max(60, SECONDS),
                                       'resourceLimits': {'cpu': '1', 'memory': '256Mi'}}) as answer:
        return json.load(answer)['id']


def renew(box, ended):
    """Until the work has ended. Two requests in a row may be lost: the third is made before the lease ends."""
    while not ended.is_set():
        until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=SECONDS)
        try:
            ask('POST', f'/v1/sandboxes/{box}/renew-expiration', {'expiresAt': until.isoformat()}).close()
        except OSError:
            pass  # also an HTTPError: if the sandbox is gone, its command says so
        ended.wait(SECONDS / 4)


def run(box, command):
    """Shows what it prints while it runs; its exit code."""
    with ask('GET', f'/v1/sandboxes/{box}/endpoints/44772?use_server_proxy=true') as answer:
        way = json.load(answer)
    with ask('POST', f'/sandboxes/{box}/proxy/44772/command', {'command': command}, way.get('headers')) as events:
        for line in filter(bytes.strip, events):
            event = json.loads(line)
            if event['type'] in ('stdout', 'stderr'):
                print(event['text'], end='', flush=True, file=getattr(sys, event['type']))
            elif event['type'] == 'error':
                return int(event['error']['evalue'])
    return 0


def main(command):
    box, ended = take(), threading.Event()
    threading.Thread(target=renew, args=(box, ended), daemon=True).start()
    try:
        return run(box, command)
    finally:
        ended.set()
        ask('DELETE', f'/v1/sandboxes/{box}').close()


if __name__ == '__main__':
    sys.exit(main(' '.join(sys.argv[1:])))
