"""LangGraph's ready-made agent with its own OpenAI chat client and its own SQLite saver.

`python langgraph_turns.py PORT TURNS SESSIONS` prints the processor time of each session in seconds, as JSON.
"""

import json
import sys
import tempfile
import time
import warnings
from pathlib import Path

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite import SqliteSaver

with warnings.catch_warnings(action="ignore"):
    from langgraph.prebuilt import create_react_agent

SYSTEM = "You are an agent. Look before you act.\n" * 50
FOUND = "A line of the notes that were asked for.\n" * 10


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return FOUND if path else ""


def main(port: int, turns: int, sessions: int) -> None:
    """Hold the sessions, after a short one that is not counted."""
    with (
        tempfile.TemporaryDirectory(prefix="scaffold-bench-") as folder,
        SqliteSaver.from_conn_string(str(Path(folder) / "graph.db")) as saver,
    ):
        _session(saver, port, 3, "warm")
        taken = []
        for number in range(sessions):
            before = time.process_time()
            _session(saver, port, turns, str(number))
            taken.append(time.process_time() - before)
    json.dump(taken, sys.stdout)


def _session(saver: SqliteSaver, port: int, turns: int, thread: str) -> None:
    model = ChatOpenAI(model=f"bench-{turns}-0", base_url=f"http://127.0.0.1:{port}/v1", api_key="none")
    with warnings.catch_warnings(action="ignore"):
        agent = create_react_agent(model, [read_file], prompt=SYSTEM, checkpointer=saver)
    settings = {"configurable": {"thread_id": thread}, "recursion_limit": 10 * turns + 10}
    said = agent.invoke({"messages": [("user", "Go on.")]}, settings)["messages"]
    assert len(said) == 2 * turns + 2, len(said)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
