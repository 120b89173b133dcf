"""The requirements in the text of a specification, by their form or by quotations of its lines; tasks for gaps."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Literal

from msgspec import Struct

from scaffold.core.ids import ActionKey
from scaffold.core.plan import headline
from scaffold.core.printable_text import join_limited, printable
from scaffold.core.proof.specification_audit import AuditedRequirement, AuditRound, Requirement, RequirementId
from scaffold.plan.compliance.rounds import gaps_name
from scaffold.plan.message_text import quoted
from scaffold.plan.source.checklist import MarkdownLine, heading, lines_of
from scaffold.plan.source.dag import TaskSpec
from scaffold.plan.source.task import SourceTask

MAX_REQUIREMENTS = 400
"""Of one specification; each is audited in each round."""
MAX_TEXT_CHARS = 1_000
"""Of one requirement; the rest is only in the specification."""
MAX_SHOWN = 3
TITLE_CHARS = 100
"""Of a task for a gap."""
START_CHARS = 300
"""The part of a text that decides its form: the time for a longer one would grow with the square of its length."""
MIN_IDENTIFIED = 2
"""From this number of requirements with an id on, numbers and boxes alone do not make others."""

# A heading with an id | an id | a sentence with shall or must | an item with a number or a box.
_Form = Literal["title", "id", "shall", "list"]
_MARKER = re.compile(r"[ \t>]*(?:(?P<number>\d{1,4}(?:\.\d{1,4}){0,4}[.)]?)|[-*+])[ \t]+(?P<box>\[[^\]\n]\]\*?[ \t]+)?")
_ID = re.compile(
    r"(?:\||\*\*|__|`|\[)*\s*(?:[A-Z][A-Za-z]{0,11}[-_ ])?(?:[A-Z]{1,6}-?)?\d{1,6}(?:[.-]\d{1,6}){0,4}"
    r"\s*(?:\*\*|__|`|\])*(?:[:.)|]|\s[-\u2013\u2014])+(?:\*\*|__)?\s+\S"
)
# An id in one word, such as `FR-001`: people and audits use it as the specification does.
_OWN_ID = re.compile(
    r"(?:\|\s*)?[`_\[]*(?P<id>[A-Z][A-Za-z]{0,11}(?:[-_][A-Z]{1,6})?[-_]?\d{1,6}(?:[.-]\d{1,6}){0,4})[`_\]]*"
    r"\s*(?:[:.)|]|[-\u2013\u2014](?=\s))\s*"
)
# An id that begins with a letter; a bare number is an id only in a list.
_NAMED = re.compile(r"(?:\||\*\*|__|`|\[)*\s*[A-Z]")
_SHALL = re.compile(r"\b(?:shall|must)\b", re.IGNORECASE)
_RULE = re.compile(r"[ \t]*(?:\|?[-:| \t]{3,}|[*_]{3,}[ \t]*)")
# The meaningless beginning of a requirement; a number is kept, because people refer to it.
_LEAD = re.compile(r"[ \t>]*(?:[-*+][ \t]+)?(?:\[[^\]\n]\]\*?[ \t]+)?")
_MARKS = re.compile(r"\*\*")
# Titles of sections without requirements.
_ASIDE = re.compile(
    r"(?:\d[\d.]*\s*)?(?:non[- ]?goals?|out[- ]of[- ]scope|glossary|references|table of contents|change ?log"
    r"|open questions|future work|later)\b",
    re.IGNORECASE,
)
# Titles of sections that say what it is about.
_PROSE = re.compile(
    r"(?:\d[\d.]*\s*)?(?:introduction|overview|background|motivation|summary|purpose|context|contents)\b", re.IGNORECASE
)


class _Found(Struct, frozen=True, kw_only=True):
    """A line that may be a requirement, with the lines that belong to it."""

    form: _Form
    line: MarkdownLine
    text: str
    level: int = 0
    """Of a heading."""


def requirements_in(text: str) -> tuple[Requirement, ...]:
    """Return the requirements of a specification in Markdown, in its order; empty if nothing has the form of one.

    These are items and rows with an id of their own, sentences with shall or must, and items with a number or a box;
    without any of these, the sections. Code blocks, and sections of what is not to be done, have none.
    """
    lines = lines_of(text.removeprefix("\ufeff"))
    found = tuple(_without_parents(tuple(_in_force(lines))))
    # A specification that numbers its requirements says that other lists are not.
    identified = sum(each.form == "id" for each in found)
    if identified >= MIN_IDENTIFIED:
        found = tuple(each for each in found if each.form != "list")
    return _number_requirements((each.text, each.line.number) for each in found or tuple(_find_sections(lines)))


def requirements_of(tasks: Sequence[SourceTask]) -> tuple[Requirement, ...]:
    """Return the requirements of a list of tasks: the acceptance criteria of each, or its title without any."""
    texts = ((task, each) for task in tasks for each in task.acceptance or (headline(task) or task.id,))
    return _number_requirements((f"{task.id}: {each}", task.position.line) for task, each in texts)


def quoted_requirements(text: str, quotes: Sequence[str]) -> tuple[Requirement, ...] | str:
    """Return the requirements that are quoted from a specification, or why the quotations cannot be used.

    Each must be, but for white space, a part of one line of the text.
    """
    lines = [(line.number, _single_spaced(line.text)) for line in lines_of(text.removeprefix("\ufeff"))]
    words = [(each, _single_spaced(each)) for each in quotes]
    # An empty quotation is part of every line, and quotes none of them.
    places = [(each, next((at for at, line in lines if own and own in line), None)) for each, own in words]
    wrong = [quoted(each) for each, place in places if place is None]
    if wrong:
        return (
            f"no line of the specification has {join_limited(wrong, MAX_SHOWN)}; quote its own words, of one line each"
        )
    found = _number_requirements((each, place) for each, place in places if place is not None)
    if not found:
        return "no requirement is quoted; quote at least one line of the specification"
    if len(found) > MAX_REQUIREMENTS:
        return f"{len(found)} requirements are more than the {MAX_REQUIREMENTS} of a run; quote the essential ones"
    return found


def gap_tasks(
    audit: AuditRound, requirements: Sequence[Requirement], gaps: Sequence[RequirementId]
) -> tuple[TaskSpec, ...]:
    """Return a task for each gap that an audit left, with what the audit says of it."""
    said: Mapping[RequirementId, AuditedRequirement] = {each.id: each for each in audit.verdicts}
    return tuple(
        TaskSpec(
            key=ActionKey(f"{gaps_name(audit.number)}/{each.id}"),
            # The whole text is in the task; a title is one line of a list.
            title=each.text if len(each.text) <= TITLE_CHARS else f"{each.text[: TITLE_CHARS - 1]}…",
            description="\n".join(_gap_lines(audit, each, said.get(each.id))),
            acceptance=(each.text,),
        )
        for each in requirements
        if each.id in gaps
    )


def _gap_lines(audit: AuditRound, requirement: Requirement, said: AuditedRequirement | None) -> Iterator[str]:
    yield f"Line {requirement.line} of the specification requires ({requirement.id}):"
    yield f"> {requirement.text}"
    yield ""
    verdict = said.verdict if said else "unclear"
    at = f" of {audit.commit[:8]}" if audit.commit else ""
    yield f"An audit{at} found it {verdict}: {said.note if said and said.note else 'it gave no reason'}"
    yield from (f"- {each.file}:{each.line} {each.note}".rstrip() for each in (said.citations if said else ()))
    yield ""
    # Auditors make mistakes: a task must be able to end without a change.
    yield (
        "Find out what is missing and add it, with tests that show it. The audit may be wrong: if the requirement is "
        "met already, change nothing, and say where it is met."
    )


def _single_spaced(text: str) -> str:
    return " ".join(text.split())


def _number_requirements(found: Iterable[tuple[str, int]]) -> tuple[Requirement, ...]:
    """Return requirements with these texts and lines; one that says the same as an earlier one is left out."""
    texts: dict[str, int] = {}
    for text, line in found:
        words = _single_spaced(printable(_MARKS.sub("", _LEAD.sub("", text.strip(), count=1))))
        short = words if len(words) <= MAX_TEXT_CHARS else f"{words[: MAX_TEXT_CHARS - 1]}…"
        if short:
            texts.setdefault(short, line)
    own = {text: _own_id(text) for text in texts}
    counts = not any(own.values())  # otherwise our numbers could be taken for ids of the specification
    names = dict[str, str]()
    for number, (text, line) in enumerate(texts.items(), 1):
        given = own[text]
        wanted = given[0] if given else f"R{number}" if counts else f"L{line}"
        taken = {each.casefold() for each in names.values()}  # people write ids in upper and lower case
        tried = (wanted, *(f"{wanted}.{more}" for more in range(2, len(taken) + 3)))
        names[text] = next(each for each in tried if each.casefold() not in taken)
    return tuple(
        Requirement(id=RequirementId(names[text]), text=each[1] if (each := own[text]) else text, line=line)
        for text, line in texts.items()
    )


def _own_id(text: str) -> tuple[str, str] | None:
    """Return the id that a requirement begins with, and the rest of its text; None if it has none."""
    found = _OWN_ID.match(text)
    rest = text[found.end() :].strip(" |") if found else ""
    return (found["id"], rest) if found and rest else None


def _in_force(lines: Sequence[MarkdownLine]) -> Iterator[_Found]:
    """Yield texts in the form of a requirement, in sections that may have some."""
    aside = 0
    taken = 0
    for place, line in enumerate(lines):
        title = heading(line)
        if title is not None:
            # A section of what is not to be done includes the sections below it.
            if not aside or title.level <= aside:
                aside = title.level if _ASIDE.match(title.text) else 0
            if not aside and _ID.match(f"{title.text} .") and _NAMED.match(title.text):
                yield _Found(form="title", line=line, text=title.text, level=title.level)
        elif not (aside or place < taken or line.literal or not line.text.strip()):
            # The lines of one item count as one requirement, however they are wrapped.
            body = _continuation_lines(line, (lines[at] for at in range(place + 1, len(lines))))
            taken = place + 1 + len(body)
            text = " ".join((line.text, *(each.text for each in body)))
            if (form := _match_form(text)) is not None:
                yield _Found(form=form, line=line, text=text)


def _match_form(text: str) -> _Form | None:
    """Return the form of a requirement that a paragraph, an item or a row has; None if it has none."""
    start = text[:START_CHARS]
    if _RULE.fullmatch(start):
        return None
    marker = _MARKER.match(start)
    rest = start[marker.end() :] if marker else start.strip()
    # A number alone is an id only in a list, where it cannot be a year or an amount.
    if _ID.match(rest) and _NAMED.match(rest):
        return "id"
    if _SHALL.search(text):
        return "shall"
    return "list" if marker and (marker["number"] or marker["box"]) else None


def _continuation_lines(first: MarkdownLine, following: Iterable[MarkdownLine]) -> tuple[MarkdownLine, ...]:
    """Return the lines that belong to a paragraph, an item or a row: not those that are requirements themselves."""
    # A row of a table is one line.
    if first.text.lstrip().startswith("|"):
        return ()
    listed = _MARKER.match(first.text[:START_CHARS]) is not None

    def continues(line: MarkdownLine) -> bool:
        if line.literal or not line.text.strip() or heading(line) or line.text.lstrip().startswith("|"):
            return False
        if _MARKER.match(line.text[:START_CHARS]) is None:
            return _match_form(line.text) != "id"
        return listed and line.indent > first.indent and _match_form(line.text) is None

    return tuple(takewhile(continues, following))


def _without_parents(found: Sequence[_Found]) -> Iterator[_Found]:
    """Yield everything except headings that have requirements below them."""
    for place, each in enumerate(found):
        following = found[place + 1] if place + 1 < len(found) else None
        # A heading with requirements below it only names the group.
        has_parts = following is not None and (following.form != "title" or following.level > each.level)
        if each.form != "title" or not has_parts:
            yield each


def _find_sections(lines: Sequence[MarkdownLine]) -> Iterator[_Found]:
    """Yield each section without sections in it that has a text, as one requirement: its title and first paragraph."""
    titles = [(place, title) for place, line in enumerate(lines) if (title := heading(line))]
    aside = 0
    for (place, title), following in zip(titles, (*titles[1:], None), strict=False):
        if aside and title.level > aside:
            continue
        aside = title.level if _ASIDE.match(title.text) else 0
        end = following[0] if following else len(lines)
        body = [line for line in lines[place + 1 : end] if line.text.strip() and not line.literal]
        # A title of the document, or of sections, says nothing by itself.
        whole = title.level == 1 or (following is not None and following[1].level > title.level)
        if aside or whole or not body or _PROSE.match(title.text):
            continue
        paragraph = takewhile(lambda line: line.text.strip(), lines[body[0].number - 1 : end])
        text = " ".join((f"{title.text}:", *(line.text.strip() for line in paragraph)))
        yield _Found(form="title", line=title.line, text=text, level=title.level)
