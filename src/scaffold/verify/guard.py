"""Check which paths a candidate changed, before any of its code runs.

A change must not alter the checks that judge it: their inputs stay as on the base unless the action declared them.
"""

import os
import posixpath
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

from msgspec import structs

from scaffold.core.printable_text import join_limited, utf8_safe
from scaffold.core.proof.contract import CheckResult, Contract
from scaffold.git import commits
from scaffold.git.checkouts.submodule import missing_gitlinks
from scaffold.git.commits import PathChange
from scaffold.git.common_dir import is_git_dir_by_names
from scaffold.git.ignored_files import newly_ignored
from scaffold.host.contained_path import ContainedPath
from scaffold.policy.path.protected_areas import ProtectedAreas
from scaffold.policy.path.protected_files import protected_entry
from scaffold.verify.base_layout import base_layout_of
from scaffold.verify.contract.check_runs import Tree, check_constraints, check_read_only_paths
from scaffold.verify.paths.attributes import (
    ATTRIBUTES_FILE,
    CODE_SUFFIXES,
    IGNORE_FILES,
    PACKAGE_LIST,
    changed_export_settings,
    is_attributes_file,
    misleading_encoding,
    new_exclusions,
)
from scaffold.verify.paths.check_inputs import BaseLayout, autorun_reason, check_input_reason, imported_before, is_inert
from scaffold.verify.paths.conventions import is_test, is_test_file
from scaffold.verify.paths.declared_paths import is_declared_by_name, is_declared_path, is_declared_specifically
from scaffold.verify.paths.manifest import changed_check_settings, has_settings
from scaffold.verify.paths.shadow import find_shadows
from scaffold.verify.proof_request import ProofRequest
from scaffold.verify.weakened_gates import weakened_gates

SETTINGS_SUFFIXES = (".json", ".toml", ".yaml", ".yml", ".cfg", ".ini", ".sh", ".mk")
MOST_BYTES = 5_000_000
"""Longer files are not read."""
SHOWN_COMMIT_CHARS = 12

MAX_LISTED = 20
"""The most paths listed per finding."""

Reason = tuple[str, str]
"""(path, problem): together they read as one sentence."""

_AREAS_PROBLEM = "These paths are protected, and the task does not declare them (they differ from commit {base}):"
_FILES_PROBLEM = (
    "Git, shells, editors or agents obey these files, or they hold credentials, and the task does not declare them "
    "(they differ from commit {base}):"
)
_CHECK_INPUTS_PROBLEM = (
    "These files determine check results, and the task does not declare them (they differ from commit {base}):"
)
_SHADOWS_PROBLEM = "These new files would be imported instead of existing modules:"
_SUBMODULES_PROBLEM = "A submodule must point to a commit that exists here; new ones cannot be added:"
_REPOSITORIES_PROBLEM = (
    "Git takes these folders for repositories and runs programs named in their settings, and the task does not "
    "declare the files:"
)
_ATTRIBUTES_PROBLEM = (
    "These settings give users or linters other files than the checks get, and the task does not declare the files "
    "that contain them:"
)
_ENCODINGS_PROBLEM = "With these encodings, the code that runs may differ from the visible text:"
_OWN_PATH_PROBLEM = (
    "These files contain the path of the folder in which you work. It will be removed, so nothing can rely on it; use "
    "paths relative to the file, or paths that the program determines:"
)
_LINKS_PROBLEM = "A symbolic link must point to a regular file in the repository that determines no check results:"


async def check_changed_paths(
    request: ProofRequest, tree: Tree, changes: Sequence[PathChange]
) -> tuple[CheckResult, ...]:
    """Return the blocking results and the warnings about the changed paths."""
    paths = [change.path for change in changes]
    # Only constraints that depend on paths alone; the others are checked with the contract's commands.
    constraints = Contract(must_not_change=request.contract.must_not_change if request.contract else ())
    found = [
        check_read_only_paths(paths),
        *(each for each in check_constraints(constraints, (), paths) if each.verdict == "fail"),
    ]
    base = tree.base[:SHOWN_COMMIT_CHARS]
    inner = await commits.submodule_changes(tree.git, tree.base, tree.commit)
    files = undeclared_protected_files((*changes, *inner), request)
    found.append(_undeclared_result("protected files", _FILES_PROBLEM.format(base=base), files))
    areas = undeclared_protected_paths(changes, request)
    found.append(_undeclared_result("protected", _AREAS_PROBLEM.format(base=base), areas))
    touched = {folder for each in changes if each.kind != "D" for folder in _folders_of(each.path)}
    names = defaultdict[str, set[str]](set)
    # Most changes touch few of the folders, or only the top.
    for path in (await commits.listed_paths(tree.git, tree.commit)) if touched else ():
        for folder in _folders_of(path):
            if folder in touched:
                names[folder].add(path[len(folder) + 1 :].partition("/")[0].casefold())
    bare = tuple(f"{folder}/" for folder, entries in names.items() if is_git_dir_by_names(entries))
    inside = (change.path for change in changes if bare and change.kind != "D" and change.path.startswith(bare))
    found.append(
        _undeclared_result(
            "repositories",
            _REPOSITORIES_PROBLEM,
            [(path, "is in a git repository") for path in inside if not is_declared_specifically(path, request.files)],
        )
    )
    found.append(_blocking_result("submodules", _SUBMODULES_PROBLEM, await _missing_submodules(tree, changes)))
    found += await _check_input_results(request, tree, changes)
    hiding = [*await _export_settings(request, tree, changes), *await _find_exclusions(request, tree, changes)]
    found.append(_undeclared_result("attributes", _ATTRIBUTES_PROBLEM, hiding))
    found.append(_blocking_result("encodings", _ENCODINGS_PROBLEM, await _find_encodings(tree, changes)))
    found.append(_blocking_result("own path", _OWN_PATH_PROBLEM, _own_path(tree, changes)))
    found.append(_undeclared_warning(changes, request))
    return tuple(each for each in found if each is not None)


def declared_protected_paths(changed: Iterable[str], files: Sequence[str], areas: ProtectedAreas) -> tuple[str, ...]:
    """Return the changed protected files, and paths in protected areas, that the action declared.

    A human has to approve them.
    """
    protected = (path for path in changed if areas.area_of(path) or protected_entry(path))
    return tuple(path for path in protected if is_declared_specifically(path, files))


def undeclared_protected_files(changes: Iterable[PathChange], request: ProofRequest) -> Iterator[Reason]:
    """Yield the changed protected files that the action did not declare; keys and certificates of new tests are exempt.

    The file tools never write these files, but a script that an agent runs may.
    """
    for change in changes:
        entry = protected_entry(change.path)
        exempt = entry is not None and entry.startswith("*.") and _new_test(change)
        if entry and not exempt and not is_declared_specifically(change.path, request.files):
            yield change.path, f"is protected as `{entry}`"


def undeclared_protected_paths(changes: Iterable[PathChange], request: ProofRequest) -> Iterator[Reason]:
    """Yield the changed paths in protected areas that the action did not declare; new tests are exempt."""
    for change in changes:
        area = request.areas.area_of(change.path)
        if area and not is_declared_specifically(change.path, request.files) and not _new_test(change):
            yield change.path, f"is in the protected area `{area}`"


async def _export_settings(request: ProofRequest, tree: Tree, changes: Sequence[PathChange]) -> list[Reason]:
    changed = [change for change in changes if is_attributes_file(change.path)]
    top = await commits.file_contents(tree.git, tree.commit, ATTRIBUTES_FILE) if changed else None
    found = []
    for change in changed:
        before = None if change.kind == "A" else await commits.file_contents(tree.git, tree.base, change.path)
        after = None if change.kind == "D" else await commits.file_contents(tree.git, tree.commit, change.path)
        settings = changed_export_settings(before, after, top)
        if settings and not is_declared_specifically(change.path, request.files):
            found.append((change.path, f"changes `{join_limited(settings, MAX_LISTED)}`"))
    return found


async def _find_exclusions(request: ProofRequest, tree: Tree, changes: Sequence[PathChange]) -> list[Reason]:
    code = [each.path for each in changes if each.kind != "D" and each.path.endswith(CODE_SUFFIXES)]
    code = [path for path in code if not is_test(path)]
    # Declaring a folder does not mean that its code may be left out.
    free = [each for each in changes if each.kind != "D" and not is_declared_by_name(each.path, request.files)]
    found = list[Reason]()
    for change in free:
        folder, _, name = change.path.rpartition("/")
        if name == PACKAGE_LIST:
            before = await commits.file_contents(tree.git, tree.base, change.path) or b""
            after = await commits.file_contents(tree.git, tree.commit, change.path) or b""
            lines = new_exclusions(before.decode(errors="replace"), after.decode(errors="replace"), folder, code)
            found += [(change.path, f"leaves out changed code by `{line}`") for line in lines]
    ignoring = [each.path for each in free if each.path.rpartition("/")[2] in IGNORE_FILES]
    named = await newly_ignored(tree.git, tree.base, ignoring, code) if ignoring else {}
    return found + [(source, f"names {path}, which is changed code") for path, source in named.items()]


async def _find_encodings(tree: Tree, changes: Sequence[PathChange]) -> list[Reason]:
    sources = [each for each in changes if each.kind != "D" and each.path.endswith((".py", ".pyi"))]
    # Both versions of each at once: what follows compares them, too.
    versions = [each.object_id for each in sources] + [each.former_id for each in sources if each.kind != "A"]
    contents = dict(zip(versions, await commits.batch_contents(tree.git, versions), strict=True))
    found = list[Reason]()
    for change in sources:
        name = misleading_encoding(contents[change.object_id] or b"")
        if name and name != misleading_encoding(contents.get(change.former_id) or b""):
            found.append((change.path, f"is in `{name}`"))
    return found


def _own_path(tree: Tree, changes: Sequence[PathChange]) -> Iterator[Reason]:
    """Yield the changed files of code and settings that contain the path of the checkout, as they are in it."""
    own = os.fsencode(tree.git.cwd)
    for change in changes:
        if change.kind != "D" and change.path.endswith((*CODE_SUFFIXES, *SETTINGS_SUFFIXES)):
            text = ContainedPath(tree.git.cwd, change.path).read(MOST_BYTES)
            if isinstance(text, bytes) and own in text:
                yield change.path, f"contains {tree.git.cwd}"


async def _missing_submodules(tree: Tree, changes: Sequence[PathChange]) -> list[Reason]:
    """Return the submodules that the change adds, or moves to a commit that does not exist here."""
    links = [change.as_gitlink() for change in changes if change.is_gitlink]
    missing = await missing_gitlinks(tree.git, tree.commit, links)
    return [
        (each.path, f"points to {each.commit[:12]}, which is not a commit of that submodule here") for each in missing
    ]


def _folders_of(path: str) -> Iterator[str]:
    folder = path.rpartition("/")[0]
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


async def _check_input_results(
    request: ProofRequest, tree: Tree, changes: Sequence[PathChange]
) -> list[CheckResult | None]:
    """Return the results about changed check inputs, shadowing files and symbolic links, None for each clean one."""
    after = await commits.listed_paths(tree.git, tree.commit)
    deleted = {change.path for change in changes if change.kind == "D"}
    added = [change.path for change in changes if change.kind == "A"]
    new = frozenset(added)
    before = sorted((*(path for path in after if path not in new), *deleted))
    base_layout = await base_layout_of(request, tree.git, tree.base, frozenset(before))
    declared = request.declared_among(base_layout.paths)
    deciding: list[Reason] = []
    for change in changes:
        async for path, why in _check_input_reasons(change, tree, base_layout):
            # A file that runs automatically must be declared by its name.
            is_declared = is_declared_by_name if autorun_reason(path) else is_declared_specifically
            if not is_declared(path, declared):
                deciding.append((path, why))
    deciding += (await weakened_gates(request, tree, changes)).undeclared
    shadowing = [
        (each.path, each.why)
        for each in find_shadows(added, before, after, request.installed)
        if each.certain or not is_declared_by_name(each.path, request.files)
    ]
    links = [each for change in changes if change.is_link async for each in _link_reasons(change, tree)]
    return [
        _undeclared_result("checks", _CHECK_INPUTS_PROBLEM.format(base=tree.base[:SHOWN_COMMIT_CHARS]), deciding),
        _blocking_result("shadowing", _SHADOWS_PROBLEM, shadowing),
        _blocking_result("links", _LINKS_PROBLEM, links),
    ]


async def _check_input_reasons(change: PathChange, tree: Tree, base_layout: BaseLayout) -> AsyncIterator[Reason]:
    why = check_input_reason(change, base_layout)
    if why is None and has_settings(change.path):
        before = None if change.kind == "A" else await commits.file_contents(tree.git, tree.base, change.path)
        after = None if change.kind == "D" else await commits.file_contents(tree.git, tree.commit, change.path)
        parts = changed_check_settings(
            change.path, before, after, untested=base_layout.has_no_tests, asked=base_layout.command_words
        )
        why = f"changes what determines check results: {', '.join(parts)}" if parts else None
    if why is None and (follower := imported_before(change, base_layout)):
        before = await commits.file_contents(tree.git, tree.base, change.path) or b""
        after = await commits.file_contents(tree.git, tree.commit, change.path) or b""
        # An `__init__.py` that already had code is part of the program, so changing it is ordinary work.
        why = f"runs before {follower}" if is_inert(before) and not is_inert(after) else None
    if why is not None:
        yield change.path, why


async def _link_reasons(change: PathChange, tree: Tree) -> AsyncIterator[Reason]:
    # A link that leaves the repository, or replaces a check input, is not allowed.
    target = (await commits.file_contents(tree.git, tree.commit, change.path) or b"").decode(errors="replace")
    # By text, not on disk: the link may not be checked out here.
    destination = posixpath.normpath(posixpath.join(posixpath.dirname(change.path), target))
    if target.startswith("/") or destination.partition("/")[0] == "..":
        yield change.path, "points outside the repository"
    elif (
        is_test(destination)
        or is_test(f"{destination}/x")
        or autorun_reason(destination)
        or check_read_only_paths([destination])
    ):
        yield change.path, f"points to {destination}, which determines check results"
    elif is_test_file(change.path) or change.path.rpartition("/")[2] == "conftest.py":
        yield change.path, f"makes {destination} a test, although that file may be changed freely"


def _undeclared_warning(changes: Iterable[PathChange], request: ProofRequest) -> CheckResult | None:
    """Return a warning about changed undeclared paths, or None; new tests are exempt."""
    declared = (*request.files, *request.granted)
    others = [
        each.path
        for each in changes
        if request.files and not is_declared_path(each.path, declared) and not _new_test(each)
    ]
    if not others:
        return None
    shown = _bullet_list(others)
    return CheckResult(name="files", verdict="warn", detail=utf8_safe(f"Changed but not declared:\n{shown}"))


def _new_test(change: PathChange) -> bool:
    return change.kind == "A" and is_test(change.path)


def _blocking_result(name: str, problem: str, reasons: Iterable[Reason]) -> CheckResult | None:
    lines = [f"{path} {why}" for path, why in reasons]
    if not lines:
        return None
    return CheckResult(name=name, verdict="fail", detail=utf8_safe(f"{problem}\n{_bullet_list(lines)}"))


def _undeclared_result(name: str, problem: str, reasons: Iterable[Reason]) -> CheckResult | None:
    found = _blocking_result(name, problem, reasons)
    return structs.replace(found, safety_refusal="undeclared") if found else None


def _bullet_list(lines: Sequence[str]) -> str:
    more = [f"- and {len(lines) - MAX_LISTED} more"] if len(lines) > MAX_LISTED else []
    return "\n".join([*(f"- {line}" for line in lines[:MAX_LISTED]), *more])
