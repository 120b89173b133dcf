"""Citations are checked in the very commit that was reviewed, or audited."""

import json

import pytest
from inline_snapshot import snapshot

from scaffold.core.proof.contract import Citation, Review
from scaffold.core.proof.specification_audit import Audit
from scaffold.git import refs
from scaffold.verify.contract.review_verdict import judged_at, parse_audit, unresolved_citations


def cites(*places):
    return Review(verdict="approve", citations=tuple(Citation(*place) for place in places), summary="Fine.")


async def lacking(harness, *places, base=None):
    """Return the errors of the citations, without their position."""
    head = await refs.resolve(harness.context.git, "HEAD")
    found = await unresolved_citations(cites(*places), harness.context.git, head, base=base)
    return [each.partition(": ")[0] for each in found]


async def test_an_existing_line_is_accepted(harness):
    """BX-1: the last line counts, also without a newline at its end, and lines of binary files."""
    await harness.sh("mkdir -p 'd d'; printf 'x\\ny' > 'd d/é\"*[a]'; printf '\\0\\n\\351\\n' > bytes")
    await harness.sh("git add .; git commit -qm odd")
    assert await lacking(harness, ("list", 1), ("list", 3), ('d d/é"*[a]', 2), ("bytes", 2)) == []
    missing = [("list", 4), ('d d/é"*[a]', 3), ("bytes", 3)]
    assert await lacking(harness, *missing, ("list", 2)) == [f"{file}:{line}" for file, line in missing]


async def test_a_path_that_is_no_file_of_the_commit_is_reported(harness):
    """BX-1: no pattern, no folder, no outside path, no link; a commit, not the worktree, is what was reviewed."""
    await harness.sh("mkdir d; echo x > d/x; ln -s list link; git add .; git commit -qm d")
    await harness.sh("echo more >> list; echo new > new; git add new")
    files = ["missing", "", ".", "/etc/passwd", "../README", "d", "lis*", ":(glob)*", ":!list", "a\0b", "x" * 5000]
    places = [*((file, 1) for file in files), ("link", 1), ("list", 4), ("new", 1)]
    assert await lacking(harness, *places) == [f"{file}:{line}" for file, line in places]
    assert await lacking(harness) == []


async def test_a_deleted_line_is_cited_as_it_was_before_the_change(harness):
    """AL-23: in the base; without one, and in the new commit, there is no such line."""
    base = await refs.resolve(harness.context.git, "HEAD")
    await harness.sh("git rm -q list; echo new > new; git add .; git commit -qm changed")
    deleted, fresh = ("list", 3, "", True), ("new", 1, "", True)
    assert await lacking(harness, deleted, ("new", 1), base=base) == []
    assert await lacking(harness, deleted, ("list", 3), fresh) == snapshot(
        ["list:3 (before the change)", "list:3", "new:1 (before the change)"]
    )


async def judged(harness, answer, *asked, specification="spec"):
    head = await refs.resolve(harness.context.git, "HEAD")
    said = parse_audit(f"seen\n```json\n{answer}\n```")
    assert isinstance(said, Audit), said
    return await judged_at(said, asked, harness.context.git, head, specification=specification)


async def test_an_audit_counts_lines_of_the_audited_commit_and_none_of_the_specification(harness):
    """AL-30: a specification says what is asked for, so it shows nothing; patterns and outside paths are no files."""
    await harness.sh("printf 'It must.\\n' > SPEC.md; git add .; git commit -qm spec; echo more >> list")
    places = {"R1": "./list:3", "R2": "SPEC.md:1", "R3": "lis*:1", "R4": "../list:1", "R5": "list:4"}
    said = [
        {"id": each, "verdict": "met", "citations": [{"file": place.partition(":")[0], "line": int(place[-1])}]}
        for each, place in places.items()
    ]
    found = await judged(harness, json.dumps({"requirements": said}), *places, specification="It must.\n")
    assert [each.verdict for each in found.audit.requirements] == ["met", *["unclear"] * 4]
    assert found.complaints[::3] == snapshot(
        (
            "R2: it is said to be met, but `SPEC.md:1` is a line of the specification itself",
            "R5: it is said to be met, but `list:4` cannot be looked up: the file has 3 lines",
        )
    )


@pytest.mark.slow
async def test_an_audit_may_cite_more_than_one_command_can_name(harness):
    """AL-30: of each requirement the first citations count; what nobody asked about is not looked up."""
    long = [{"file": f"{'x' * 4_000}{number}", "line": 1} for number in range(500)]
    said = [{"id": f"R{number}", "verdict": "met", "citations": long} for number in range(20)]
    asked = [each["id"] for each in said]
    found = await judged(harness, json.dumps({"requirements": [*said, {"id": "X", "verdict": "met"}]}), *asked)
    assert {each.verdict for each in found.audit.requirements} == {"unclear"}
    assert found.complaints[-1] == snapshot("X: you were not asked about it")


def test_what_is_no_audit_is_told_so():
    """AL-30: the form is in the answer."""
    for text in ("", "{}", '{"requirements": [{"id": "R1", "verdict": "fine"}]}', "[[["):
        assert "citations" in parse_audit(f"```json\n{text}\n```\nx" if text else "")
