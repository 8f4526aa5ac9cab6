"""The unmodified Python SDK: create, run, kill. Run by sdk_test.py: client.py DOMAIN KEY IMAGE."""
import asyncio
import sys

from opensandbox import Sandbox
from opensandbox.config import ConnectionConfig


async def main(domain, key, image):
    config = ConnectionConfig(domain=domain, api_key=key)
    sandbox = await Sandbox.create(image, connection_config=config)
    try:
        done = await sandbox.commands.run('echo from python')
        print(done.logs.stdout[0].text)
    finally:
        await sandbox.kill()
        await sandbox.close()


asyncio.run(main(*sys.argv[1:]))
