"""Which acceptance criteria a review shows to be met: those with a file and line that exist, and no others."""

import re
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from scaffold.core.proof.contract import Citation

FORM = "CRITERION 1: met - path/to/file:12"
MAX_CITATIONS = 20
"""Of one criterion; more are not looked up."""
CitationCheck = Callable[[Citation], bool]
"""Returns whether the cited file has the cited line."""

_CRITERION = re.compile(
    r"[\s>*#|-]*CRITERION[\s*_]+(?P<number>[0-9]{1,4})[\s*_]*:[\s*_]*(?P<verdict>met|unmet)\b(?P<text>.*)",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"`(?P<file>[^`\n]+?):(?P<line>[0-9]{1,9})(?:-[0-9]{1,9})?(?::[0-9]{1,9})?`")
_BARE = re.compile(r"(?<![^\s,;(\[])(?P<file>[^\s`,;:()\[\]]+):(?P<line>[0-9]{1,9})(?:-[0-9]{1,9})?(?![\w])")


class CriterionVerdict(Struct, frozen=True, kw_only=True):
    """Whether an acceptance criterion is met, by what a review cites for it."""

    number: int
    """From 1."""
    criterion: str
    citations: tuple[Citation, ...] = ()
    """Those that exist."""
    problem: str = ""
    """Why it is not shown to be met; empty if it is."""

    @property
    def met(self) -> bool:
        """Whether it is met."""
        return not self.problem


def judge_criteria(answer: str, criteria: Sequence[str], exists: CitationCheck) -> tuple[CriterionVerdict, ...]:
    """Return a verdict on each acceptance criterion, in order.

    The answer has a line of the form FORM per criterion; of several, the last counts. A criterion is met if that line
    says so and cites at least one line of a file for which `exists`, and none for which it does not.
    """
    lines = (_CRITERION.match(line) for line in answer.splitlines())
    # A later line corrects an earlier one.
    said = {int(found["number"]): found for found in lines if found}
    return tuple(_judge_criterion(number, each, said.get(number), exists) for number, each in enumerate(criteria, 1))


def unmet_feedback(verdicts: Sequence[CriterionVerdict]) -> str:
    """Return what is said about the criteria that are not met; empty if all are."""
    lines = [f"- {each.number}. {each.criterion}: {each.problem}" for each in verdicts if not each.met]
    return "\n".join(["These acceptance criteria are not met:", *lines]) if lines else ""


def _judge_criterion(
    number: int, criterion: str, said: re.Match[str] | None, exists: CitationCheck
) -> CriterionVerdict:
    if said is None:
        problem = f"the review has no line `CRITERION {number}: ...` about it"
        return CriterionVerdict(number=number, criterion=criterion, problem=problem)
    # Repetitions do not use up the limit.
    cited = tuple(dict.fromkeys(_find_citations(said["text"])))[:MAX_CITATIONS]
    # A review is untrusted text: it must not make us look outside of the tree.
    inside = (
        each for each in cited if not (each.file.startswith("/") or ".." in each.file.split("/") or "\0" in each.file)
    )
    real = tuple(filter(exists, inside))
    problem = _why_unmet(said, cited, real)
    return CriterionVerdict(number=number, criterion=criterion, citations=real, problem=problem)


def _why_unmet(said: re.Match[str], cited: Sequence[Citation], real: Sequence[Citation]) -> str:
    if said["verdict"].casefold() == "unmet":
        return f"the review says that it is unmet: {said['text'].strip(' -:*') or 'no reason given'}"
    if not cited:
        return "the review cites no file and line for it"
    wrong = next((each for each in cited if each not in real), None)
    return f"the review cites `{wrong.file}:{wrong.line}`, which does not exist" if wrong else ""


def _find_citations(text: str) -> Iterator[Citation]:
    # Paths in backticks may have spaces; outside of them a space ends the path.
    for pattern, rest in ((_QUOTED, text), (_BARE, _QUOTED.sub(" ", text).replace("`", " "))):
        for found in pattern.finditer(rest):
            if (line := int(found["line"])) > 0:
                file = found["file"].strip()
                # As git writes it: `./a//b` is `a/b`.
                names = "/".join(part for part in file.split("/") if part not in {"", "."})
                yield Citation(file=f"/{names}" if file.startswith("/") else names, line=line)
