"""Requests as arguments, files and standard input, and what is refused."""

import io
import os
from pathlib import Path

import pytest

from scaffold.cli.request import MAX_BYTES, is_piped, read_request
from scaffold.core.errors import UsageError


def expect_refusal(words, *, task=None, spec=None, stdin=None):
    with pytest.raises(UsageError) as refused:
        read_request(task, spec, stdin)
    assert words in refused.value.what
    assert refused.value.fix


def test_words_are_taken_unchanged():
    assert read_request("add ünïcode, twice\n", None, None) == "add ünïcode, twice\n"


def test_a_file_is_read_whole_without_its_byte_order_mark(tmp_path):
    """SC-18: a specification travels by file."""
    spec = tmp_path / "spec.md"
    spec.write_bytes(b"\xef\xbb\xbf# Do it\n" + b"x" * 200_000)
    assert read_request(None, str(spec), None) == "# Do it\n" + "x" * 200_000


@pytest.mark.parametrize(("task", "spec"), [(None, None), ("-", None), (None, "-")])
def test_standard_input_is_read_if_it_is_named_or_no_task_is_given(task, spec):
    """SC-18: `cat spec.md | scaffold`."""
    source, sink = os.pipe()
    os.write(sink, b"do it")
    os.close(sink)
    with os.fdopen(source) as piped:
        assert is_piped(piped)
        assert read_request(task, spec, piped) == "do it"


def test_a_terminal_is_not_waited_for_and_blanks_are_no_task(tmp_path):
    with Path(os.devnull).open() as nothing:
        assert not is_piped(nothing)
        for task in (None, "-", "", " \n\t", "\u2003"):
            expect_refusal("no task", task=task, stdin=nothing)
    expect_refusal("a task and a specification", task="x", spec=str(tmp_path))


def test_files_of_other_kinds_are_refused_with_a_fix(tmp_path):
    contents = {
        b"\x7fELF\xff\xfe\x80": "UTF-8",
        b"words\0words": "NUL",
        b"x" * 5_000_000: f"{MAX_BYTES // 1000} KB",
        b"\n": "no task",
    }
    for content, words in contents.items():
        spec = tmp_path / "spec"
        spec.write_bytes(content)
        expect_refusal(words, spec=str(spec))


def test_unreadable_files_are_named(tmp_path):
    for name in ("nowhere.md", ".", "nowhere.md/x"):
        expect_refusal(f"{tmp_path / name} ", spec=str(tmp_path / name))


def test_overlong_input_is_not_read_to_its_end():
    class Endless(io.RawIOBase):
        def readable(self):
            return True

        def readinto(self, buffer):
            buffer[:] = b"x" * len(buffer)
            return len(buffer)

    expect_refusal("KB", task="-", stdin=io.TextIOWrapper(io.BufferedReader(Endless())))
