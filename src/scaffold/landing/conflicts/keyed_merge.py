"""Three-way merge of keys and lists: what manifests in any format share. Pure."""

import re
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from scaffold.landing.conflicts.line_merge import merge_lines
from scaffold.landing.conflicts.not_mergeable import NotMergeable

Key = TypeVar("Key", bound=Hashable)
SETS = re.compile(
    r"(project\.(dependencies|keywords|classifiers|optional-dependencies\..+)|build-system\.requires"
    r"|dependency-groups\..+|package\.(keywords|categories)|features\..+|keywords)"
)
"""The lists in manifests whose order has no meaning, as their formats define them."""


def merged_keys(base: Sequence[Key], ours: Sequence[Key], theirs: Sequence[Key]) -> list[Key]:
    """Return the keys of both sides without those that one of them removed; raise NotMergeable if one is there twice.

    They are sorted if they are in both, otherwise as in ours, with those of theirs behind what precedes them there.
    """
    for version in (base, ours, theirs):
        if len(set(version)) < len(version):
            raise NotMergeable("an entry is there twice")
    was, mine, other = set(base), set(ours), set(theirs)
    removed = {key for key in base if key not in mine or key not in other}
    behind: dict[Key | None, list[Key]] = {None: []}
    previous: Key | None = None
    for key in theirs:
        if key in mine and key not in removed:
            previous = key
        elif key not in mine and key not in was:
            behind.setdefault(previous, []).append(key)
    merged = behind[None]
    for key in ours:
        merged += [] if key in removed else [key, *behind.get(key, ())]
    return _in_order(merged, ours, theirs)


def merged_items(place: str, base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """Return the entries of the list at a place, e.g. `project.dependencies`, with the changes of both sides.

    Raises NotMergeable if both sides change one place of a list whose order may have a meaning, or entries of one name,
    e.g. two requirements of a package.
    """
    if SETS.fullmatch(place):
        for name in {name_of(entry) for entry in (*base, *ours, *theirs)}:
            was, mine, other = ([each for each in side if name_of(each) == name] for side in (base, ours, theirs))
            if mine != was != other != mine:
                raise NotMergeable(f"both sides add an entry for {name}, or change it")
    by_place = merge_lines(base, ours, theirs)
    if by_place is not None:
        return list(by_place)
    if not SETS.fullmatch(place):
        raise NotMergeable(f"both sides change the same place of the list {place}")
    if set(base) - set(ours) - set(theirs):
        raise NotMergeable("both sides replace entries of a list")
    if (set(ours) & set(theirs)) - set(base):
        raise NotMergeable("both sides add one entry to a list, and others beside it")
    # Tools sort such lists, so that additions of both sides may be in front of what was there.
    return merged_keys(base, ours, theirs)


def name_of(entry: str) -> str:
    """Return the name at the beginning of an entry, e.g. that of a requirement; the entry itself if there is none."""
    found = re.match(r"[\"']?@?[\w./-]*\w", entry)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else entry


def _in_order(merged: list[Key], ours: Sequence[Key], theirs: Sequence[Key]) -> list[Key]:
    """Return them sorted in the way in which both sides are sorted, if there is one that shows."""
    if min(len(ours), len(theirs)) > 1 and all(isinstance(key, str) for key in merged):
        orders: Sequence[Callable[[str], str]] = (str, str.lower)
        for order in orders:
            if all(list(side) == sorted(side, key=lambda key: order(str(key))) for side in (ours, theirs)):
                return sorted(merged, key=lambda key: order(str(key)))
    return merged
