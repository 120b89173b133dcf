"""Pydantic AI's agent with its own OpenAI chat client; it keeps no history of its own, so none is kept.

`python pydantic_turns.py PORT TURNS SESSIONS` prints the processor time of each session in seconds, as JSON.
"""

import json
import sys
import time

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits

SYSTEM = "You are an agent. Look before you act.\n" * 50
FOUND = "A line of the notes that were asked for.\n" * 10


def read_file(path: str) -> str:
    """Read a file."""
    return FOUND if path else ""


def main(port: int, turns: int, sessions: int) -> None:
    """Hold the sessions, after a short one that is not counted."""
    _session(port, 3)
    taken = []
    for _ in range(sessions):
        before = time.process_time()
        _session(port, turns)
        taken.append(time.process_time() - before)
    json.dump(taken, sys.stdout)


def _session(port: int, turns: int) -> None:
    provider = OpenAIProvider(base_url=f"http://127.0.0.1:{port}/v1", api_key="none")
    agent = Agent(OpenAIChatModel(f"bench-{turns}-0", provider=provider), system_prompt=SYSTEM, tools=[read_file])
    said = agent.run_sync("Go on.", usage_limits=UsageLimits(request_limit=turns + 1)).all_messages()
    assert len(said) == 2 * turns + 2, len(said)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
