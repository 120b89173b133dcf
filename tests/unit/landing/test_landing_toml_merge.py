"""Merging TOML by its entries."""

from inline_snapshot import snapshot

from scaffold.landing.conflicts.not_mergeable import NotMergeable
from scaffold.landing.conflicts.toml_merge import merge_toml
from support.errors import error_of

BASE = """\
# A shop.
[project]
name = "shop"  # for good
version = "1.0"
dependencies = [
    "attrs>=21",  # for its classes
    "click",
]

[project.optional-dependencies]
test = ["pytest"]

[tool.ruff]
line-length = 88

[[tool.mypy.overrides]]
module = "x"

[project.scripts]
shop = "shop:main"
"""


def changed(*edits):
    text = BASE
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


CLICK = '    "click",\n'
MERGED = {
    "both add a dependency in the same place": (
        [(CLICK, CLICK + '    "rich",\n')],
        [(CLICK, CLICK + '    "httpx",\n')],
        [(CLICK, CLICK + '    "httpx",\n    "rich",\n')],
    ),
    "both add a dependency in front of what was there": (
        [(CLICK, '    "blinker",\n' + CLICK)],
        [(CLICK, '    "babel",\n' + CLICK)],
        [(CLICK, '    "babel",\n    "blinker",\n' + CLICK)],
    ),
    "one raises a requirement, the other adds one beside it": (
        [('"attrs>=21"', '"attrs>=22"')],
        [(CLICK, CLICK + '    "rich",\n')],
        [('"attrs>=21"', '"attrs>=22"'), (CLICK, CLICK + '    "rich",\n')],
    ),
    "both set something else of a tool": (
        [("line-length = 88\n", 'line-length = 88\nsrc = ["src"]\n')],
        [("line-length = 88\n", "line-length = 100\n")],
        [("line-length = 88\n", 'line-length = 100\nsrc = ["src"]\n')],
    ),
    "one changes a version, the other the name beside it": (
        [('"1.0"', '"1.1"')],
        [('"shop"  #', '"store"  #')],
        [('"1.0"', '"1.1"'), ('"shop"  #', '"store"  #')],
    ),
}


def test_entries_of_both_sides_are_kept_with_comments_and_layout():
    """AL-13: a manifest is merged by its entries."""
    merged = {name: merge_toml(BASE, changed(*ours), changed(*theirs)) for name, (ours, theirs, _) in MERGED.items()}
    assert merged == {name: changed(*wanted) for name, (*_, wanted) in MERGED.items()}


REFUSED = {
    "both raise a requirement": ([('"attrs>=21"', '"attrs>=22"')], [('"attrs>=21"', '"attrs>=23"')]),
    "both add a requirement of one package": (
        [(CLICK, CLICK + '    "rich>=1",\n')],
        [(CLICK, CLICK + '    "rich>=2",\n')],
    ),
    "both add one package, spelled in two ways": (
        [(CLICK, CLICK + '    "foo_bar>=1",\n')],
        [(CLICK, CLICK + '    "foo-bar>=2",\n')],
    ),
    "both change a version": ([('"1.0"', '"1.1"')], [('"1.0"', '"2.0"')]),
    "one removes what the other changes": (
        [("[tool.ruff]\nline-length = 88\n\n", "")],
        [("line-length = 88\n", "line-length = 100\n")],
    ),
    "one is no TOML": ([("[project]", "[project")], [('"1.0"', '"2.0"')]),
}


def test_what_has_two_meanings_is_refused_with_the_reason():
    """AL-13."""
    refusals = {
        name: error_of(NotMergeable, merge_toml, BASE, changed(*ours), changed(*theirs))
        for name, (ours, theirs) in REFUSED.items()
    }
    assert {name: str(refusal).partition(": ")[0] for name, refusal in refusals.items()} == snapshot(
        {
            "both raise a requirement": "both sides add an entry for attrs, or change it",
            "both add a requirement of one package": "both sides add an entry for rich, or change it",
            "both add one package, spelled in two ways": "both sides add an entry for foo-bar, or change it",
            "both change a version": "both sides change project.version",
            "one removes what the other changes": "one side changes tool.ruff, the other removes it",
            "one is no TOML": "invalid TOML",
        }
    )


def test_a_table_that_one_side_adds_comes_with_its_comments():
    """AL-13."""
    added = BASE + "\n[tool.black]\nstrict = true  # always\n"
    assert "strict = true  # always\n" in merge_toml(BASE, changed(('"1.0"', '"1.1"')), added)
