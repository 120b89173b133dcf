"""The grouping of a change by intent, for any patch and any evidence."""

import asyncio
import os

from hypothesis import given, settings
from hypothesis import strategies as st

from scaffold.core.run_settings import Signature
from scaffold.git.client.command_line import Git
from scaffold.git.commits import commit_tree
from scaffold.git.patch import PatchFile, PatchHunk, PatchLine, read_patch
from scaffold.views.changes.intents import ActionEvidence, ChangeEvidence, CheckEvidence, group_by_intent

PATHS = ("src/a.py", "tests/test_a.py", "README.md", "uv.lock", "b.py")
TEXTS = st.sampled_from(["", "def parse(x):", "    return x", "import os", "X = 1", "}", "\r", "@@ -1 +1 @@", "# note"])
SOMEONE = Signature("n", "e")
NUMBERS = st.frozensets(st.integers(1, 40), max_size=20)


@st.composite
def hunks(draw, start):
    old = new = start
    lines = []
    for sign in draw(st.lists(st.sampled_from(" +-"), min_size=1, max_size=25)):
        lines.append(PatchLine(sign, draw(TEXTS), 0 if sign == "+" else old, 0 if sign == "-" else new))
        old, new = old + (sign != "+"), new + (sign != "-")
    return PatchHunk(tuple(lines), draw(st.sampled_from(["", "def parse(x):"])))


@st.composite
def files(draw):
    found = []
    for path in draw(st.lists(st.sampled_from(PATHS), unique=True, min_size=1)):
        status = draw(st.sampled_from("ADMRT"))
        parts = draw(st.tuples(hunks(1), hunks(100))) if draw(st.booleans()) else ()
        found.append(
            PatchFile(
                path=path,
                former=f"old/{path}" if status == "R" else path,
                status=status,
                mode="100644",
                former_mode="100644",
                added=0,
                deleted=0,
                hunks=parts,
            )
        )
    return found


@st.composite
def evidence(draw):
    actions = []
    for key in ("one", "two"):
        checks = tuple(
            CheckEvidence(
                name=name,
                executed=draw(st.dictionaries(st.sampled_from(PATHS), NUMBERS)),
                tests=draw(st.frozensets(st.sampled_from(PATHS))),
                words={"tests/test_a.py": draw(st.frozensets(st.sampled_from(["parse", "other"])))},
            )
            for name in draw(st.lists(st.sampled_from(["pytest -q", "test -s b.py", "make x"]), unique=True))
        )
        globs = st.lists(st.sampled_from(["**", "*.md", "src/*.py"]), unique=True).map(tuple)
        actions.append(
            ActionEvidence(
                key=key,
                checks=checks,
                must_exist=draw(globs),
                must_not_exist=draw(globs),
                files=draw(globs),
                observed=draw(st.booleans()),
            )
        )
    return ChangeEvidence(
        actions=tuple(actions),
        touching=draw(st.dictionaries(st.sampled_from(PATHS), st.sampled_from([("one",), ("two", "one"), ()]))),
        code=draw(st.dictionaries(st.sampled_from(PATHS), NUMBERS)),
        attention=draw(st.dictionaries(st.sampled_from(PATHS), st.just("is in a protected area: auth"))),
        generated=draw(st.frozensets(st.just("uv.lock"))),
    )


def changed_lines(parts):
    return sorted((part[0], line.sign, line.old, line.new) for part in parts for line in part[1] if line.sign != " ")


@settings(max_examples=60)
@given(files(), evidence())
def test_each_changed_line_is_in_exactly_one_group(changed, known):
    """BX-25: nothing is left out and nothing is shown twice, and the same change is grouped in the same way."""
    groups = group_by_intent(changed, known)
    shown = [(hunk.file.path, hunk.lines) for group in groups for hunk in group.hunks]
    assert changed_lines(shown) == changed_lines((file.path, hunk.lines) for file in changed for hunk in file.hunks)
    assert {path for path, _ in shown} == {file.path for file in changed}
    assert all(hunk.reason for group in groups for hunk in group.hunks)
    assert groups == group_by_intent(changed, known)
    lines = [group.line for group in groups]
    assert len(set(lines)) == len(lines)
    assert all(line.kind != "none" for line in lines[1:])
    assert all(line.kind != "generated" for line in lines[:-1])
    for group in groups:
        places = [(not hunk.attention, hunk.file.path, hunk.first) for hunk in group.hunks]
        assert places == sorted(places)


@settings(max_examples=40)
@given(files(), evidence())
def test_lines_that_no_check_executed_serve_no_other_evidence(changed, known):
    """BX-25: what a check is known not to have executed is never under a line because a file happens to be declared."""
    for group in group_by_intent(changed, known):
        for hunk in group.hunks:
            keys = (*known.touching.get(hunk.file.path, ()), *known.touching.get(hunk.file.former, ()))
            observed = any(action.observed for action in known.actions if action.key in keys)
            if group.line.kind == "files" and observed:
                assert not hunk.can_run


CONTENT = st.lists(
    st.sampled_from(
        [b"", b"a", b"b\r", b"c\0", b"\xff\xfe", b"diff --git a/x b/x", b"@@ -1 +1 @@", b"\\ No newline", b"-"]
    ),
    max_size=12,
).map(b"\n".join)


async def _committed(git, contents, side):
    for name, sides in contents.items():
        if sides[side]:
            (git.cwd / name).write_bytes(sides[side])
        else:
            (git.cwd / name).unlink(missing_ok=True)
    await git("add", "--all")
    tree = (await git("write-tree")).line
    return await commit_tree(git, tree, parents=[], message="m", author=SOMEONE, committer=SOMEONE)


async def _patch_of(repo, contents):
    git = Git(repo, environ=os.environ)
    await git("init", "-q")
    return await read_patch(git, *[await _committed(git, contents, side) for side in (0, 1)])


@settings(max_examples=8, deadline=None)
@given(st.dictionaries(st.sampled_from(["a", "b c", 'q"d', "n\nl", "t\tb"]), st.tuples(CONTENT, CONTENT), min_size=1))
def test_a_patch_has_the_lines_that_git_counts(tmp_path_factory, contents):
    """BX-25: whatever is in names and contents: what looks like a header, CRLF, no line feed at the end, no text."""
    found = asyncio.run(_patch_of(tmp_path_factory.mktemp("patch"), contents))
    for file in found:
        before, after = (contents[name][side].split(b"\n") for side, name in ((0, file.former), (1, file.path)))
        lines = [line for hunk in file.hunks for line in hunk.lines]
        assert [line.sign for line in lines].count("+") == file.added
        assert [line.sign for line in lines].count("-") == file.deleted
        for line in lines:
            assert not line.old or before[line.old - 1].decode(errors="replace") == line.text
            assert not line.new or after[line.new - 1].decode(errors="replace") == line.text
    changed = {name for name, sides in contents.items() if sides[0] != sides[1]}
    assert {file.path for file in found} | {file.former for file in found} == changed
