"""What environments cost: from the create to the first answer on their port, cold and from a template, and their
memory. Over plain HTTP: each sandbox of an SDK begins with some tens of milliseconds of the SDK's own.

    SANDBOX_DOMAIN=127.0.0.1:8080 SANDBOX_API_KEY=… costs.py [IMAGE ENTRYPOINT PORT PATH WARM-UP]...
"""
import http.client
import json
import os
import sys
import time

# The warm-up is what a program does behind its first connection, or at the first request, and would do after
# the claim: one that stands still as soon as its port is taken has the rest of its start before it.
KNOWN = [('chrome', '/entrypoint', 9222, '/json/version', 'sleep 3'),
         ('desktop', '/entrypoint', 6080, '/vnc.html', 'sleep 3'),
         ('vscode', '/entrypoint', 8443, '/', 'curl -sLf http://127.0.0.1:8443/ >/dev/null'),
         ('aio', '/opt/gem/run.sh', 8080, '/', 'sleep 3')]
LIMITS = {'cpu': '2', 'memory': '2Gi'}
TIMES = 4
PATIENCE = 60  # seconds
SETTLES = 4  # seconds after which the memory is looked at: what starts has started

server = http.client.HTTPConnection(os.environ['SANDBOX_DOMAIN'], timeout=PATIENCE)


def ask(method, path, body=None):
    """(status, body)"""
    server.request(method, '/v1' + path, body=json.dumps(body) if body else None,
                   headers={'OPEN-SANDBOX-API-KEY': os.environ.get('SANDBOX_API_KEY', ''),
                            'Content-Type': 'application/json'})
    response = server.getresponse()
    return response.status, response.read()


def call(method, path, body=None):
    status, said = ask(method, path, body)
    if status >= 400:
        raise RuntimeError(f'{method} {path}: {status} {said.decode()}')
    return json.loads(said or 'null')


def start(request, port, path):
    """Milliseconds to the first answer, and MiB."""
    begin = time.monotonic()
    box = '/sandboxes/' + call('POST', '/sandboxes', {**request, 'timeout': 300})['id']
    try:
        while ask('GET', f'{box}/proxy/{port}{path}')[0] >= 500:  # nobody listens yet
            if time.monotonic() - begin > PATIENCE:
                raise RuntimeError(f'nothing answers on port {port}')
            time.sleep(0.003)
        took = time.monotonic() - begin
        time.sleep(SETTLES)
        return took * 1000, call('GET', f'{box}/proxy/44772/metrics')['mem_used_mib']
    finally:
        call('DELETE', box)


def from_template(what, port, path, warm_up):
    """The same of sandboxes that have started ahead: each time the stock, of one, is full again."""
    template = '/templates/' + call('POST', '/templates', {
        **what, 'readiness': {'probe': f'tcp://127.0.0.1:{port}'},
        'warmup': {'command': ['sh', '-c', warm_up]}})['templateId']
    try:
        took = []
        while len(took) < TIMES:
            status = call('GET', template)['status']
            if status['phase'] == 'Failed':
                raise RuntimeError(f'{what["image"]}: {status["message"]}')
            if not status.get('ready'):
                time.sleep(0.1)
                continue
            took.append(start({'templateId': template.rpartition('/')[2]}, port, path)[0])
        return took
    finally:
        call('DELETE', template)


def main(environments):
    print('| Image | Port | The first | The others | From a template | Memory |\n|---|---|---|---|---|---|')
    for image, entrypoint, port, path, warm_up in environments:
        what = {'entrypoint': [entrypoint], 'resourceLimits': LIMITS}
        (first, memory), *others = [start({'image': {'uri': image}, **what}, port, path) for _ in range(TIMES)]
        took = [one for one, _ in others]
        ready = from_template({'image': image, **what}, port, path, warm_up)
        print(f'| `{image}` | {port} | {first:.0f} ms | {min(took):.0f} to {max(took):.0f} ms '
              f'| {min(ready):.0f} to {max(ready):.0f} ms '
              f'| {max(memory, *(more for _, more in others)):.0f} MiB |', flush=True)


if __name__ == '__main__':
    main(list(zip(*[iter(sys.argv[1:])] * 5)) or KNOWN)
