"""Agno: an agent whose tool runs in a sandbox.

    SANDBOX_DOMAIN=127.0.0.1:8080 SANDBOX_API_KEY=… agno_agent.py
"""
from agno.agent import Agent
from agno.models.openai import OpenAIChat

from workplace import TASK, Workplace, model


def main():
    with model('OPENAI_API_KEY') as (address, key), Workplace() as place:
        gpt = OpenAIChat(id='gpt-5', base_url=address and f'{address}/v1', api_key=key)
        place.report(Agent(model=gpt, tools=[place.run_command], telemetry=False)
                     .run(TASK).messages[-1].content)


if __name__ == '__main__':
    main()
