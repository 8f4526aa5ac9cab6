"""The life of a sandbox."""
import asyncio

from cases import IMAGE, case, check, equal

from opensandbox import Sandbox
from opensandbox.models.execd import RunCommandOpts
from opensandbox.models.sandboxes import PlatformSpec

from .world import MINUTES, TAG, out, refusal


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
