"""The native executor: ralph itself, in the attempt's worktree."""

from pathlib import Path

from scaffold.agent.agent import Agent, Books, Brief
from scaffold.agent.journal import JournalFile, noting
from scaffold.agent.outside import Outside
from scaffold.agent.prompts import system_prompt
from scaffold.core.conversation import Caller
from scaffold.core.ports import Model
from scaffold.core.tool import Tool
from scaffold.host.environment import agent_marks, child_environment
from scaffold.host.identity import own_identity
from scaffold.host.sandbox.confinement import Enclosure
from scaffold.store.run_budget import RunBudget
from scaffold.tools.ask import ask_human
from scaffold.tools.builtin import builtin_tools
from scaffold.tools.reads import remembering
from scaffold.tools.todos import Todos, todo_read, todo_write
from scaffold.tools.workspace import Workspace as ToolRoot
from scaffold.worker.assignment import Assignment
from scaffold.worker.consent import Human, worker_gate
from scaffold.worker.site import Site
from scaffold.worker.workspace import Workspace


def native_agent(
    site: Site, task: Assignment, workspace: Workspace, model: Model, *, human: Human, enclosure: Enclosure | None
) -> Agent:
    """Return an agent that works in `workspace`, pays from the run's budget and keeps a journal.

    What it starts is held by `enclosure`; where that is None its commands wait for the `human`.
    """
    attempt = task.attempt
    environ = attempt_environment(site, task)
    redactor = site.redactor
    journal = JournalFile(
        site.journal(task.goal.name, task.action.key),
        clock=site.clock,
        fields={"run": attempt.run_id, "action": task.action.key, "attempt": attempt.number},
        redactor=redactor,
    )
    settings = task.run.settings
    confined, tell = enclosure is not None, noting(journal)
    gate = worker_gate(site, settings, workspace.path, human, confined=confined, tell=tell)
    outputs = site.outputs(attempt.run_id, attempt.id)
    place = ToolRoot(workspace.path, environ, readable=(outputs,), enclosure=enclosure, redactor=redactor)
    asking = () if settings.yolo else (ask_human(human.answer),)
    return Agent(
        model=model,
        tools=(*map(gate.guard, _tools(place, outputs)), *asking),
        brief=Brief(
            caller=Caller(role=task.action.role, action=task.action.key, attempt=attempt.number),
            system=system_prompt(task.action.role),
        ),
        outside=Outside(redactor=redactor),
        books=Books(
            journal=journal,
            budget=RunBudget(
                site.store, attempt, limit_usd=task.run.settings.budget_usd, clock=site.clock, owner=own_identity()
            ),
        ),
    )


def _tools(place: ToolRoot, outputs: Path) -> tuple[Tool, ...]:
    """Return what a worker has: files, commands and Python in its worktree, and a list of todos of its own."""
    todos = Todos()
    return remembering((*builtin_tools(place, outputs=outputs), todo_write(todos), todo_read(todos)), place.root)


def attempt_environment(site: Site, task: Assignment) -> dict[str, str]:
    """Return the environment of everything an attempt starts: allow-listed, and marked as its own."""
    attempt = task.attempt
    marks = {"SCAFFOLD_RUN": attempt.run_id, "SCAFFOLD_ACTION": task.action.key, "SCAFFOLD_ATTEMPT": attempt.id}
    return child_environment(site.environ, marks | agent_marks(attempt.id), names=task.run.settings.environment)
