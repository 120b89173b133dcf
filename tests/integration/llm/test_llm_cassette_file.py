import hashlib
import json
from textwrap import dedent

import pytest

from scaffold.core.errors import ModelError
from scaffold.llm.cassette_file import load_cassette
from scaffold.llm.cassette_model import (
    CassetteEntry,
    CassetteFault,
    CassettePrices,
    CassetteToolCall,
    CassetteUsage,
    RequestMatcher,
)
from scaffold.llm.model_factory import cassette_digest


def written(folder, text, name="tape.yaml"):
    path = folder / name
    path.write_text(dedent(text).lstrip("\n"))
    return path


FULL = """
    version: 1
    replies:
      - when: {role: planner, action: store, attempt: 2, turn: 1, event: replan, contains: "fail(ed|ure)"}
        thinking: "hm"
        text: "so"
        tool_calls: [{name: write_file, args: {path: a.py, content: "x = 1\\n"}}, {name: list_dir}]
        usage: {input_tokens: 900, cached_input_tokens: 100, output_tokens: 120}
        fault: {kind: http, status: 529, times: 2}
      - text: "else"
    prices: {input_per_mtok: 3, cached_input_per_mtok: 0.3, output_per_mtok: 15.0}
"""

ENTRIES = (
    CassetteEntry(
        when=RequestMatcher(role="planner", action="store", attempt=2, turn=1, event="replan", contains="fail(ed|ure)"),
        thinking="hm",
        text="so",
        tool_calls=(
            CassetteToolCall("write_file", {"path": "a.py", "content": "x = 1\n"}),
            CassetteToolCall("list_dir"),
        ),
        usage=CassetteUsage(input_tokens=900, cached_input_tokens=100, output_tokens=120),
        fault=CassetteFault(kind="http", status=529, times=2),
    ),
    CassetteEntry(text="else"),
)


def test_every_part_of_the_format_is_read(tmp_path):
    """BX-14."""
    path = written(tmp_path, FULL)
    cassette = load_cassette(path)
    assert cassette.entries == ENTRIES
    assert cassette.prices == CassettePrices(input_per_mtok=3.0, cached_input_per_mtok=0.3, output_per_mtok=15.0)
    assert cassette.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert cassette_digest(f"cassette:{path}") == cassette.digest


def test_json_is_equivalent(tmp_path):
    reply = {"when": {"role": "planner"}, "text": "plan", "tool_calls": [{"name": "shell", "args": {"command": "ls"}}]}
    path = written(tmp_path, json.dumps({"version": 1, "replies": [reply]}, indent="\t"), "tape.json")
    assert load_cassette(path).entries == (
        CassetteEntry(
            when=RequestMatcher(role="planner"), text="plan", tool_calls=(CassetteToolCall("shell", {"command": "ls"}),)
        ),
    )


def test_a_date_in_the_arguments_stays_text(tmp_path):
    path = written(tmp_path, "{version: 1, replies: [{tool_calls: [{name: t, args: {day: 2024-05-01, n: 3}}]}]}")
    assert load_cassette(path).entries[0].tool_calls[0].args == {"day": "2024-05-01", "n": 3}


def test_an_anchor_may_be_reused_but_not_inside_itself(tmp_path):
    path = written(tmp_path, "version: 1\nreplies: [{text: &t hi}, {text: *t}, {when: &w {turn: 1}}, {when: *w}]\n")
    first, second, third, fourth = load_cassette(path).entries
    assert (first, third) == (second, fourth)


def test_an_error_is_reported_with_its_line(tmp_path):
    for text, line, says in (
        ("version: 2\nreplies: []\n", 1, "Invalid enum value 2"),
        ("version: 1\n", 1, "missing required field `replies`"),
        ("version: 1\nreplies: []\nextra: 1\n", 1, "unknown field `extra`"),
        ("version: 1\nreplies:\n  - text: hi\n  - txt: ho\n", 4, "unknown field `txt`"),
        ("version: 1\nreplies:\n  - text: hi\n    when:\n      rol: planner\n", 5, "unknown field `rol`"),
        ("version: 1\nreplies:\n  - when:\n      role: x\n      turn: one\n", 5, "Expected `int | null`, got `str`"),
        ("version: 1\nreplies:\n  - when:\n      turn: 0\n", 4, ">= 1"),
        ("version: 1\nreplies:\n  - when: {turn: true}\n", 3, "got `bool`"),
        ("version: 1\nreplies:\n  - text: yes\n", 3, "Expected `str`, got `bool`"),
        ("version: 1\nreplies:\n  - when: {contains: '('}\n", 3, "`contains` is not a valid regular expression"),
        ("version: 1\nreplies:\n  - fault: {kind: fire}\n", 3, "fire"),
        ("version: 1\nreplies:\n  - usage:\n      cached_input_tokens: 1\n", 4, "`input_tokens` includes cached input"),
        ("version: 1\nreplies:\n  - usage: {input_tokens: -1}\n", 3, ">= 0"),
        ("version: 1\nreplies:\n  - text: a\n    text: b\n", 4, "`text` occurs twice"),
        ("version: 1\nreplies: [\n", 3, "node content"),
        ("version: 1\nreplies: !!python/name:os.system\n", 2, "could not determine a constructor"),
        ("version: 1\n---\nversion: 1\n", 2, "another document"),
        ("version: 1\nreplies:\n  - tool_calls:\n      - {name: t, args: {3: 4}}\n", 4, "at `key` in"),
        ("[1]", 1, "Expected `object`, got `array`"),
        ("", 1, "empty"),
        ("version: 1\nreplies: [{text: \a}]\n", None, "not YAML"),
    ):
        path = written(tmp_path, text)
        assert_refused(path, f"{path}:{line} " if line else "", says)


def test_an_error_in_json_is_reported_too(tmp_path):
    for text, says in (
        ('{"version": 1,\n "replies": [}\n', ":2 "),
        ('{"version": 1, "replies": [{"text": "a", "text": "b"}]}', "`text` occurs twice"),
        ('{"version": 1, "replies": [{"txt": "a"}]}', "unknown field `txt` - at `$.replies[0]`"),
    ):
        assert_refused(written(tmp_path, text, "tape.json"), says)


def test_a_missing_or_binary_file_is_refused(tmp_path):
    assert_refused(tmp_path / "none.yaml", "No such file")
    (tmp_path / "latin.yaml").write_bytes(b"caf\xe9: 1\n")
    assert_refused(tmp_path / "latin.yaml", "not UTF-8")


def assert_refused(path, *said):
    with pytest.raises(ModelError) as caught:
        load_cassette(path)
    assert [words for words in said if words not in caught.value.what] == []
    assert not caught.value.transient
