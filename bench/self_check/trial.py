"""One trial: a model makes a mistake in a project, with the tools of a session of `ralph`, and two replies."""

import math
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import Struct

from scaffold.agent.agent_spec import AgentRecords, AgentSpec
from scaffold.agent.io_port import AgentIO
from scaffold.agent.modes import CurrentMode
from scaffold.agent.repeated_calls import RepeatNotes
from scaffold.agent.turn_loop import Agent
from scaffold.core.conversation import Caller
from scaffold.core.errors import ModelError
from scaffold.core.ids import ReservationId
from scaffold.core.model import Usage
from scaffold.core.spending import UNLIMITED_TOKENS, Amount
from scaffold.core.tool import Tool
from scaffold.host.clock import SystemClock
from scaffold.policy.permission.approval_gate import ApprovalGate
from scaffold.policy.rule.ruleset import RuleSet
from scaffold.policy.shell.command_policy import ShellCommandPolicy
from scaffold.policy.shell.workspace_paths import WorkspacePaths
from scaffold.session.file_history import FileHistory
from scaffold.session.tool_setup import ToolSetup, load_session_tools
from scaffold.tools.todos import Todos
from self_check.simple_model import Script, SimpleModel

MODE = 0o750
"""Of every file of a project; no umask gives it to a new one."""


class Trial(Struct, frozen=True, kw_only=True):
    """A project, what the model does, and what has to be so two replies after its mistake."""

    files: Mapping[str, str]
    script: Script
    expected: Mapping[str, str]
    """All files, to the last one, with what they contain."""
    answer: str = ""
    """What the last reply has to say; empty if files alone decide."""


class Outcome(Struct, frozen=True):
    """Whether the mistake was put right and nothing else was done; what was said on the way."""

    recovered: bool
    log: str


class NullJournal:
    """A journal nobody reads."""

    def note(self, kind: str, **fields: Any) -> None:
        """Write nothing."""


class UnlimitedBudget:
    """A budget without an end."""

    async def reserve(self, _: Usage) -> ReservationId:
        """Return at once."""
        return ReservationId("")

    def left_for(self, _: ReservationId) -> Amount:
        """Return more than is needed."""
        return Amount(math.inf, UNLIMITED_TOKENS)

    def set_tries(self, reservation: ReservationId, tries: int, estimate: Usage | None = None) -> None:
        """Note nothing."""

    def settle(self, reservation: ReservationId, usage: Usage) -> None:
        """Book nothing."""


def as_it_is(tool: Tool) -> Tool:
    """Return the tool."""
    return tool


async def run_trial(trial: Trial, wrap: Callable[[Tool], Tool] = as_it_is) -> Outcome:
    """Return what became of the mistake, in a folder that is removed afterwards; each tool is passed through `wrap`."""
    with TemporaryDirectory(prefix="scaffold-bench-") as top:
        cwd, home = Path(top) / "work", Path(top) / "home"
        cwd.mkdir()
        _write(cwd, trial.files)
        with _user_home(home), _working_in(cwd):
            model = SimpleModel(trial.script)
            said = await _answer_of(model, cwd, wrap)
        found, modes = _files(cwd), _modes(cwd, trial.files)
    right = found == trial.expected and modes <= {MODE} and trial.answer in said
    wrong = "" if found == trial.expected else f"wrong files: {_difference(found, trial.expected)}"
    wrong += "" if modes <= {MODE} else f"wrong modes: {sorted(map(oct, modes))}"
    return Outcome(right, "\n".join([*model.log, wrong]))


async def _answer_of(model: SimpleModel, cwd: Path, wrap: Callable[[Tool], Tool]) -> str:
    gate = ApprovalGate(
        RuleSet(yolo=True),
        workspace=WorkspacePaths.on_disk(cwd, cwd),
        clock=SystemClock(),
        tell=lambda _: None,
        shell=ShellCommandPolicy,
    )
    setup = ToolSetup(
        cwd=cwd,
        gate=gate,
        conversation="self-check",
        environ={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
        sandbox=None,
        modes=CurrentMode(),
        todos=Todos(),
        history=FileHistory(cwd.parent / "history"),
    )
    loaded = await load_session_tools(setup)
    agent = Agent(
        model=model,
        tools=tuple(map(wrap, loaded.tools)),
        brief=AgentSpec(caller=Caller(role="agent"), system="", max_requests=20, must_answer=True),
        records=AgentRecords(journal=NullJournal(), budget=UnlimitedBudget()),
        io=AgentIO(watch=RepeatNotes().watch),
    )
    try:
        return (await agent.turn("Do it.")).text
    except ModelError as error:
        return f"error: {error}"


@contextmanager
def _user_home(home: Path) -> Iterator[None]:
    before = os.environ.get("SCAFFOLD_HOME")
    os.environ["SCAFFOLD_HOME"] = str(home)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SCAFFOLD_HOME"]
        else:
            os.environ["SCAFFOLD_HOME"] = before


@contextmanager
def _working_in(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _write(cwd: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        (cwd / path).parent.mkdir(parents=True, exist_ok=True)
        (cwd / path).write_bytes(text.encode())
        (cwd / path).chmod(MODE)


def _files(cwd: Path) -> dict[str, str]:
    # As bytes: the ends of the lines count.
    return {
        path.relative_to(cwd).as_posix(): path.read_bytes().decode(errors="replace")
        for path in cwd.rglob("*")
        if path.is_file()
    }


def _modes(cwd: Path, files: Collection[str]) -> set[int]:
    """Return the modes of those of these files that are still there."""
    return {stat.S_IMODE((cwd / path).stat().st_mode) for path in files if (cwd / path).is_file()}


def _difference(found: Mapping[str, str], expected: Mapping[str, str]) -> str:
    paths = sorted({*found, *expected})
    return ", ".join(path for path in paths if found.get(path) != expected.get(path))
