"""Choose the faults of a probe, and the changes that are shown without one."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from scaffold.verify.planted_faults.fault import Fault, FaultKind
from scaffold.verify.planted_faults.python_faults import python_faults
from scaffold.verify.planted_faults.text_faults import text_faults

Chosen = TypeVar("Chosen")
MAX_FILE_BYTES = 200_000
"""A larger file gets no fault: few people write such files."""


class LandedFile(Struct, frozen=True, kw_only=True):
    """A file of a change as it is afterwards, and the lines of it that are new."""

    path: str
    content: bytes
    lines: frozenset[int]


def faults_in(files: Sequence[LandedFile]) -> tuple[Fault, ...]:
    """Return every fault that can be planted in the new lines of a change, in order."""
    found = []
    for file in files:
        if len(file.content) <= MAX_FILE_BYTES:
            make = python_faults if file.path.endswith((".py", ".pyi")) else text_faults
            found += [*make(file.path, file.content, file.lines)]
    return tuple(sorted(found))


def chosen_fault(faults: Sequence[Fault], seed: str) -> Fault | None:
    """Return one of the faults, each kind with the same chance; None if there is none."""
    by_kind: Mapping[FaultKind, list[Fault]] = {}
    by_kind = {kind: [each for each in faults if each.kind == kind] for kind in sorted({each.kind for each in faults})}
    if not by_kind:
        return None
    kind = _pick([*by_kind], f"{seed}/kind")
    return _pick(by_kind[kind], f"{seed}/fault")


def shuffled(values: Sequence[Chosen], seed: str) -> list[Chosen]:
    """Return the values in an order that the seed alone decides."""
    numbered = sorted(range(len(values)), key=lambda number: _sha256(f"{seed}/{number}"))
    return [values[number] for number in numbered]


def _pick(values: Sequence[Chosen], seed: str) -> Chosen:
    return values[int.from_bytes(_sha256(seed), "big") % len(values)]


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
