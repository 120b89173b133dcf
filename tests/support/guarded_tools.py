"""Tools behind an approval gate, with what ran, was reported and was asked."""

import asyncio

from scaffold.core.tool import Tool, ToolOutput
from scaffold.policy.permission.approval_gate import ApprovalGate, Delegation
from scaffold.policy.rule.ruleset import RuleSet
from scaffold.policy.shell.command_policy import ShellCommandPolicy
from scaffold.policy.shell.workspace_paths import WorkspacePaths
from scaffold.tools.arguments import object_schema
from support.fake_clock import FakeClock


class GuardedTools:
    """Tools behind a gate, with what ran, was reported and was asked."""

    def __init__(self, root, *, answers=None, asking=None, mode="default", refer=None, **rules):
        self.ran, self.approvals, self.asked = [], [], []
        self.mode = mode
        self.clock = FakeClock()
        self.answers = list(answers or ())
        ask = asking or (None if answers is None else self._ask)
        self.gate = ApprovalGate(
            RuleSet(**rules),
            workspace=WorkspacePaths.on_disk(root, root.parent / "home"),
            clock=self.clock,
            tell=self.approvals.append,
            shell=ShellCommandPolicy,
            approver=Delegation(refer) if refer else ask,
            mode=lambda: self.mode,
        )

    async def _ask(self, question):
        self.asked.append(question)
        await asyncio.sleep(0)
        return self.answers.pop(0)

    async def __call__(self, name, category, **args):
        async def run(args):
            self.ran.append((name, dict(args)))
            return ToolOutput("done")

        tool = Tool(name=name, description=name, schema=object_schema({}), category=category, run=run)
        return await self.gate.guard(tool).run(args)

    async def write(self, path):
        return await self("write_file", "file_write", path=path, content="x")

    async def shell(self, command):
        return await self("shell", "shell", command=command)

    @property
    def decided(self):
        return [(approval.decision, approval.rule) for approval in self.approvals]
