"""The released Python SDK, its asynchronous half."""
import asyncio
import datetime
import os
import time
import urllib.request

import cases
from cases import HOST_DIR, IMAGE, case, check, equal

from opensandbox import Sandbox, SandboxManager
from opensandbox.config import ConnectionConfig
from opensandbox.exceptions import SandboxApiException
from opensandbox.models.execd import ExecutionHandlers, RunCommandOpts
from opensandbox.models.filesystem import (ContentReplaceEntry, DirectoryListEntry, MoveEntry,
                                           SearchEntry, SetPermissionEntry, WriteEntry)
from opensandbox.models.sandboxes import (PVC, Host, NetworkPolicy, NetworkRule, PlatformSpec,
                                          SandboxFilter, Volume)
from opensandbox.pool import (AcquirePolicy, InMemoryAsyncPoolStateStore, PoolCreationSpec,
                              SandboxPoolAsync)

MINUTES = datetime.timedelta(minutes=1)
TAG = f'async-{os.getpid()}'


class World:
    """The sandbox that most cases share."""

    def __init__(self, **options):
        self.config = ConnectionConfig(domain=cases.DOMAIN, api_key=cases.KEY, **options)
        self.box = None

    def create(self, **options):
        return Sandbox.create(options.pop('image', IMAGE), connection_config=self.config,
                              **{'timeout': 10 * MINUTES, **options})

    async def manager(self):
        return await SandboxManager.create(self.config)

    def out(self, *arguments, **options):
        return out(self.box, *arguments, **options)


async def out(box, command, **options):
    done = await box.commands.run(command, opts=RunCommandOpts(**options))
    equal(done.exit_code, 0)
    return '\n'.join(message.text for message in done.logs.stdout)


async def refusal(doing, status):
    """The exception of something that must be refused with this status."""
    try:
        await doing
    except SandboxApiException as error:
        equal(error.status_code, status)
        return error
    raise AssertionError(f'done, where {status} was expected')


# ---- life

@case('lifecycle/create_with_all_options')
async def _(world):
    world.box = await world.create(
        env={'GREETING': 'hello there'}, metadata={'suite': TAG, 'role': 'shared'},
        resource={'cpu': '500m', 'memory': '256Mi'}, entrypoint=['tail', '-f', '/dev/null'],
        platform=PlatformSpec(os='linux', arch='amd64'), ready_timeout=MINUTES)
    equal(await world.out('echo $GREETING'), 'hello there')


@case('lifecycle/get')
async def _(world):
    info = await world.box.get_info()
    equal(info.status.state, 'Running')
    equal(info.entrypoint, ['tail', '-f', '/dev/null'])
    equal(info.metadata, {'suite': TAG, 'role': 'shared'})
    equal(info.image.image, IMAGE)
    left = info.expires_at - info.created_at
    check(9 * MINUTES < left <= 10 * MINUTES, f'it lives for {left}')


@case('lifecycle/connect')
async def _(world):
    async with await Sandbox.connect(world.box.id, connection_config=world.config) as again:
        equal(await out(again, 'echo again'), 'again')


@case('lifecycle/health')
async def _(world):
    check(await world.box.is_healthy(), 'it is not healthy')


@case('lifecycle/renew')
async def _(world):
    renewed = await world.box.renew(30 * MINUTES)
    info = await world.box.get_info()
    equal(info.expires_at, renewed.expires_at)
    check(info.expires_at - info.created_at > 25 * MINUTES, 'it expires no later than before')


@case('lifecycle/manual_cleanup')
async def _(world):
    box = await world.create(timeout=None)
    try:
        equal((await box.get_info()).expires_at, None)
    finally:
        await box.destroy()


@case('lifecycle/patch_metadata')
async def _(world):
    info = await world.box.patch_metadata({'role': 'patched', 'new': '1'})
    equal(info.metadata, {'suite': TAG, 'role': 'patched', 'new': '1'})
    info = await world.box.patch_metadata({'new': None})
    equal(info.metadata, {'suite': TAG, 'role': 'patched'})
    equal((await world.box.get_info()).metadata, {'suite': TAG, 'role': 'patched'})


@case('lifecycle/pause_and_resume')
async def _(world):
    box = await world.create()
    try:
        running = await box.commands.run('sleep 1000', opts=RunCommandOpts(background=True))
        await box.pause()
        equal((await box.get_info()).status.state, 'Paused')
        box = await Sandbox.resume(box.id, connection_config=world.config)
        equal((await box.get_info()).status.state, 'Running')
        equal(await out(box, 'echo awake'), 'awake')
        check((await box.commands.get_command_status(running.id)).running, 'it did not survive')
    finally:
        await box.kill()


@case('lifecycle/kill')
async def _(world):
    box = await world.create()
    await box.kill()
    await refusal(box.get_info(), 404)
    await box.close()


@case('lifecycle/ten_at_once')
async def _(world):
    boxes = await asyncio.gather(*(world.create(metadata={'suite': TAG}) for _ in range(10)))
    try:
        equal(await asyncio.gather(*(out(box, f'echo {i}') for i, box in enumerate(boxes))),
              [str(i) for i in range(10)])
    finally:
        await asyncio.gather(*(box.kill() for box in boxes))


# ---- commands

@case('command/foreground')
async def _(world):
    done = await world.box.commands.run('echo out; echo more; echo err >&2')
    equal([m.text for m in done.logs.stdout], ['out', 'more'])
    equal([m.text for m in done.logs.stderr], ['err'])
    equal(done.exit_code, 0)
    check(done.complete is not None and done.error is None, 'not complete')


@case('command/failing')
async def _(world):
    done = await world.box.commands.run('echo said; exit 7')
    equal(done.exit_code, 7)
    equal(done.error.value, '7')
    equal([m.text for m in done.logs.stdout], ['said'])


@case('command/streamed')
async def _(world):
    """Output is there while the command still runs: it ends only once it has been seen."""
    box, seen, ids = world.box, [], []

    async def stdout(message):
        seen.append(message.text)
        if message.text == 'first':
            await box.files.write_file('/tmp/go', 'second\n', mode=644)

    async def init(event):
        ids.append(event.id)

    done = await box.commands.run(
        'echo first; until [ -s /tmp/go ]; do sleep 0.01; done; cat /tmp/go',
        handlers=ExecutionHandlers(on_stdout=stdout, on_init=init))
    equal(seen, ['first', 'second'])
    equal(ids, [done.id])


@case('command/options')
async def _(world):
    equal(await world.out('pwd; echo $A', working_directory='/opt', envs={'A': 'b c'}), '/opt\nb c')
    equal(await world.out('id -u; id -g', uid=1000, gid=1000), '1000\n1000')


@case('command/timeout')
async def _(world):
    began = time.monotonic()
    done = await world.box.commands.run(
        'sleep 60', opts=RunCommandOpts(timeout=datetime.timedelta(seconds=1)))
    check(time.monotonic() - began < 20, 'the time limit did not end it')
    check(done.error is not None, 'no error is told')


@case('command/background')
async def _(world):
    done = await world.box.commands.run(
        'echo one; until [ -e /tmp/on ]; do sleep 0.01; done; echo two; exit 3',
        opts=RunCommandOpts(background=True))
    status = await world.box.commands.get_command_status(done.id)
    check(status.running, 'it should still run')
    logs = await until_logged(world.box, done.id, 0, 'one')
    await world.out('touch /tmp/on')
    logs = await until_logged(world.box, done.id, logs.cursor, 'two')
    equal(logs.content.strip(), 'two')
    while (status := await world.box.commands.get_command_status(done.id)).running:
        pass
    equal(status.exit_code, 3)


async def until_logged(box, command, cursor, text):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        logs = await box.commands.get_background_command_logs(command, cursor)
        if text in logs.content:
            return logs
    raise AssertionError(f'{text!r} did not come: {logs}')


@case('command/interrupt')
async def _(world):
    ids = asyncio.Queue()

    async def init(event):
        await ids.put(event.id)

    running = asyncio.create_task(world.box.commands.run(
        'sleep 60', handlers=ExecutionHandlers(on_init=init)))
    began = time.monotonic()
    await world.box.commands.interrupt(await ids.get())
    done = await running
    check(time.monotonic() - began < 20, 'it was not interrupted')
    check(done.error is not None, 'no error is told')


@case('command/session')
async def _(world):
    commands = world.box.commands
    session = await commands.create_session(working_directory='/opt')
    try:
        await commands.run_in_session(session, 'export KEPT=yes; cd /srv')
        done = await commands.run_in_session(session, 'echo $KEPT; pwd')
        equal([m.text for m in done.logs.stdout], ['yes', '/srv'])
        done = await commands.run_in_session(session, 'pwd; (exit 5)', working_directory='/tmp')
        equal([m.text for m in done.logs.stdout], ['/tmp'])
        equal(done.exit_code, 5)
    finally:
        await commands.delete_session(session)
    try:
        await commands.run_in_session(session, 'true')
    except Exception:  # pylint: disable=broad-exception-caught
        return
    raise AssertionError('a deleted session still runs commands')


@case('command/metrics')
async def _(world):
    metrics = await world.box.get_metrics()
    equal(metrics.memory_total_in_mib, 256)
    check(0 < metrics.cpu_count <= 64, metrics)
    check(0 <= metrics.cpu_used_percentage <= 100, metrics)
    check(0 < metrics.memory_used_in_mib < 256, metrics)
    check(abs(metrics.timestamp / 1000 - time.time()) < 120, metrics)


# ---- files

@case('files/write_and_read')
async def _(world):
    files, data = world.box.files, bytes(range(256)) * 8192
    await files.create_directories([WriteEntry(path='/tmp/d/e', mode=755)])
    await files.write_files([
        WriteEntry(path='/tmp/d/a.txt', data='häää\n', mode=640, owner='nobody', group='nogroup'),
        WriteEntry(path='/tmp/d/e/b.bin', data=data, mode=755)])
    equal(await files.read_file('/tmp/d/a.txt'), 'häää\n')
    equal(await files.read_bytes('/tmp/d/e/b.bin'), data)
    equal(await files.read_bytes('/tmp/d/e/b.bin', range_header='bytes=250-259'), data[250:260])
    stream = await files.read_bytes_stream('/tmp/d/e/b.bin', chunk_size=65536)
    equal(b''.join([part async for part in stream]), data)


@case('files/lines')
async def _(world):
    await world.box.files.write_file('/tmp/d/lines', 'one\ntwo\nthree\nfour\n', mode=644)
    equal(await world.box.files.read_file('/tmp/d/lines', offset=2, limit=2), 'two\nthree')
    await world.box.files.delete_files(['/tmp/d/lines'])


@case('files/info')
async def _(world):
    info = await world.box.files.get_file_info(['/tmp/d/a.txt', '/tmp/d/e'])
    entry = info['/tmp/d/a.txt']
    equal((entry.mode, entry.owner, entry.group, entry.size), (640, 'nobody', 'nogroup', 8))
    check(abs(entry.modified_at.timestamp() - time.time()) < 120, entry)
    equal(info['/tmp/d/e'].mode, 755)


@case('files/search')
async def _(world):
    found = await world.box.files.search(SearchEntry(path='/tmp/d', pattern='*.bin'))
    equal([entry.path for entry in found], ['/tmp/d/e/b.bin'])


@case('files/list_directory')
async def _(world):
    found = await world.box.files.list_directory(DirectoryListEntry(path='/tmp/d', depth=2))
    equal(sorted((e.path, e.entry_type) for e in found),
          [('/tmp/d/a.txt', 'file'), ('/tmp/d/e', 'directory'), ('/tmp/d/e/b.bin', 'file')])


@case('files/permissions')
async def _(world):
    await world.box.files.set_permissions([
        SetPermissionEntry(path='/tmp/d/a.txt', mode=600, owner='dev', group='dev')])
    equal(await world.out('stat -c "%a %U %G" /tmp/d/a.txt'), '600 dev dev')


@case('files/replace')
async def _(world):
    files = world.box.files
    await files.write_file('/tmp/d/r.txt', 'a b a b a', mode=644)
    results = await files.replace_contents_detailed([
        ContentReplaceEntry(path='/tmp/d/r.txt', old_content='a', new_content='c')])
    equal([result.replaced_count for result in results], [3])
    equal(await files.read_file('/tmp/d/r.txt'), 'c b c b c')


@case('files/move_and_delete')
async def _(world):
    files = world.box.files
    await files.move_files([MoveEntry(src='/tmp/d/r.txt', dest='/tmp/d/s.txt')])
    equal(await world.out('ls /tmp/d'), 'a.txt\ne\ns.txt')
    await files.delete_files(['/tmp/d/s.txt'])
    await files.delete_directories(['/tmp/d/e'])
    equal(await world.out('ls /tmp/d'), 'a.txt')


@case('files/missing')
async def _(world):
    await refusal(world.box.files.read_file('/tmp/absent'), 404)


# ---- endpoints

async def fetch(endpoint, path, headers=()):
    request = urllib.request.Request(f'http://{endpoint.endpoint}{path}',
                                     headers={**endpoint.headers, **dict(headers)})
    return await asyncio.to_thread(
        lambda: urllib.request.urlopen(request, timeout=20).read().decode())  # pylint: disable=consider-using-with


async def serve(box):
    """A web server on port 8000 of the sandbox, started once."""
    await box.commands.run('[ -e /tmp/httpd ] || { touch /tmp/httpd; httpd -p 8000 -h /srv; }')


@case('endpoint/direct')
async def _(world):
    await serve(world.box)
    page = await fetch(await world.box.get_endpoint(8000), '/cgi-bin/show?a=b%20c')
    equal(page.splitlines()[0], 'GET /cgi-bin/show?a=b%20c')


@case('endpoint/server_proxy')
async def _(world):
    proxied = World(use_server_proxy=True)
    async with await Sandbox.connect(world.box.id, connection_config=proxied.config) as box:
        equal(await out(box, 'echo proxied'), 'proxied')
        await serve(box)
        endpoint = await box.get_endpoint(8000)
        check(f'/sandboxes/{box.id}/proxy/8000' in endpoint.endpoint, endpoint)
        page = await fetch(endpoint, '/cgi-bin/show')
        equal(page.splitlines()[0], 'GET /cgi-bin/show')


@case('endpoint/secure')
async def _(world):
    box = await world.create(secure_access=True)
    try:
        equal(await out(box, 'echo secure'), 'secure')
        await serve(box)
        signed = await box.get_signed_endpoint(8000, int(time.time()) + 600)
        page = await fetch(signed, '/cgi-bin/show')
        equal(page.splitlines()[0], 'GET /cgi-bin/show')
    finally:
        await box.kill()


# ---- volumes, diagnostics

@case('volumes/named')
async def _(world):
    claim = PVC(claim_name=f'conformance-{os.getpid()}')
    first = await world.create(volumes=[Volume(name='data', pvc=claim, mount_path='/mnt/data')])
    try:
        await out(first, 'mkdir /mnt/data/sub; echo kept >/mnt/data/sub/file')
        second = await world.create(volumes=[Volume(
            name='data', pvc=claim, mount_path='/mnt/data', sub_path='sub', read_only=True)])
        try:
            equal(await out(second, 'cat /mnt/data/file; echo no >/mnt/data/x || true'), 'kept')
            equal(await out(first, 'ls /mnt/data/sub'), 'file')
        finally:
            await second.kill()
    finally:
        await first.kill()


@case('volumes/host')
async def _(world):
    box = await world.create(volumes=[Volume(name='host', host=Host(path=HOST_DIR),
                                             mount_path='/mnt/host')])
    try:
        equal(await out(box, 'cat /mnt/host/marker; echo back >/mnt/host/answer'), 'from the host')
        with open(f'{HOST_DIR}/answer', encoding='utf-8') as answer:
            equal(answer.read(), 'back\n')
    finally:
        await box.kill()


# The fake internet has two web servers, which say what they were asked for.
POLICY = NetworkPolicy(default_action='deny',
                       egress=[NetworkRule(action='allow', target='good.example')])
# Of what the image has, nothing more comfortable can resolve names: static glibc.
FETCH = r"""a=$(nslookup -type=a NAME | awk '/^Name/ {n = 1} /^Address/ && n {print $2}')
[ -n "$a" ] && printf 'GET / HTTP/1.1\r\nHost: NAME\r\nConnection: close\r\n\r\n' | nc -w 5 "$a" 80 || true"""


async def reached(box):
    """Those of the two that answer."""
    outputs = {name: await out(box, FETCH.replace('NAME', f'{name}.example'))
               for name in ('good', 'evil')}
    return [name for name, text in outputs.items() if f'"host": "{name}.example"' in text]


async def change_policy(box):
    """What can be done with the policy of a running sandbox, and that it is what is enforced."""
    equal(await box.get_egress_policy(), POLICY)
    equal(await reached(box), ['good'])
    await box.patch_egress_rules([NetworkRule(action='allow', target='evil.example')])
    equal([rule.target for rule in (await box.get_egress_policy()).egress],
          ['evil.example', 'good.example'])
    equal(await reached(box), ['good', 'evil'])
    await box.delete_egress_rules(['good.example'])
    equal(await reached(box), ['evil'])
    await box.patch_egress_rules([NetworkRule(action='deny', target='evil.example')])
    equal(await reached(box), [])


@case('network/policy')
async def _(world):
    box = await world.create(network_policy=POLICY)
    try:
        await change_policy(box)
    finally:
        await box.kill()


@case('network/policy_through_the_server')
async def _(_world):
    config = ConnectionConfig(domain=cases.DOMAIN, api_key=cases.KEY, use_server_proxy=True)
    box = await Sandbox.create(IMAGE, connection_config=config, network_policy=POLICY)
    try:
        await change_policy(box)
    finally:
        await box.kill()


@case('network/no_policy')
async def _(world):
    equal(await reached(world.box), ['good', 'evil'])


@case('diagnostics/logs')
async def _(world):
    box = await world.create(entrypoint=['sh', '-c', 'echo from the entrypoint; exec sleep 1000'])
    try:
        await box.commands.run('true')
        content = await box.get_diagnostic_logs('container')
        check('from the entrypoint' in (content.content or ''), content)
        equal((content.kind, content.scope, content.delivery), ('logs', 'container', 'inline'))
    finally:
        await box.kill()


@case('diagnostics/events')
async def _(world):
    content = await world.box.get_diagnostic_events('lifecycle')
    equal((content.kind, content.scope, content.sandbox_id),
          ('events', 'lifecycle', world.box.id))


# ---- many sandboxes

@case('manager/list_by_state')
async def _(world):
    async with await world.manager() as manager:
        listed = await manager.list_sandbox_infos(SandboxFilter(
            states=['Running', 'Paused'], metadata={'suite': TAG}))
        equal([info.id for info in listed.sandbox_infos], [world.box.id])
        listed = await manager.list_sandbox_infos(SandboxFilter(
            states=['Paused'], metadata={'suite': TAG}))
        equal(listed.sandbox_infos, [])


@case('manager/list_by_metadata')
async def _(world):
    other = await world.create(metadata={'suite': TAG, 'role': 'v1.2-a_b'})
    try:
        async with await world.manager() as manager:
            listed = await manager.list_sandbox_infos(SandboxFilter(
                metadata={'suite': TAG, 'role': 'v1.2-a_b'}))
            equal([info.id for info in listed.sandbox_infos], [other.id])
    finally:
        await other.kill()


@case('manager/pages')
async def _(world):
    others = await asyncio.gather(*(world.create(metadata={'suite': TAG + '-page'})
                                    for _ in range(3)))
    try:
        async with await world.manager() as manager:
            pages = [await manager.list_sandbox_infos(SandboxFilter(
                metadata={'suite': TAG + '-page'}, page_size=2, page=page)) for page in (1, 2)]
        equal([len(page.sandbox_infos) for page in pages], [2, 1])
        equal([page.pagination.has_next_page for page in pages], [True, False])
        equal(pages[0].pagination.total_items, 3)
        equal({info.id for page in pages for info in page.sandbox_infos},
              {box.id for box in others})
    finally:
        await asyncio.gather(*(box.kill() for box in others))


@case('manager/get_renew_kill')
async def _(world):
    box = await world.create()
    async with await world.manager() as manager:
        equal((await manager.get_sandbox_info(box.id)).id, box.id)
        await manager.renew_sandbox(box.id, 20 * MINUTES)
        await manager.kill_sandbox(box.id)
        await refusal(manager.get_sandbox_info(box.id), 404)


# ---- errors

@case('errors/unknown_sandbox')
async def _(world):
    async with await world.manager() as manager:
        error = await refusal(
            manager.get_sandbox_info('00000000-0000-4000-8000-000000000000'), 404)
    check(error.request_id, 'the exception has no request id')
    equal(error.error.code, 'DOCKER::SANDBOX_NOT_FOUND')


@case('errors/own_request_id_comes_back')
async def _(world):
    async with await SandboxManager.create(world.config.model_copy(
            update={'headers': {'X-Request-ID': 'my-own-id-1'}})) as manager:
        error = await refusal(
            manager.get_sandbox_info('00000000-0000-4000-8000-000000000000'), 404)
    equal(error.request_id, 'my-own-id-1')


@case('errors/wrong_key')
async def _(world):
    config = ConnectionConfig(domain=cases.DOMAIN, api_key='wrong')
    async with await SandboxManager.create(config) as manager:
        await refusal(manager.get_sandbox_info(world.box.id), 401)


@case('errors/unknown_image')
async def _(world):
    try:
        await world.create(image='no/such:image')
    except SandboxApiException as error:
        check('no/such:image' in str(error), error)
        return
    raise AssertionError('a sandbox of an image that does not exist')


# ---- the client's own pool

@case('pool/warm_acquire_refill')
async def _(world):
    pool = SandboxPoolAsync(
        pool_name='conformance', max_idle=2, state_store=InMemoryAsyncPoolStateStore(),
        connection_config=world.config,
        creation_spec=PoolCreationSpec(image=IMAGE, metadata={'suite': TAG + '-pool'}))
    await pool.start()
    try:
        await until_idle(pool, 2)
        box = await pool.acquire(5 * MINUTES, AcquirePolicy.FAIL_FAST)
        equal(await out(box, 'echo pooled'), 'pooled')
        await box.kill()
        await box.close()
        await until_idle(pool, 2)
    finally:
        await pool.release_all_idle()
        await pool.shutdown(graceful=True)
    async with await world.manager() as manager:
        listed = await manager.list_sandbox_infos(
            SandboxFilter(metadata={'suite': TAG + '-pool'}))
    equal(listed.sandbox_infos, [])


async def until_idle(pool, wanted):
    deadline = time.monotonic() + 30
    while (snapshot := await pool.snapshot()).idle_count != wanted:
        check(time.monotonic() < deadline, snapshot)
        await asyncio.sleep(0.05)


@case('lifecycle/close')
async def _(world):
    await world.box.kill()
    await world.box.close()


if __name__ == '__main__':
    cases.run(World())
