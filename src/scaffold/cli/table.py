"""What is imported only when it is called: each command, so that `--help` stays light, the REPL, the web, shells."""

import importlib
from collections.abc import Mapping
from typing import Any

import click

from scaffold.host.collector import while_loading

SCAFFOLD: Mapping[str, str] = {
    "init": "scaffold.cli.init:init",
    "run": "scaffold.cli.run:run",
    "status": "scaffold.cli.status:status",
    "inbox": "scaffold.cli.inbox:inbox",
    "stop": "scaffold.cli.control:stop",
    "resume": "scaffold.cli.resume:resume",
    "doctor": "scaffold.cli.doctor:doctor",
    "plan": "scaffold.cli.plan:plan",
    "attach": "scaffold.cli.attach:attach",
    "goals": "scaffold.cli.tree:goals",
    "tasks": "scaffold.cli.tree:tasks",
    "agents": "scaffold.cli.agents:agents",
    "logs": "scaffold.cli.logs:logs",
    "path": "scaffold.cli.path:path",
    "send": "scaffold.cli.send:send",
    "diff": "scaffold.cli.diff:diff",
    "contract": "scaffold.cli.contract:contract",
    "baseline": "scaffold.cli.baseline:baseline",
    "approve": "scaffold.cli.decision:approve",
    "reject": "scaffold.cli.decision:reject",
    "answer": "scaffold.cli.decision:answer",
    "retry": "scaffold.cli.control:retry",
    "pause": "scaffold.cli.control:pause",
    "cancel": "scaffold.cli.control:cancel",
    "cleanup": "scaffold.cli.cleanup:cleanup",
    "salvage": "scaffold.cli.salvage:salvage",
    "purge": "scaffold.cli.purge:purge",
    "config": "scaffold.cli.config:config",
    "trust": "scaffold.cli.trust:trust",
    "demo": "scaffold.cli.demo:demo",
    "refine": "scaffold.cli.refine:refine",
    "worker": "scaffold.cli.worker:worker",
    "conduct": "scaffold.cli.conduct:conduct",
    "supervisor": "scaffold.cli.supervisor:supervisor",
    "zygote": "scaffold.cli.zygote:zygote",
    "subagent": "scaffold.cli.subagent:subagent",
    "permissions": "scaffold.cli.permissions:permissions",
    "ralph": "scaffold.cli.ralph:ralph",
}
REPL = "scaffold.cli.repl.talk:talk"
"""A `session.Talk`: it takes longer to import than a one-shot may to begin."""

WEB_FETCH = "scaffold.tools.web:web_fetch"
"""Takes no arguments and returns the tool: the way to the web is long to import, and few sessions go it."""

SHELL = "scaffold.policy.shell.commands:Commands"
"""Takes no arguments and returns the judge of shell commands: its parser is long to load."""

DISCREET, TRACED = "scaffold.cli.mishap:discreet", "scaffold.cli.mishap:traced"
"""Take the words of an error, and an error, and return what is told: few commands end with one."""


def load(name: str) -> click.Command:
    """Import and return the command of this name; there must be one."""
    command = late(SCAFFOLD[name])
    if not isinstance(command, click.Command):
        raise TypeError(SCAFFOLD[name])
    return command


def late(reference: str) -> Any:
    """Import and return what `reference` names, a `MODULE:NAME`; whoever asks says of what type it is."""
    module, _, attribute = reference.partition(":")
    with while_loading():
        return getattr(importlib.import_module(module), attribute)
