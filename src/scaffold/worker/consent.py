"""What a worker may do: by rules, and where these ask, by what a human decides in the run's inbox."""

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from scaffold.agent.poller import Poller
from scaffold.core.errors import WaitsForHuman
from scaffold.core.legible import legible
from scaffold.core.model import InboxItem, InboxKind, RunSettings
from scaffold.core.tool import Category
from scaffold.host.ids import new_id
from scaffold.policy.consent import Gate, Tell
from scaffold.policy.gate import Decision, Judgement, Rules, tightened
from scaffold.policy.rules import Wish, parse_rule
from scaffold.policy.shell.commands import Commands
from scaffold.worker.assignment import Assignment
from scaffold.worker.site import Site

OPEN_FOR = timedelta(days=7)
"""How long a question stays; what was asked longer ago may be about something else by now."""
SPARE_S = 0.5
"""What is kept of an attempt's time to put it down, so that it does not run out while a human is asked."""
WORKTREE = "<worktree>"
"""What stands for the path of an attempt's worktree."""
SHOWN = 160
"""Characters of a command or path that stand in the words for a person; the whole of it is in the detail."""


def worker_rules(settings: RunSettings, *, confined: bool) -> Rules:
    """Return what a worker needs not ask: to write files in its worktree, and to run what it likes in a sandbox.

    Where the user set a category stricter, that holds.
    """
    free: tuple[Category, ...] = ("file_write", "shell", "python") if confined else ("file_write",)
    allowed: dict[Category, Decision] = dict.fromkeys(free, "allow")
    return Rules(
        categories=tightened(allowed, settings.approvals),
        allow=tuple(map(parse_rule, settings.allow)),
        deny=tuple(parse_rule(rule, denies=True) for rule in settings.deny),
        yolo=settings.yolo,
    )


def worker_gate(site: Site, settings: RunSettings, root: Path, human: "Human", *, confined: bool, tell: Tell) -> Gate:
    """Return the gate that a worker's tools in `root` stand behind; what it would ask, the human decides."""
    return Gate(
        worker_rules(settings, confined=confined),
        root=root,
        home=Path.home(),
        clock=site.clock,
        tell=tell,
        shell=partial(Commands, site.environ),
        refer=human.consent,
    )


class Human:
    """The human behind a run, as one attempt reaches them: by the inbox, and without much patience.

    Nobody is asked what was decided before. Where no answer comes, WaitsForHuman tells to put the attempt down.
    """

    def __init__(
        self, site: Site, task: Assignment, waiting: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        """Be there for an attempt that begins now, no longer than it may take; `waiting` is around each wait."""
        self._waiting = waiting
        self._site = site
        self._task = task
        self._until_s = site.clock.monotonic() + task.run.settings.attempt_timeout_s - SPARE_S

    async def consent(self, wish: Wish, judged: Judgement) -> Judgement:
        """Return what a human decided about exactly this wish, asked for exactly this reason; a `policy` Refer."""
        asked, reason = self._portable(wish, judged)
        worktree = WORKTREE if (asked, reason) != (wish, judged) else ""
        detail = _detail(asked, reason, worktree=worktree)
        clean = self._site.redactor.clean_all
        decided = await self._decided(self._item("approval", clean(_words(asked)), clean(detail)))
        why = f": {decided.answer}" if decided.answer else ""
        if decided.state == "approved":
            return Judgement("allow", "human", f"a human approved it{why}")
        return Judgement("deny", "human", f"a human rejected it{why}. Do not try the same in another way")

    async def answer(self, question: str, options: Sequence[str]) -> str:
        """Return a human's answer to a question of this action."""
        clean = self._site.redactor.clean
        asked, suggested = clean(legible(question)), [clean(legible(option)) for option in options]
        detail = {"question": asked, "options": suggested, "action": self._task.action.key}
        return (await self._decided(self._item("question", asked, detail))).answer or ""

    async def approval(self, text: str, detail: Mapping[str, Any]) -> InboxItem:
        """Return what a human decided about `text`, approved or rejected; it holds for exactly this `detail`."""
        clean = self._site.redactor.clean_all
        return await self._decided(self._item("approval", clean(legible(text)), clean(detail)))

    @property
    def left_s(self) -> float:
        """Return how much of the attempt's time is left, in seconds."""
        return self._until_s - self._site.clock.monotonic()

    def _portable(self, wish: Wish, judged: Judgement) -> tuple[Wish, Judgement]:
        """Return both without the path of the worktree, another one in each attempt: a decision holds in the next, too.

        Where the word that stands for it is used already, everything stays as it is.
        """
        folder = self._site.attempt_folder(self._task.run.id, self._task.attempt.id)
        if any(WORKTREE in text for text in (wish.subject, wish.args, judged.reason)):
            return wish, judged
        ported = {"subject": _without(folder, wish.subject), "args": _without(folder, wish.args)}
        reason = _without(folder, judged.reason)
        return msgspec.structs.replace(wish, **ported), msgspec.structs.replace(judged, reason=reason)

    async def _decided(self, item: InboxItem) -> InboxItem:
        """Return the decision about `item` that is in force, as soon as there is one."""
        store, asked = self._site.store, item
        poller = Poller(store.data_version)
        tick = poller.tick()
        try:
            with self._waiting():
                async with asyncio.timeout(self._patience_s()):
                    while (decided := store.inbox.in_force(item)) is None:
                        if not store.inbox.is_open(asked.id):
                            asked = self._ask(item)
                        tick = await poller.past(tick)
        except TimeoutError:
            raise _waits(asked) from None
        return decided

    def _patience_s(self) -> float:
        return min(self._task.run.settings.inbox_wait_s, self.left_s)

    def _ask(self, item: InboxItem) -> InboxItem:
        """Ask, or ask anew after what was asked before was closed without a decision."""
        attempt = self._task.attempt
        with self._site.store.transaction(durable=True):
            self._site.store.attempts.check(attempt.id, fence=attempt.fence)
            return self._site.store.inbox.ask(msgspec.structs.replace(item, id=new_id()))

    def _item(self, kind: InboxKind, text: str, detail: Mapping[str, Any]) -> InboxItem:
        now = self._site.clock.now()
        return InboxItem(
            id=new_id(),
            run_id=self._task.run.id,
            goal_id=self._task.goal.id,
            action_id=self._task.action.id,
            attempt_id=self._task.attempt.id,
            kind=kind,
            text=text,
            detail=detail,
            created_at=now,
            expires_at=now + OPEN_FOR,
        )


def _without(folder: Path, text: str) -> str:
    """Return `text`, which may be JSON, with every path of the folder as a word."""
    names = {name for path in (folder, folder.resolve()) for name in (str(path), json.dumps(str(path))[1:-1])}
    longest_first = sorted(map(re.escape, names), key=len, reverse=True)
    return re.sub(rf"(?:{'|'.join(longest_first)})(?![\w.-])", WORKTREE, text)


def _words(wish: Wish) -> str:
    """Return what is wished, in words for a person; not who wishes it, for several may wish the same."""
    subject = legible(" ".join(wish.subject.split()))
    shown = subject if len(subject) <= SHOWN else f"{subject[: SHOWN - 1]}…"
    match wish.kind:
        case "command":
            return f"{wish.tool} wants to run `{shown}`"
        case "path":
            return f"{wish.tool} wants {shown}"
        case "url":
            return f"{wish.tool} wants to reach {shown}"
        case "text":
            return f"{wish.tool} wants to be called with {shown}"


def _detail(wish: Wish, judged: Judgement, *, worktree: str) -> dict[str, Any]:
    """Return what a decision holds for: this call, to the letter by its digest, and why it was asked about.

    `worktree` is the word that stands for the worktree in it, empty where none does: the same word may be meant.
    """
    return {
        "tool": wish.tool,
        "category": wish.category,
        "subject": legible(wish.subject),
        "args": legible(wish.args),
        "digest": wish.digest,
        "reason": legible(judged.reason),
        "worktree": worktree,
    }


def _waits(item: InboxItem) -> WaitsForHuman:
    how = f"scaffold answer {item.id} TEXT" if item.kind == "question" else f"scaffold approve {item.id}"
    return WaitsForHuman(f"{item.text}, and nobody has decided yet", f"Decide with `{how}`.", item=item.id)
