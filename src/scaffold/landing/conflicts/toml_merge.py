"""Merge two versions of a TOML file, e.g. `pyproject.toml`, entry by entry; comments and layout of ours stay."""

from collections.abc import MutableMapping
from difflib import SequenceMatcher
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AbstractTable, Array

from scaffold.landing.conflicts.line_merge import merged_items, name_of
from scaffold.landing.conflicts.not_mergeable import NotMergeable

Table = MutableMapping[str, Any]


def merge_toml(base: str, ours: str, theirs: str) -> str:
    """Return the file with the changes of both sides. Raises NotMergeable with the reason."""
    try:
        was, mine, other = (tomlkit.parse(text) for text in (base, ours, theirs))
        _bring_over(was, mine, other, "")
        merged = tomlkit.dumps(mine)
        wanted, written = _plain_value(mine), _plain_value(tomlkit.parse(merged))
    except TOMLKitError as error:
        raise NotMergeable(f"invalid TOML: {error}") from error
    # tomlkit may write tables out of order such that they are read differently.
    if written != wanted:
        raise NotMergeable("the result would not be read back as it was merged")
    return merged


def _bring_over(base: Table | None, ours: Table, theirs: Table, place: str) -> None:
    was = base if base is not None else {}
    for key in list(dict.fromkeys([*was, *theirs])):
        name = f"{place}{key}"
        if key in was and key in theirs and _plain_value(was[key]) == _plain_value(theirs[key]):
            continue
        if key not in ours:
            if key in theirs and key in was:
                raise NotMergeable(f"one side changes {name}, the other removes it")
            if key in theirs:
                # Names such as `a-b` and `a_b` are one package in two spellings.
                if spelled := [each for each in ours if each not in was and name_of(each) == name_of(key)]:
                    raise NotMergeable(f"both sides add {name}, spelled {spelled[0]} by one of them")
                ours[key] = theirs[key]
        elif key not in theirs:
            if _plain_value(was[key]) != _plain_value(ours[key]):
                raise NotMergeable(f"one side changes {name}, the other removes it")
            del ours[key]
        else:
            _bring_over_value(was.get(key), ours, theirs, key, name)


def _bring_over_value(was: Any, ours: Table, theirs: Table, key: str, name: str) -> None:
    mine, other = ours[key], theirs[key]
    if _plain_value(mine) == _plain_value(other):
        return
    if _is_table(mine) and _is_table(other) and (was is None or _is_table(was)):
        _bring_over(was, mine, other, f"{name}.")
    elif _is_list(mine) and _is_list(other) and (was is None or _is_list(was)):
        # Entry by entry, so that comments between entries stay.
        merged = merged_items(name, list(was or ()), list(mine), list(other))
        steps = SequenceMatcher(None, list(mine), merged, autojunk=False).get_opcodes()
        for _, start, end, new_start, new_end in reversed([step for step in steps if step[0] != "equal"]):
            for at in reversed(range(start, end)):
                del mine[at]
            for at, item in enumerate(merged[new_start:new_end], start=start):
                mine.insert(at, item)
    elif was is not None and _plain_value(was) == _plain_value(mine):
        ours[key] = other
    else:
        raise NotMergeable(f"both sides change {name}")


def _is_table(value: Any) -> bool:
    return isinstance(value, AbstractTable | tomlkit.TOMLDocument) or type(value).__name__ == "OutOfOrderTableProxy"


def _is_list(value: Any) -> bool:
    return isinstance(value, Array | list) and all(isinstance(each, str) for each in value)


def _plain_value(value: Any) -> Any:
    return value.unwrap() if hasattr(value, "unwrap") else value
