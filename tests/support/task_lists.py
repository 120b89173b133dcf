"""Lists of tasks of all formats, as their authors write them: each with a set of its tasks done."""

import json

from hypothesis import strategies as st

NUMBERS = range(1, 7)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=12)
PROSE = TEXTS.filter(lambda text: not set("<`~[") & set(text))
"""Lines that begin neither code, nor a comment, nor an item."""
EXTRAS = st.dictionaries(st.sampled_from(["estimate", "labels", "x y", "z"]), st.lists(TEXTS) | TEXTS | st.none())


def json_text(draw, value, *, lines=False):
    """Return `value` as JSON in one of the ways in which programs write it."""
    ascii_only = draw(st.booleans())
    if lines:
        separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
        each = [json.dumps(item, separators=separators, ensure_ascii=ascii_only) for item in value]
        return "\n".join(each) + draw(st.sampled_from(["", "\n", "\n\n"]))
    indent = draw(st.sampled_from([None, 0, 2, 4, "\t"]))
    return json.dumps(value, indent=indent, ensure_ascii=ascii_only) + draw(st.sampled_from(["", "\n"]))


class Draw:
    """Draws the same choices each time that it is rewound, so that two texts differ in what is done only."""

    def __init__(self, draw):
        self._draw, self._drawn, self._next = draw, [], 0

    def __call__(self, strategy):
        if self._next == len(self._drawn):
            self._drawn.append(self._draw(strategy))
        self._next += 1
        return self._drawn[self._next - 1]

    def rewind(self):
        self._next = 0


def prd(draw, done):
    key = draw(st.sampled_from(["passes", "completed"]))
    stories = [{"id": f"US-{n}", "title": "t", key: n in done, **draw(EXTRAS), "depends_on": []} for n in NUMBERS]
    return json_text(draw, {"name": draw(TEXTS), "userStories": stories})


def prd_without_passes(draw, done):
    """A key that is missing is added after the others."""
    stories = [
        {"id": f"US-{n}", "title": "t", **draw(EXTRAS)} | ({"passes": True} if n in done else {}) for n in NUMBERS
    ]
    return json_text(draw, {"userStories": stories})


def task_master(draw, done):
    tasks = [{"id": n, "title": "t", **draw(EXTRAS), "status": "done" if n in done else "pending"} for n in NUMBERS]
    return json_text(
        draw, draw(st.sampled_from([lambda each: {"tasks": each}, lambda each: {"master": {"tasks": each}}]))(tasks)
    )


def beads(draw, done):
    issues = [
        {
            "id": f"bd-{n}",
            "title": "t",
            "status": "closed" if n in done else "open",
            "issue_type": "task",
            **draw(EXTRAS),
        }
        for n in NUMBERS
    ]
    return json_text(draw, issues, lines=True)


def checklist(draw, done, line):
    mark = draw(st.sampled_from("xX"))
    bullet = draw(st.sampled_from("-*+"))
    rows = [f"{bullet} [{mark}] {line(0)} first", ""]
    for n in NUMBERS:
        rows += [f"{bullet} [{mark if n in done else ' '}] {line(n)} {draw(PROSE)}t", f"  {draw(PROSE)}", draw(PROSE)]
    return "\n".join(rows)


def spec_kit(draw, done):
    return "# Tasks\n" + checklist(draw, done, lambda n: f"T{n:03}{draw(st.sampled_from(['', ' [P]', ' [US1]']))}")


def kiro(draw, done):
    return "# Plan\n" + checklist(draw, done, lambda n: f"{n + 1}{draw(st.sampled_from([')', '.']))}")


FORMATS = {
    prd: ("prd", "US-{}"),
    prd_without_passes: ("prd", "US-{}"),
    task_master: ("task-master", "{}"),
    beads: ("beads", "bd-{}"),
    spec_kit: ("spec-kit", "T{:03}"),
    kiro: ("kiro", "{}"),
}


@st.composite
def versions(draw, write, *sets):
    """Return texts of one list, each with one of the sets of tasks done."""
    drawn = Draw(draw)
    texts = []
    for done in sets:
        drawn.rewind()
        texts.append(write(drawn, done))
    bom, ending = draw(st.sampled_from(["", "\ufeff"])), draw(st.sampled_from(["\n", "\r\n"]))
    return [bom + text.replace("\n", ending) for text in texts]


def ids_of(write, numbers):
    """Return the ids of tasks by their numbers."""
    task_format, pattern = FORMATS[write]
    return [pattern.format(n + (task_format == "kiro")) for n in sorted(numbers)]
