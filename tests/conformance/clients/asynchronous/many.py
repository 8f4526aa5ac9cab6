"""Many sandboxes, errors, and the client's own pool."""
import asyncio
import time

import cases
from cases import IMAGE, case, check, equal

from opensandbox import SandboxManager
from opensandbox.config import ConnectionConfig
from opensandbox.exceptions import SandboxApiException
from opensandbox.models.sandboxes import SandboxFilter
from opensandbox.pool import (AcquirePolicy, InMemoryAsyncPoolStateStore, PoolCreationSpec,
                              SandboxPoolAsync)

from .world import MINUTES, TAG, out, refusal


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


# ---- the pool

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
        # First the shutdown: the pool's thread would fill again what was released before it.
        await pool.shutdown(graceful=True)
        await pool.release_all_idle()
    async with await world.manager() as manager:
        listed = await manager.list_sandbox_infos(
            SandboxFilter(metadata={'suite': TAG + '-pool'}))
    equal(listed.sandbox_infos, [])


async def until_idle(pool, wanted):
    deadline = time.monotonic() + 30
    while (snapshot := await pool.snapshot()).idle_count != wanted:
        check(time.monotonic() < deadline, snapshot)
        await asyncio.sleep(0.05)
