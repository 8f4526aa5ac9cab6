"""The toolkit for Agno's agents, called as an agent calls its tools."""
import json

import cases
from cases import IMAGE, case, check, equal

from agno.agent import Agent
from agno_opensandbox_toolkit import OpenSandboxTools


class World:
    """The agent, which keeps the sandbox in its session, and its tools."""

    def __init__(self):
        self.agent = Agent(session_state={})
        self.tools = self.more_tools()

    @staticmethod
    def more_tools(**options):
        return OpenSandboxTools(domain=cases.DOMAIN, api_key=cases.KEY, image=IMAGE,
                                sandbox_env={'GREETING': 'hello'},
                                sandbox_entrypoint=['tail', '-f', '/dev/null'],
                                sandbox_resources={'cpu': '1', 'memory': '512Mi'}, **options)


@case('tools/run_shell_command')
def _(world):
    equal(world.tools.run_shell_command(world.agent, 'echo $GREETING').strip(), 'hello')
    check('STDERR:\nbad' in world.tools.run_shell_command(world.agent, 'echo bad >&2; exit 3'),
          'what the command complained is missing')


@case('tools/change_directory')
def _(world):
    world.tools.run_shell_command(world.agent, 'mkdir -p /tmp/work')
    check('Changed' in world.tools.change_directory(world.agent, '/tmp/work'), 'not changed')
    equal(world.tools.run_shell_command(world.agent, 'pwd').strip(), '/tmp/work')
    check('not found' in world.tools.change_directory(world.agent, '/nosuch'), 'it is not there')


@case('tools/files')
def _(world):
    tools, agent = world.tools, world.agent
    check('created' in tools.create_file(agent, 'deep/note.txt', 'first\n\nthird\n'), 'not made')
    equal(tools.read_file(agent, 'deep/note.txt'), 'first\n\nthird\n')
    check('note.txt' in tools.list_files(agent, 'deep'), 'not listed')
    tools.delete_file(agent, 'deep/note.txt')
    check('error' in tools.read_file(agent, 'deep/note.txt'), 'deleted, and still there')


@case('tools/the_session_finds_its_sandbox_again')
def _(world):
    again = world.more_tools()
    told = json.loads(again.get_sandbox_status(world.agent))
    equal(told['sandbox_id'], world.agent.session_state['opensandbox_id'])
    equal(again.run_shell_command(world.agent, 'ls /tmp/work').strip(), 'deep')


@case('tools/shutdown')
def _(world):
    equal(json.loads(world.tools.shutdown_sandbox(world.agent))['status'], 'success')


if __name__ == '__main__':
    cases.run_plain(World())
