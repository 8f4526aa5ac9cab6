"""agent-sandbox-backends: its own back end with the history inside, and what Deep Agents get."""
import json

import cases
from cases import IMAGE, case, check, equal

from agent_sandbox_backends import HistoryConfig, HistoryMode, create_opensandbox_backend
from agent_sandbox_backends.integrations.deepagents import as_deepagents_backend


class World:
    """One sandbox, and the two ways to it."""
    core = agents = None


@case('backend/create')
async def _(world):
    world.core = await create_opensandbox_backend(
        f'http://{cases.DOMAIN}', api_key=cases.KEY, image=IMAGE, sandbox_name='research',
        env={'GREETING': 'hello'}, workdir='/tmp', sandbox_ttl_seconds=600)
    info = await world.core.info()
    equal((info.state.value, info.image), ('running', IMAGE))
    world.agents = as_deepagents_backend(world.core)


@case('backend/execute')
async def _(world):
    done = await world.core.execute('echo $GREETING; echo bad >&2; exit 3', cwd='/tmp')
    equal((done.stdout, done.stderr, done.exit_code), (b'hello\n', b'bad\n', 3))


@case('backend/time_limit')
async def _(world):
    done = await world.core.execute('sleep 60', timeout_seconds=1)
    check(done.exit_code != 0, done)


@case('backend/files')
async def _(world):
    data = bytes(range(256))
    await world.core.write_file('/tmp/blob', data)
    equal(await world.core.read_file('/tmp/blob'), data)
    check('/tmp/blob' in [entry.path for entry in await world.core.list_files('/tmp')],
          'not listed')
    await world.core.delete_file('/tmp/blob')


@case('backend/pause_and_resume')
async def _(_world):
    """Without the history, which it would write into the sandbox that it has just paused."""
    other = await create_opensandbox_backend(f'http://{cases.DOMAIN}', api_key=cases.KEY,
                                             image=IMAGE, workdir='/tmp',
                                             history=HistoryConfig(mode=HistoryMode.NONE))
    try:
        equal((await other.pause()).state.value, 'paused')
        equal((await other.resume()).state.value, 'running')
        equal((await other.execute('echo awake')).stdout, b'awake\n')
    finally:
        await other.provider.delete(other.ref)


@case('backend/history_is_in_the_sandbox')
async def _(world):
    done = await world.core.execute('ls /.agent-history')
    check(b'history.sqlite3' in done.stdout, done.stdout)


@case('deepagents/files')
async def _(world):
    wrote = await world.agents.awrite('/tmp/note.txt', 'first line\nsecond line\n')
    equal(wrote.error, None)
    equal((await world.agents.aedit('/tmp/note.txt', 'second', 'changed')).error, None)
    read = await world.agents.aread('/tmp/note.txt')
    check('changed line' in json.dumps(read, default=str), read)
    found = await world.agents.agrep('changed', path='/tmp')
    check('/tmp/note.txt' in str(found), found)
    equal((await world.agents.aexecute('cat /tmp/note.txt')).output, 'first line\nchanged line\n')


@case('backend/close_deletes')
async def _(world):
    await world.core.close()


if __name__ == '__main__':
    cases.run(World())
