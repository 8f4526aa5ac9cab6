"""The group "contexts": contexts and runs, beside a Jupyter server in the same sandbox with the same kernel."""
import json
import time
import uuid

import driver
import atoll  # pylint: disable=wrong-import-order
from box import Box
from websocket_client import Socket

ROUNDS, RUNS, TURN, IN_A_ROW = 10, 200, 10, 3
TOKEN = '?token=opensandboxcodeinterpreterjupyter'
PORT = 44771
ROWS = [driver.row('context', 'request → a context of Python in which numpy and pandas are imported, in a '
                   'sandbox that has rested: it has a spare kernel', 'ms',
                   {'at_most': 50}, {'at_most': 0.2, 'over': 'contexts/context, Jupyter'}),
        driver.row('context, at once after another', 'the same without a spare: the kernel is forked', 'ms',
                   {'at_most': 50}),
        driver.row('context, Jupyter', 'the same of a Jupyter server beside it', 'ms'),
        driver.row('run', 'request of print(1) → its end, ten after each other, in turns with the next two', 'ms',
                   {'at_most': 3}, {'at_most': 0.33, 'over': 'contexts/run, Jupyter'}),
        driver.row('run, Jupyter', 'the same of that server, with a WebSocket for each run, as '
                   "OpenSandbox's execd has it", 'ms'),
        driver.row('run, Jupyter, WebSocket kept', 'the same, with one for all of them', 'ms'),
        driver.row('first print(1)', 'create, with EXECD_WARM=python → the end of the first run in it', 'ms',
                   {'at_most': 100}),
        driver.row('first print(1), not warmed', 'the same without EXECD_WARM', 'ms')]
IMPORTS = 'import numpy, pandas'


class Jupyter:
    """The server in a sandbox, through the same proxy as execd."""

    def __init__(self, box):
        self.box, self.path = box, box.port(PORT)
        config = json.dumps({'ServerApp': {'allow_remote_access': True}})
        box.out(f"mkdir -p ~/.jupyter && echo '{config}' >~/.jupyter/jupyter_server_config.json && "
                'touch /tmp/go')
        atoll.until(lambda: box.daemon.send('GET', f'{self.path}/api{TOKEN}').status == 200, 60,
                    'the server answers')
        atoll.until(lambda: 'python' in self.call('GET', '/api/kernelspecs')['kernelspecs'], 60,
                    'the kernel is registered')

    def call(self, method, path, body=None):
        answer = self.box.daemon.send(method, self.path + path + TOKEN, body)
        text = answer.read()
        assert answer.status < 300, (method, path, answer.status, text)
        return json.loads(text) if text else None

    def session(self):
        return self.call('POST', '/api/sessions', {
            'path': f'{uuid.uuid4()}.ipynb', 'name': 'x', 'type': 'notebook', 'kernel': {'name': 'python'}})

    def channels(self, session):
        kernel = session['kernel']['id']
        socket = Socket(self.box, f'{self.path}/api/kernels/{kernel}/channels{TOKEN}')
        assert socket.status == 101, socket.status
        return socket

    @staticmethod
    def run(socket, code):
        number = uuid.uuid4().hex
        socket.text(channel='shell', parent_header={}, metadata={}, header={
            'msg_id': number, 'msg_type': 'execute_request', 'session': 'bench', 'username': '',
            'version': '5.3', 'date': ''}, content={
                'code': code, 'silent': False, 'store_history': True, 'user_expressions': {},
                'allow_stdin': False, 'stop_on_error': True})
        printed, idle, replied = '', False, False
        while not (idle and replied):
            message = json.loads(socket.frame()[1])
            if message['parent_header'].get('msg_id') != number:
                continue
            content = message['content']
            printed += content['text'] if message['msg_type'] == 'stream' else ''
            idle = idle or content.get('execution_state') == 'idle'
            replied = replied or message['msg_type'] == 'execute_reply'
        return printed


def milliseconds(what):
    began = time.perf_counter()
    result = what()
    return (time.perf_counter() - began) * 1e3, result


def run(box, code, **context):
    events = box.events('/code', {'code': code, 'context': context or {'language': 'python'}})
    assert events[-1]['type'] == 'execution_complete', events
    return ''.join(event.get('text', '') for event in events if event['type'] == 'stdout')


def new_context(box):
    answer = box.call('POST', '/code/context', {'language': 'python'})
    assert answer.status == 200, answer.body
    run(box, IMPORTS, id=answer.json['id'])
    return answer.json['id']


def new_session(jupyter):
    session = jupyter.session()
    jupyter.run(jupyter.channels(session), IMPORTS)
    return session


def take_run(take, name, what):
    took, printed = milliseconds(what)
    assert printed.strip() == '1', printed
    take.add(name, took)


def run_apart(jupyter, session):
    socket = jupyter.channels(session)
    printed = jupyter.run(socket, 'print(1)')
    socket.sock.close()
    return printed


def beside(take, daemon):
    box = Box(daemon, 'jupyter:1', env={'HOLD': '/tmp/go'}, resourceLimits={'cpu': '2', 'memory': '4Gi'},
              entrypoint=['/opt/code-interpreter/code-interpreter.sh'])
    jupyter = Jupyter(box)
    kept, session = new_context(box), new_session(jupyter)
    for _ in range(take.samples or ROUNDS):
        box.out('until grep -qsx kernel-spare /proc/[0-9]*/comm; do sleep 0.2; done')
        contexts = []
        for name in 'context', *['context, at once after another'] * IN_A_ROW:
            took, context = milliseconds(lambda: new_context(box))
            take.add(name, took)
            contexts.append(context)
        for context in contexts:
            box.call('DELETE', f'/code/contexts/{context}')
        took, other = milliseconds(lambda: new_session(jupyter))
        take.add('context, Jupyter', took)
        jupyter.call('DELETE', f'/api/sessions/{other["id"]}')
    channels = jupyter.channels(session)
    for _ in range(-(-(take.samples or RUNS) // TURN)):
        for name, what in (('run', lambda: run(box, 'print(1)', id=kept)),
                           ('run, Jupyter', lambda: run_apart(jupyter, session)),
                           ('run, Jupyter, WebSocket kept', lambda: jupyter.run(channels, 'print(1)'))):
            for _ in range(TURN):
                take_run(take, name, what)
    daemon.delete(box.id)


def with_kernel(daemon):
    """A snapshot in which the kernel is registered, as images have it that nobody sets up."""
    box = Box(daemon, 'jupyter:1', entrypoint=['sleep', '1000'])
    box.out('python3 -m ipykernel install --name python --prefix /usr/local')
    snapshot = daemon.request('POST', f'/v1/sandboxes/{box.id}/snapshots', {})['id']
    atoll.until(lambda: daemon.request('GET', f'/v1/snapshots/{snapshot}')['status']['state'] == 'Ready',
                60, 'the snapshot is ready')
    daemon.delete(box.id)
    return snapshot


def first_print(daemon, snapshot, env):
    box = daemon.request('POST', '/v1/sandboxes', {
        'snapshotId': snapshot, 'env': env, 'entrypoint': ['sleep', '1000'],
        'resourceLimits': {'cpu': '2', 'memory': '2Gi'}})['id']
    answer = daemon.send('POST', f'/sandboxes/{box}/proxy/44772/code',
                         {'code': 'print(1)', 'context': {'language': 'python'}},
                         daemon.execd_headers(box)).read()
    assert b'"execution_complete"' in answer, answer
    return box


def measure(take):
    with atoll.Daemon(runtime_overcommit=0) as daemon:
        daemon.import_image(atoll.image_archive(atoll.TOP / 'tests/e2e/jupyter.toml'), 'jupyter:1')
        if take.wants(*[one['name'] for one in ROWS[:6]]):
            beside(take, daemon)
        if not take.wants(*[one['name'] for one in ROWS[6:]]):
            return
        snapshot = with_kernel(daemon)
        for _ in range(take.samples or ROUNDS):
            for name, env in (('first print(1)', {'EXECD_WARM': 'python'}),
                              ('first print(1), not warmed', {})):
                took, box = milliseconds(lambda env=env: first_print(daemon, snapshot, env))
                take.add(name, took)
                daemon.delete(box)


if __name__ == '__main__':
    driver.Take('contexts', lambda _: ROWS).run(measure)
