"""Values of JSON, YAML, TOML and INI texts, within limits: nobody vouches for the files that a repository brings along.

Each reader raises ValueError with a reason for an invalid text, and BeyondLimit, a ValueError, for one beyond a limit.
"""

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from configparser import Error as ConfigParserError
from configparser import RawConfigParser
from itertools import chain, islice
from typing import Any, TypeVar

import yaml
from yaml.composer import Composer, ComposerError

MAX_CHARS = 1_000_000
"""No value takes less than ten of the characters, and none is repeated by aliases more often than that allows."""
MAX_DEPTH = 100
"""Levels of lists and tables: whoever walks a value needs several calls for each, and Python allows about 1,000."""
MAX_RESOLVED = 1_000
"""Characters of a YAML scalar that may be more than text: the time to read a number grows with its square."""
TOO_DEEP = "is nested too deeply"
TOO_MANY = "has more than {:,} values"
_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
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
    return _read_limited(lambda given: json.loads(given, object_pairs_hook=make_object), text, most_chars)


def read_yaml(text: str) -> Any:
    """Return the value of the one document in a YAML text."""
    return _read_limited(lambda given: BoundedLoader(given).get_single_data(), text)


def read_toml(text: str, *, most_chars: int = MAX_CHARS) -> dict[str, Any]:
    """Return the table in a TOML text."""
    if _DEEP_KEY.search(text):
        raise BeyondLimit(TOO_DEEP)
    return _read_limited(tomllib.loads, text, most_chars)


def read_ini(text: str) -> dict[str, Mapping[str, str]]:
    """Return the sections of an INI text by name, each with the values of `DEFAULT`, which is not among them."""
    if _LONG_GAP.search(text):
        raise BeyondLimit("has a line with too many blanks")
    parser = RawConfigParser(strict=False)
    _read_limited(parser.read_string, text)
    if len(parser.defaults()) * len(parser.sections()) > MAX_CHARS // 10:
        raise BeyondLimit("has too many values in each section")
    return {name: dict(parser[name]) for name in parser.sections()}


def _read_limited(parse: Callable[[str], T], text: str, most_chars: int = MAX_CHARS) -> T:
    if len(text) > most_chars:
        raise BeyondLimit(f"is larger than {most_chars // 1_000_000} MB")
    try:
        value = parse(text)
    except (RecursionError, MemoryError) as error:
        raise BeyondLimit(TOO_DEEP) from error
    except OutOfBounds as error:
        raise BeyondLimit(str(error.problem)) from error
    except (yaml.YAMLError, ConfigParserError) as error:
        raise ValueError(str(error).partition("\n")[0]) from error
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


class OutOfBounds(ComposerError):
    """A YAML text is beyond a limit."""


class BoundedLoader(_PARSER):  # type: ignore[misc] # which parser it is depends on how the YAML library was built
    """PyYAML's C parser if available, with the composer in Python: the C composer overflows the stack.

    It stops where a text is too deep, and where aliases repeat too much: a merge of tables copies what it merges.
    """

    most_nodes: float = MAX_CHARS // 10
    most_repeated = MAX_CHARS // 10
    get_single_node = Composer.get_single_node
    compose_document = Composer.compose_document
    compose_sequence_node = Composer.compose_sequence_node
    compose_mapping_node = Composer.compose_mapping_node
    compose_scalar_node = Composer.compose_scalar_node

    def __init__(self, text: str) -> None:
        _PARSER.__init__(self, text)
        Composer.__init__(self)
        self._depth = self._nodes = 0
        self._sizes: dict[yaml.Node, int] = {}
        """Of lists and tables that are complete, with what their aliases stand for."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Return the next node; for an alias, the one that it stands for."""
        if self._depth == MAX_DEPTH:
            raise RecursionError
        is_alias = self.check_event(yaml.AliasEvent)
        self._depth += 1
        node: Any = Composer.compose_node(self, parent, index)
        self._depth -= 1
        self._nodes += 1
        if not isinstance(node, yaml.CollectionNode):
            size = 1
        elif is_alias:
            # YAML allows an alias to a value that is not complete yet, which nothing else can express.
            if (size := self._sizes.get(node, 0)) == 0:
                raise OutOfBounds(None, None, "has an alias for a value that contains it", node.start_mark)
        else:
            parts = chain.from_iterable(node.value) if isinstance(node, yaml.MappingNode) else node.value
            size = self._sizes[node] = 1 + sum(self._sizes.get(part, 1) for part in parts)
        if self._nodes > self.most_nodes or size > self._nodes + self.most_repeated:
            raise OutOfBounds(None, None, TOO_MANY.format(self.most_repeated), node.start_mark)
        return node

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        """Return the tag of a node, of one that is too long for anything else that of a text."""
        is_long = kind is yaml.ScalarNode and len(value) > MAX_RESOLVED
        return self.DEFAULT_SCALAR_TAG if is_long else _PARSER.resolve(self, kind, value, implicit)
