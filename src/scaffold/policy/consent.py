"""The gate in front of real tools: judges each call, asks who can be asked, and tells what was decided."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from scaffold.core.ports import Clock
from scaffold.core.tool import Category, Tool, ToolOutput
from scaffold.policy.command import SPECIAL, plain_words, written_words
from scaffold.policy.gate import Denials, Judgement, Rules, judge
from scaffold.policy.rules import SubjectKind, Wish

Answer = Literal["allow", "deny", "always"]


class Approval(Struct, frozen=True, kw_only=True):
    """What was decided about a tool call."""

    tool: str
    category: Category
    decision: Literal["allow", "deny"]
    reason: str
    rule: str
    """What it rests on: `protected:.git`, `pause`, a rule, `category`, or `human`."""
    agent: str = ""
    """The subagent that wished it, by its name; empty for the session's own agent."""


class Question(Struct, frozen=True, kw_only=True):
    """What a human is asked."""

    tool: str
    category: Category
    subject: str
    """The command, the path, the URL, or the arguments as JSON."""
    agent: str = ""
    """The subagent that wishes it, by its name; empty for the session's own agent."""


Ask = Callable[[Question], Awaitable[Answer]]
Tell = Callable[[Approval], None]
Refer = Callable[[Wish], Awaitable[Judgement]]
"""Has somebody else decide what would be asked: a parent for its subagent."""


class Gate:
    """Guards the tools of one session, and decides for its subagents."""

    def __init__(
        self,
        rules: Rules,
        *,
        root: Path,
        clock: Clock,
        tell: Tell,
        ask: Ask | None = None,
        refer: Refer | None = None,
    ) -> None:
        """Guard tools that work in `root`; without `ask` there is nobody to ask, and what would ask is denied.

        With `refer` it is asked there instead, and whatever comes back holds.
        """
        self._rules = rules
        self._root = root
        self._clock = clock
        self._tell = tell
        self._ask = ask
        self._refer = refer
        self._denials: dict[tuple[str, Category], Denials] = {}
        self._one_question = asyncio.Lock()

    @property
    def rules(self) -> Rules:
        """Return what is decided by now, what was allowed for good included."""
        return self._rules

    def guard(self, tool: Tool) -> Tool:
        """Return the tool as it may be used: a call that is denied is not run, and the model is told why."""

        async def run(args: Mapping[str, Any]) -> ToolOutput:
            wish = wish_for(tool, args, self._root)
            judged = await self.judge_for("", wish)
            if judged.decision == "deny":
                return ToolOutput(f"Denied: {judged.reason}.", failed=True)
            return await tool.run(args)

        return msgspec.structs.replace(tool, run=run)

    async def judge_for(self, agent: str, wish: Wish) -> Judgement:
        """Decide a subagent's call, or with an empty name our own; the decision is `allow` or `deny`, and is told."""
        judged = self._judge(agent, wish)
        if judged.decision == "ask":
            async with self._one_question:
                judged = self._judge(agent, wish)  # the question before this one may have settled it
                if judged.decision == "ask":
                    judged = await self._asked(agent, wish, judged)
        if judged.decision == "deny" and judged.rule in {"category", "human"}:
            denials = self._denials.get((agent, wish.category), Denials())
            self._denials[agent, wish.category] = denials.another(self._clock.monotonic())
        if judged.decision == "deny" or judged.rule not in {"category", "--yolo"}:
            self._tell(_approval(agent, wish, judged))
        return judged

    def _judge(self, agent: str, wish: Wish) -> Judgement:
        denials = self._denials.get((agent, wish.category), Denials())
        return judge(wish, self._rules, pause_s=denials.pause_s(self._clock.monotonic()))

    async def _asked(self, agent: str, wish: Wish, judged: Judgement) -> Judgement:
        if self._refer is not None:
            return await self._refer(wish)
        if self._ask is None:
            return Judgement("deny", "category", f"{judged.reason}, and nobody can be asked here. {_ways_out(wish)}")
        answer = await self._ask(Question(tool=wish.tool, category=wish.category, subject=wish.subject, agent=agent))
        if answer == "deny":
            return Judgement("deny", "human", "the user said no; do not try the same in another way")
        if answer == "always":
            always = self._rules.always | {(wish.tool, wish.subject)}
            self._rules = msgspec.structs.replace(self._rules, always=always)
        return Judgement("allow", "human", "the user said yes")


def wish_for(tool: Tool, args: Mapping[str, Any], root: Path) -> Wish:
    """Return what a call comes to in the workspace `root`; links are followed as far as they exist."""
    kind, subject = _subject(tool, args)
    named: tuple[str, ...] = ()
    match kind:
        case "path":
            named = (subject,)
        case "command":
            named = written_words(subject)
    paths = tuple(dict.fromkeys(place for path in named for place in _places(root, path)))
    return Wish(tool=tool.name, category=tool.category, kind=kind, subject=subject, paths=paths)


def _approval(agent: str, wish: Wish, judged: Judgement) -> Approval:
    return Approval(
        tool=wish.tool,
        category=wish.category,
        decision="deny" if judged.decision == "deny" else "allow",
        reason=judged.reason,
        rule=judged.rule,
        agent=agent,
    )


def _subject(tool: Tool, args: Mapping[str, Any]) -> tuple[SubjectKind, str]:
    if tool.category == "shell" and "command" in args:
        return "command", str(args["command"])
    if tool.category in {"file_read", "file_write"} and "path" in args:
        return "path", str(args["path"])
    if "url" in args:
        return "text", str(args["url"])
    return "text", msgspec.json.encode(args, order="sorted").decode()


def _places(root: Path, path: str) -> Iterator[str]:
    """Yield the path as it is written and as it is reached, each relative to `root` if it lies inside."""
    wanted = os.path.normpath(root / path)
    yield _inside(root, wanted)
    try:
        reached = str(Path(wanted).resolve())
        home = root.resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, or no valid name: the tool will say so
        return
    yield _inside(home, reached)


def _inside(root: Path, path: str) -> str:
    return str(Path(path).relative_to(root)) if Path(path).is_relative_to(root) else path


def _ways_out(wish: Wish) -> str:
    if wish.kind == "command" and plain_words(wish.subject) is None:
        note = f"No `--allow` rule allows commands with any of {' '.join(SPECIAL.strip())} or line breaks; --yolo would"
    else:
        note = f'It would be allowed by `--allow "{wish.tool}:PATTERN"`, `--allow-category {wish.category}` or `--yolo`'
    return f"{note}. Go on without it, or say what you would have done"
