"""Deep Agents: an agent whose files and commands are those of a sandbox.

    SANDBOX_DOMAIN=127.0.0.1:8080 SANDBOX_API_KEY=… deep_agent.py
"""
from deepagents import create_deep_agent
from deepagents_opensandbox import OpensandboxBackend
from langchain_anthropic import ChatAnthropic

from workplace import REPOSITORY, TASK, Workplace, model


class Backend(OpensandboxBackend):
    """Commands begin where the repository is, as those of the other agents do."""

    def execute(self, command, **options):
        return super().execute(f'cd {REPOSITORY} && {command}', **options)


def main():
    with model('ANTHROPIC_API_KEY') as (address, key), Workplace() as place:
        claude = ChatAnthropic(model='claude-sonnet-4-5', base_url=address, api_key=key)
        agent = create_deep_agent(model=claude, backend=Backend(sandbox=place.box))
        place.report(agent.invoke({'messages': [('user', TASK)]})['messages'][-1].text)


if __name__ == '__main__':
    main()
