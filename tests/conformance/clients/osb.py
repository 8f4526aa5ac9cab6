"""The released command line `osb`."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import cases
from cases import IMAGE, case, check, equal

OSB = pathlib.Path(sys.executable).parent / 'osb'
TAG = f'osb-{os.getpid()}'


class World:
    """The sandbox that most cases share."""
    box = None


def osb(*arguments, expect=0, stdin=None):
    done = subprocess.run([OSB, '--domain', cases.DOMAIN, '--api-key', cases.KEY, '--no-color',
                           *arguments], text=True, input=stdin, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60, check=False)
    if done.returncode != expect:
        raise AssertionError(f'{arguments}: {done.returncode} {done.stdout} {done.stderr}')
    return done.stdout


def told(*arguments, **options):
    # Before the command that may follow "--".
    output = () if '-o' in arguments else ('-o', 'json')
    return json.loads(osb(*arguments, *output, **options))


def shell(world, command, expect=0):
    return osb('command', 'run', world.box, '-o', 'raw', '--', 'sh', '-c', command,
               expect=expect)


def create(*options):
    return told('sandbox', 'create', '--image', IMAGE, *options)['id']


@case('sandbox/create')
def _(world):
    world.box = create('--timeout', '10m', '--env', 'GREETING=hello', '--metadata', f'suite={TAG}',
                       '--resource', 'cpu=500m', '--resource', 'memory=256Mi',
                       '--entrypoint', 'tail', '--entrypoint=-f', '--entrypoint', '/dev/null')
    equal(shell(world, 'echo $GREETING').strip(), 'hello')


@case('sandbox/get_list')
def _(world):
    info = told('sandbox', 'get', world.box)
    equal((info['id'], info['metadata']), (world.box, {'suite': TAG}))
    listed = told('sandbox', 'list', '--state', 'Running', '--metadata', f'suite={TAG}')
    check(world.box in json.dumps(listed), listed)


@case('sandbox/health_metrics_endpoint_renew')
def _(world):
    told('sandbox', 'health', world.box)
    metrics = told('sandbox', 'metrics', world.box)
    equal(metrics['memory_total_in_mib'], 256)
    check(f'{world.box}' in told('sandbox', 'endpoint', world.box, '--port', '8000')['endpoint'],
          'an endpoint of another sandbox')
    told('sandbox', 'renew', world.box, '--timeout', '30m')


@case('sandbox/metrics_watch')
def _(world):
    with subprocess.Popen([OSB, '--domain', cases.DOMAIN, '--api-key', cases.KEY, 'sandbox',
                           'metrics', world.box, '--watch', '-o', 'raw'], stdout=subprocess.PIPE,
                          text=True, env={**os.environ, 'PYTHONUNBUFFERED': '1'}) as watch:
        first, second = watch.stdout.readline(), watch.stdout.readline()
        watch.terminate()
    check(first.strip() and second.strip(), f'{first!r} {second!r}')


@case('sandbox/pause_and_resume')
def _(_world):
    box = create()
    try:
        osb('sandbox', 'pause', box)
        equal(told('sandbox', 'get', box)['status']['state'], 'Paused')
        osb('sandbox', 'resume', box)
        equal(told('sandbox', 'get', box)['status']['state'], 'Running')
    finally:
        osb('sandbox', 'kill', box)


@case('command/failing')
def _(world):
    equal(shell(world, 'echo out; exit 7', expect=1).strip(), 'out')


@case('command/background_status_logs_interrupt')
def _(world):
    started = told('command', 'run', world.box, '--background', '-o', 'json', '--', 'sh', '-c',
                   'echo one; exec sleep 100')
    command = started.get('execution_id') or started['id']
    while 'one' not in osb('command', 'logs', world.box, command, '-o', 'raw'):
        pass
    check(told('command', 'status', world.box, command)['running'], 'it should run')
    osb('command', 'interrupt', world.box, command)
    while told('command', 'status', world.box, command)['running']:
        pass


@case('command/session')
def _(world):
    created = told('command', 'session', 'create', world.box, '--workdir', '/opt')
    session = created.get('session_id') or created['id']
    osb('command', 'session', 'run', world.box, session, '--', 'export', 'KEPT=yes')
    out = osb('command', 'session', 'run', world.box, session, '--', 'eval',
              'echo $KEPT; pwd')
    equal(out.strip(), 'yes/opt')  # it joins lines
    osb('command', 'session', 'delete', world.box, session)


@case('file/write_cat_info')
def _(world):
    osb('file', 'mkdir', world.box, '/tmp/d')
    osb('file', 'write', world.box, '/tmp/d/a', '--mode', '0640', '--owner', 'nobody',
        stdin='x y x\n')
    equal(osb('file', 'cat', world.box, '/tmp/d/a').strip(), 'x y x')
    check('640' in osb('file', 'info', world.box, '/tmp/d/a', '-o', 'json'), 'another mode')


@case('file/upload_download')
def _(world):
    data = os.urandom(1 << 20)
    with tempfile.TemporaryDirectory() as folder:
        there, back = pathlib.Path(folder, 'there'), pathlib.Path(folder, 'back')
        there.write_bytes(data)
        osb('file', 'upload', world.box, str(there), '/tmp/d/blob')
        osb('file', 'download', world.box, '/tmp/d/blob', str(back))
        equal(back.read_bytes() == data, True)


@case('file/change')
def _(world):
    osb('file', 'chmod', world.box, '/tmp/d/a', '--mode', '0600', '--owner', 'dev')
    equal(shell(world, 'stat -c %a%U /tmp/d/a').strip(), '600dev')
    osb('file', 'replace', world.box, '/tmp/d/a', '--old', 'x', '--new', 'z')
    osb('file', 'mv', world.box, '/tmp/d/a', '/tmp/d/c')
    equal(osb('file', 'cat', world.box, '/tmp/d/c').strip(), 'z y z')
    check('/tmp/d/c' in osb('file', 'search', world.box, '/tmp/d', '--pattern', 'c', '-o', 'json'),
          'not found')
    osb('file', 'rm', world.box, '/tmp/d/c')
    osb('file', 'rmdir', world.box, '/tmp/d')
    equal(shell(world, 'ls -d /tmp/d || echo gone').strip(), 'gone')


@case('diagnostics/logs_events')
def _(world):
    equal(told('diagnostics', 'logs', world.box, '--scope', 'container')['kind'], 'logs')
    equal(told('diagnostics', 'events', world.box, '--scope', 'lifecycle')['kind'], 'events')


@case('devops/logs_inspect_events_summary')
def _(world):
    for what in ('logs', 'inspect', 'events', 'summary'):
        check(osb('devops', what, world.box).strip(), f'{what} says nothing')


@case('network/policy')
def _(_world):
    with tempfile.NamedTemporaryFile('w', suffix='.json') as policy:
        policy.write(json.dumps({'defaultAction': 'deny', 'egress': [
            {'action': 'allow', 'target': 'good.example'}]}))
        policy.flush()
        box = create('--network-policy-file', policy.name)
    try:
        equal([rule['target'] for rule in told('egress', 'get', box)['egress']], ['good.example'])
        osb('egress', 'patch', box, '--rule', 'allow=evil.example', '--rule', 'deny=good.example')
        equal([(rule['action'], rule['target']) for rule in told('egress', 'get', box)['egress']],
              [('allow', 'evil.example'), ('deny', 'good.example')])
    finally:
        osb('sandbox', 'kill', box)


@case('errors/unknown_sandbox')
def _(_world):
    osb('sandbox', 'get', '00000000-0000-4000-8000-000000000000', expect=1)


@case('sandbox/kill')
def _(world):
    osb('sandbox', 'kill', world.box)
    osb('sandbox', 'get', world.box, expect=1)


if __name__ == '__main__':
    cases.run_plain(World())
