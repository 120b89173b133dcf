"""Reading a critic's answer, and deciding the change loop's next step. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from scaffold.core.model import CriticScore
from scaffold.core.proof.contract import Verification
from scaffold.git.ignored_files import IgnoreRule
from scaffold.run.failures.attempt_end import AttemptEnd

CRITERIA = ("correctness", "readability", "edge cases")
MIN_SCORE, MAX_SCORE = 1, 3
"""Bounds of each criterion's score."""
MIN_TOTAL, MAX_TOTAL = MIN_SCORE * len(CRITERIA), MAX_SCORE * len(CRITERIA)
READ_CHARS = 64_000
"""Characters read from the end of an answer, where its scores are."""
MAX_LINE_CHARS = 400
"""Longest line that may hold a score and a remark about it."""
SCORE_FORMAT = (
    f"`Correctness: N/{MAX_SCORE}`, `Readability: N/{MAX_SCORE}`, `Edge cases: N/{MAX_SCORE}`, `Total: N/{MAX_TOTAL}`"
)

_MARKED = re.compile(r"[*_`|>#~]+")
_LISTED = re.compile(r"^(?:[-+]|[0-9]{1,3}[.)]) +")
_SCORE = r"(?: \([^()]*\))? ?[:=-]? ?(?P<score>[0-9]{1,9}(?:\.[0-9]{1,9})?)"
# The lookahead keeps `2/3.5` and `2/30` from being read as `2/3`; `2/3.` ends a sentence.
_OF = r"(?: ?(?:/|of|out of) ?{}(?!\.?[0-9])|\.?$)(?P<rest>.*)"
_CRITERION = re.compile(
    rf"(?P<name>correctness|readability|edge[ -]?cases?){_SCORE}{_OF.format(MAX_SCORE)}", re.IGNORECASE
)
# Critics like to show the sum: `Total: 3 + 2 + 2 = 7/9`.
_SUM = r"(?: ?[:=-] ?[0-9](?: ?\+ ?[0-9]){1,4}(?= ?=))?"
_TOTAL = re.compile(rf"(?:the )?total(?: score)?{_SUM}{_SCORE}{_OF.format(MAX_TOTAL)}", re.IGNORECASE)
_DONE = re.compile(r"DONE ?[.!]?")


class Critique(Struct, frozen=True, kw_only=True):
    """A critic's scores for a change, and its remarks."""

    total: int
    """From 3 to 9."""
    correctness: int | None = None
    """From 1 to 3, as the other two; None if the critic gave only the total."""
    readability: int | None = None
    edge_cases: int | None = None
    done: bool = False
    """Whether the critic asks to stop; a request, not a decision."""
    remarks: str = ""
    """Its text without the scores."""

    @property
    def scores(self) -> tuple[int | None, ...]:
        """The scores of `CRITERIA`."""
        return self.correctness, self.readability, self.edge_cases

    def score(self, *, threshold: int) -> CriticScore:
        """Return the score to record; from `threshold` on, the work is good enough."""
        return CriticScore(
            total=self.total,
            correctness=self.correctness,
            readability=self.readability,
            edge_cases=self.edge_cases,
            threshold=threshold,
        )


class IterationResult(Struct, frozen=True, kw_only=True):
    """The work after one iteration, its verification and its critique."""

    left: str | Verification
    """Its tree, or the error if it could not be committed; equal to the previous one if nothing changed.

    Empty before the first iteration on the work of earlier steps.
    """
    verification: Verification
    critique: Critique | None = None
    """None if no critic was asked, or none gave a usable answer."""
    asked_for_end: bool = False
    """Whether the agent answered a critique with `DONE`."""

    @property
    def passed(self) -> bool:
        """Whether the work may land."""
        return self.verification.passed


class LoopProgress(Struct, frozen=True, kw_only=True):
    """How far the loop has come: what the next attempt needs besides the agent's turn."""

    iteration: int
    before: str
    """The tree that counts as unchanged."""
    last: IterationResult | None = None
    """The iteration before this one; None before the first has ended."""
    passed: IterationResult | None = None
    failure: Verification | None = None
    known: Mapping[str, Verification] = {}
    """The verifications of the present work, by proof key: what agents are asked about it repeats them."""
    ignored: Mapping[str, IgnoreRule] = {}
    """The files of the present work that git ignores, which may be gone."""
    given_up: AttemptEnd | None = None
    """Why an improvement was given up, so that what passed before it is handed in; None if it was not."""


class MalformedCritique(Struct, frozen=True):
    """An answer that is not a critique; the critic gets `why`."""

    why: str


def read_critique(text: str) -> Critique | MalformedCritique:
    """Return the critique in an answer; MalformedCritique if required scores are missing or scores contradict."""
    remarks: list[str] = []
    totals: list[str] = []
    scores: dict[str, list[str]] = {}
    done = False
    for line in text[-READ_CHARS:].split("\n"):
        bare = _without_markdown(line)
        if found := _TOTAL.match(bare):
            totals.append(found["score"])
        elif found := _CRITERION.match(bare):
            criterion = next(each for each in CRITERIA if each[0] == found["name"][0].lower())
            scores.setdefault(criterion, []).append(found["score"])
        more = found["rest"].strip(" .,;-") if found else bare
        if totals and _DONE.fullmatch(more):
            done = True
        elif more or not found:
            remarks.append(line)
    return _validate_scores(totals, scores, done=done, remarks="\n".join(remarks).strip())


def format_critique(critique: Critique) -> str:
    """Return a critique in the format critics write."""
    named = zip(CRITERIA, critique.scores, strict=True)
    scores = [f"{name.capitalize()}: {score}/{MAX_SCORE}" for name, score in named if score is not None]
    end = [*scores, f"Total: {critique.total}/{MAX_TOTAL}", *(["DONE"] if critique.done else [])]
    return "\n\n".join(part for part in (critique.remarks, "\n".join(end)) if part)


def requests_end(words: str) -> bool:
    """Tell whether the last line of an agent's answer is `DONE`."""
    return _DONE.fullmatch(_without_markdown(words.rstrip().rpartition("\n")[2])) is not None


def _without_markdown(line: str) -> str:
    # A score may be bold or in a list; a long line is prose that mentions one.
    if len(line) > MAX_LINE_CHARS:
        return ""
    return _LISTED.sub("", " ".join(_MARKED.sub(" ", line).split()))


def _validate_scores(
    totals: Sequence[str], given: dict[str, list[str]], *, done: bool, remarks: str
) -> Critique | MalformedCritique:
    total = _single_score("Total", totals, MIN_TOTAL, MAX_TOTAL)
    if isinstance(total, MalformedCritique):
        return total
    scores: list[int | None] = []
    for name in CRITERIA:
        score = _single_score(name.capitalize(), given[name], MIN_SCORE, MAX_SCORE) if name in given else None
        if isinstance(score, MalformedCritique):
            return score
        scores.append(score)
    known = [score for score in scores if score is not None]
    if len(known) == len(CRITERIA) and sum(known) != total:
        return MalformedCritique(f"`Total: {total}/{MAX_TOTAL}` contradicts the scores, which add up to {sum(known)}.")
    correctness, readability, edge_cases = scores
    return Critique(
        total=total, correctness=correctness, readability=readability, edge_cases=edge_cases, done=done, remarks=remarks
    )


def _single_score(name: str, given: Iterable[str], least: int, most: int) -> int | MalformedCritique:
    different = sorted(set(given))
    if not different:
        return MalformedCritique(f"It does not contain the line `{name}: N/{most}`.")
    if len(different) > 1:
        return MalformedCritique(f"It contains more than one `{name}`: {', '.join(different[:5])}.")
    (score,) = different
    if not score.isdecimal() or len(score) > len(str(most)) or not least <= int(score) <= most:
        return MalformedCritique(f"`{name}` must be a whole number from {least} to {most}, not {score[:20]}.")
    return int(score)


class IterationState(Struct, frozen=True, kw_only=True):
    """The state of the change loop after one iteration."""

    passed: bool
    """Whether the current work passed its verification."""
    refused: bool = False
    """Whether the work changes what it must not: that ends the attempt, even if another iteration could undo it."""
    changed: bool
    """Whether the work differs from the previous iteration's."""
    reviewed: bool = False
    """Whether a second reviewer has just judged the work; `passed` includes its verdict."""
    score: int | None = None
    """None if no critic gave one."""
    threshold: int
    done: bool = False
    """Whether the agent or the critic asks to stop."""
    iteration: int
    """From 1."""
    maximum: int


class HandIn(Struct, frozen=True, tag="hand_in"):
    """The work is handed in."""

    reason: Literal[
        "verified", "threshold", "acceptable", "agent_done_verified", "nothing_changed", "maximum", "reviewed"
    ]
    """`acceptable`: one below the threshold; `verified`: passed, without a score; `reviewed`: a second reviewer read
    it."""


class Improve(Struct, frozen=True, tag="improve"):
    """The agent does another iteration."""

    by: Literal["failures", "critique"]
    """What its prompt contains."""


class StopFailed(Struct, frozen=True, tag="fail"):
    """The loop is over, and the work does not pass."""

    reason: Literal["nothing_changed", "maximum", "refused"]


NextStep = HandIn | Improve | StopFailed


def decide_next_step(view: IterationState) -> NextStep:
    """Return the step after an iteration; only work that passes is handed in, whatever the agent or critic says."""
    # Without a change, checks and critic would only say the same again; a second reviewer's verdict is new, though.
    if not view.changed and not view.reviewed:
        return HandIn("nothing_changed") if view.passed else StopFailed("nothing_changed")
    if not view.passed:
        again = view.iteration < view.maximum and not view.refused
        return Improve("failures") if again else StopFailed("refused" if view.refused else "maximum")
    if view.reviewed or (view.score is None and not view.done):
        return HandIn("reviewed" if view.reviewed else "verified")
    if view.score is not None and view.score >= view.threshold - 1:
        return HandIn("threshold" if view.score >= view.threshold else "acceptable")
    if view.done:
        return HandIn("agent_done_verified")
    return Improve("critique") if view.iteration < view.maximum else HandIn("maximum")
