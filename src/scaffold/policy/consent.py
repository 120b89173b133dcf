"""The gate in front of real tools: judges each call, asks who can be asked, and tells what was decided."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from scaffold.core.ports import Clock
from scaffold.core.tool import Category, Tool, ToolOutput
from scaffold.policy.gate import Denials, Judgement, Rules
from scaffold.policy.judge import LateShell, Scene, ShellJudge, ground_of, judge
from scaffold.policy.proposal import rule_for
from scaffold.policy.request import call_of, wish_for
from scaffold.policy.rules import Rule, Wish
from scaffold.policy.shell.places import Disk, Place

Answer = Literal["allow", "deny", "always"]
COUNTED = frozenset({"category", "human"})
"""What a denial rests on that counts towards a pause: somebody's no, or nobody's yes."""
UNTOLD = frozenset({"category", "--yolo", "read-only"})
"""What a permission rests on that is not worth an entry."""


class Approval(Struct, frozen=True, kw_only=True):
    """What was decided about a tool call."""

    tool: str
    category: Category
    decision: Literal["allow", "deny"]
    reason: str
    rule: str
    """What it rests on, as in `Judgement`."""
    agent: str = ""
    """The subagent that wished it, by its name; empty for the session's own agent."""


class Question(Struct, frozen=True, kw_only=True):
    """What a human is asked. The answer holds for this call, by its digest, and for no other."""

    tool: str
    category: Category
    subject: str
    """The command, the path, the URL, or the arguments as JSON."""
    args: str = "{}"
    """All arguments, as JSON."""
    digest: str = ""
    why: str = ""
    """What makes it a question."""
    always: str = ""
    """The rule that "always" would make; empty where it would be exactly this call."""
    agent: str = ""
    """The subagent that wishes it, by its name; empty for the session's own agent."""


Ask = Callable[[Question], Coroutine[Any, Any, Answer]]
"""Asks a human; cancelled where the answer is not needed any more."""
Tell = Callable[[Approval], None]
Refer = Callable[[Wish, Judgement], Awaitable[Judgement]]
"""Has somebody else decide what would be asked, for the reason given: a parent for its subagent, or an inbox."""


def by_default() -> str:
    """Return the mode of whoever has none."""
    return "default"


class Gate:
    """Guards the tools of one session, and decides for its subagents."""

    def __init__(
        self,
        rules: Rules,
        *,
        root: Path,
        home: Path,
        clock: Clock,
        tell: Tell,
        shell: Callable[[], ShellJudge],
        ask: Ask | None = None,
        refer: Refer | None = None,
        mode: Callable[[], str] = by_default,
    ) -> None:
        """Guard tools that work in `root`; without `ask` there is nobody to ask, and what would ask is denied.

        With `refer` it is asked there instead, and whatever comes back holds. `shell` is called when the first command
        is judged, for it may take long to load.
        """
        self._rules = rules
        self._place = Place(root=str(root), home=str(home), files=Disk())
        self._clock = clock
        self._tell = tell
        self._shell = LateShell(shell)
        self._ask = ask
        self._refer = refer
        self._mode = mode
        self._denials: dict[tuple[str, Category], Denials] = {}
        self._settled = asyncio.Event()

    @property
    def rules(self) -> Rules:
        """Return what is decided by now, what was allowed for good included."""
        return self._rules

    def guard(self, tool: Tool) -> Tool:
        """Return the tool as it may be used: a call that is denied is not run, and the model is told why."""

        async def run(args: Mapping[str, Any]) -> ToolOutput:
            judged = await self.judge_for("", wish_for(call_of(tool, args), self._place))
            if judged.decision == "deny":
                return ToolOutput(f"Denied: {judged.reason}.", failed=True)
            return await tool.run(args)

        return msgspec.structs.replace(tool, run=run)

    async def judge_for(self, agent: str, wish: Wish) -> Judgement:
        """Decide a subagent's call, or with an empty name our own; the decision is `allow` or `deny`, and is told."""
        judged = await self._judge(agent, wish)
        while judged.decision == "ask":
            judged = await self._asked(agent, wish, judged) or await self._judge(agent, wish)
        if judged.decision == "deny" and judged.rule in COUNTED:
            denials = self._denials.get((agent, wish.category), Denials())
            self._denials[agent, wish.category] = denials.another(self._clock.monotonic())
        if judged.rule in COUNTED:
            self._settle()
        if judged.decision == "deny" or judged.rule not in UNTOLD:
            self._tell(_approval(agent, wish, judged))
        return judged

    async def _judge(self, agent: str, wish: Wish) -> Judgement:
        denials = self._denials.get((agent, wish.category), Denials())
        pause_s = denials.pause_s(self._clock.monotonic())
        scene = Scene(place=self._place, mode=self._mode(), pause_s=pause_s)
        return _at_the_wall(wish, await judge(wish, self._rules, scene, self._shell))

    async def _asked(self, agent: str, wish: Wish, judged: Judgement) -> Judgement | None:
        """Return what somebody else decided; None if meanwhile the question settled itself."""
        if self._refer is not None:
            return await self._refer(wish, judged)
        rule = await rule_for(wish, ground_of(self._rules, self._place, wish.tool), self._shell)
        if self._ask is None:
            said = f"{judged.reason}, and nobody can be asked here. {_ways_out(wish, rule)}"
            return Judgement("deny", "category", said)
        match await self._answer(agent, wish, self._ask(_question(agent, wish, judged, rule))):
            case None:
                return None
            case "deny":
                return Judgement("deny", "human", "the user said no; do not try the same in another way")
            case "always":
                self._remember(wish, rule)
        return Judgement("allow", "human", "the user said yes")

    async def _answer(self, agent: str, wish: Wish, asking: Coroutine[Any, Any, Answer]) -> Answer | None:
        """Return what is answered, None as soon as another answer makes the question needless."""
        async with asyncio.TaskGroup() as together:
            answering = together.create_task(asking)
            settling = together.create_task(self._settles(agent, wish))
            await asyncio.wait((answering, settling), return_when=asyncio.FIRST_COMPLETED)
            answering.cancel()
            settling.cancel()
        return None if answering.cancelled() else answering.result()

    async def _settles(self, agent: str, wish: Wish) -> None:
        """Return when what was decided about others decides this, too."""
        while True:
            settled = self._settled
            if (await self._judge(agent, wish)).decision != "ask":
                return
            await settled.wait()

    def _settle(self) -> None:
        """Have whatever waits for an answer judged once more."""
        self._settled.set()
        self._settled = asyncio.Event()

    def _remember(self, wish: Wish, rule: Rule | None) -> None:
        """Allow from now on what the user was shown as meant by "always"."""
        rules = self._rules
        if rule is None:
            self._rules = msgspec.structs.replace(rules, always=rules.always | {wish.same})
        else:
            self._rules = msgspec.structs.replace(rules, allow=(*rules.allow, rule))


def _at_the_wall(wish: Wish, judged: Judgement) -> Judgement:
    """Ask nobody about a file outside the workspace: no tool goes there, and which may be read besides, they know."""
    if (judged.decision, judged.rule) != ("ask", "outside"):
        return judged
    if wish.category == "file_read":
        return Judgement("allow", "category", "the tool itself keeps to what may be read")
    return Judgement("deny", "outside", f"{judged.reason}, and no tool writes there")


def _question(agent: str, wish: Wish, judged: Judgement, rule: Rule | None) -> Question:
    return Question(
        tool=wish.tool,
        category=wish.category,
        subject=wish.subject,
        args=wish.args,
        digest=wish.digest,
        why=judged.reason,
        always="" if rule is None else str(rule),
        agent=agent,
    )


def _approval(agent: str, wish: Wish, judged: Judgement) -> Approval:
    return Approval(
        tool=wish.tool,
        category=wish.category,
        decision="deny" if judged.decision == "deny" else "allow",
        reason=judged.reason,
        rule=judged.rule,
        agent=agent,
    )


def _ways_out(wish: Wish, rule: Rule | None) -> str:
    wanted = f"{wish.tool}:PATTERN" if rule is None else str(rule)
    ways = f'`--allow "{wanted}"`, `--allow-category {wish.category}` or `--yolo`'
    return f"It would be allowed by {ways}. Go on without it, or say what you would have done"
