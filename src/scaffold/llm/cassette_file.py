"""Read cassettes from YAML or JSON files; errors name the line."""

import hashlib
import json
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml
from msgspec import Struct, field

from scaffold.core.errors import ModelError
from scaffold.llm.cassette_model import Cassette, CassetteEntry, CassettePrices
from scaffold.llm.registry.prices import PricePeriod, Prices, TokenRate

FORMAT_HINT = "Fix the file; a cassette has `version: 1`, `replies` and, if costs matter, `prices`."
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_PATH = re.compile(r"`\$([^`]*)`\Z")
_STEP = re.compile(r"\.(?P<key>\w+)|\[(?P<index>\d+)\]")


class _CassetteFile(Struct, frozen=True, forbid_unknown_fields=True):
    version: Literal[1]
    replies: tuple[CassetteEntry, ...]
    prices: CassettePrices = field(default_factory=CassettePrices)


def load_cassette(path: Path) -> Cassette:
    """Return the cassette in `path`; JSON if the name ends in `.json`, YAML otherwise.

    ModelError, not transient, if the file cannot be read or is not a valid cassette.
    """
    try:
        data = path.read_bytes()
        text = data.decode()
    except OSError as error:
        raise ModelError(
            f"the cassette {path} cannot be read: {error.strerror}",
            "Check the path after `cassette:`; it is relative to the current directory.",
        ) from error
    except UnicodeDecodeError as error:
        raise ModelError(f"the cassette {path} is not UTF-8 text: {error}", "Save the file as UTF-8.") from error
    file = _read_json(text, path) if path.suffix.lower() == ".json" else _read_yaml(text, path)
    return Cassette(path=path, digest=hashlib.sha256(data).hexdigest(), entries=file.replies, prices=file.prices)


def cassette_prices(path: Path) -> Prices | None:
    """Return the prices at which replies of the cassette are counted; None if they cost nothing or it is invalid."""
    try:
        # Keyed by the time of the last change, so that an edited cassette is read again.
        return _read_prices(path, path.stat().st_mtime_ns)
    except (ModelError, OSError):
        return None


@lru_cache(maxsize=8)
def _read_prices(path: Path, _modified_ns: int) -> Prices | None:
    prices = load_cassette(path).prices
    if prices == CassettePrices():
        return None
    rate = TokenRate(0, prices.input_per_mtok, prices.cached_input_per_mtok, None, prices.output_per_mtok)
    return Prices((PricePeriod(None, (rate,)),))


def _read_json(text: str, path: Path) -> _CassetteFile:
    try:
        return msgspec.convert(json.loads(text, object_pairs_hook=_unique_keys), _CassetteFile)
    except json.JSONDecodeError as error:
        raise _file_error(path, error.lineno, error.msg) from error
    except msgspec.ValidationError as error:
        raise _file_error(path, None, str(error)) from error


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    for key in keys:
        if keys.count(key) > 1:
            raise msgspec.ValidationError(f"the key `{key}` occurs twice in one object")
    return dict(pairs)


def _read_yaml(text: str, path: Path) -> _CassetteFile:
    root: yaml.Node | None = None
    loader = _LOADER(text)
    try:
        root = loader.get_single_node()
        # YAML accepts an empty document.
        if root is None:
            raise _file_error(path, 1, "the file is empty")
        for key in _repeated_keys(root, set()):
            raise _file_error(path, _line_number(key), f"the key `{key.value}` occurs twice in one mapping")
        return msgspec.convert(loader.construct_document(root), _CassetteFile)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _file_error(path, mark.line + 1 if mark else None, error.problem or "not YAML") from error
    except yaml.YAMLError as error:
        raise _file_error(path, None, f"not YAML: {error}") from error
    except msgspec.ValidationError as error:
        raise _error_at_value(path, root, str(error)) from error
    finally:
        loader.dispose()


def _json_loader() -> Any:
    """Return a safe YAML loader (the C one if available) that reads only JSON's types: dates stay text."""
    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    resolvers = {
        first: [(tag, pattern) for tag, pattern in choices if tag != _TIMESTAMP]
        for first, choices in base.yaml_implicit_resolvers.items()
    }
    return type("CassetteLoader", (base,), {"yaml_implicit_resolvers": resolvers})


_LOADER = _json_loader()


def _repeated_keys(node: yaml.Node, seen: set[int]) -> Iterator[yaml.ScalarNode]:
    # An alias may lead back to a node that contains it.
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _repeated_keys(item, seen)
    elif isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in keys:
                    yield key
                keys.add(key.value)
            yield from _repeated_keys(value, seen)


def _error_at_value(path: Path, root: yaml.Node | None, problem: str) -> ModelError:
    """Return msgspec's error with the line of the value it refers to."""
    path_in_file = _PATH.search(problem)
    node = root
    for step in _STEP.finditer(path_in_file[1] if path_in_file else ""):
        child: yaml.Node | None = None
        if isinstance(node, yaml.SequenceNode) and step["index"] and int(step["index"]) < len(node.value):
            child = node.value[int(step["index"])]
        elif isinstance(node, yaml.MappingNode):
            child = next((value for name, value in node.value if name.value == step["key"]), None)
        # A missing key has no line, so its mapping's is shown.
        node = child or node
    return _file_error(path, _line_number(node) if node else None, problem)


def _line_number(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _file_error(path: Path, line: int | None, problem: str) -> ModelError:
    location = f"{path}:{line}" if line else str(path)
    return ModelError(f"the cassette {location} cannot be used: {problem}", FORMAT_HINT)
