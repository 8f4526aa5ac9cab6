"""How a sandbox and the rest reach each other: endpoints, volumes, network, diagnostics."""
import asyncio
import os
import time
import urllib.request

import cases
from cases import FETCH, HOST_DIR, IMAGE, case, check, equal

from opensandbox import Sandbox
from opensandbox.adapters.network_policy_adapter import NetworkPolicyAdapter
from opensandbox.config import ConnectionConfig
from opensandbox.models.sandboxes import (
    PVC, CredentialProxyConfig, Host, NetworkPolicy, NetworkRule, Volume)

from .world import World, out


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


@case('endpoint/of_the_exec_api')
async def _(world):
    """A port by way of the exec API's own proxy."""
    await serve(world.box)
    page = await fetch(await world.box.get_endpoint(44772), '/proxy/8000/cgi-bin/show?a=b%20c')
    equal(page.splitlines()[0], 'GET /cgi-bin/show?a=b%20c')


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


# ---- volumes

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


# ---- network

# The fake internet has two web servers, which say what they were asked for.
POLICY = NetworkPolicy(default_action='deny',
                       egress=[NetworkRule(action='allow', target='good.example')])


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


@case('network/policy_of_the_lifecycle_api')
async def _(world):
    """What the SDK does for sandboxes of templates: the API key is enough."""
    box = await world.create(network_policy=POLICY)
    egress = NetworkPolicyAdapter(world.config, box.id)
    try:
        equal(await egress.get_policy(), POLICY)
        await egress.patch_rules([NetworkRule(action='allow', target='evil.example')])
        equal(await reached(box), ['good', 'evil'])
        await egress.delete_rules(['good.example'])
        equal(await reached(box), ['evil'])
        equal([rule.target for rule in (await egress.get_policy()).egress], ['evil.example'])
    finally:
        await box.kill()


@case('network/credential_vault')
async def _(world):
    """A server is told a key, and later another one, that the sandbox never has."""
    box = await world.create(network_policy=POLICY, credential_proxy=CredentialProxyConfig(enabled=True))
    asked = FETCH.replace('NAME', 'good.example')
    vault = box.credential_vault
    try:
        made = await vault.create(
            credentials=[{'name': 'key', 'source': {'value': 'sk-one'}}],
            bindings=[{'name': 'api', 'auth': {'type': 'bearer', 'credential': 'key'},
                       'match': {'hosts': ['good.example'], 'schemes': ['http']}}])
        equal((made.revision, [binding.name for binding in made.bindings]), (1, ['api']))
        check('"Bearer sk-one"' in await out(box, asked), 'its first key')
        changed = await vault.patch(expected_revision=1, credentials={
            'replace': [{'name': 'key', 'source': {'value': 'sk-two'}}]})
        equal(changed.revision, 2)
        check('"Bearer sk-two"' in await out(box, asked), 'its second key')
        equal((await vault.get()).revision, 2)
        equal([(one.name, one.revision) for one in await vault.list_credentials()], [('key', 2)])
        equal((await vault.get_credential('key')).source_type, 'inline')
        equal([one.name for one in await vault.list_bindings()], ['api'])
        equal((await vault.get_binding('api')).auth.type, 'bearer')
        await vault.delete()
        check('Bearer' not in await out(box, asked), 'no key any more')
    finally:
        await box.kill()


@case('network/no_policy')
async def _(world):
    equal(await reached(world.box), ['good', 'evil'])


# ---- diagnostics

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
