"""Back ends for LangChain's Deep Agents that only know the OpenSandbox SDK.

    deep_agents.py langchain|langchain-sandbox|deepagents

Each is used as its makers document it, first alone, then by an agent whose model is a script.
"""
import os
import sys

import cases
from cases import IMAGE, case, check, equal

from deepagents import create_deep_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from opensandbox import SandboxSync
from opensandbox.config import ConnectionConfigSync


def back_end(which, sandbox):
    if which == 'deepagents':
        from deepagents_opensandbox import OpensandboxBackend as BackEnd
    elif which == 'langchain':
        from langchain_opensandbox import OpenSandboxSandbox as BackEnd
    else:
        from langchain_opensandbox import OpenSandboxBackend as BackEnd
    return BackEnd(sandbox=sandbox)


class World:
    """One sandbox, and the back end around it."""

    def __init__(self, which):
        self.which = which
        self.sandbox = self.files = None


class ScriptedModel(GenericFakeChatModel):
    """Says what it was told to say, whatever tools it is given."""

    def bind_tools(self, tools, **kwargs):
        return self


def calls(name, **arguments):
    return AIMessage(content='', tool_calls=[{'name': name, 'args': arguments, 'id': name}])


@case('backend/execute')
def _(world):
    config = ConnectionConfigSync(domain=cases.DOMAIN, api_key=cases.KEY)
    world.sandbox = SandboxSync.create(IMAGE, connection_config=config,
                                       metadata={'suite': f'{world.which}-{os.getpid()}'})
    world.files = back_end(world.which, world.sandbox)
    equal(world.files.id, world.sandbox.id)
    done = world.files.execute('echo from $(python3 -c "print(6 * 7)"); exit 3')
    equal((done.output.strip(), done.exit_code), ('from 42', 3))


@case('backend/upload_download')
def _(world):
    data = bytes(range(256))
    (up,) = world.files.upload_files([('/tmp/blob', data)])
    equal(up.error, None)
    (down,) = world.files.download_files(['/tmp/blob'])
    equal((down.content, down.error), (data, None))
    (absent,) = world.files.download_files(['/tmp/absent'])
    equal(absent.error, 'file_not_found')


@case('backend/write_read_edit_grep')
def _(world):
    wrote = world.files.write('/tmp/note.txt', 'first line\nsecond line\n')
    equal(wrote.error, None)
    edited = world.files.edit('/tmp/note.txt', 'second', 'changed')
    equal(edited.error, None)
    equal(world.files.execute('cat /tmp/note.txt').exit_code, 0)
    equal(world.sandbox.files.read_file('/tmp/note.txt'), 'first line\nchanged line\n')
    check('changed line' in str(world.files.read('/tmp/note.txt')), 'read shows something else')
    check('/tmp/note.txt' in str(world.files.grep('changed', path='/tmp')), 'grep finds nothing')


@case('agent/uses_tools')
def _(world):
    model = ScriptedModel(messages=iter([
        calls('write_file', file_path='/tmp/sum.py', content='print(sum(range(10)))\n'),
        calls('execute', command='python3 /tmp/sum.py'),
        AIMessage(content='finished')]))
    agent = create_deep_agent(model=model, backend=world.files)
    state = agent.invoke({'messages': [HumanMessage(content='add the numbers below ten')]})
    equal(state['messages'][-1].content, 'finished')
    check(any('45' in str(message.content) for message in state['messages']),
          state['messages'])


@case('backend/kill')
def _(world):
    world.sandbox.kill()
    world.sandbox.close()


if __name__ == '__main__':
    cases.run_plain(World(sys.argv[1]))
