"""Google's Agent Development Kit: an agent whose tool runs in a sandbox.

    SANDBOX_DOMAIN=127.0.0.1:8080 SANDBOX_API_KEY=… adk_agent.py
"""
import asyncio

from google.adk.agents import Agent
from google.adk.models import Gemini
from google.adk.runners import InMemoryRunner

from workplace import TASK, Workplace, model


async def work(agent):
    """What it says last."""
    async with InMemoryRunner(agent) as runner:
        events = await runner.run_debug(TASK, quiet=True)
    return [part.text for event in events if event.content for part in event.content.parts if part.text][-1]


def main():
    with model('GEMINI_API_KEY') as (address, key), Workplace() as place:
        gemini = Gemini(model='gemini-2.5-pro', base_url=address, client_kwargs={'api_key': key})
        place.report(asyncio.run(work(Agent(name='mender', model=gemini, tools=[place.run_command]))))


if __name__ == '__main__':
    main()
