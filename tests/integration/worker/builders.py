"""Builders of attempts: claimed but not started, or run to the end with scripted replies."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from scaffold.core.events import CritiqueRecorded
from scaffold.core.model import Attempt, Run
from scaffold.core.ports import Model
from scaffold.core.run_settings import ModelSettings, ReviewerSettings
from scaffold.llm.cassette_model import (
    Cassette,
    CassetteEntry,
    CassetteModel,
    CassettePrices,
    CassetteUsage,
    RequestMatcher,
)
from scaffold.run.attempts.assignment import read_assignment
from scaffold.run.failures.attempt_end import AttemptEnd
from scaffold.run.notices import warn
from scaffold.run.resources.attempt_resources import AttemptResources
from scaffold.store.database import Store
from scaffold.worker.activity_clock import attempt_activity
from scaffold.worker.agent.capabilities import AgentCapabilities
from scaffold.worker.attempt_records import AttemptRecords, CandidateReady
from scaffold.worker.human.inbox_approval import InboxApprover
from scaffold.worker.workspace.attempt_worktree import open_workspace
from scaffold.worker.workspace.workplace import Workplace, open_workplace
from support.harness import UNSANDBOXED, Harness, poll_until, scripted_model

NO_CRITIQUES: Mapping[int, Sequence[str]] = {}
NO_DRAFTS: Mapping[str, Sequence[str]] = {}
WITH_CRITIC = {**UNSANDBOXED, "critic": True, "threshold": 7}


REVIEWED = {**UNSANDBOXED, "planner": True, "reviewer": ReviewerSettings(model=ModelSettings(name="script"))}


def critique_text(score: int, words: str = "", *, end: str = "") -> str:
    """Return a critique in a critic's format."""
    return f"{words}\nTotal: {score}/9\n{end}"


async def run_criticised(
    harness: Harness,
    run: Run,
    turns: Sequence[str],
    critiques: Mapping[int, Sequence[str]] = NO_CRITIQUES,
    *,
    usd: float = 0.0,
    words: str = "",
    drafts: Mapping[str, Sequence[str]] = NO_DRAFTS,
) -> CandidateReady | AttemptEnd:
    """Have an attempt at `a` carried out; `critiques` by iteration are what its critic answers, one after another.

    `words` are what the agent ends each turn with, besides that it is done; `drafts` by event what the drafter answers.
    """
    attempt = await harness.queue(run, "a")
    entries = [
        CassetteEntry(
            when=RequestMatcher(role="critic", turn=turn, contains=f"iteration {iteration} of" if turn == 1 else None),
            text=text,
            usage=CassetteUsage(input_tokens=1_000_000),
        )
        for iteration, answers in critiques.items()
        for turn, text in enumerate(answers, 1)
    ]
    entries += [
        CassetteEntry(when=RequestMatcher(role="drafter", event=event, turn=turn), text=text)
        for event, answers in drafts.items()
        for turn, text in enumerate(answers, 1)
    ]
    worker = [
        structs.replace(each, text=f"{each.text}\n{words}".strip())
        for each in scripted_model({"a": turns})._cassette.entries
    ]
    prices = CassettePrices(input_per_mtok=usd)
    model = CassetteModel(Cassette(path=harness.repo / "script", digest="", entries=(*entries, *worker), prices=prices))
    return await harness.execute(attempt, model)


async def hand_in(harness: Harness, run: Run, turns: Sequence[str], *critiques: Any, **more: Any) -> None:
    """Have an attempt at `a` carried out as `run_criticised` does, up to its candidate."""
    ending = await run_criticised(harness, run, turns, *critiques, **more)
    assert isinstance(ending, CandidateReady), ending.error


def verdict(
    word: str = "approve",
    file: str = "a",
    line: int = 1,
    note: str = "it is there",
    *,
    before: bool = False,
    summary: str = "I read it.",
) -> str:
    """Return a reviewer's answer."""
    said = {
        "verdict": word,
        "citations": [{"file": file, "line": line, "note": note, "before": before}],
        "summary": summary,
    }
    return f"I looked.\n\n```json\n{json.dumps(said)}\n```"


async def run_reviewed(
    harness: Harness,
    run: Run,
    key: str,
    turns: Sequence[str] | Sequence[CassetteEntry],
    answers: Sequence[str] | Mapping[str, Sequence[str]],
    *,
    critiques: Sequence[str] = (),
    attempt: Attempt | None = None,
) -> CandidateReady | AttemptEnd:
    """Have an attempt carried out, a new one if none is given.

    `answers` are the reviewer's, to its one question, or by a word of the question; `critiques` those of the critic.
    """
    attempt = attempt or await harness.queue(run, key)
    by_word = answers if isinstance(answers, Mapping) else {"": answers}
    entries = [
        CassetteEntry(
            when=RequestMatcher(role="reviewer", turn=turn, contains=word if word and turn == 1 else None),
            text=text,
            usage=CassetteUsage(input_tokens=10),
        )
        for word, said in by_word.items()
        for turn, text in enumerate(said, 1)
    ]
    entries += [
        CassetteEntry(when=RequestMatcher(role="critic", contains=f"iteration {at} of"), text=text)
        for at, text in enumerate(critiques, 1)
    ]
    scripted = all(isinstance(turn, str) for turn in turns)
    worker = scripted_model({key: turns})._cassette.entries if scripted else turns
    model = CassetteModel(Cassette(path=harness.repo / "script", digest="", entries=(*entries, *worker)))
    return await harness.execute(attempt, model)


def scores(harness: Harness, run: Run) -> list[tuple[int, int, bool]]:
    """Return the recorded critiques in order: iteration, score, and whether the critic ended the loop."""
    return [(each.iteration, each.score, each.done) for each in harness.events(run, CritiqueRecorded)]


class Looks:
    """Counts how often a worker has looked for a decision, and for a slot that it did not get."""

    def __init__(self, before: Callable[[], object] = lambda: None) -> None:
        """`before` is called before each look for a decision."""
        self.decisions, self.without_slot, self._before = 0, 0, before

    def watch(self, store: Store) -> None:
        in_force, has_slot = store.inbox.in_force, store.attempts.has_slot

        def look_for_decision(*args):
            self._before()
            self.decisions += 1
            return in_force(*args)

        def look_for_slot(*args, **given):
            found = has_slot(*args, **given)
            self.without_slot += not found
            return found

        store.inbox.in_force, store.attempts.has_slot = look_for_decision, look_for_slot

    async def two_more(self, harness: Harness, run: Run, kind: str) -> None:
        """Return once the worker has looked twice more; each change of the store makes it look."""
        wanted = getattr(self, kind) + 2
        while getattr(self, kind) < wanted:
            seen = getattr(self, kind)
            warn(harness.context, run.id, f"look {kind} {seen}")
            await poll_until(lambda seen=seen: getattr(self, kind) > seen)


class ClaimedAttempt(Struct, frozen=True, kw_only=True):
    """An attempt that is claimed and at its base: where it works, what it may use, where it records."""

    place: Workplace
    capabilities: AgentCapabilities
    records: AttemptRecords

    def with_model(self, model: Model) -> tuple[Workplace, AgentCapabilities, AttemptRecords]:
        """Return the three values, with this model of its work."""
        return self.place, structs.replace(self.capabilities, model=model), self.records


@asynccontextmanager
async def claimed_attempt(harness: Harness, run: Run, key: str):
    """Yield a new, claimed attempt of an action, at its base."""
    attempt = await harness.queue(run, key)
    task = read_assignment(harness.store, attempt.id)
    harness.claim(attempt)
    workspace = await open_workspace(harness.context, attempt)
    records = AttemptRecords(
        run_context=harness.context, task=task, activity=attempt_activity(harness.context.clock, task)
    )
    capabilities = AgentCapabilities(model=drafter([]), human=InboxApprover(records))
    async with open_workplace(harness.context, task, workspace, AttemptResources()) as place:
        yield ClaimedAttempt(place=place, capabilities=capabilities, records=records)


def drafter(replies: Sequence[str | dict[str, Any]], *, event: str = "draft") -> CassetteModel:
    """Return a model whose drafter gives these answers in order, each for a cent, and then none."""
    entries = [
        CassetteEntry(
            when=RequestMatcher(role="drafter", event=event, turn=turn),
            text=text,
            usage=CassetteUsage(input_tokens=100),
        )
        for turn, text in enumerate(replies, 1)
    ]
    return CassetteModel(Cassette(path=Path("script"), digest="", entries=tuple(entries)))
