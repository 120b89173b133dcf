"""The native executor: ralph itself, in the attempt's worktree."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from scaffold.agent.agent import Agent, Books, Brief
from scaffold.agent.journal import Journal, JournalFile, noting
from scaffold.agent.outside import Joined, Outside
from scaffold.agent.prompts import worker_prompt
from scaffold.core.conversation import Caller
from scaffold.core.ports import Model
from scaffold.core.tool import Tool
from scaffold.host.identity import own_identity
from scaffold.store.run_budget import RunBudget
from scaffold.tools.ask import ask_human
from scaffold.tools.builtin import builtin_tools
from scaffold.tools.reads import remembering
from scaffold.tools.todos import Todos, todo_read, todo_write
from scaffold.tools.workspace import Workspace as ToolRoot
from scaffold.verify.review import gives_verdict
from scaffold.worker.consent import worker_gate
from scaffold.worker.letters import Letters
from scaffold.worker.notice import warn
from scaffold.worker.pulse import PatientBudget
from scaffold.worker.station import Station
from scaffold.worker.watch import Circles, Watched, state_of


def watched_agent(station: Station, model: Model) -> Watched:
    """Return an agent that works in the station's workspace, watched, paid from the run's budget."""
    circles = Circles(partial(state_of, station.workspace.git, station.workspace.base))
    agent = native_agent(station, model, circles)
    return Watched(agent, station.pulse, circles, idle_s=station.task.run.settings.idle_s)


def native_agent(station: Station, model: Model, circles: Circles) -> Agent:
    """Return the agent itself; its news and its failing tools are known to `circles`."""
    site, task, attempt = station.site, station.task, station.task.attempt
    journal = JournalFile(
        site.journal(task.goal.name, task.action.key),
        clock=site.clock,
        fields={"run": attempt.run_id, "action": task.action.key, "attempt": attempt.number},
        redactor=site.redactor,
    )
    budget = RunBudget(
        site.store, attempt, limit_usd=task.run.settings.budget_usd, clock=site.clock, owner=own_identity()
    )
    return Agent(
        model=model,
        tools=tuple(map(circles.guard, map(station.pulse.guard, _tools(station, journal)))),
        brief=Brief(
            caller=Caller(role=task.action.role, action=task.action.key, attempt=attempt.number),
            system=_system_prompt(station, journal),
        ),
        outside=Outside(hear=station.pulse.hear, news=Joined(circles, Letters(site, attempt)), redactor=site.redactor),
        books=Books(journal=journal, budget=PatientBudget(budget, station.pulse)),
    )


def _system_prompt(station: Station, journal: Journal) -> str:
    """Return what an agent of this role is told; prompts that cannot be used are told of once in a run."""

    def notice(text: str) -> None:
        journal.note("notice", text=text)
        warn(station.site, station.task.run.id, text)

    return worker_prompt(station.task.action.role, folders=station.task.run.settings.prompts, notice=notice)


def _tools(station: Station, journal: Journal) -> Iterator[Tool]:
    """Yield what a worker has: files, commands and Python in its worktree, a list of todos of its own, and a human.

    A reviewer has no tool that is there to change files.
    """
    site, settings, attempt = station.site, station.task.run.settings, station.task.attempt
    root = station.workspace.path
    outputs = site.outputs(attempt.run_id, attempt.id)
    place = ToolRoot(
        root,
        station.environ,
        readable=(outputs,),
        enclosure=station.walls,
        redactor=site.redactor,
        heard=station.pulse.beat,
    )
    confined = station.walls is not None
    gate = worker_gate(site, settings, root, station.human, confined=confined, tell=noting(journal))
    reviews = gives_verdict(station.task.action.role)
    yield from (gate.guard(each) for each in _own(place, outputs) if not (reviews and each.category == "file_write"))
    if not settings.yolo:
        yield ask_human(station.human.answer)


def _own(place: ToolRoot, outputs: Path) -> tuple[Tool, ...]:
    todos = Todos()
    return remembering((*builtin_tools(place, outputs=outputs), todo_write(todos), todo_read(todos)), place.root)
