"""The back end for the Hermes agent, without the agent: the part that knows the SDK."""
import cases
from cases import HOST_DIR, IMAGE, case, check, equal

from hermes_opensandbox import OpenSandboxSession, SandboxAuthError, SandboxConfig


class World:
    """The session that the cases share."""

    def __init__(self):
        self.session = OpenSandboxSession(config())


def config(**options):
    return SandboxConfig(**{'image': IMAGE, 'domain': cases.DOMAIN, 'api_key': cases.KEY,
                            'timeout': 600, 'mounts': {HOST_DIR: '/mnt/host'},
                            'volumes': [{'name': 'data', 'pvc': {'claimName': 'hermes'},
                                         'mountPath': '/mnt/data'}], **options})


@case('session/create')
def _(world):
    world.session.create()
    check(world.session.is_alive() and world.session.sandbox_id, 'it is not alive')


@case('session/execute')
def _(world):
    equal(world.session.execute('echo out; echo bad >&2; exit 3'), ('out\nbad\n', 3))


@case('session/mounts_and_volumes')
def _(world):
    equal(world.session.execute('cat /mnt/host/marker; echo kept >/mnt/data/x; cat /mnt/data/x'),
          ('from the host\nkept\n', 0))


@case('session/renew')
def _(world):
    world.session.renew()


@case('errors/wrong_key')
def _(_world):
    try:
        OpenSandboxSession(config(api_key='wrong')).create()
    except SandboxAuthError:
        return
    raise AssertionError('a sandbox for a wrong key')


@case('session/kill')
def _(world):
    world.session.kill()
    world.session.close()


if __name__ == '__main__':
    cases.run_plain(World())
