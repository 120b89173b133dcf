"""The native executor: ralph itself, in the attempt's worktree."""

from collections.abc import Mapping
from pathlib import Path

from scaffold.agent.agent import Agent, Books, Brief
from scaffold.agent.journal import JournalFile
from scaffold.agent.prompts import system_prompt
from scaffold.core.conversation import Caller
from scaffold.core.model import Action, Attempt
from scaffold.core.ports import Model
from scaffold.core.tool import Tool
from scaffold.host.environment import child_environment
from scaffold.host.identity import own_identity
from scaffold.store.run_budget import RunBudget
from scaffold.tools.builtin import builtin_tools
from scaffold.tools.reads import remembering
from scaffold.tools.todos import Todos, todo_read, todo_write
from scaffold.tools.workspace import Workspace as ToolRoot
from scaffold.worker.assignment import Assignment
from scaffold.worker.site import Site
from scaffold.worker.workspace import Workspace


def native_agent(site: Site, task: Assignment, workspace: Workspace, model: Model) -> Agent:
    """Return an agent that works in `workspace`, pays from the run's budget and keeps a journal."""
    attempt = task.attempt
    environ = attempt_environment(site, attempt, task.action)
    return Agent(
        model=model,
        tools=_tools(workspace.path, environ, outputs=site.outputs(attempt.run_id, attempt.id)),
        brief=Brief(
            caller=Caller(role=task.action.role, action=task.action.key, attempt=attempt.number),
            system=system_prompt(task.action.role),
        ),
        books=Books(
            journal=JournalFile(
                site.journal(task.goal.name, task.action.key),
                clock=site.clock,
                fields={"run": attempt.run_id, "action": task.action.key, "attempt": attempt.number},
            ),
            budget=RunBudget(
                site.store, attempt, limit_usd=task.run.settings.budget_usd, clock=site.clock, owner=own_identity()
            ),
        ),
    )


def _tools(root: Path, environ: Mapping[str, str], *, outputs: Path) -> tuple[Tool, ...]:
    """Return what a worker has: files, commands and Python in its worktree, and a list of todos of its own."""
    todos = Todos()
    workspace = ToolRoot(root=root, env=environ, readable=(outputs,))
    return remembering((*builtin_tools(workspace, outputs=outputs), todo_write(todos), todo_read(todos)), root)


def attempt_environment(site: Site, attempt: Attempt, action: Action) -> dict[str, str]:
    """Return the environment of everything an attempt starts: allow-listed, and marked as its own."""
    return child_environment(
        site.environ,
        extra={
            "SCAFFOLD_RUN": attempt.run_id,
            "SCAFFOLD_ACTION": action.key,
            "SCAFFOLD_ATTEMPT": attempt.id,
            "SCAFFOLD_AGENT_ID": attempt.id,
            "COMPOSE_PROJECT_NAME": f"ralph_agent_{attempt.id}",
        },
    )
