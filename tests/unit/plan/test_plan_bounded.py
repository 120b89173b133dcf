"""Texts of a repository that were made to keep a parser busy are refused at once, and ordinary ones are read."""

import pytest

from scaffold.plan.text.bounded import BeyondLimit, read_ini, read_json, read_toml
from scaffold.plan.text.parse_tree import read_yaml

DEEP, MANY, LARGE = "is nested too deeply", "has more than 100,000 values", "is larger than 1 MB"


def aliases(entry: str, most: int = 9) -> str:
    """Return tables or lists of which each has several aliases of the one before."""
    rows = (f"a{n}: &a{n} {entry.format(', '.join([f'*a{n - 1}'] * most))}" for n in range(1, 10))
    return "\n".join(["a0: &a0 {run: make}", *rows])


BEYOND = {
    "lists of aliases": (read_yaml, aliases("[{}]"), MANY),
    "merged aliases": (read_yaml, aliases("{{<<: [{}]}}"), MANY),
    "a value in itself": (read_yaml, "a: &a [*a]", "has an alias for a value that contains it"),
    "open lists": (read_yaml, "[" * 100_000, DEEP),
    "open tables": (read_yaml, "a: " + "{a: " * 100_000, DEEP),
    "dashes": (read_yaml, "- " * 100_000, DEEP),
    "keys of YAML": (read_yaml, "".join(f"k{n}: 1\n" for n in range(60_000)), MANY),
    "a long text": (read_yaml, "x" * 1_000_001, LARGE),
    "JSON lists": (read_json, "[" * 100_000 + "]" * 100_000, DEEP),
    "JSON objects": (read_json, '{"a":' * 101 + "1" + "}" * 101, DEEP),
    "JSON numbers": (read_json, f"[{'1,' * 100_000}1]", MANY),
    "a dotted key": (read_toml, f"a{'.a' * 100_000} = 1", DEEP),
    "a quoted header": (read_toml, "[a" + ' . "b"' * 100_000 + "]", DEEP),
    "arrays": (read_toml, "a = " + "[" * 100_000, DEEP),
    "blanks": (read_ini, f"[a]\nb{' ' * 100_000}c", "has a line with too many blanks"),
    "values for each section": (
        read_ini,
        "[DEFAULT]\n" + "".join(f"k{n}=1\n" for n in range(1_000)) + "".join(f"[s{n}]\n" for n in range(1_000)),
        "has too many values in each section",
    ),
}


@pytest.mark.parametrize("case", BEYOND)
@pytest.mark.timeout(30)
def test_a_text_beyond_a_limit_is_refused_with_the_reason(case):
    """BX-9: `init` and `doctor` read files that anybody wrote."""
    read, text, reason = BEYOND[case]
    with pytest.raises(BeyondLimit) as refused:
        read(text)
    assert str(refused.value) == reason


@pytest.mark.parametrize("read", [read_yaml, read_json, read_toml, read_ini])
def test_a_text_in_another_format_is_invalid(read):
    with pytest.raises(ValueError, match=r".") as refused:
        read("[a\n= {")
    assert not isinstance(refused.value, BeyondLimit)


def test_ordinary_texts_have_their_values():
    merged = "base: &base {image: x, tags: [a]}\njob: {<<: *base, script: make}\nwhen: 2026-01-01\nport: 0x10\n"
    found = read_yaml(merged)
    assert (found["job"], found["port"]) == ({"image": "x", "tags": ["a"], "script": "make"}, 16)
    assert read_yaml(f"a: {'9' * 1_001}") == {"a": "9" * 1_001}, "a number that long would take its time"
    assert read_json('{"a": [1, null]}') == {"a": [1, None]}
    assert read_toml("[a.b]\nc = 1\n") == {"a": {"b": {"c": 1}}}
    assert read_ini("[DEFAULT]\nx = 1\n[a]\nB = %(x)s\n") == {"a": {"x": "1", "b": "%(x)s"}}
