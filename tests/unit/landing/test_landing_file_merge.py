"""Each kind of file by its merge, and the check that is independent of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from scaffold.core.landing.conflict import FileVersions
from scaffold.landing.conflicts.certificate import require_complete
from scaffold.landing.conflicts.line_merge import merge_lines, merge_union
from scaffold.landing.conflicts.not_mergeable import NotMergeable
from scaffold.landing.conflicts.resolution import FileRefused, FileResolved, merge_file

NEWS = "# News\n\n- old\n"


def test_lines_of_both_sides_are_kept_where_a_file_is_declared_to_be_a_union():
    """AL-13."""
    versions = FileVersions(
        "NEWS.md", NEWS, NEWS.replace("- old", "- mine\n- old"), NEWS.replace("- old", "- other\n- old")
    )
    assert merge_file(versions, union=True) == FileResolved("# News\n\n- mine\n- other\n- old\n", "union")
    assert merge_file(versions).why == snapshot("no merge is known for this kind of file")


def test_a_merge_that_loses_a_line_is_refused_whatever_made_it():
    """AL-13: here the library for TOML drops a comment."""
    base = '[tool.mypy.overrides]\na = 1\n\n[project]\nname = "x"\n'
    theirs = base + "\n[tool.mypy]\nstrict = true  # always\n"
    refused = merge_file(FileVersions("pyproject.toml", base, base.replace('"x"', '"y"'), theirs))
    assert refused.why == snapshot("the merge would have lost 1 line, e.g. '# always'")


LINES = st.lists(st.sampled_from("abcdefgh"), max_size=8)


@given(LINES, LINES, LINES)
def test_a_union_loses_and_invents_no_line(base, ours, theirs):
    """AL-13."""
    texts = ["".join(f"{line}\n" for line in each) for each in (base, ours, theirs)]
    try:
        merged = merge_union(*texts)
    except NotMergeable:
        return
    assert (set(ours) | set(theirs)) - set(base) <= set(merged.split())
    assert set(merged.split()) <= {*ours, *theirs}


@given(st.lists(st.integers(0, 40).map(str), max_size=12, unique=True), LINES, LINES)
def test_a_merge_of_lines_loses_and_invents_none(base, mine, other):
    """AL-13: for lines that are there once."""
    ours = [*base[: len(base) // 2], *(f"o{line}" for line in mine), *base[len(base) // 2 :]]
    theirs = [*(f"t{line}" for line in other), *base]
    merged = merge_lines(base, ours, theirs)
    if merged is not None:
        base_text, *texts = ["".join(f"{line}\n" for line in each) for each in (base, ours, theirs, merged)]
        require_complete(FileVersions("a.txt", base_text, *texts[:2]), texts[2])
        assert set(merged) == {*base, *ours, *theirs}


@pytest.mark.parametrize("more", [["last"], []])
def test_what_both_sides_add_is_there_once_however_the_equal_lines_around_it_are_paired(more):
    """AL-13: a paragraph fits before and after an empty line; one side changes something before it, too."""
    base = ["first", "second", "", *more]
    ours = ["first", "second", "", "added", "", *more]
    theirs = ["FIRST", *ours[1:]]
    assert merge_lines(base, ours, theirs) == merge_lines(base, theirs, ours) == tuple(theirs)
    versions = FileVersions("a.py", *("".join(f'call("{line}")\n' for line in each) for each in (base, ours, theirs)))
    require_complete(versions, versions.theirs)


def test_a_union_covers_added_lines_alone():
    """AL-13: of a line that both sides change, no union knows which one holds."""
    versions = FileVersions("NEWS", "a\nold\nb\n", "a\nmine\nold\nb\n", "a\nother\nb\n")
    assert merge_file(versions, union=True).why == snapshot(
        "both sides change existing lines, and a union only covers added lines"
    )
    both = FileVersions("NEWS", "nothing yet\n", "mine\n", "other\n")
    assert merge_file(both, union=True) == FileResolved("mine\nother\n", "union")


def test_lines_that_both_sides_of_a_union_add_at_the_end_stay_with_what_is_before_them():
    """AL-13: only empty lines come once."""
    ours, theirs = "# News\n\n- A\n  (by Bob)\n\n- old\n", "# News\n\n- B\n  (by Bob)\n\n- old\n"
    merged = merge_file(FileVersions("NEWS.md", NEWS, ours, theirs), union=True)
    assert merged == FileResolved("# News\n\n- A\n  (by Bob)\n- B\n  (by Bob)\n\n- old\n", "union")


@pytest.mark.parametrize(
    ("mine", "other", "merged"),
    [
        ("## New\n\n- a\n\n", "## New\n\n- b\n\n", "## New\n\n- a\n- b\n\n"),
        ("New\n===\n- a\n\n", "New\n===\n- b\n\n", "New\n===\n- a\n- b\n\n"),
        ("## New\n- a\n\n## Old\n- c\n\n", "## Old\n- b\n\n", "## New\n- a\n\n## Old\n- c\n- b\n\n"),
        (
            "## New\n\n### Added\n- a\n\n### Fixed\n- c\n\n",
            "## New\n\n### Added\n- b\n\n",
            "## New\n\n### Added\n- a\n- b\n\n### Fixed\n- c\n\n",
        ),
        (
            "## New\n\n### Added\n- a\n\n",
            "## New\n\n### Fixed\n- b\n\n",
            "## New\n\n### Added\n- a\n\n### Fixed\n- b\n\n",
        ),
        ("## A\n- a\n## A\n- c\n", "## A\n- b\n", "## A\n- a\n## A\n- c\n## A\n- b\n"),
    ],
)
def test_a_heading_that_both_sides_of_a_union_add_is_there_once(mine, other, merged):
    """AL-13: over the lines of both, each below its own heading; one that is repeated within a side says nothing."""
    sides = (NEWS.replace("- old", f"{side}- old") for side in (mine, other))
    expected = FileResolved(NEWS.replace("- old", f"{merged}- old"), "union")
    assert merge_file(FileVersions("NEWS.md", NEWS, *sides), union=True) == expected


HEADED = st.lists(st.sampled_from(["# A", "# B", "## C", "## D", "- a", "- b", "- c", ""]), max_size=9)


@given(HEADED, HEADED)
def test_a_union_with_headings_loses_and_invents_no_line(ours, theirs):
    """AL-13."""
    sides = ("x\n" + "".join(f"{line}\n" for line in each) for each in (ours, theirs))
    assert set(merge_union("x\n", *sides).split("\n")) - {""} == {"x", *ours, *theirs} - {""}


ADDOPTS = "[tool.pytest.ini_options]\naddopts = [{}]\n"


def test_lists_whose_order_may_have_a_meaning_are_not_changed_in_one_place_by_both():
    """AL-13."""
    for added in ('"-n", "2"', '"-k", "unit"', '"--ignore", "docs"'):
        base, ours, theirs = (ADDOPTS.format(f'"-ra"{more}') for more in ("", ', "--ignore", "build"', f", {added}"))
        refused = merge_file(FileVersions("pyproject.toml", base, ours, theirs))
        assert refused.why == snapshot("both sides change the same place of the list tool.pytest.ini_options.addopts")


def test_entries_that_both_add_in_other_places_of_a_list_stay_there():
    """AL-13: a list is never sorted."""
    base, ours, theirs = (f'{{"args": [{more}]}}\n' for more in ('"run", "b"', '"run", "b", "a"', '"z", "run", "b"'))
    merged = merge_file(FileVersions("package.json", base, ours, theirs))
    assert merged == FileResolved('{"args": ["z", "run", "b", "a"]}\n', "manifest")


@pytest.mark.slow
def test_a_file_with_many_keys_is_merged():
    """AL-13: each key costs the same; it took minutes where it did not."""
    base, ours, theirs = (
        "".join(["{\n", *(f' "k{at * 7919 % 20_000}": 1,\n' for at in range(20_000)), f' "{last}": 1\n}}\n'])
        for last in ("k", "ours", "theirs")
    )
    assert isinstance(merge_file(FileVersions("package.json", base, ours, theirs)), FileResolved)


def test_items_of_a_list_are_removed_next_to_those_that_the_other_side_adds():
    """AL-13: but no more than whole items, and none that holds what the other side added."""
    base, rest = "# All\n\n- one\n- two\n  more\n", "- three\n"
    path = "NOTES.md"
    removed, added = base.replace("- two\n  more\n", ""), base + rest
    for ours, theirs in ((removed, added), (added, removed)):
        assert merge_file(FileVersions(path, base, ours, theirs)) == FileResolved(removed + rest, "items")
    for text in ("# All\n", "# All\n\n"):
        assert isinstance(merge_file(FileVersions(path, text, "", f"{text}- three\n")), FileRefused)
    nested = FileVersions("a.yaml", "a:\n- b:\n", "a:\n", "a:\n- b:\n    - c\n")
    assert isinstance(merge_file(nested), FileRefused)
