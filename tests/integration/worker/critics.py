"""Attempts whose work is criticised: the agent's turns and the critic's answers are written, all else is real."""

from collections.abc import Mapping, Sequence

from msgspec import structs

from fakes import GHOST, UNHELD, House, open_site, script
from scaffold.core.events import CritiqueRecorded
from scaffold.core.model import Run
from scaffold.llm.cassette.model import (
    Cassette,
    CassetteEntry,
    CassetteModel,
    CassettePrices,
    CassetteUsage,
    RequestMatcher,
)
from scaffold.run.assignment import read_assignment
from scaffold.worker.attempt import Worker
from scaffold.worker.outcome import CandidateReady, NoCandidate

CRITICISED = {**UNHELD, "critic": True, "threshold": 7}


def total(score: int, words: str = "", *, end: str = "") -> str:
    """Return a critique as a critic gives it."""
    return f"{words}\nTotal: {score}/9\n{end}"


async def work(
    house: House,
    run: Run,
    key: str,
    turns: Sequence[str],
    critiques: Mapping[int, Sequence[str]],
    *,
    usd: float = 0.0,
    words: str = "",
    drafts: Mapping[str, Sequence[str]] | None = None,
) -> CandidateReady | NoCandidate:
    """Have an attempt carried out; `critiques` by iteration are what its critic answers, one after another.

    `words` are what the agent ends each turn with, besides that it is done; `drafts` by event what the drafter answers.
    """
    attempt = await house.queue(run, key)
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
        for event, answers in (drafts or {}).items()
        for turn, text in enumerate(answers, 1)
    ]
    worker = [
        structs.replace(each, text=f"{each.text}\n{words}".strip()) for each in script({key: turns})._cassette.entries
    ]
    prices = CassettePrices(input_per_mtok=usd)
    model = CassetteModel(Cassette(path=house.repo / "script", digest="", entries=(*entries, *worker), prices=prices))
    site = await open_site(house.repo, cache=house.site.cache, environ=house.site.environ)
    try:
        task = read_assignment(site.store, attempt.id)
        return await Worker(site, task, model).carry_out(GHOST, log_file="")
    finally:
        site.store.close()


def scores(house: House, run: Run) -> list[tuple[int, int, bool]]:
    """Return what critics found, in order: iteration, score, and whether it was the end."""
    events = [each.event for each in house.store.events.since(run.id, 0)]
    return [(each.iteration, each.score, each.done) for each in events if isinstance(each, CritiqueRecorded)]
