"""Values of JSON, TOML and INI texts, within limits: nobody vouches for the files that a repository brings along.

YAML is in `parse_tree`: its library loads slowly. Each reader raises
ValueError with a reason for an invalid text, and BeyondLimit, a ValueError, for one beyond a limit.
"""

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from configparser import Error as ConfigParserError
from configparser import RawConfigParser
from itertools import chain, islice
from typing import Any, TypeVar

MAX_CHARS = 1_000_000
"""No value takes less than ten of the characters, and none is repeated by aliases more often than that allows."""
MAX_DEPTH = 100
"""Levels of lists and tables: whoever walks a value needs several calls for each, and Python allows about 1,000."""
TOO_DEEP = "is nested too deeply"
TOO_MANY = "has more than {:,} values"
_KEY = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
# `tomllib` looks up each beginning of a dotted key, `configparser` tries each blank of a line without a delimiter.
_DEEP_KEY = re.compile(rf"(?<![\w-]){_KEY}(?:[ \t]*+\.[ \t]*+{_KEY}){{{MAX_DEPTH}}}")
_LONG_GAP = re.compile(r"(?<!\s)[^\S\n]{100}")

T = TypeVar("T")


class BeyondLimit(ValueError):
    """Why a text is not read, to follow its name: "is nested too deeply"."""


def read_json(
    text: str, *, most_chars: int = MAX_CHARS, make_object: Callable[[list[tuple[str, Any]]], Any] = dict
) -> Any:
    """Return the value in a JSON text; `make_object` returns an object with these keys and values."""
    return read_limited(lambda given: json.loads(given, object_pairs_hook=make_object), text, most_chars)


def read_toml(text: str, *, most_chars: int = MAX_CHARS) -> dict[str, Any]:
    """Return the table in a TOML text."""
    if _DEEP_KEY.search(text):
        raise BeyondLimit(TOO_DEEP)
    return read_limited(tomllib.loads, text, most_chars)


def read_ini(text: str) -> dict[str, Mapping[str, str]]:
    """Return the sections of an INI text by name, each with the values of `DEFAULT`, which is not among them."""
    if _LONG_GAP.search(text):
        raise BeyondLimit("has a line with too many blanks")
    parser = RawConfigParser(strict=False)
    try:
        read_limited(parser.read_string, text)
    except ConfigParserError as error:
        raise ValueError(str(error).partition("\n")[0]) from error
    if len(parser.defaults()) * len(parser.sections()) > MAX_CHARS // 10:
        raise BeyondLimit("has too many values in each section")
    return {name: dict(parser[name]) for name in parser.sections()}


def read_limited(parse: Callable[[str], T], text: str, most_chars: int = MAX_CHARS) -> T:
    """Return what `parse` makes of a text; BeyondLimit if the text or the value is too large or too deep."""
    if len(text) > most_chars:
        raise BeyondLimit(f"is larger than {most_chars // 1_000_000} MB")
    try:
        value = parse(text)
    except (RecursionError, MemoryError) as error:
        raise BeyondLimit(TOO_DEEP) from error
    level: list[Any] = [value]
    left = most_chars // 10
    for _ in range(MAX_DEPTH):
        parts = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list))
        # A few tables that aliases repeat could have more values than the memory holds.
        level = list(islice(chain.from_iterable(parts), left + 1))
        left -= len(level)
        if left < 0:
            raise BeyondLimit(TOO_MANY.format(most_chars // 10))
        if not level:
            return value
    raise BeyondLimit(TOO_DEEP)
