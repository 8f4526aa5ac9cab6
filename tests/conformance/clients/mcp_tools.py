"""The released MCP server, driven over stdio as an assistant drives it."""
import asyncio
import os
import pathlib
import sys

import cases
from cases import IMAGE, case, check, equal

from mcp import ClientSession, StdioServerParameters, stdio_client

SERVER = str(pathlib.Path(sys.executable).parent / 'opensandbox-mcp')
TAG = f'mcp-{os.getpid()}'


class World:
    """The session, and the sandbox that the cases share."""

    def __init__(self, session):
        self.session, self.box, self.called = session, None, set()

    async def call(self, tool, /, **arguments):
        """A tool's structured result."""
        self.called.add(tool)
        result = await self.session.call_tool(tool, arguments)
        text = ' '.join(getattr(part, 'text', '') for part in result.content)
        failed = getattr(result, 'is_error', getattr(result, 'isError', False))
        check(not failed, f'{tool}: {text}')
        value = getattr(result, 'structured_content', getattr(result, 'structuredContent', None))
        # What is not an object comes wrapped.
        return value['result'] if list(value) == ['result'] else value

    async def on_box(self, tool, /, **arguments):
        return await self.call(tool, sandbox_id=self.box, **arguments)


@case('tools/sandbox_create')
async def _(world):
    created = await world.call('sandbox_create', image=IMAGE, metadata={'suite': TAG},
                               env={'GREETING': 'hello'},
                               resource={'cpu': '500m', 'memory': '256Mi'})
    world.box = created['sandbox_id']
    equal(created['info']['status']['state'], 'Running')


@case('tools/sandbox_get_info_list_connect')
async def _(world):
    equal((await world.on_box('sandbox_get_info'))['metadata'], {'suite': TAG})
    listed = await world.call('sandbox_list', filter={'metadata': {'suite': TAG}})
    equal([info['id'] for info in listed['sandbox_infos']], [world.box])
    equal((await world.on_box('sandbox_connect'))['sandbox_id'], world.box)


@case('tools/sandbox_renew_healthcheck_metrics_endpoint')
async def _(world):
    await world.on_box('sandbox_renew', timeout_seconds=1800)
    await world.on_box('sandbox_healthcheck')
    equal((await world.on_box('sandbox_get_metrics'))['memory_total_in_mib'], 256)
    check(world.box in (await world.on_box('sandbox_get_endpoint', port=8000))['endpoint'],
          'an endpoint of another sandbox')


@case('tools/command_run')
async def _(world):
    done = await world.on_box('command_run', command='echo $GREETING; exit 3')
    equal([message['text'] for message in done['logs']['stdout']], ['hello\n'])
    equal(done['exit_code'], 3)


@case('tools/command_interrupt')
async def _(world):
    started = await world.on_box('command_run', command='sleep 100', background=True)
    await world.on_box('command_interrupt', execution_id=started['id'])
    done = await world.on_box('command_run',
                              command='until ! pgrep -x sleep >/dev/null; do :; done')
    equal(done['exit_code'], 0)


@case('tools/files')
async def _(world):
    await world.on_box('file_create_directories', entries=[{'path': '/tmp/d', 'mode': 755}])
    await world.on_box('file_write', path='/tmp/d/a', content='x y x', mode=644)
    await world.on_box('file_replace_contents', entries=[
        {'path': '/tmp/d/a', 'old_content': 'x', 'new_content': 'z'}])
    await world.on_box('file_move', entries=[{'src': '/tmp/d/a', 'dest': '/tmp/d/c'}])
    read = await world.on_box('file_read', path='/tmp/d/c')
    check('z y z' in str(read), read)
    found = await world.on_box('file_search', path='/tmp/d', pattern='*')
    equal([entry['path'] for entry in found], ['/tmp/d/c'])
    await world.on_box('file_delete', paths=['/tmp/d/c'])
    await world.on_box('file_delete_directories', paths=['/tmp/d'])
    done = await world.on_box('command_run', command='ls -d /tmp/d')
    check(done['exit_code'] != 0, 'the directory is still there')


@case('tools/sandbox_kill')
async def _(world):
    await world.on_box('sandbox_kill')
    listed = await world.call('sandbox_list', filter={'metadata': {'suite': TAG}})
    equal(listed['sandbox_infos'], [])


@case('tools/all_of_them')
async def _(world):
    """No tool is left that no case has called."""
    equal({tool.name for tool in (await world.session.list_tools()).tools}, world.called)


async def main():
    server = StdioServerParameters(
        command=SERVER, env=dict(os.environ),
        args=['--domain', cases.DOMAIN, '--api-key', cases.KEY, '--transport', 'stdio'])
    async with stdio_client(server) as (receive, send), ClientSession(receive, send) as session:
        await session.initialize()
        await cases.run_all(World(session))


if __name__ == '__main__':
    asyncio.run(main())
