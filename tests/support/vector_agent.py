"""An agent that calls the tools of memory and of the vector database, by the path of a model's calls."""

import json

from scaffold.agent.toolbox import Toolbox
from scaffold.core.conversation import ToolCall
from scaffold.host.clock import SystemClock
from scaffold.policy.permission.approval_gate import ApprovalGate
from scaffold.policy.rule.ruleset import RuleSet
from scaffold.policy.secret.redaction import Redactor
from scaffold.policy.shell.command_policy import ShellCommandPolicy
from scaffold.policy.shell.workspace_paths import WorkspacePaths
from scaffold.session.memory.embedding import MemoryAccess
from scaffold.session.memory.lazy_memories import LazyMemories


def empty_repository(folder):
    """Make the folder one that git takes for a repository."""
    for each in ("objects", "refs"):
        (folder / ".git" / each).mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")


class VectorAgent:
    """Calls tools as a model does."""

    def __init__(self, folder, store, rules=RuleSet()):  # noqa: B008 - it is frozen
        self.access = MemoryAccess(cwd=folder, store=store, redactor=Redactor(), source="session:s1")
        gate = ApprovalGate(
            rules,
            workspace=WorkspacePaths.on_disk(folder, folder),
            clock=SystemClock(),
            tell=lambda approval: None,
            shell=ShellCommandPolicy,
            approver=None,
        )
        self.memories = LazyMemories(self.access)
        self.toolbox = Toolbox(tuple(map(gate.guard, self.memories.tools(subagent=False))), Redactor())

    async def result(self, name, **args):
        full = name if name in {"remember", "recall_memories"} else f"vector_db_{name}"
        return await self.toolbox.result(ToolCall("1", full, args))

    async def do(self, name, **args):
        """Return the answer as JSON, if it is."""
        result = await self.result(name, **args)
        assert not result.failed, result.content
        first = result.content.split("\n")[0]
        return json.loads(first) if first.startswith("{") else result.content

    async def refused(self, name, **args):
        result = await self.result(name, **args)
        assert result.failed, result.content
        return result.content

    async def rows(self, name, **args):
        """Return the items of an answer."""
        text = await self.do(name, **args)
        if text == "Nothing fits.":
            return []
        assert text.startswith(("What follows", "```")), text
        block = text.split("```jsonl\n")[1].removesuffix("\n```")
        return [json.loads(line) for line in block.split("\n")]

    async def texts(self, name, **args):
        return [each.get("text", "") for each in await self.rows(name, **args)]
