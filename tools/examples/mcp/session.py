"""Gets a sandbox over MCP, as a coding agent does: starts the server, runs a command in a sandbox of its making.

    session.py COMMAND [ARGUMENT...]    how the server is started; it gets HOME and PATH alone
"""
import asyncio
import os
import sys

from mcp import ClientSession, StdioServerParameters, stdio_client

IMAGE = os.environ.get('SANDBOX_IMAGE', 'python:3.11')


async def call(session, tool, **arguments):
    result = await session.call_tool(tool, arguments)
    if result.is_error:
        raise RuntimeError(f'{tool}: {" ".join(part.text for part in result.content)}')
    return result.structured_content


async def main(command, arguments):
    server = StdioServerParameters(command=command, args=arguments)
    async with stdio_client(server) as (receive, send), ClientSession(receive, send) as session:
        await session.initialize()
        print(len((await session.list_tools()).tools), 'tools')
        box = (await call(session, 'sandbox_create', image=IMAGE))['sandbox_id']
        try:
            done = await call(session, 'command_run', sandbox_id=box, command='python3 -c "print(6 * 7)"')
            print(''.join(line['text'] for line in done['logs']['stdout']).strip())
        finally:
            await call(session, 'sandbox_kill', sandbox_id=box)


if __name__ == '__main__':
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
