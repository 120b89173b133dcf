"""Values of TOML and INI texts, within the limits of `bounded`."""

import re
import tomllib
from collections.abc import Mapping
from configparser import Error as ConfigParserError
from configparser import RawConfigParser
from typing import Any

from scaffold.plan.text.bounded import MAX_CHARS, MAX_DEPTH, TOO_DEEP, BeyondLimit, read_limited

_KEY = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
# `tomllib` looks up each beginning of a dotted key, `configparser` tries each blank of a line without a delimiter.
_DEEP_KEY = re.compile(rf"(?<![\w-]){_KEY}(?:[ \t]*+\.[ \t]*+{_KEY}){{{MAX_DEPTH}}}")
_LONG_GAP = re.compile(r"(?<!\s)[^\S\n]{100}")


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
