"""How long stored output of conversations is retained."""

import os
from datetime import UTC, datetime, timedelta

import pytest

from scaffold.tools.command.spooled_output import MAX_AGE, MAX_KEPT_BYTES, remove_expired

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def keep(tmp_path):
    """Create stored output of a conversation, and its folders, of a given age."""

    def keep(conversation, ago, size=1):
        file = tmp_path / "outputs" / conversation / "output-a-stdout.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as made:
            made.truncate(size)
        for place in (file, *file.parents[: 1 + conversation.count("/")]):
            os.utime(place, ((NOW - ago).timestamp(),) * 2)
        return file

    return keep


@pytest.fixture
def left(tmp_path):
    """Remove old output during a conversation; return whose output is left."""

    def left(conversation):
        remove_expired(tmp_path / "outputs", conversation=conversation, now=NOW)
        return {each.name for each in (tmp_path / "outputs").iterdir()}

    return left


def test_output_older_than_a_week_is_removed_except_for_the_active_conversation(keep, left):
    """RA-4: a resumed conversation finds its output."""
    old, young = MAX_AGE + timedelta(seconds=1), MAX_AGE - timedelta(hours=1)
    keep("mine", old), keep("old", old), keep("young", young)
    assert left("mine") == {"mine", "young"}


def test_a_subagent_and_its_session_retain_each_others_output(keep, left):
    """RA-4, RA-11."""
    old = MAX_AGE * 2
    keep("mine", old), keep("mine/sub-1", old), keep("other", old), keep("other/sub-1", timedelta(0))
    assert left("mine/sub-2") == {"mine", "other"}


def test_the_oldest_output_is_removed_above_the_total_limit(keep, left):
    """RA-4: bounded in bytes; sparse files here."""
    keep("first", timedelta(hours=3), 1), keep("second", timedelta(hours=2), MAX_KEPT_BYTES)
    keep("third", timedelta(hours=1), MAX_KEPT_BYTES // 2)
    assert left("mine") == {"third"}


def test_without_a_folder_nothing_is_removed(tmp_path):
    remove_expired(tmp_path / "outputs", conversation="mine", now=NOW)
    assert not (tmp_path / "outputs").exists()


def test_files_and_link_targets_are_not_removed(keep, left, tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").touch()
    keep("old", MAX_AGE * 2)
    (tmp_path / "outputs" / "link").symlink_to(tmp_path / "theirs")
    (tmp_path / "outputs" / "file").touch()
    assert "old" not in left("mine")
    assert (tmp_path / "theirs" / "file").exists()
