"""Audits: what an agent says of each requirement of a specification, with the lines that it cites."""

from typing import Literal, NewType

from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.core.proof.contract import Citation

RequirementId = NewType("RequirementId", str)
"""The specification's own, such as `FR-001`; else `R1`, `R2`, ... in its order, or `L12` by its line beside others."""
AuditVerdict = Literal["met", "unmet", "unclear"]
"""An agent's claim, with a line that exists for it | it says that something is missing | it shows neither."""


class Requirement(Struct, frozen=True, kw_only=True):
    """A requirement of the specification that a run implements."""

    id: RequirementId
    text: str
    """In the specification's own words, on one line."""
    line: int
    """Of the specification, from 1."""

    @property
    def criterion(self) -> str:
        """The requirement as an acceptance criterion of its audit."""
        return f"{self.id}: {self.text}"


class AuditedRequirement(Struct, frozen=True, kw_only=True):
    """An audit's verdict on one requirement."""

    id: RequirementId
    verdict: AuditVerdict
    citations: tuple[Citation, ...] = ()
    note: str = ""
    """Why it has this verdict, or what is missing."""


class Audit(Struct, frozen=True, kw_only=True):
    """An auditor's answer about the requirements it was asked about."""

    requirements: tuple[AuditedRequirement, ...]
    summary: str = ""


class AuditRound(Struct, frozen=True, kw_only=True):
    """The audit of all requirements in one round."""

    number: int
    """From 1."""
    commit: Commit | None
    """Of the session branch, at which it was made; None if its parts were made at several."""
    verdicts: tuple[AuditedRequirement, ...]
    """In the order of the specification; one that has no verdict yet is left out."""

    @property
    def met(self) -> frozenset[RequirementId]:
        """The requirements that are met, by this audit."""
        return frozenset(each.id for each in self.verdicts if each.verdict == "met")
