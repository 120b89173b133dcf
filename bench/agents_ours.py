"""Many of our agents in one process: `python agents_ours.py PORT AGENTS REQUESTS DELAY_MS KEPT`.

KEPT is 1 if their conversations are to be kept in the database, 0 if not. Prints the seconds they took, on the clock
and of the processor, and by how many MB the process grew, as JSON.
"""

import asyncio
import json
import resource
import sys
import time

from agent_parts import open_agent_host
from scaffold.host.startup import relax_gc

PEAK_PER_MB = 1024 if sys.platform == "linux" else 1024 * 1024


async def main(port: int, agents: int, requests: int, delay_ms: int, kept: int) -> None:
    """Run the agents side by side, after one request that is not counted."""
    async with open_agent_host(port) as there:
        await there.converse("openai-chat:bench-0-0")
        model = f"openai-chat:bench-{requests - 1}-{delay_ms}"
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start, before = time.monotonic(), time.process_time()
        async with asyncio.TaskGroup() as together:
            for _ in range(agents):
                together.create_task(there.converse(model, kept=bool(kept)))
        taken_s, cpu_s = time.monotonic() - start, time.process_time() - before
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    json.dump({"wall_s": taken_s, "cpu_s": cpu_s, "memory_mb": grown / PEAK_PER_MB}, sys.stdout)


if __name__ == "__main__":
    relax_gc()  # as `ralph` and the workers do
    asyncio.run(main(*map(int, sys.argv[1:])))
