"""What many requests at once cost at least: one aiohttp session, streams that are read and thrown away.

`python agents_bare.py PORT AGENTS REQUESTS DELAY_MS` prints the seconds they took, on the clock and of the
processor, as JSON.
"""

import asyncio
import json
import sys
import time

import aiohttp

BODY = json.dumps({"model": "bench-%d-%d", "stream": True, "messages": ["x" * 4000]})


async def agent(session: aiohttp.ClientSession, url: str, requests: int, delay_ms: int) -> None:
    """Ask one request after another."""
    body = (BODY % (requests, delay_ms)).encode()
    for _ in range(requests):
        async with session.post(url, data=body, headers={"Content-Type": "application/json"}) as response:
            async for _ in response.content.iter_any():
                pass


async def main(port: int, agents: int, requests: int, delay_ms: int) -> None:
    """Run the agents side by side, after one request that is not counted."""
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await agent(session, url, 1, 0)
        start, before = time.monotonic(), time.process_time()
        async with asyncio.TaskGroup() as together:
            for _ in range(agents):
                together.create_task(agent(session, url, requests, delay_ms))
        taken_s, cpu_s = time.monotonic() - start, time.process_time() - before
    json.dump({"wall_s": taken_s, "cpu_s": cpu_s}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
