"""The released Python SDK, its asynchronous half: the cases of asynchronous/, in this order."""
# pylint: disable=unused-import
import cases
from cases import case

from asynchronous import life
from asynchronous import inside
from asynchronous import isolated
from asynchronous import outside
from asynchronous import many
from asynchronous.world import World


@case('lifecycle/close')
async def _(world):
    await world.box.kill()
    await world.box.close()


if __name__ == '__main__':
    cases.run(World())
