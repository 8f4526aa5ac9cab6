"""What is done inside a sandbox: commands and files."""
import asyncio
import datetime
import time

from cases import case, check, equal

from opensandbox.models.execd import ExecutionHandlers, RunCommandOpts
from opensandbox.models.filesystem import (ContentReplaceEntry, DirectoryListEntry, MoveEntry,
                                           SearchEntry, SetPermissionEntry, WriteEntry)

from .world import refusal


# ---- commands

@case('command/foreground')
async def _(world):
    done = await world.box.commands.run('echo out; echo more; echo err >&2')
    equal([m.text for m in done.logs.stdout], ['out\n', 'more\n'])
    equal([m.text for m in done.logs.stderr], ['err\n'])
    equal(done.exit_code, 0)
    check(done.complete is not None and done.error is None, 'not complete')


@case('command/failing')
async def _(world):
    done = await world.box.commands.run('echo said; exit 7')
    equal(done.exit_code, 7)
    equal(done.error.value, '7')
    equal([m.text for m in done.logs.stdout], ['said\n'])


@case('command/streamed')
async def _(world):
    """Output is there while the command still runs: it ends only once it has been seen."""
    box, seen, ids = world.box, [], []

    async def stdout(message):
        seen.append(message.text)
        if message.text == 'first\n':
            await box.files.write_file('/tmp/go', 'second\n', mode=644)

    async def init(event):
        ids.append(event.id)

    done = await box.commands.run(
        'echo first; until [ -s /tmp/go ]; do sleep 0.01; done; cat /tmp/go',
        handlers=ExecutionHandlers(on_stdout=stdout, on_init=init))
    equal(seen, ['first\n', 'second\n'])
    equal(ids, [done.id])


@case('command/options')
async def _(world):
    equal(await world.out('pwd; echo $A', working_directory='/opt', envs={'A': 'b c'}), '/opt\nb c')
    equal(await world.out('id -u; id -g', uid=1000, gid=1000), '1000\n1000')


@case('command/argv')
async def _(world):
    """A program and its arguments, which no shell reads."""
    done = await world.box.commands.run(['printf', '%s|', '$HOME', 'a  b', ''])
    equal(''.join(m.text for m in done.logs.stdout), '$HOME|a  b||')


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


@case('files/with_identity')
async def _(world):
    await world.out('mkdir -m 777 /tmp/shared')
    one, other = (world.box.files_with_identity(number, number) for number in (1000, 4242))
    await one.write_file('/tmp/shared/mine', 'kept', mode=600)
    equal(await one.read_file('/tmp/shared/mine'), 'kept')
    equal(await world.out('stat -c "%u:%g %a" /tmp/shared/mine'), '1000:1000 600')
    equal((await one.get_file_info(['/tmp/shared/mine']))['/tmp/shared/mine'].size, 4)
    await refusal(other.read_file('/tmp/shared/mine'), 500)
    await refusal(other.write_file('/tmp/shared/mine', 'taken', mode=600), 500)
    await one.delete_files(['/tmp/shared/mine'])
    equal(await world.out('ls /tmp/shared'), '')


@case('files/with_identity_changes')
async def _(world):
    """What is made and changed so is that user's, and nothing of somebody else's is."""
    one, other = (world.box.files_with_identity(number, number) for number in (1000, 4242))
    await one.create_directories([WriteEntry(path='/tmp/shared/d', mode=700)])
    equal(await world.out('stat -c "%u:%g %a" /tmp/shared/d'), '1000:1000 700')
    await one.write_file('/tmp/shared/d/a', 'x y x', mode=600)
    equal([e.path for e in await one.search(SearchEntry(path='/tmp/shared/d', pattern='a'))],
          ['/tmp/shared/d/a'])
    equal([e.path for e in await one.list_directory(DirectoryListEntry(path='/tmp/shared/d'))],
          ['/tmp/shared/d/a'])
    await refusal(other.list_directory(DirectoryListEntry(path='/tmp/shared/d')), 500)
    await one.replace_contents([ContentReplaceEntry(path='/tmp/shared/d/a', old_content='x',
                                                    new_content='z')])
    await one.move_files([MoveEntry(src='/tmp/shared/d/a', dest='/tmp/shared/d/b')])
    await one.set_permissions([SetPermissionEntry(path='/tmp/shared/d/b', mode=640)])
    equal(await world.out('stat -c "%u:%g %a" /tmp/shared/d/b; cat /tmp/shared/d/b'),
          '1000:1000 640\nz y z')
    await refusal(other.delete_directories(['/tmp/shared/d']), 500)
    await one.delete_directories(['/tmp/shared/d'])
    equal(await world.out('ls /tmp/shared'), '')


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
