"""Citations are looked up in the very commit that was reviewed."""

import pytest

from scaffold.git import refs
from scaffold.verify.contract.review import Citation, Review, unresolved_citations


def cites(*places):
    return Review(verdict="approve", citations=tuple(Citation(*place) for place in places), summary="Fine.")


async def lacking(harness, *places):
    """Return what is told of the citations, by the place it begins with."""
    head = await refs.resolve(harness.site.git, "HEAD")
    found = await unresolved_citations(cites(*places), harness.site.git, head)
    return [each.partition(": ")[0] for each in found]


async def test_a_line_that_is_there_is_there(harness):
    """BX-1: the last line counts, also without a newline at its end."""
    await harness.sh("mkdir -p 'd d'; printf 'x\\ny' > 'd d/é\"*[a]'; git add .; git commit -qm odd")
    assert await lacking(harness, ("list", 1), ("list", 3), ('d d/é"*[a]', 2)) == []
    assert await lacking(harness, ("list", 4), ("list", 2), ('d d/é"*[a]', 3)) == ["list:4", 'd d/é"*[a]:3']


@pytest.mark.parametrize(
    "file",
    ["missing", "", ".", "/etc/passwd", "../README", "d", "lis*", ":(glob)*", ":!list", "a\0b", "x" * 5000, "link"],
)
async def test_what_is_no_file_of_the_commit_is_told(harness, file):
    """BX-1: no pattern, no folder, nothing outside, no link."""
    await harness.sh("mkdir d; echo x > d/x; ln -s list link; git add .; git commit -qm d")
    assert await lacking(harness, (file, 1)) == [f"{file}:1"]


async def test_what_is_not_committed_is_not_there(harness):
    """BX-1: the reviewed commit, not what lies about."""
    await harness.sh("echo more >> list; echo new > new; git add new")
    assert await lacking(harness, ("list", 4), ("new", 1)) == ["list:4", "new:1"]


async def test_bytes_that_are_no_text_have_lines_too(harness):
    await harness.sh("printf '\\0\\n\\351\\n' > bytes; git add .; git commit -qm bytes")
    assert await lacking(harness, ("bytes", 2), ("bytes", 3)) == ["bytes:3"]


async def test_nothing_cited_is_nothing_to_look_up(harness):
    assert await lacking(harness) == []
