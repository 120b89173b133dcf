"""Three-way merge of values by their keys: what manifests in any format share. Pure."""

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TypeVar

from scaffold.landing.conflicts.not_mergeable import NotMergeable

Key = TypeVar("Key", bound=Hashable)


def merged_keys(base: Sequence[Key], ours: Sequence[Key], theirs: Sequence[Key]) -> list[Key]:
    """Return the keys of both sides without those that one of them removed; raise NotMergeable if one is there twice.

    They are sorted if they are in both, otherwise as in ours, with those of theirs behind what precedes them there.
    """
    for version in (base, ours, theirs):
        if len(set(version)) < len(version):
            raise NotMergeable("an entry is there twice")
    was, mine, other = set(base), set(ours), set(theirs)
    removed = {key for key in base if key not in mine or key not in other}
    merged = [key for key in ours if key not in removed]
    at = 0
    for key in theirs:
        if key in mine:
            at = merged.index(key) + 1 if key not in removed else at
        elif key not in was:
            merged.insert(at, key)
            at += 1
    return _in_order(merged, ours, theirs)


def merged_items(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """Return the entries of a list without keys, as `merged_keys` does.

    Raises NotMergeable also if both sides replace one entry, or if entries begin with one name, e.g. two requirements
    of a package, as they do in no version.
    """
    mine, other = set(ours) - set(base), set(theirs) - set(base)
    if mine - other and other - mine and set(base) - set(ours) - set(theirs):
        raise NotMergeable("both sides replace entries of a list")
    merged = merged_keys(base, ours, theirs)
    known = [Counter(map(_name, side)) for side in (base, ours, theirs)]
    for name, times in Counter(map(_name, merged)).items():
        if times > max(each[name] for each in known):
            raise NotMergeable(f"both sides add an entry for {name}")
    return merged


def _name(entry: str) -> str:
    """Return the name at the beginning of an entry, e.g. that of a requirement; the entry itself if there is none."""
    found = re.match(r"[\"']?@?[\w./-]*\w", entry)
    return found[0].lower() if found else entry


def _in_order(merged: list[Key], ours: Sequence[Key], theirs: Sequence[Key]) -> list[Key]:
    """Return them sorted in the way in which both sides are sorted, if there is one that shows."""
    if min(len(ours), len(theirs)) > 1 and all(isinstance(key, str) for key in merged):
        for order in (str, str.lower):
            if all(list(side) == sorted(side, key=lambda key: order(str(key))) for side in (ours, theirs)):
                return sorted(merged, key=lambda key: order(str(key)))
    return merged
