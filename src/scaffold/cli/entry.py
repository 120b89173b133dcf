"""The entry points: the table of commands, each imported when it is called, so that `--help` stays fast.

The only names of modules in strings. Everything else that loads late is an import statement in `with importing()`.
"""

import importlib
import os
from collections.abc import Mapping
from functools import cache

import click

from scaffold.cli.examples import examples_text
from scaffold.cli.global_options import add_global_options
from scaffold.host.startup import importing

COMMANDS: Mapping[str, str] = {
    "init": "scaffold.cli.commands.setup.init:init",
    "run": "scaffold.cli.commands.run.run:run",
    "status": "scaffold.cli.commands.inspection.status:status",
    "inbox": "scaffold.cli.commands.inbox:inbox",
    "review": "scaffold.cli.commands.taking.review:review",
    "land": "scaffold.cli.commands.taking.land:land",
    "revert": "scaffold.cli.commands.taking.revert:revert",
    "rebase": "scaffold.cli.commands.taking.rebase:rebase",
    "stop": "scaffold.cli.commands.run.control:stop",
    "resume": "scaffold.cli.commands.run.resume:resume",
    "doctor": "scaffold.cli.commands.doctor.doctor:doctor",
    "plan": "scaffold.cli.commands.plan.check:plan",
    "runs": "scaffold.cli.commands.inspection.runs:runs",
    "queue": "scaffold.cli.commands.inspection.runs:queue",
    "cost": "scaffold.cli.commands.inspection.cost:cost",
    "attach": "scaffold.cli.commands.run.attach:attach",
    "goals": "scaffold.cli.commands.inspection.goals_tasks:goals",
    "tasks": "scaffold.cli.commands.inspection.goals_tasks:tasks",
    "audit": "scaffold.cli.commands.inspection.audit:audit",
    "agents": "scaffold.cli.commands.inspection.agents:agents",
    "logs": "scaffold.cli.commands.inspection.logs:logs",
    "path": "scaffold.cli.commands.inspection.path:path",
    "send": "scaffold.cli.commands.send:send",
    "open": "scaffold.cli.commands.inspection.open:open_report",
    "diff": "scaffold.cli.commands.inspection.run_diff:diff",
    "contract": "scaffold.cli.commands.inspection.contract:contract",
    "baseline": "scaffold.cli.commands.inspection.baseline:baseline",
    "learn": "scaffold.cli.commands.learning.learn:learn",
    "memory": "scaffold.cli.commands.memory.memory:memory",
    "item": "scaffold.cli.commands.items.item:item",
    "approve": "scaffold.cli.commands.approvals:approve",
    "reject": "scaffold.cli.commands.approvals:reject",
    "answer": "scaffold.cli.commands.approvals:answer",
    "retry": "scaffold.cli.commands.run.control:retry",
    "pause": "scaffold.cli.commands.run.control:pause",
    "cancel": "scaffold.cli.commands.run.control:cancel",
    "cleanup": "scaffold.cli.commands.upkeep.cleanup:cleanup",
    "service": "scaffold.cli.commands.upkeep.service:service",
    "salvage": "scaffold.cli.commands.upkeep.salvage:salvage",
    "purge": "scaffold.cli.commands.upkeep.purge:purge",
    "config": "scaffold.cli.commands.setup.config:config",
    "completion": "scaffold.cli.commands.setup.completion:completion",
    "trust": "scaffold.cli.commands.setup.trust:trust",
    "mcp": "scaffold.cli.commands.mcp:mcp",
    "demo": "scaffold.cli.commands.run.demo:demo",
    "chat": "scaffold.cli.commands.run.chat:chat_plan",
    "worker": "scaffold.cli.commands.processes.worker:worker",
    "background": "scaffold.cli.commands.processes.background:background",
    "supervisor": "scaffold.cli.commands.processes.supervisor:supervisor",
    "zygote": "scaffold.cli.commands.processes.zygote:zygote",
    "subagent": "scaffold.cli.commands.processes.subagent:subagent",
    "trial-cleaner": "scaffold.cli.commands.processes.trial_cleaner:trial_cleaner",
    "login": "scaffold.cli.commands.setup.login:login",
    "logout": "scaffold.cli.commands.setup.login:logout",
    "whoami": "scaffold.cli.commands.setup.login:whoami",
    "permissions": "scaffold.cli.commands.setup.permissions:permissions",
    "ralph": "scaffold.cli.commands.ralph.ralph:ralph",
    "acp": "scaffold.cli.commands.ralph.editor:acp",
}
HIDDEN = frozenset({"chat", "background", "worker", "supervisor", "zygote", "subagent", "trial-cleaner"})
VISIBLE = tuple(name for name in COMMANDS if name not in HIDDEN)
"""The commands for people, the most needed first."""

COMPLETION_VARIABLES = ("_SCAFFOLD_COMPLETE", "_RALPH_COMPLETE")
"""One of them is set when a shell asks for completions."""


@cache
def load_command(name: str) -> click.Command:
    """Import and return the command of this name; raises KeyError if there is none."""
    module, _, attribute = COMMANDS[name].partition(":")
    with importing():
        command = getattr(importlib.import_module(module), attribute)
    if not isinstance(command, click.Command):
        raise TypeError(COMMANDS[name])
    add_global_options(command)
    if any(name in os.environ for name in COMPLETION_VARIABLES):
        with importing():
            from scaffold.cli.argument_completion import complete_arguments
        complete_arguments(command)
    command.epilog = "\n\n".join(filter(None, (command.epilog, examples_text(name))))
    return command
