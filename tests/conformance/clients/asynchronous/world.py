"""What the cases share: the sandbox, and what is asked of it in most of them."""
import datetime
import os

import cases
from cases import IMAGE, equal

from opensandbox import Sandbox, SandboxManager
from opensandbox.config import ConnectionConfig
from opensandbox.exceptions import SandboxApiException
from opensandbox.models.execd import RunCommandOpts

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
    return ''.join(message.text for message in done.logs.stdout).removesuffix('\n')


async def refusal(doing, status):
    """The exception of something that must be refused with this status."""
    try:
        await doing
    except SandboxApiException as error:
        equal(error.status_code, status)
        return error
    raise AssertionError(f'done, where {status} was expected')
