"""Isolated sessions: what a shell with namespaces of its own sees and leaves, seen from outside."""
from cases import case, check, equal

from opensandbox.models.filesystem import (ContentReplaceEntry, DirectoryListEntry, MoveEntry,
                                           SearchEntry, SetPermissionEntry, WriteEntry)
from opensandbox.models.isolated import (BindMount, CreateIsolatedSessionRequest,
                                         EnvPassthroughSpec, IsolatedOverlaySpec, IsolatedRunOpts,
                                         IsolatedWorkspaceSpec)

from .world import refusal

NOBODY = '00000000-0000-4000-8000-000000000000'


def wanted(mode='overlay', path='/srv/iso', **options):
    return CreateIsolatedSessionRequest(workspace=IsolatedWorkspaceSpec(path=path, mode=mode),
                                        **options)


async def said(session, code, **options):
    done = await session.run(code, opts=IsolatedRunOpts(**options))
    check(done.error is None, f'{code}: {done.error}')
    return ''.join(message.text.removesuffix('\n') + '\n' for message in done.logs.stdout)


@case('isolated/capabilities')
async def _(world):
    told = await world.box.isolation.capabilities()
    check(told.available and told.setpriv_available, told)
    equal((told.hardening.seccomp.state, told.hardening.cap_drop.state), ('active', 'active'))


@case('isolated/keeps_its_writes')
async def _(world):
    """Its own writes, which the sandbox does not have; state of the shell from run to run."""
    await world.out('mkdir -p /srv/iso && echo ours >/srv/iso/shared')
    async with world.box.isolation.session(wanted()) as session:
        equal(await said(session, 'cat shared; echo theirs >shared; echo >new; cd /tmp; X=kept'),
              'ours\n')
        equal(await said(session, 'pwd; echo $X; cat /srv/iso/shared'), '/tmp\nkept\ntheirs\n')
        equal(await world.out('ls /srv/iso; cat /srv/iso/shared'), 'shared\nours')


@case('isolated/modes')
async def _(world):
    async with world.box.isolation.session(wanted('rw')) as session:
        await said(session, 'echo from inside >through')
    equal(await world.out('cat /srv/iso/through'), 'from inside')
    async with world.box.isolation.session(wanted('ro')) as session:
        equal(await said(session, '{ echo >through; } 2>/dev/null || echo refused'), 'refused\n')


@case('isolated/sees_nobody_else')
async def _(world):
    """Neither the sandbox's processes nor, if asked so, its network and its secrets."""
    running = await world.box.isolation.create(
        wanted(share_net=False, env_passthrough=EnvPassthroughSpec(mode='allow', keys=['PATH'])))
    try:
        equal(await said(running, 'grep -c : /proc/net/dev; echo ${GREETING-none}'),
              '1\nnone\n')
        others = await said(running, 'cat /proc/[0-9]*/comm')
        check('tail' not in others and 'httpd' not in others, others)
    finally:
        await running.delete()


@case('isolated/as_somebody')
async def _(world):
    async with world.box.isolation.session(wanted(uid=1000, gid=1000)) as session:
        equal(await said(session, 'id -u; id -g'), '1000\n1000\n')


@case('isolated/as_somebody_to_itself_alone')
async def _(world):
    check((await world.box.isolation.capabilities()).userns_available, 'offered')
    request = wanted('rw', uid=1000, gid=1000, uid_mode='userns')
    async with world.box.isolation.session(request) as session:
        equal(await said(session, 'id -u; echo >mine; stat -c %u mine'), '1000\n1000\n')
    equal(await world.out('stat -c %u /srv/iso/mine'), '0')


@case('isolated/overlays_and_binds')
async def _(world):
    await world.out('mkdir -p /srv/a /srv/b /mnt/c && echo bound >/mnt/c/file')
    request = CreateIsolatedSessionRequest(
        overlays=[IsolatedOverlaySpec(path='/srv/a', mode='overlay', persist=False),
                  IsolatedOverlaySpec(path='/srv/b', mode='rw')],
        binds=[BindMount(source='/mnt/c', dest='/opt', readonly=True)])
    async with world.box.isolation.session(request) as session:
        equal(await said(session, 'cat /opt/file; echo >/srv/a/gone; echo stays >/srv/b/stays;'
                                  ' { echo >/opt/no; } 2>/dev/null || echo refused'), 'bound\nrefused\n')
    equal(await world.out('ls /srv/a; cat /srv/b/stays'), 'stays')


@case('isolated/runs_end_as_they_do')
async def _(world):
    async with world.box.isolation.session(wanted()) as session:
        done = await session.run('echo said; (exit 7)')
        equal((done.error.name, done.error.value), ('ExitError', '7'))
        equal([m.text.removesuffix('\n') for m in done.logs.stdout], ['said'])
        done = await session.run('sleep 1000', opts=IsolatedRunOpts(timeout_seconds=1))
        check(done.error is not None, 'a run that is over its time has no error')
        equal(await said(session, 'echo $A', envs={'A': 'b c'}), 'b c\n')
        equal(await said(session, 'echo ${A-gone}'), 'gone\n')


@case('isolated/background')
async def _(world):
    async with world.box.isolation.session(wanted('rw')) as session:
        run = await session.run_background(
            'echo begun; until [ -s go ]; do sleep 0.01; done; echo ended; exit 4')
        check((await session.run_status(run.run_id)).running, 'it does not run')
        await session.files.write_file('/srv/iso/go', 'go')
        status = await session.run_status(run.run_id)
        while status.running:
            status = await session.run_status(run.run_id)
        equal(status.exit_code, 4)
        logs = await session.run_logs(run.run_id)
        equal((logs.text, logs.cursor), ('begun\nended\n', 12))
        equal((await session.run_logs(run.run_id, 6)).text, 'ended\n')


@case('isolated/attach_and_list')
async def _(world):
    service = world.box.isolation
    session = await service.create(wanted(profile='balanced', idle_timeout_seconds=600))
    check(session.session_id in [one.session_id for one in await service.list()], 'not listed')
    again = await service.attach(session.session_id)
    equal((again.info.profile, again.info.workspace.path, again.info.idle_timeout_seconds),
          ('balanced', '/srv/iso', 600))
    equal(await said(again, 'echo same'), 'same\n')
    equal((await again.get()).status, 'active')
    await again.delete()
    await refusal(service.attach(session.session_id), 404)
    await refusal(service.attach(NOBODY), 404)
    equal(await service.list(), [])


@case('isolated/run_once')
async def _(world):
    done = await world.box.isolation.run_once('echo once', workspace='/srv/iso')
    equal([m.text.removesuffix('\n') for m in done.logs.stdout], ['once'])
    equal(await world.box.isolation.list(), [])


@case('isolated/files')
async def _(world):
    """What the file calls write the session sees, and the sandbox does not."""
    async with world.box.isolation.session(wanted()) as session:
        files = session.files
        await files.create_directories([WriteEntry(path='/srv/iso/dir', mode=755)])
        await files.write_file('/srv/iso/dir/one', 'alpha\n')
        equal(await said(session, 'cat dir/one; echo beta >dir/two'), 'alpha\n')
        equal(await files.read_file('/srv/iso/dir/two'), 'beta\n')
        found = await files.search(SearchEntry(path='/srv/iso', pattern='t*o'))
        equal([entry.path for entry in found], ['/srv/iso/dir/two'])
        listed = await files.list_directory(DirectoryListEntry(path='/srv/iso/dir'))
        equal(sorted(entry.path for entry in listed), ['/srv/iso/dir/one', '/srv/iso/dir/two'])
        await files.replace_contents([ContentReplaceEntry(path='/srv/iso/dir/one',
                                                          old_content='alpha',
                                                          new_content='gamma')])
        await files.move_files([MoveEntry(src='/srv/iso/dir/one', dest='/srv/iso/dir/three')])
        await files.set_permissions([SetPermissionEntry(path='/srv/iso/dir/three', mode=600)])
        info = (await files.get_file_info(['/srv/iso/dir/three']))['/srv/iso/dir/three']
        equal(info.mode, 600)
        equal(await said(session, 'cat dir/three; stat -c %a dir/three'), 'gamma\n600\n')
        await files.delete_files(['/srv/iso/dir/two'])
        equal(await said(session, 'ls dir'), 'three\n')
        await files.delete_directories(['/srv/iso/dir'])
        equal(await said(session, 'ls -d dir 2>/dev/null || echo gone'), 'gone\n')
        equal(await world.out('ls -d /srv/iso/dir 2>/dev/null || echo never'), 'never')
