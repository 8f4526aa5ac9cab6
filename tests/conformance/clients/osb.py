"""The released command line `osb`."""
import contextlib
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


def in_shell(box, command, *options, expect=0):
    return osb('command', 'run', box, '-o', 'raw', *options, '--', 'sh', '-c', command,
               expect=expect)


def shell(world, command, expect=0):
    return in_shell(world.box, command, expect=expect)


@contextlib.contextmanager
def json_file(value):
    with tempfile.NamedTemporaryFile('w', suffix='.json') as file:
        file.write(json.dumps(value))
        file.flush()
        yield file.name


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


@case('sandbox/create_from_a_file')
def _(_world):
    """The body of the request, as the API has it."""
    volumes = [{'name': 'data', 'pvc': {'claimName': TAG}, 'mountPath': '/mnt/data'}]
    wanted = {'image': {'uri': IMAGE}, 'timeout': 600, 'env': {'GREETING': 'from a file'},
              'entrypoint': ['tail', '-f', '/dev/null'], 'metadata': {'suite': f'{TAG}-file'},
              'resourceLimits': {'cpu': '500m', 'memory': '256Mi'},
              'extensions': {'readOnlyRootFilesystem': 'true'}, 'volumes': volumes}
    with json_file(wanted) as body:
        box = told('sandbox', 'create', '--file', body, '--ready-timeout', '30s')['id']
    try:
        equal(in_shell(box, 'echo $GREETING; touch /mnt/data/x; touch /x 2>/dev/null || '
                       'echo read-only').split('\n')[:2], ['from a file', 'read-only'])
        listed = told('sandbox', 'list', '--metadata', f'suite={TAG}-file', '--page', '1',
                      '--page-size', '1')
        check(box in json.dumps(listed), listed)
    finally:
        osb('sandbox', 'kill', box)
    with json_file(volumes) as mounts:
        box = create('--volumes-file', mounts, '--skip-health-check', '--extension',
                     'network.bandwidth=10M')
    try:
        equal(in_shell(box, 'ls /mnt/data').strip(), 'x')
    finally:
        osb('sandbox', 'kill', box)


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


@case('command/options')
def _(world):
    equal(in_shell(world.box, 'pwd', '-w', '/opt').strip(), '/opt')
    equal(osb('command', 'run', world.box, '-o', 'raw', '--argv', '--', 'printf', '%s|', '$HOME',
              'a  b', '').strip(), '$HOME|a  b||')
    osb('command', 'run', world.box, '-t', '1s', '--', 'sleep', '60', expect=1)


@case('command/background_status_logs_interrupt')
def _(world):
    started = told('command', 'run', world.box, '--background', '-o', 'json', '--', 'sh', '-c',
                   'echo one; exec sleep 100')
    command = started.get('execution_id') or started['id']
    while 'one' not in osb('command', 'logs', world.box, command, '-o', 'raw'):
        pass
    check(told('command', 'status', world.box, command)['running'], 'it should run')
    check('one' not in osb('command', 'logs', world.box, command, '--cursor', '1', '-o', 'raw'),
          'what was read before')
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


@case('file/options')
def _(world):
    osb('file', 'mkdir', world.box, '/tmp/d/e', '/tmp/d/f', '--mode', '0750', '--owner', 'dev',
        '--group', 'dev')
    equal(shell(world, 'stat -c %a%U%G /tmp/d/e /tmp/d/f').split(), ['750devdev'] * 2)
    osb('file', 'write', world.box, '/tmp/d/latin', '--content', 'hä', '--encoding', 'latin-1',
        '--group', 'dev')
    equal(shell(world, 'stat -c %s%G /tmp/d/latin').strip(), '2dev')
    equal(osb('file', 'cat', world.box, '/tmp/d/latin', '--encoding', 'latin-1'), 'hä')
    told_of = osb('file', 'info', world.box, '/tmp/d/e', '/tmp/d/latin', '-o', 'json')
    check('/tmp/d/e' in told_of and '/tmp/d/latin' in told_of, told_of)
    osb('file', 'rm', world.box, '/tmp/d/latin')
    osb('file', 'rmdir', world.box, '/tmp/d/e', '/tmp/d/f')


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
    equal(told('diagnostics', 'logs', world.box, '--scope', 'all')['scope'], 'all')
    equal(told('diagnostics', 'events', world.box, '--scope', 'lifecycle')['kind'], 'events')
    equal(told('diagnostics', 'events', world.box, '--scope', 'runtime')['scope'], 'runtime')
    osb('diagnostics', 'logs', world.box, '--scope', 'nosuch', expect=1)


@case('devops/logs_inspect_events_summary')
def _(world):
    for what in ('logs', 'inspect', 'events', 'summary'):
        check(osb('devops', what, world.box).strip(), f'{what} says nothing')
    osb('devops', 'logs', world.box, '--tail', '5', '--since', '10m')
    osb('devops', 'events', world.box, '--limit', '5')
    osb('devops', 'summary', world.box, '--tail', '5', '--event-limit', '5')


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


@case('credential-vault/create_to_delete')
def _(_world):
    asked = cases.FETCH.replace('NAME', 'good.example')
    with json_file({'defaultAction': 'deny', 'egress': [
            {'action': 'allow', 'target': 'good.example'}]}) as policy:
        box = create('--network-policy-file', policy, '--credential-proxy')
    try:
        key = {'name': 'key', 'source': {'type': 'inline', 'value': 'sk-one'}}
        with json_file({'credentials': [key], 'bindings': [
                {'name': 'api', 'match': {'hosts': ['good.example'], 'schemes': ['http']},
                 'auth': {'type': 'bearer', 'credential': 'key'}}]}) as vault:
            equal(told('credential-vault', 'create', box, '--file', vault)['revision'], 1)
        check('"Bearer sk-one"' in in_shell(box, asked), 'its first key')
        key['source']['value'] = 'sk-two'
        with json_file({'expectedRevision': 1, 'credentials': {'replace': [key]}}) as changes:
            equal(told('credential-vault', 'patch', box, '--file', changes)['revision'], 2)
        check('"Bearer sk-two"' in in_shell(box, asked), 'its second key')
        equal(told('credential-vault', 'get', box)['revision'], 2)
        equal([one['name'] for one in told('credential-vault', 'credential', 'list', box)], ['key'])
        equal(told('credential-vault', 'credential', 'get', box, 'key')['revision'], 2)
        equal([one['name'] for one in told('credential-vault', 'binding', 'list', box)], ['api'])
        equal(told('credential-vault', 'binding', 'get', box, 'api')['auth']['type'], 'bearer')
        osb('credential-vault', 'delete', box)
        check('Bearer' not in in_shell(box, asked), 'no key any more')
    finally:
        osb('sandbox', 'kill', box)


@case('template/create_use_delete')
def _(_world):
    template = told('template', 'create', '--image', IMAGE, '--publish', 's3://bucket/publish',
                    '--env', 'GREETING=ahead', '--metadata', f'suite={TAG}', '--resource', 'memory=128Mi',
                    '--entrypoint', 'sh', '--entrypoint', '-c', '--entrypoint', 'echo up >/up; sleep 100000',
                    '--readiness-probe', 'cmd://test -s /up', '--warmup-seconds', '1')['template_id']
    try:
        info = told('template', 'get', template)
        while info['status']['phase'] in ('Pending', 'Building'):
            info = told('template', 'get', template)
        equal(info['status'], {'phase': 'Succeeded', 'manifest_ref': None, 'message': None})
        equal((info['publish'], info['env']), ('s3://bucket/publish', {'GREETING': 'ahead'}))
        listed = told('template', 'list', '--metadata', f'suite={TAG}', '--page-size', '5')
        equal([one['template_id'] for one in listed['items']], [template])
        box = told('sandbox', 'create', '--template', template, '--timeout', '10m',
                   '--metadata', f'suite={TAG}')['id']
        try:
            equal(in_shell(box, 'echo $GREETING $(cat /up)').strip(), 'ahead up')
            osb('egress', 'patch', box, '--rule', 'deny=good.example')
            equal([(rule['action'], rule['target']) for rule in told('egress', 'get', box)['egress']],
                  [('deny', 'good.example')])
            osb('template', 'delete', template)
            equal(in_shell(box, 'cat /up').strip(), 'up')
        finally:
            osb('sandbox', 'kill', box)
    finally:
        equal(told('template', 'list', '--metadata', f'suite={TAG}')['items'], [])


@case('snapshot/create_to_delete')
def _(world):
    shell(world, 'echo as it was >/snapped.txt')
    taken = told('snapshot', 'create', world.box, '--name', TAG)['id']
    while (found := told('snapshot', 'get', taken))['status']['state'] == 'Creating':
        pass
    equal((found['status']['state'], found['name'], found['sandbox_id']), ('Ready', TAG, world.box))
    listed = told('snapshot', 'list', '--sandbox-id', world.box, '--name', TAG, '--state', 'Ready')
    equal([one['id'] for one in listed['items']], [taken])
    shell(world, 'echo later >/snapped.txt')
    box = told('sandbox', 'create', '--snapshot-id', taken, '--timeout', '10m')['id']
    equal(in_shell(box, 'cat /snapped.txt').strip(), 'as it was')
    osb('snapshot', 'delete', taken, expect=1)  # in use
    osb('sandbox', 'kill', box)
    osb('snapshot', 'delete', taken)
    equal(told('snapshot', 'list', '--name', TAG)['items'], [])


@case('config/init_set_show')
def _(world):
    """A file in place of the options."""
    with tempfile.TemporaryDirectory() as folder:
        file = str(pathlib.Path(folder, 'config.toml'))

        def with_file(*arguments):
            return subprocess.run([OSB, '--config', file, '--no-color', *arguments], text=True,
                                  stdout=subprocess.PIPE, timeout=60, check=True).stdout
        with_file('config', 'init')
        with_file('config', 'set', 'connection.domain', cases.DOMAIN)
        with_file('config', 'set', 'connection.api_key', cases.KEY)
        equal(json.loads(with_file('config', 'show', '-o', 'json'))['domain'], cases.DOMAIN)
        equal(json.loads(with_file('sandbox', 'get', world.box, '-o', 'json'))['id'], world.box)


@case('skills/show_list_install_uninstall')
def _(_world):
    check('sandbox' in osb('skills', 'list'), 'no skill is listed')
    skill = json.loads(osb('skills', 'list', '-o', 'json'))['skills'][0]['slug']
    check(osb('skills', 'show', skill).strip(), 'nothing is shown')
    osb('skills', 'install', skill, '--target', 'claude', '--scope', 'global')
    osb('skills', 'uninstall', skill, '--target', 'claude', '--scope', 'global')


@case('errors/unknown_sandbox')
def _(_world):
    osb('sandbox', 'get', '00000000-0000-4000-8000-000000000000', expect=1)


@case('sandbox/kill')
def _(world):
    osb('sandbox', 'kill', world.box)
    osb('sandbox', 'get', world.box, expect=1)


if __name__ == '__main__':
    cases.run_plain(World())
