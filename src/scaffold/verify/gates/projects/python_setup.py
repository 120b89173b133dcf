"""Detect how a Python project is set up: the commands that create its `.venv`, each with what says so."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from scaffold.core.proof.gates import Gate
from scaffold.verify.gates.projects.project import Reason
from scaffold.verify.gates.projects.project_files import REQUIREMENT_FILES, ProjectFiles, as_table, as_texts
from scaffold.verify.gates.projects.python_requirements import (
    CHECKERS,
    Wanted,
    group_requirements,
    groups,
    needed_names,
    requirement_name,
    tested_with,
)

MANIFEST = "pyproject.toml"
PIP_INSTALL = ".venv/bin/python -m pip install"
LOCKED: Mapping[str, tuple[str, str]] = {
    "Pipfile.lock": ("PIPENV_VENV_IN_PROJECT=1 pipenv sync --dev", "Pipenv"),
    "pdm.lock": ("pdm sync --dev", "PDM"),
}
"""Lock files, with the command that installs from them and the program's name."""
UV_DEFAULT_GROUPS = ("dev",)


def setup_commands(files: ProjectFiles, manifest: Mapping[str, Any], gates: Sequence[Gate]) -> Mapping[str, Reason]:
    """Return the commands that create `.venv`, in order, with their reasons; none if nothing must be installed."""
    tools = _required_tools(gates)
    if files.has("uv.lock"):
        return {_uv_sync(manifest, tools): Reason("uv.lock", "is the lock file of uv")}
    if "poetry" in as_table(manifest.get("tool")):
        line = files.line(MANIFEST, "[tool.poetry")
        command = "POETRY_VIRTUALENVS_IN_PROJECT=true poetry install --no-interaction"
        return {command: Reason(MANIFEST, "configures Poetry", line)}
    for lock, (command, program) in LOCKED.items():
        if files.has(lock):
            return {command: Reason(lock, f"is the lock file of {program}")}
    installs = dict(_install_commands(files, manifest, tools))
    if not installs:
        return {}
    created = Reason(next(iter(installs.values())).path, "needs an environment to be installed into")
    return {"python3 -m venv .venv": created, **installs}


def _required_tools(gates: Iterable[Gate]) -> tuple[str, ...]:
    """Return the distributions that the gates run."""
    return tuple(name for name in CHECKERS if any(name in shlex.split(gate.command) for gate in gates))


def _uv_sync(manifest: Mapping[str, Any], tools: Sequence[str]) -> str:
    """Return the command that installs the locked project with what its checks need, all packages of a workspace."""
    uv = as_table(as_table(manifest.get("tool")).get("uv"))
    chosen = uv.get("default-groups")
    known = groups(manifest)
    default = as_texts(chosen) if isinstance(chosen, list) else tuple(known) if chosen == "all" else UV_DEFAULT_GROUPS
    listed = {name: group_requirements(known, name) for name in known}
    added = needed_names(listed, tools, default)
    covered = {requirement_name(each) for name in (*default, *added) for each in listed.get(name, ())}
    extras = needed_names(_extras_by_name(manifest), [tool for tool in tools if tool not in covered])
    return shlex.join((
        *("uv", "sync", "--locked"),
        *(("--all-packages",) if as_table(uv.get("workspace")).get("members") else ()),
        *(word for name in added for word in ("--group", name)),
        *(word for name in extras for word in ("--extra", name)),
    ))  # fmt: skip


def _extras_by_name(manifest: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
    table = as_table(as_table(manifest.get("project")).get("optional-dependencies"))
    return {name: as_texts(value) for name, value in table.items()}


def _install_commands(
    files: ProjectFiles, manifest: Mapping[str, Any], tools: Sequence[str]
) -> Iterator[tuple[str, Reason]]:
    """Yield the commands of pip: requirement files, the project itself, then what its checks need besides."""
    wanted = tuple(tested_with(files, manifest, tools))
    listed = dict.fromkeys([*filter(files.has, REQUIREMENT_FILES), *(name for each in wanted for name in each.files)])
    for name in listed:
        yield f"{PIP_INSTALL} -r {shlex.quote(name)}", Reason(name, "lists requirements")
    project = as_table(manifest.get("project"))
    needed, reason = _check_packages(manifest, wanted, tools, files)
    covered = frozenset(map(requirement_name, needed))
    known = _extras_by_name(manifest)
    asked = {name for each in wanted for name in each.extras}
    asked |= {*needed_names(known, [tool for tool in tools if tool not in covered])}
    extras = [name for name in known if name in asked]
    if extras or project.get("dependencies") or "build-system" in manifest or files.has("setup.py"):
        chosen = f".[{','.join(extras)}]" if extras else "."
        yield f"{PIP_INSTALL} -e {shlex.quote(chosen)}", _package_reason(files, extras)
    installed = bool(listed or extras or needed or project.get("dependencies") or "build-system" in manifest)
    # In an environment of its own, the runner of the tests is not that of the machine.
    if "pytest" in tools and installed and not _may_list("pytest", needed, [files.text(name) for name in listed]):
        needed = (*needed, "pytest")
    if needed:
        yield f"{PIP_INSTALL} {shlex.join(needed)}", reason


def _may_list(name: str, packages: Sequence[str], texts: Sequence[str]) -> bool:
    """Return whether packages or requirement files list a distribution; True for files that name others, or nothing."""
    lines = [line.strip() for text in texts for line in text.splitlines() if line.strip() and line.strip()[0] != "#"]
    unknown = bool(texts) and (not lines or any(line.startswith("-") for line in lines))
    return unknown or name in map(requirement_name, (*packages, *lines))


def _package_reason(files: ProjectFiles, extras: Sequence[str]) -> Reason:
    path = MANIFEST if files.has(MANIFEST) else "setup.py"
    line = files.line(path, "[project.optional-dependencies]") if extras else files.line(path, "[build-system]")
    return Reason(path, "describes the package", line or files.line(path, "[project]"))


def _check_packages(
    manifest: Mapping[str, Any], wanted: Sequence[Wanted], tools: Sequence[str], files: ProjectFiles
) -> tuple[tuple[str, ...], Reason]:
    """Return the packages of the groups for checks, and those that the environments of other tools list."""
    known = groups(manifest)
    names = needed_names({name: group_requirements(known, name) for name in known}, tools)
    grouped = [each for name in names for each in group_requirements(known, name)]
    others = [place for place in wanted if place.packages]
    packages = tuple(dict.fromkeys([*grouped, *(each for place in others for each in place.packages)]))
    if not grouped and others:
        return packages, others[0].reason
    line = files.line(MANIFEST, "[dependency-groups]")
    says = "lists dependency groups" if grouped else "names no requirements of its tests, which need pytest"
    return packages, Reason(MANIFEST if files.has(MANIFEST) else "setup.py", says, line)
