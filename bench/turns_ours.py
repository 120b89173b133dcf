"""Our agent, with everything `ralph` gives it: history, back-off and budget in their places.

`python turns_ours.py PORT TURNS SESSIONS [WIRE]` prints the processor time of each session in seconds, as JSON.
"""

import asyncio
import json
import sys
import time

from agent_parts import open_agent_host


async def main(port: int, turns: int, sessions: int, *, wire: str) -> None:
    """Hold the sessions, after a short one that is not counted."""
    async with open_agent_host(port) as there:
        await there.converse(f"{wire}:bench-3-0")
        taken = []
        for _ in range(sessions):
            before = time.process_time()
            await there.converse(f"{wire}:bench-{turns}-0")
            taken.append(time.process_time() - before)
    json.dump(taken, sys.stdout)


if __name__ == "__main__":
    there, long, often = map(int, sys.argv[1:4])
    asyncio.run(main(there, long, often, wire=(*sys.argv[4:], "openai-chat")[0]))
