"""smolagents' tool-calling agent with its own OpenAI client: `python smolagents_start.py PORT TASK`."""

import sys

from smolagents import OpenAIServerModel, ToolCallingAgent, tool


@tool
def read_file(path: str) -> str:
    """Read a file.

    Args:
        path: Which one.
    """
    return path


def main(port: str, task: str) -> None:
    """Do the task."""
    model = OpenAIServerModel("bench-0-0", api_base=f"http://127.0.0.1:{port}/v1", api_key="none")
    ToolCallingAgent(tools=[read_file], model=model).run(task)


if __name__ == "__main__":
    main(*sys.argv[1:])
