"""The released Python SDK, its synchronous half."""
import datetime
import os
import time
import urllib.request

import cases
from cases import FETCH, IMAGE, case, check, equal

from opensandbox import SandboxManagerSync, SandboxSync
from opensandbox.config import ConnectionConfigSync
from opensandbox.exceptions import SandboxApiException
from opensandbox.models.execd import RunCommandOpts
from opensandbox.models.execd_sync import ExecutionHandlersSync
from opensandbox.models.filesystem import (ContentReplaceEntry, DirectoryListEntry, MoveEntry,
                                           SearchEntry, SetPermissionEntry, WriteEntry)
from opensandbox.models.isolated import CreateIsolatedSessionRequest, IsolatedWorkspaceSpec
from opensandbox.models.sandboxes import (PVC, CredentialProxyConfig, NetworkPolicy, NetworkRule,
                                          SandboxFilter, SnapshotFilter, Volume)
from opensandbox.sync.adapters.network_policy_adapter import NetworkPolicyAdapterSync
from opensandbox.pool import (AcquirePolicy, InMemoryPoolStateStore, PoolCreationSpec,
                              SandboxPoolSync)

MINUTES = datetime.timedelta(minutes=1)
TAG = f'sync-{os.getpid()}'
CONFIG = ConnectionConfigSync(domain=cases.DOMAIN, api_key=cases.KEY)
NOBODY = '00000000-0000-4000-8000-000000000000'


class World:
    """The sandbox that most cases share."""
    box = None


def create(**options):
    return SandboxSync.create(options.pop('image', IMAGE), connection_config=CONFIG,
                              **{'timeout': 10 * MINUTES, **options})


def out(box, command, **options):
    done = box.commands.run(command, opts=RunCommandOpts(**options))
    equal(done.exit_code, 0)
    return ''.join(message.text for message in done.logs.stdout).removesuffix('\n')


def refused(doing, status):
    try:
        doing()
    except SandboxApiException as error:
        equal(error.status_code, status)
        return error
    raise AssertionError(f'done, where {status} was expected')


@case('lifecycle/create_with_all_options')
def _(world):
    world.box = create(env={'GREETING': 'hello'}, metadata={'suite': TAG},
                       resource={'cpu': '500m', 'memory': '256Mi'},
                       entrypoint=['tail', '-f', '/dev/null'], ready_timeout=MINUTES)
    equal(out(world.box, 'echo $GREETING'), 'hello')


@case('lifecycle/get')
def _(world):
    info = world.box.get_info()
    equal((info.status.state, info.metadata), ('Running', {'suite': TAG}))


@case('lifecycle/connect')
def _(world):
    with SandboxSync.connect(world.box.id, connection_config=CONFIG) as again:
        equal(out(again, 'echo again'), 'again')


@case('lifecycle/renew')
def _(world):
    renewed = world.box.renew(30 * MINUTES)
    equal(world.box.get_info().expires_at, renewed.expires_at)


@case('lifecycle/manual_cleanup')
def _(_world):
    box = create(timeout=None)
    try:
        equal(box.get_info().expires_at, None)
    finally:
        box.destroy()


@case('lifecycle/patch_metadata')
def _(world):
    equal(world.box.patch_metadata({'new': '1'}).metadata, {'suite': TAG, 'new': '1'})
    equal(world.box.patch_metadata({'new': None}).metadata, {'suite': TAG})


@case('lifecycle/pause_and_resume')
def _(_world):
    box = create()
    try:
        box.pause()
        equal(box.get_info().status.state, 'Paused')
        box = SandboxSync.resume(box.id, connection_config=CONFIG)
        equal(out(box, 'echo awake'), 'awake')
    finally:
        box.kill()


@case('command/foreground')
def _(world):
    done = world.box.commands.run('echo out; echo err >&2; exit 7')
    equal([m.text for m in done.logs.stdout], ['out\n'])
    equal([m.text for m in done.logs.stderr], ['err\n'])
    equal(done.exit_code, 7)


@case('isolated/session')
def _(world):
    """What it writes it has alone, whoever holds it; a run in the background is told to its end."""
    out(world.box, 'mkdir -p /srv/iso')
    request = CreateIsolatedSessionRequest(workspace=IsolatedWorkspaceSpec(path='/srv/iso'))
    with world.box.isolation.session(request) as session:
        equal(session.run('echo theirs >new; (exit 3)').error.value, '3')
        again = world.box.isolation.attach(session.session_id)
        equal(again.files.read_file('/srv/iso/new'), 'theirs\n')
        again.files.write_file('/srv/iso/go', 'go')
        run = session.run_background('until [ -s go ]; do sleep 0.01; done; cat new')
        while session.run_status(run.run_id).running:
            pass
        equal(session.run_logs(run.run_id).text, 'theirs\n')
        equal(out(world.box, 'ls /srv/iso | grep -v execd; true'), '')
    equal(world.box.isolation.list(), [])


@case('command/streamed')
def _(world):
    seen = []

    def stdout(message):
        seen.append(message.text)
        if message.text == 'first\n':
            world.box.files.write_file('/tmp/go', 'second\n', mode=644)

    world.box.commands.run('echo first; until [ -s /tmp/go ]; do sleep 0.01; done; cat /tmp/go',
                           handlers=ExecutionHandlersSync(on_stdout=stdout))
    equal(seen, ['first\n', 'second\n'])


@case('command/options')
def _(world):
    equal(out(world.box, 'pwd; echo $A', working_directory='/opt', envs={'A': 'b c'}),
          '/opt\nb c')


@case('command/background')
def _(world):
    commands = world.box.commands
    done = commands.run('echo one; sleep 100', opts=RunCommandOpts(background=True))
    deadline = time.monotonic() + 20
    while 'one' not in commands.get_background_command_logs(done.id).content:
        check(time.monotonic() < deadline, 'no output')
    check(commands.get_command_status(done.id).running, 'it should still run')
    commands.interrupt(done.id)
    while commands.get_command_status(done.id).running:
        check(time.monotonic() < deadline, 'not interrupted')


@case('command/session')
def _(world):
    commands = world.box.commands
    session = commands.create_session(working_directory='/opt')
    commands.run_in_session(session, 'export KEPT=yes')
    done = commands.run_in_session(session, 'echo $KEPT; pwd')
    equal([m.text for m in done.logs.stdout], ['yes', '/opt'])
    commands.delete_session(session)


@case('command/metrics')
def _(world):
    metrics = world.box.get_metrics()
    equal(metrics.memory_total_in_mib, 256)
    check(0 <= metrics.cpu_used_percentage <= 100, metrics)


@case('files/all')
def _(world):
    files, data = world.box.files, os.urandom(3 << 20)
    files.create_directories([WriteEntry(path='/tmp/d', mode=755)])
    files.write_files([WriteEntry(path='/tmp/d/a', data=data, mode=600),
                       WriteEntry(path='/tmp/d/b', data='x y x', mode=644)])
    equal(files.read_bytes('/tmp/d/a'), data)
    equal(b''.join(files.read_bytes_stream('/tmp/d/a')), data)
    equal(files.get_file_info(['/tmp/d/a'])['/tmp/d/a'].mode, 600)
    equal([e.path for e in files.search(SearchEntry(path='/tmp/d', pattern='b'))], ['/tmp/d/b'])
    equal(len(files.list_directory(DirectoryListEntry(path='/tmp/d'))), 2)
    files.set_permissions([SetPermissionEntry(path='/tmp/d/b', mode=640, owner='dev')])
    equal(out(world.box, 'stat -c "%a %U" /tmp/d/b'), '640 dev')
    files.replace_contents([ContentReplaceEntry(path='/tmp/d/b', old_content='x',
                                                new_content='z')])
    files.move_files([MoveEntry(src='/tmp/d/b', dest='/tmp/d/c')])
    equal(files.read_file('/tmp/d/c'), 'z y z')
    files.delete_files(['/tmp/d/c'])
    files.delete_directories(['/tmp/d'])
    refused(lambda: files.read_file('/tmp/d/a'), 404)


@case('files/with_identity')
def _(world):
    out(world.box, 'mkdir -m 777 /tmp/shared')
    one, other = (world.box.files_with_identity(number, number) for number in (1000, 4242))
    one.create_directories([WriteEntry(path='/tmp/shared/d', mode=700)])
    one.write_file('/tmp/shared/d/a', 'x y x', mode=600)
    equal(one.get_file_info(['/tmp/shared/d/a'])['/tmp/shared/d/a'].size, 5)
    equal([e.path for e in one.search(SearchEntry(path='/tmp/shared/d', pattern='a'))],
          ['/tmp/shared/d/a'])
    equal(len(one.list_directory(DirectoryListEntry(path='/tmp/shared/d'))), 1)
    one.replace_contents([ContentReplaceEntry(path='/tmp/shared/d/a', old_content='x',
                                              new_content='z')])
    one.move_files([MoveEntry(src='/tmp/shared/d/a', dest='/tmp/shared/d/b')])
    one.set_permissions([SetPermissionEntry(path='/tmp/shared/d/b', mode=640)])
    equal(out(world.box, 'stat -c "%u:%g %a" /tmp/shared/d/b'), '1000:1000 640')
    equal(one.read_file('/tmp/shared/d/b'), 'z y z')
    refused(lambda: other.read_file('/tmp/shared/d/b'), 500)
    one.delete_files(['/tmp/shared/d/b'])
    one.delete_directories(['/tmp/shared/d'])
    equal(out(world.box, 'ls /tmp/shared'), '')


@case('endpoint/direct')
def _(world):
    world.box.commands.run('httpd -p 8000 -h /srv')
    endpoint = world.box.get_endpoint(8000)
    request = urllib.request.Request(f'http://{endpoint.endpoint}/cgi-bin/show',
                                     headers=endpoint.headers)
    with urllib.request.urlopen(request, timeout=20) as page:
        equal(page.readline(), b'GET /cgi-bin/show\n')


@case('endpoint/of_the_exec_api')
def _(world):
    endpoint = world.box.get_endpoint(44772)
    request = urllib.request.Request(f'http://{endpoint.endpoint}/proxy/8000/cgi-bin/show',
                                     headers=endpoint.headers)
    with urllib.request.urlopen(request, timeout=20) as page:
        equal(page.readline(), b'GET /cgi-bin/show\n')


@case('endpoint/server_proxy')
def _(world):
    config = ConnectionConfigSync(domain=cases.DOMAIN, api_key=cases.KEY, use_server_proxy=True)
    with SandboxSync.connect(world.box.id, connection_config=config) as box:
        equal(out(box, 'echo proxied'), 'proxied')


@case('volumes/named')
def _(_world):
    volume = Volume(name='data', mount_path='/mnt/data',
                    pvc=PVC(claim_name=f'conformance-{os.getpid()}'))
    for command, expected in (('echo kept >/mnt/data/x', ''), ('cat /mnt/data/x', 'kept')):
        box = create(volumes=[volume])
        try:
            equal(out(box, command), expected)
        finally:
            box.kill()


# The fake internet has two web servers, which say what they were asked for.
POLICY = NetworkPolicy(default_action='deny',
                       egress=[NetworkRule(action='allow', target='good.example')])


def reached(box):
    """Those of the two that answer."""
    outputs = {name: out(box, FETCH.replace('NAME', f'{name}.example'))
               for name in ('good', 'evil')}
    return [name for name, text in outputs.items() if f'"host": "{name}.example"' in text]


def change_policy(box):
    """What can be done with the policy of a running sandbox, and that it is what is enforced."""
    equal(box.get_egress_policy(), POLICY)
    equal(reached(box), ['good'])
    box.patch_egress_rules([NetworkRule(action='allow', target='evil.example')])
    equal([rule.target for rule in box.get_egress_policy().egress],
          ['evil.example', 'good.example'])
    equal(reached(box), ['good', 'evil'])
    box.delete_egress_rules(['good.example'])
    equal(reached(box), ['evil'])
    box.patch_egress_rules([NetworkRule(action='deny', target='evil.example')])
    equal(reached(box), [])


@case('network/policy')
def _(_world):
    box = create(network_policy=POLICY)
    try:
        change_policy(box)
    finally:
        box.kill()


@case('network/policy_through_the_server')
def _(_world):
    config = ConnectionConfigSync(domain=cases.DOMAIN, api_key=cases.KEY, use_server_proxy=True)
    box = SandboxSync.create(IMAGE, connection_config=config, network_policy=POLICY)
    try:
        change_policy(box)
    finally:
        box.kill()


@case('network/policy_of_the_lifecycle_api')
def _(_world):
    """What the SDK does for sandboxes of templates: the API key is enough."""
    box = create(network_policy=POLICY)
    egress = NetworkPolicyAdapterSync(CONFIG, box.id)
    try:
        equal(egress.get_policy(), POLICY)
        egress.patch_rules([NetworkRule(action='allow', target='evil.example')])
        equal(reached(box), ['good', 'evil'])
        egress.delete_rules(['good.example'])
        equal(reached(box), ['evil'])
    finally:
        box.kill()


@case('network/credential_vault')
def _(_world):
    """A server is told a key, and later another one, that the sandbox never has."""
    box = create(network_policy=POLICY, credential_proxy=CredentialProxyConfig(enabled=True))
    asked = FETCH.replace('NAME', 'good.example')
    vault = box.credential_vault
    try:
        made = vault.create(
            credentials=[{'name': 'key', 'source': {'value': 'sk-one'}}],
            bindings=[{'name': 'api', 'auth': {'type': 'bearer', 'credential': 'key'},
                       'match': {'hosts': ['good.example'], 'schemes': ['http']}}])
        equal((made.revision, [binding.name for binding in made.bindings]), (1, ['api']))
        check('"Bearer sk-one"' in out(box, asked), 'its first key')
        equal(vault.patch(expected_revision=1, credentials={
            'replace': [{'name': 'key', 'source': {'value': 'sk-two'}}]}).revision, 2)
        check('"Bearer sk-two"' in out(box, asked), 'its second key')
        equal(vault.get().revision, 2)
        equal([(one.name, one.revision) for one in vault.list_credentials()], [('key', 2)])
        equal(vault.get_credential('key').source_type, 'inline')
        equal([one.name for one in vault.list_bindings()], ['api'])
        equal(vault.get_binding('api').auth.type, 'bearer')
        vault.delete()
        check('Bearer' not in out(box, asked), 'no key any more')
    finally:
        box.kill()


@case('network/no_policy')
def _(world):
    equal(reached(world.box), ['good', 'evil'])


@case('diagnostics/logs_and_events')
def _(world):
    equal(world.box.get_diagnostic_logs('container').kind, 'logs')
    equal(world.box.get_diagnostic_events('runtime').kind, 'events')


@case('manager/list_get_renew_kill')
def _(world):
    with SandboxManagerSync.create(CONFIG) as manager:
        listed = manager.list_sandbox_infos(SandboxFilter(states=['Running'],
                                                          metadata={'suite': TAG}))
        equal([info.id for info in listed.sandbox_infos], [world.box.id])
        box = create()
        equal(manager.get_sandbox_info(box.id).id, box.id)
        manager.renew_sandbox(box.id, 20 * MINUTES)
        manager.kill_sandbox(box.id)
        refused(lambda: manager.get_sandbox_info(box.id), 404)


@case('snapshots/taken_and_restored')
def _(world):
    world.box.files.write_file('/snapped.txt', 'as it was\n')
    taken = world.box.create_snapshot(name=TAG)
    equal((taken.sandbox_id, taken.name), (world.box.id, TAG))
    with SandboxManagerSync.create(CONFIG) as manager:
        deadline = time.monotonic() + 60
        while (found := manager.get_snapshot(taken.id)).status.state == 'Creating':
            check(time.monotonic() < deadline, found)
        equal((found.status.state, found.status.reason), ('Ready', 'snapshot_runtime_ready'))
        world.box.files.write_file('/snapped.txt', 'later')
        copy = create(image=None, snapshot_id=taken.id)
        equal(out(copy, 'cat /snapped.txt; echo $GREETING'), 'as it was\nhello')
        info = copy.get_info()
        equal((info.snapshot_id, info.image), (taken.id, None))
        listed = manager.list_snapshots(SnapshotFilter(sandbox_id=world.box.id, name=TAG,
                                                       states=['Ready', 'Failed']))
        equal([one.id for one in listed.snapshot_infos], [taken.id])
        equal(refused(lambda: manager.delete_snapshot(taken.id), 409).error.code,
              'SNAPSHOT::DELETE_CONFLICT')
        copy.kill()
        manager.delete_snapshot(taken.id)
        refused(lambda: manager.get_snapshot(taken.id), 404)
        equal(refused(lambda: create(image=None, snapshot_id=taken.id), 400).error.code,
              'SNAPSHOT::NOT_FOUND')


@case('errors/reasons')
def _(world):
    """What a user of the SDK reads is what was wrong, and not a number."""
    for fields, code, said in (
            ({'image': 'no/such:image'}, 'DOCKER::SANDBOX_IMAGE_NOT_FOUND', 'is not imported'),
            ({'resource': {'gpu': '1'}}, 'SANDBOX::API_NOT_SUPPORTED', 'GPUs are not offered'),
            ({'resource': {'ephemeral-storage': 'lots'}}, 'SANDBOX::INVALID_PARAMETER', 'ephemeral-storage'),
            ({'env': {'A': 'x' * 40_000_000}}, 'GENERAL::TOO_LARGE', 'larger than')):
        error = refused(lambda fields=fields: create(**fields), 400)
        check(error.error is not None, f'{code}: no code reached the user: {error}')
        equal(error.error.code, code)
        check(said in str(error) and 'HTTP' not in str(error), error)
    # execd, behind the server, limits a request as well.
    error = refused(lambda: world.box.commands.run('x' * 40_000_000), 413)
    check('request body' in str(error), error)
    with SandboxManagerSync.create(CONFIG) as manager:
        check('not found' in str(refused(lambda: manager.get_sandbox_info(NOBODY), 404)), 'not found')


@case('command/long')
def _(world):
    """Longer than the kernel takes as one argument; its children have no descriptor of ours."""
    text = 'x' * 300_000
    done = world.box.commands.run(f'v={text}; echo ${{#v}}; ls /proc/self/fd | tr "\\n" " "; exit 7')
    equal([m.text for m in done.logs.stdout], ['300000\n', '0 1 2 3 '])
    equal(done.exit_code, 7)


@case('errors/request_id')
def _(_world):
    with SandboxManagerSync.create(CONFIG) as manager:
        error = refused(lambda: manager.get_sandbox_info(NOBODY), 404)
    check(error.request_id, 'the exception has no request id')


@case('pool/warm_acquire_refill')
def _(_world):
    pool = SandboxPoolSync(
        pool_name='conformance', max_idle=2, state_store=InMemoryPoolStateStore(),
        connection_config=CONFIG, creation_spec=PoolCreationSpec(image=IMAGE))
    pool.start()
    try:
        until_idle(pool, 2)
        box = pool.acquire(5 * MINUTES, AcquirePolicy.FAIL_FAST)
        equal(out(box, 'echo pooled'), 'pooled')
        box.destroy()
        until_idle(pool, 2)
    finally:
        # First the shutdown: the pool's thread would fill again what was released before it.
        pool.shutdown(graceful=True)
        pool.release_all_idle()


def until_idle(pool, wanted):
    deadline = time.monotonic() + 30
    while (snapshot := pool.snapshot()).idle_count != wanted:
        check(time.monotonic() < deadline, snapshot)


@case('lifecycle/kill')
def _(world):
    world.box.kill()
    refused(world.box.get_info, 404)
    world.box.close()


if __name__ == '__main__':
    cases.run_plain(World())
