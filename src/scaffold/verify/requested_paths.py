"""Classify the paths that an agent wants to have declared: check inputs among them take more than a rule.

This is the guard's own classification, applied to changes that have not been made yet.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.git import commits
from scaffold.git.client.command_line import Git
from scaffold.git.commits import PathChange
from scaffold.policy.path.globs import matches
from scaffold.policy.path.protected_files import protected_entry
from scaffold.verify.base_layout import base_layout_of
from scaffold.verify.contract.check_runs import check_read_only_paths
from scaffold.verify.paths.attributes import is_attributes_file
from scaffold.verify.paths.check_inputs import BaseLayout, autorun_reason, check_input_reason, imported_before, is_inert
from scaffold.verify.paths.conventions import is_test
from scaffold.verify.paths.declared_paths import (
    covers,
    is_declared_by_name,
    is_declared_path,
    is_declared_specifically,
    is_specific,
    normalized,
)
from scaffold.verify.paths.manifest import is_manifest
from scaffold.verify.paths.shadow import Shadow, find_shadows
from scaffold.verify.proof_request import ProofRequest

EntryClass = Literal["declared", "free", "judges", "forbidden"]
"""Declared already | granted by rule | a reviewer or a human has to agree | always refused."""

_GLOB_CHARACTERS = frozenset("*?[")


class RequestedEntry(Struct, frozen=True, kw_only=True):
    """A path, folder or glob that an agent asks for."""

    entry: str
    kind: EntryClass
    judging: Mapping[str, str] = {}
    """The existing paths in it that judge the work, and why: the end of a sentence that begins with the path.

    Of a `free` entry these stay as they are.
    """
    why: str = ""
    """Why it is forbidden."""


async def classify_requested(
    request: ProofRequest, git: Git, base: Commit, entries: Sequence[str]
) -> tuple[RequestedEntry, ...]:
    """Classify each entry on the base commit, given what `request` already declares."""
    before = frozenset(await commits.listed_paths(git, base))
    classifier = _Classifier(request, git, base, await base_layout_of(request, git, base, before))
    return tuple([await classifier.classified(entry) for entry in entries])


class _Classifier:
    def __init__(self, request: ProofRequest, git: Git, base: Commit, layout: BaseLayout) -> None:
        self._request = request
        self._git = git
        self._base = base
        self._layout = layout
        self._declared = request.declared_among(layout.paths)

    async def classified(self, entry: str) -> RequestedEntry:
        """Classify a path; a folder or glob is classified by all its files."""
        plain = normalized(entry)
        inside = sorted(path for path in self._layout.paths if path != plain and covers(entry, path))
        if inside or entry.endswith("/") or not _GLOB_CHARACTERS.isdisjoint(entry):
            if normalized(entry) in map(normalized, (*self._request.files, *self._request.granted)):
                return RequestedEntry(entry=entry, kind="declared")
            reasons = {path: self._forbidden_reason(path) or await self._judging_reason(path) for path in inside}
            judging = {
                path: reason
                for path, reason in reasons.items()
                if reason and (self._forbidden_reason(path) or not self._is_declared(path, judges=True))
            }
            # An entry such as `**` declares no file that judges, so nothing can be approved by it.
            judges = bool(judging) and len(judging) == len(inside) and is_specific(entry)
            return RequestedEntry(entry=entry, kind="judges" if judges else "free", judging=judging)
        why = self._forbidden_reason(plain)
        if why:
            return RequestedEntry(entry=plain, kind="forbidden", why=why)
        reason = await self._judging_reason(plain)
        if self._is_declared(plain, judges=reason is not None):
            return RequestedEntry(entry=plain, kind="declared")
        if reason is None:
            return RequestedEntry(entry=plain, kind="free")
        return RequestedEntry(entry=plain, kind="judges", judging={plain: reason})

    def _is_declared(self, path: str, *, judges: bool) -> bool:
        if not judges:
            return is_declared_path(path, (*self._request.files, *self._request.granted))
        by_name = autorun_reason(path) or path not in self._layout.paths
        return (is_declared_by_name if by_name else is_declared_specifically)(path, self._declared)

    def _forbidden_reason(self, path: str) -> str:
        """Return the reason why not even an approval lets a change of the path land; empty if one does."""
        if check_read_only_paths([path]):
            return "is obeyed by git, Scaffold or other agents, so no task may change it"
        contract = self._request.contract
        if contract and any(matches(glob, path) for glob in contract.must_not_change):
            return "must stay as it is: the task is done only if it does"
        certain = (each.why for each in self._find_shadows(path) if each.certain)
        return next(certain, "")

    async def _judging_reason(self, path: str) -> str | None:
        """Return the reason why a change of the path has to be declared in full, or None."""
        known = path in self._layout.paths
        change = PathChange(path, "M" if known else "A")
        new_test = not known and is_test(path)
        area = None if new_test else self._request.areas.area_of(path)
        entry = protected_entry(path)
        if entry and not (new_test and entry.startswith("*.")):
            return f"is protected as `{entry}`"
        if area:
            return f"is in the protected area `{area}`"
        why = check_input_reason(change, self._layout)
        if why is None and is_manifest(path):
            why = "has settings that determine check results"
        if why is None and is_attributes_file(path):
            why = "decides which files users get"
        if why is None and (follower := imported_before(change, self._layout)):
            text = await commits.file_contents(self._git, self._base, path) if known else b""
            why = f"runs before {follower}" if is_inert(text or b"") else None
        return why or next((each.why for each in self._find_shadows(path)), None)

    def _find_shadows(self, path: str) -> Iterator[Shadow]:
        before = self._layout.paths
        yield from () if path in before else find_shadows([path], before, [*before, path], self._request.installed)
