"""gl-sandbox's back end: code with state, commands and files by one interface."""
import cases
from cases import IMAGE, case, check, equal

from gl_sandbox import ExecutionStatus, SandboxFile
from gl_sandbox.code_interpreter.opensandbox import OpenSandbox


class World:
    """The sandbox that the cases share."""
    box = None


@case('code/create')
async def _(world):
    world.box = await OpenSandbox.create(api_key=cases.KEY, domain=cases.DOMAIN, image=IMAGE,
                                         entrypoint=['tail', '-f', '/dev/null'],
                                         resource={'cpu': '2', 'memory': '2Gi'},
                                         sandbox_timeout=600)
    check(world.box.sandbox_id, 'it has no id')


@case('code/keeps_state')
async def _(world):
    await world.box.execute_code('a = 6')
    done = await world.box.execute_code('print(a * 7)')
    equal((done.status, done.stdout.strip()), (ExecutionStatus.SUCCESS, '42'))


@case('code/errors')
async def _(world):
    done = await world.box.execute_code('1 / 0')
    equal(done.status, ExecutionStatus.ERROR)
    check('ZeroDivisionError' in done.error, done.error)


@case('code/files')
async def _(world):
    done = await world.box.execute_code(
        'print(open("/files/data.csv").read())',
        files=[SandboxFile.from_bytes(b'a,b\n1,2\n', 'data.csv')])
    check('1,2' in done.stdout, done)
    equal(await world.box.download_file('/files/data.csv'), b'a,b\n1,2\n')


@case('code/command')
async def _(world):
    done = await world.box.execute_command('echo $A', env={'A': 'b c'})
    equal((done.status, done.stdout.strip()), (ExecutionStatus.SUCCESS, 'b c'))
    equal((await world.box.execute_command('exit 3')).status, ExecutionStatus.ERROR)


@case('code/terminate')
async def _(world):
    await world.box.terminate()


if __name__ == '__main__':
    cases.run(World())
