"""`ralph`: one agent, one task, in one directory."""

import asyncio
import os
import sys
from pathlib import Path
from random import SystemRandom  # noqa: TID251 - jitter needs no seed

import click
import msgspec
from msgspec import Struct

from scaffold.agent.agent import Agent, Finish
from scaffold.agent.journal import JournalFile
from scaffold.agent.prompts import system_prompt
from scaffold.cli.safe import printable
from scaffold.cli.settings import load_settings
from scaffold.core.conversation import Caller
from scaffold.core.errors import ModelTrouble, UsageProblem
from scaffold.core.model import Usage
from scaffold.host.clock import SystemClock
from scaffold.host.dirs import user_dirs
from scaffold.host.environment import child_environment
from scaffold.host.ids import new_id
from scaffold.llm.catalog import open_model
from scaffold.policy.categories import unattended
from scaffold.tools.builtin import builtin_tools
from scaffold.tools.workspace import Workspace

ROLE = "agent"


class NoLimit:
    """A budget for a session that has none."""

    def admit(self) -> None:
        """Return: another request may always start."""

    def settle(self, usage: Usage) -> None:
        """Forget what was used: the turn counts it."""


class Session(Struct, frozen=True, kw_only=True):
    """What one call of `ralph` is about."""

    id: str
    task: str
    model: str
    cwd: Path
    max_turns: int
    yolo: bool


@click.command()
@click.argument("task", required=False)
@click.option("-p", "--print", "printed", is_flag=True, help="One shot: the task comes as argument, or on stdin.")
@click.option("--model", metavar="MODEL", help="A model string, e.g. `cassette:replies.yaml`.")
@click.option("--cwd", type=click.Path(exists=True, file_okay=False, path_type=Path), default=Path(), help="Work here.")
@click.option("--max-turns", type=click.IntRange(min=1), default=100, show_default=True, help="Requests at the most.")
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--yolo", is_flag=True, help="Writing and commands need no consent; there is no sandbox in this version.")
def ralph(
    task: str | None, *, printed: bool, model: str | None, cwd: Path, max_turns: int, output_format: str, yolo: bool
) -> int:
    """Let one agent do TASK in the current directory.

    Reading is free; what would need your consent is denied unless --yolo is given, and the agent is told so.
    """
    words = [task or "", "" if sys.stdin.isatty() else sys.stdin.read()]
    asked = "\n\n".join(part for part in words if part.strip())
    if not asked:
        hint = "Pass it as an argument, or on standard input with -p." if printed else 'Try `ralph "TASK"`.'
        raise UsageProblem("there is no task", hint)
    chosen = load_settings(None, os.environ, {"model": model}).text("model")
    if chosen is None:
        raise UsageProblem("no model is configured", "Pass `--model cassette:FILE`, or set SCAFFOLD_MODEL.")
    session = Session(id=new_id(12), task=asked, model=chosen, cwd=cwd.resolve(), max_turns=max_turns, yolo=yolo)
    return asyncio.run(_one_shot(session, as_json=output_format == "json"))


async def _one_shot(session: Session, *, as_json: bool) -> int:
    finish, error, stop = Finish("", Usage(), 0), None, "end"
    try:
        finish = await _agent(session).turn(session.task)
    except ModelTrouble as trouble:
        error, stop = f"{trouble.what} {trouble.fix}", "error"
        if not as_json:
            raise
    if as_json:
        click.echo(msgspec.json.encode(_shape(session, finish, error, stop)))
    else:
        click.echo(printable(finish.text))
    return 1 if error else 0


def _agent(session: Session) -> Agent:
    clock = SystemClock()
    tools = builtin_tools(Workspace(session.cwd, child_environment(os.environ)))
    return Agent(
        model=open_model(session.model, clock=clock, rng=SystemRandom()),
        tools=tools if session.yolo else tuple(unattended(tool) for tool in tools),
        system=system_prompt(ROLE),
        caller=Caller(role=ROLE),
        journal=JournalFile(user_dirs(os.environ).data / "sessions" / f"{session.id}.jsonl", clock=clock, fields={}),
        budget=NoLimit(),
        max_requests=session.max_turns,
    )


def _shape(session: Session, finish: Finish, error: str | None, stop: str) -> dict[str, object]:
    usage = finish.usage
    return {
        "result": finish.text,
        "session_id": session.id,
        "model": session.model,
        "usage": {
            "input_tokens": usage.input_tokens,
            "cached_input_tokens": usage.cached_input_tokens,
            "output_tokens": usage.output_tokens,
            "cost_usd": usage.cost_usd,
            "requests": usage.requests,
        },
        "turns": finish.requests,
        "stop_reason": stop,
        "error": error,
    }
