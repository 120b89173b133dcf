"""The loop around a change: what a critic's words say of it, and what follows from that. Pure."""

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from scaffold.core.model import Score

CRITERIA = ("correctness", "readability", "edge cases")
LEAST, MOST = 1, 3
"""Of each criterion."""
LOWEST, HIGHEST = LEAST * len(CRITERIA), MOST * len(CRITERIA)
READ_CHARS = 64_000
"""Of an answer; its scores stand at its end."""
LONGEST_LINE = 400
"""Characters of a line that may hold a score, with what its critic says of it."""
SHAPE = f"`Correctness: N/{MOST}`, `Readability: N/{MOST}`, `Edge cases: N/{MOST}`, `Total: N/{HIGHEST}`"

_MARKED = re.compile(r"[*_`|>#~]+")
_LISTED = re.compile(r"^(?:[-+]|[0-9]{1,3}[.)]) +")
_SCORE = r"(?: \([^()]*\))? ?[:=-]? ?(?P<score>[0-9]{1,9}(?:\.[0-9]{1,9})?)"
_OF = r"(?: ?(?:/|of|out of) ?{}(?![0-9.][0-9])|\.?$)(?P<rest>.*)"
_CRITERION = re.compile(rf"(?P<name>correctness|readability|edge[ -]?cases?){_SCORE}{_OF.format(MOST)}", re.IGNORECASE)
_SUM = r"(?: ?[:=-] ?[0-9](?: ?\+ ?[0-9]){1,4}(?= ?=))?"
_TOTAL = re.compile(rf"(?:the )?total(?: score)?{_SUM}{_SCORE}{_OF.format(HIGHEST)}", re.IGNORECASE)
_DONE = re.compile(r"DONE ?[.!]?")


class Critique(Struct, frozen=True, kw_only=True):
    """What a critic found of work: how good it is, and what would make it better."""

    total: int
    """From 3 to 9."""
    correctness: int | None = None
    """From 1 to 3, as the other two; None where the critic gave the total alone."""
    readability: int | None = None
    edge_cases: int | None = None
    done: bool = False
    """Whether the critic asks for an end; it is a request."""
    remarks: str = ""
    """Its words, without the scores."""

    @property
    def scores(self) -> tuple[int | None, ...]:
        """The scores of `CRITERIA`."""
        return self.correctness, self.readability, self.edge_cases

    def score(self, *, threshold: int) -> Score:
        """Return how good the work was found, where `threshold` is good enough."""
        return Score(
            total=self.total,
            correctness=self.correctness,
            readability=self.readability,
            edge_cases=self.edge_cases,
            threshold=threshold,
        )


class Malformed(Struct, frozen=True):
    """An answer that is no critique, and why, in words for who gave it."""

    why: str


def read_critique(text: str) -> Critique | Malformed:
    """Return the critique in an answer; scores that are missing where they must be, or contradict, are none."""
    remarks: list[str] = []
    totals: list[str] = []
    scores: dict[str, list[str]] = {}
    done = False
    for line in text[-READ_CHARS:].split("\n"):
        bare = _bare(line)
        if found := _TOTAL.match(bare):
            totals.append(found["score"])
        elif found := _CRITERION.match(bare):
            scores.setdefault(_criterion(found["name"]), []).append(found["score"])
        more = found["rest"].strip(" .,;-") if found else bare
        if totals and _DONE.fullmatch(more):
            done = True
        elif more or not found:
            remarks.append(line)
    return _checked(totals, scores, done=done, remarks="\n".join(remarks).strip())


def written(critique: Critique) -> str:
    """Return a critique as its critic writes it."""
    named = zip(CRITERIA, critique.scores, strict=True)
    scores = [f"{name.capitalize()}: {score}/{MOST}" for name, score in named if score is not None]
    end = [*scores, f"Total: {critique.total}/{HIGHEST}", *(["DONE"] if critique.done else [])]
    return "\n\n".join(part for part in (critique.remarks, "\n".join(end)) if part)


def asks_for_end(words: str) -> bool:
    """Tell whether the last line of an agent's answer is `DONE`."""
    return _DONE.fullmatch(_bare(words.rstrip().rpartition("\n")[2])) is not None


def _bare(line: str) -> str:
    """Return a line without its markdown, words one space apart; what is too long for a score is not looked at."""
    if len(line) > LONGEST_LINE:
        return ""
    return _LISTED.sub("", " ".join(_MARKED.sub(" ", line).split()))


def _checked(totals: Sequence[str], given: dict[str, list[str]], *, done: bool, remarks: str) -> Critique | Malformed:
    total = _agreed("Total", totals, LOWEST, HIGHEST)
    if isinstance(total, Malformed):
        return total
    scores: list[int | None] = []
    for name in CRITERIA:
        score = _agreed(name.capitalize(), given[name], LEAST, MOST) if name in given else None
        if isinstance(score, Malformed):
            return score
        scores.append(score)
    known = [score for score in scores if score is not None]
    if len(known) == len(CRITERIA) and sum(known) != total:
        return Malformed(f"`Total: {total}/{HIGHEST}` contradicts the scores, which make {sum(known)}.")
    correctness, readability, edge_cases = scores
    return Critique(
        total=total,
        correctness=correctness,
        readability=readability,
        edge_cases=edge_cases,
        done=done,
        remarks=remarks,
    )


def _agreed(name: str, given: Iterable[str], least: int, most: int) -> int | Malformed:
    """Return the one score that was given, a whole number within its bounds."""
    different = sorted(set(given))
    if not different:
        return Malformed(f"It lacks the line `{name}: N/{most}`.")
    if len(different) > 1:
        return Malformed(f"It gives more than one `{name}`: {', '.join(different[:5])}.")
    (score,) = different
    if not score.isdecimal() or len(score) > len(str(most)) or not least <= int(score) <= most:
        return Malformed(f"`{name}` must be a whole number from {least} to {most}, not {score[:20]}.")
    return int(score)


def _criterion(name: str) -> str:
    return next(each for each in CRITERIA if each[0] == name[0].lower())


class View(Struct, frozen=True, kw_only=True):
    """Where the loop stands after one iteration."""

    passed: bool
    """Whether the work, as it is now, passed its verification."""
    changed: bool
    """Whether it is other than it was after the iteration before."""
    score: int | None = None
    """None where no critic gave one."""
    threshold: int
    done: bool = False
    """Whether somebody asks for an end."""
    iteration: int
    """From 1."""
    maximum: int


class Done(Struct, frozen=True, tag="done"):
    """The work is handed in."""

    reason: Literal["verified", "threshold", "acceptable", "agent_done_verified", "nothing_changed", "maximum"]
    """`acceptable` is one below the threshold; `verified`: it passed, and nobody gave a score."""


class Improve(Struct, frozen=True, tag="improve"):
    """The agent goes on."""

    by: Literal["failures", "critique"]
    """What it is told."""


class Fail(Struct, frozen=True, tag="fail"):
    """The loop is over, and the work does not pass."""

    reason: Literal["nothing_changed", "maximum"]


Move = Done | Improve | Fail


def decide(view: View) -> Move:
    """Return what follows from an iteration: only work that passes is ever done, whoever says what."""
    if not view.changed:
        return Done("nothing_changed") if view.passed else Fail("nothing_changed")
    if not view.passed:
        return Improve("failures") if view.iteration < view.maximum else Fail("maximum")
    if view.score is None and not view.done:
        return Done("verified")
    if view.score is not None and view.score >= view.threshold - 1:
        return Done("threshold" if view.score >= view.threshold else "acceptable")
    if view.done:
        return Done("agent_done_verified")
    return Improve("critique") if view.iteration < view.maximum else Done("maximum")
