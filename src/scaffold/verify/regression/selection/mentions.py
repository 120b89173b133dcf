"""Find the exported names that a change affects, and the files of a checkout that mention them."""

import ast
import re
from collections.abc import Collection, Mapping, Sequence

from scaffold.core.ids import Commit
from scaffold.git.client.command_line import Git
from scaffold.git.commits import batch_contents

EXPORTS: Mapping[str, re.Pattern[str]] = {
    kind: re.compile(pattern, re.MULTILINE)
    for kinds, pattern in {
        "js jsx ts tsx mjs cjs mts cts": (
            r"^\s*export\s+(?:default\s+)?(?:declare\s+|abstract\s+|async\s+)*"
            r"(?:function\*?|class|const|let|var|type|interface|enum)\s+([A-Za-z_$][\w$]*)"
            r"|^\s*(?:module\.)?exports\.([A-Za-z_$][\w$]*)"
        ),
        "go": r"^(?:func\s+(?:\([^)]*\)\s*)?|type\s+|var\s+|const\s+|\t)([A-Z]\w*)",
        "rs": (
            r"^\s*pub(?:\([^)]*\))?\s+(?:async\s+|const\s+|unsafe\s+)*"
            r"(?:fn|struct|enum|trait|type|mod|static)\s+(\w+)"
        ),
    }.items()
    for kind in kinds.split()
}
"""Patterns of exported names, by suffix."""

MOST_NAMES = 300
SHORTEST_NAME = 3
"""Shorter names are ignored: half of all files would mention them."""

_LISTED = re.compile(r"(?:module\.exports\s*=\s*|^\s*export\s*)\{([^}]*)\}", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_MODULE = re.compile(r'^module\s+"?([^\s"]+)', re.MULTILINE)


def changed_names(path: str, before: str | None, after: str | None) -> frozenset[str]:
    """Return the exported names of a file that were removed, added or changed; pure.

    None stands for no file. For Python the differing names count, for other languages all names of a changed file.
    """
    ending = path.rpartition(".")[2]
    if ending == "py":
        old, new = _python_names(before), _python_names(after)
        names = (name for name in old.keys() | new.keys() if not name.startswith("_"))
        return frozenset(name for name in names if old.get(name) != new.get(name))
    if ending not in EXPORTS or before == after:
        return frozenset()
    return exported(ending, before or "") | exported(ending, after or "")


def exported(ending: str, text: str) -> frozenset[str]:
    """Return the names that a file of one of the languages in `EXPORTS` exports."""
    names = {name for found in EXPORTS[ending].finditer(text) for name in found.groups() if name}
    if ending not in {"go", "rs"}:
        listed = (word for found in _LISTED.finditer(text) for word in _WORD.findall(found[1]))
        names |= set(listed) - {"as", "default"}
    return frozenset(names)


async def mentioning(git: Git, names: Collection[str]) -> tuple[str, ...]:
    """Return the tracked files of a checkout that mention one of the names as a word, sorted; empty for too many."""
    wanted = sorted(name for name in names if len(name) >= SHORTEST_NAME)
    if not wanted or len(wanted) > MOST_NAMES:
        return ()
    return await files_holding(git, wanted, "-w")


async def importing(git: Git, packages: Collection[str]) -> tuple[str, ...]:
    """Return the tracked files of Go that import one of the packages, by their whole names, sorted."""
    return await files_holding(git, [f'"{name}"' for name in sorted(packages)], within=":/*.go") if packages else ()


async def marked(git: Git, tags: Collection[str]) -> tuple[str, ...]:
    """Return the tracked files that carry one of the tags: `@TAG` in any text, a marker of pytest's, sorted."""
    patterns = [pattern for tag in sorted(tags) for pattern in (f"@{tag}", f"mark.{tag}")]
    return await files_holding(git, patterns, "-w") if patterns else ()


def go_packages(paths: Collection[str], modules: Mapping[str, str]) -> frozenset[str]:
    """Return the whole names of the packages that the files of Go among `paths` are in; pure.

    `modules` are the contents of `go.mod` by their folders.
    """
    folders = {path.rpartition("/")[0] for path in paths if path.endswith(".go")}
    return frozenset(name for folder in folders if (name := _go_package(folder, modules)))


async def files_holding(
    git: Git, patterns: Sequence[str], *options: str, within: str = ":/", commit: Commit | None = None
) -> tuple[str, ...]:
    """Return the tracked files that contain one of the fixed patterns, whatever their attributes; or a commit's."""
    words = [*(word for pattern in patterns for word in ("-e", pattern)), *([commit] if commit else [])]
    found = await git(
        "grep", "-l", "-z", "--text", *options, "--fixed-strings", *words, "--", within, ok=frozenset({0, 1})
    )
    return tuple(sorted(each.removeprefix(f"{commit}:") for each in found.records))


def _go_package(folder: str, modules: Mapping[str, str]) -> str:
    """Return the name of the package in a folder; empty if it is in no module."""
    parts = folder.split("/") if folder else []
    for length in range(len(parts), -1, -1):
        found = _MODULE.search(modules.get("/".join(parts[:length]), ""))
        if found:
            return "/".join((found[1], *parts[length:]))
    return ""


async def texts(git: Git, wanted: Sequence[tuple[Commit, str]]) -> Mapping[tuple[Commit, str], str]:
    """Return the contents of files at commits, in one process; missing files are left out."""
    found = await batch_contents(git, [f"{commit}:{path}" for commit, path in wanted])
    return {each: text.decode(errors="replace") for each, text in zip(wanted, found, strict=True) if text is not None}


def _python_names(text: str | None) -> Mapping[str, str]:
    """Return the top-level names of a module with their definitions, without positions and docstrings."""
    names: dict[str, str] = {}
    try:
        body = ast.parse(text or "").body
    except (SyntaxError, ValueError, RecursionError):
        return {}
    for node in body:
        for name in _bound_names(node):
            names[name] = names.get(name, "") + ast.dump(node)
    return names


def _bound_names(node: ast.stmt) -> tuple[str, ...]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
        case ast.Assign(targets=targets):
            return tuple(each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            return (name,)
        case _:
            return ()
