"""Reviews: what a reviewer's last words say, and whether what they cite is there. Nothing is taken on trust."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from scaffold.core.contract import CheckResult, Verification
from scaffold.core.ids import Commit
from scaffold.core.legible import legible
from scaffold.git.command import Git
from scaffold.policy.redaction import Redactor

REVIEW = "review"
"""The name of the result in a verification that holds a review."""
MOST_CITATIONS = 100
LONGEST_PATH = 4_096
FENCE = "```"
SHAPE = (
    '{"verdict": "approve" or "reject", "citations": [{"file": PATH, "line": NUMBER, "note": TEXT}], "summary": TEXT}'
)

_COUNTED = re.compile(rb"([^\0]+)\0(\d+)\n")


class Citation(Struct, frozen=True):
    """A place in the reviewed commit; `file` is relative to the top of the tree."""

    file: str
    line: Annotated[int, Meta(ge=1)]
    note: str = ""


class Review(Struct, frozen=True, kw_only=True):
    """A reviewer's verdict and what it rests on."""

    verdict: Literal["approve", "reject"]
    citations: tuple[Citation, ...] = ()
    summary: str


def gives_verdict(role: str) -> bool:
    """Tell whether a role reads and judges, and changes nothing: its work is a verdict."""
    return role.endswith("_review") or role == "reviewer"


def read_review(text: str) -> Review | str:
    """Return the verdict that a reviewer's last words end with, or what is wrong with it, in words for the reviewer.

    It must stand at the very end: a block further up may be quoted from somewhere.
    """
    block = _last_block(text)
    if block is None:
        return f"Your message does not end with a fenced JSON block: {SHAPE}."
    try:
        review = msgspec.json.decode(block.encode(), type=Review)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        return f"The JSON block your message ends with is no verdict ({error}). It must be: {SHAPE}."
    return _wanting(review) or msgspec.structs.replace(review, citations=tuple(map(_tidy, review.citations)))


def told(review: Review) -> str:
    """Return the review in lines for people: its summary, then each citation."""
    return "\n".join([review.summary.strip(), *_places(review.citations)]).strip()


async def unresolved(review: Review, git: Git, commit: Commit) -> tuple[str, ...]:
    """Return what each citation lacks that is not there in `commit`, in order; empty if all are."""
    lines = await _line_counts(git, commit, sorted({each.file for each in review.citations if _askable(each.file)}))
    return tuple(_lacking(review.citations, lines))


def passed(review: Review, commit: Commit, redactor: Redactor, checks: Sequence[CheckResult] = ()) -> Verification:
    """Return what an approval, and the `checks` of the action's contract, show at the commit that was reviewed."""
    kept = msgspec.json.encode(redactor.clean_all(msgspec.to_builtins(review))).decode()
    return Verification(commit=commit, results=(*checks, CheckResult(name=REVIEW, verdict="pass", detail=kept)))


def review_in(result: CheckResult) -> Review:
    """Return the review that a result named `REVIEW` holds; msgspec.DecodeError if it holds none."""
    return msgspec.json.decode(result.detail.encode(), type=Review)


def reviews(verification: Verification) -> tuple[Review, ...]:
    """Return the reviews a verification holds."""
    return tuple(review_in(result) for result in verification.results if result.name == REVIEW)


def _last_block(text: str) -> str | None:
    """Return what is in the fenced block that `text` ends with, None if it ends with none."""
    lines = text.rstrip().split("\n")
    if lines[-1].strip() != FENCE:
        return None
    begin = next((at for at in range(len(lines) - 2, -1, -1) if lines[at].strip().startswith(FENCE)), None)
    if begin is None or lines[begin].strip().removeprefix(FENCE).strip().casefold() not in {"", "json"}:
        return None
    return "\n".join(lines[begin + 1 : -1])


def _tidy(citation: Citation) -> Citation:
    """Return the citation with its path as git writes it: `./a//b` is `a/b`."""
    return msgspec.structs.replace(citation, file=str(PurePosixPath(citation.file)))


def _wanting(review: Review) -> str | None:
    """Return what a well-formed verdict lacks to be one."""
    if not review.summary.strip():
        return "`summary` is empty: say why, in a sentence or two."
    if review.verdict == "approve" and not review.citations:
        return "An approval cites at least one file and line that shows that what was asked for is there."
    if len(review.citations) > MOST_CITATIONS:
        return f"There are {len(review.citations)} citations; give the {MOST_CITATIONS} that matter most at the most."
    return None


def _places(citations: Sequence[Citation]) -> Iterator[str]:
    for citation in citations:
        note = f": {citation.note.strip()}" if citation.note.strip() else ""
        yield legible(f"- {citation.file}:{citation.line}{note}")


def _lacking(citations: Sequence[Citation], lines: Mapping[str, int]) -> Iterator[str]:
    for citation in citations:
        place = f"{citation.file}:{citation.line}"
        if citation.file not in lines:
            yield f"{place}: the commit has no such file with anything in it; paths begin at the top of the worktree."
        elif citation.line > lines[citation.file]:
            yield f"{place}: the file has {lines[citation.file]} lines."


def _askable(file: str) -> bool:
    """Tell whether git can be asked about a path at all."""
    path = PurePosixPath(file)
    odd = "\0" in file or file != legible(file) or len(file) > LONGEST_PATH
    return bool(path.parts) and not (odd or path.is_absolute() or ".." in path.parts)


async def _line_counts(git: Git, commit: Commit, files: Sequence[str]) -> Mapping[str, int]:
    """Return how many lines each of `files` has that is a file in `commit`; others, and empty ones, are left out."""
    if not files:
        return {}
    paths = [f":(literal,top){file}" for file in files]
    options = ("--count", "--text", "--null", "--full-name", "--no-recurse-submodules", "-e", "")
    answer = await git("grep", *options, commit, "--", *paths, ok=frozenset({0, 1}))
    counted = _COUNTED.findall(answer.out)
    return {os.fsdecode(name).removeprefix(f"{commit}:"): int(count) for name, count in counted}
