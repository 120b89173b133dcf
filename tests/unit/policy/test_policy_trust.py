"""Folder trust covers exactly what the user agreed to."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from scaffold.policy.trust_decision import ACTIVE_FILES, FolderConfig, TrustFile, trust_status

NAMES = tuple(ACTIVE_FILES)
CONTENTS = st.dictionaries(st.sampled_from(NAMES), st.binary(max_size=3))


def folder(files, *unfit):
    pieces = [TrustFile(name, content) for name, content in files.items()]
    return FolderConfig(
        Path("/shop"), "file:///shop/.git", (*pieces, *(TrustFile(name, problem="is a pipe") for name in unfit))
    )


def test_an_unknown_folder_is_not_trusted():
    """RA-13."""
    found = trust_status(folder({".mcp.json": b"{}"}), ())
    assert (found.state, found.trusted, found.content(".mcp.json")) == ("unknown", False, None)


def test_a_trusted_folder_stays_trusted():
    mine = folder({".mcp.json": b"{}", ".scaffold.yaml": b"tier: scout"})
    found = trust_status(mine, [mine.digests])
    assert (found.state, found.content(".scaffold.yaml")) == ("trusted", b"tier: scout")


def test_a_changed_or_new_file_asks_again_and_is_named():
    before = folder({".mcp.json": b"{}", ".scaffold.yaml": b""})
    after = folder({".mcp.json": b"{1}", ".claude/settings.json": b"{}", ".scaffold.yaml": b""})
    found = trust_status(after, [before.digests])
    assert (found.state, found.trusted) == ("changed", False)
    assert found.differences == snapshot((".mcp.json changed", ".claude/settings.json is new"))


def test_each_branch_keeps_its_own_trust():
    one, two = folder({".mcp.json": b"1"}), folder({".mcp.json": b"2"})
    agreed = [one.digests, two.digests]
    assert [trust_status(each, agreed).state for each in (one, two)] == ["trusted", "trusted"]


def test_parts_of_two_trusted_states_do_not_combine():
    one = {".mcp.json": b"1", ".scaffold.yaml": b"1"}
    two = {".mcp.json": b"2", ".scaffold.yaml": b"2"}
    mixed = folder({".mcp.json": b"1", ".scaffold.yaml": b"2"})
    assert trust_status(mixed, [folder(one).digests, folder(two).digests]).state == "changed"


def test_unreadable_files_are_never_trusted():
    odd = folder({}, ".mcp.json")
    assert trust_status(odd, [odd.digests]).differences == (".mcp.json is a pipe",)


@given(agreed=CONTENTS, present=CONTENTS)
def test_a_folder_is_trusted_exactly_if_all_its_files_were_agreed_to(agreed, present):
    """Also a worktree, which lacks the files that git ignores."""
    expected = all(agreed.get(name) == content for name, content in present.items())
    assert trust_status(folder(present), [folder(agreed).digests]).trusted == expected


@given(one=CONTENTS, two=CONTENTS)
def test_fingerprints_are_equal_only_for_equal_names_and_contents(one, two):
    assert (folder(one).fingerprint == folder(two).fingerprint) == (one == two)
