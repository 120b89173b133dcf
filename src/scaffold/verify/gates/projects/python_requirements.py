"""Detect how a Python project is set up: the commands that create its `.venv`, and the requirements of its checks."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from scaffold.core.proof.gates import Gate
from scaffold.verify.gates.projects.noxfile import session_calls
from scaffold.verify.gates.projects.project import Reason
from scaffold.verify.gates.projects.project_files import REQUIREMENT_FILES, ProjectFiles, as_table, as_texts

MANIFEST = "pyproject.toml"
PIP_INSTALL = ".venv/bin/python -m pip install"
LOCKED: Mapping[str, tuple[str, str]] = {
    "Pipfile.lock": ("PIPENV_VENV_IN_PROJECT=1 pipenv sync --dev", "Pipenv"),
    "pdm.lock": ("pdm sync --dev", "PDM"),
}
"""Lock files, with the command that installs from them and the program's name."""
TEST_NAMES = ("test", "tests", "testing", "dev")
"""Names of extras, groups and environments for tests."""
HATCH_TEST = "hatch-test"
"""The environment of `hatch test`, which has these requirements if it names none."""
HATCH_TEST_REQUIREMENTS = ("pytest", "pytest-mock", "pytest-randomly", "pytest-rerunfailures", "pytest-xdist[psutil]")
CHECKERS = ("pytest", "ruff", "flake8", "mypy", "pyright")
"""The distributions whose programs are gates."""
TOX_KEYS = ("deps", "extras", "dependency_groups")
MAX_INCLUDES = 5
"""How deep groups may include each other."""
_FACTORS = re.compile(r"[\w,.!-]+:\s")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


class Wanted(Struct, frozen=True):
    """The requirements that one place in the project lists."""

    reason: Reason
    packages: tuple[str, ...] = ()
    """Requirements as pip takes them."""
    extras: tuple[str, ...] = ()
    """Extras of the project itself."""
    files: tuple[str, ...] = ()
    """Requirement files."""


def requirement_names(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the requirements of a project from all sections of its manifest."""
    project = as_table(manifest.get("project"))
    yield from as_texts(project.get("dependencies"))
    for group in (*as_table(project.get("optional-dependencies")).values(), *groups(manifest).values()):
        yield from as_texts(group)
    poetry = as_table(as_table(manifest.get("tool")).get("poetry"))
    yield from as_table(poetry.get("dev-dependencies"))
    for group in (poetry, *map(as_table, as_table(poetry.get("group")).values())):
        yield from as_table(group.get("dependencies"))


def groups(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the dependency groups of a manifest, as it has them."""
    own = as_table(manifest.get("dependency-groups"))
    pdm = as_table(as_table(as_table(manifest.get("tool")).get("pdm")).get("dev-dependencies"))
    return {**pdm, **own}


def group_requirements(found: Mapping[str, Any], name: str, depth: int = MAX_INCLUDES) -> tuple[str, ...]:
    """Return the requirements of a dependency group, including the groups that it includes."""
    entries = found.get(name)
    listed = list[str]()
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, str):
            listed.append(entry)
        elif depth and isinstance(included := as_table(entry).get("include-group"), str):
            listed += group_requirements(found, included, depth - 1)
    return tuple(dict.fromkeys(listed))


def needed_names(
    found: Mapping[str, tuple[str, ...]], tools: Sequence[str], given: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the groups or extras for tests, and for each other tool the smallest group that lists it.

    `given` are the names that are installed in any case.
    """
    chosen = [name for name in found if name in TEST_NAMES or name in given]
    # A group with a tool's name is meant for it, even if another distribution brings the tool.
    listed = {name: {name, *map(requirement_name, requirements)} for name, requirements in found.items()}
    missing = frozenset(tools).difference(*(listed[name] for name in chosen))
    while listed and missing:
        name = max(listed, key=lambda name: (len(missing & listed[name]), -len(listed[name])))
        if missing.isdisjoint(listed[name]):
            break
        chosen.append(name)
        missing -= listed[name]
    return tuple(name for name in chosen if name not in given)


def requirement_name(requirement: str) -> str:
    """Return the name of the distribution that a requirement asks for, in lower case."""
    found = _NAME.match(requirement.strip())
    return found[0].casefold().rstrip(".-") if found else ""


def tested_with(files: ProjectFiles, manifest: Mapping[str, Any], tools: Sequence[str]) -> Iterator[Wanted]:
    """Yield what the environments of Hatch, tox and nox install in which the project's checks run."""
    yield from _hatch_requirements(files, manifest, tools)
    missing = {*tools, *CHECKERS}
    environments = list(_tox_environments(files, manifest))
    for reason, is_base, lines in sorted(environments, key=lambda each: not each[1]):
        listed = frozenset(map(requirement_name, lines["deps"]))
        if is_base or not missing.isdisjoint(listed):
            known = groups(manifest)
            words = [
                word
                for line in lines["deps"]
                for word in (
                    ("-r", line[2:].strip()) if line.startswith("-r") else () if line.startswith("-") else (line,)
                )
            ]
            found = from_words(reason, words, known, files)
            grouped = (each for name in lines["dependency_groups"] for each in group_requirements(known, name))
            yield Wanted(reason, (*found.packages, *grouped), (*found.extras, *lines["extras"]), found.files)
            missing -= listed
    yield from _nox_requirements(files, groups(manifest), tools)


def _hatch_requirements(files: ProjectFiles, manifest: Mapping[str, Any], tools: Sequence[str]) -> Iterator[Wanted]:
    inside = as_table(as_table(as_table(manifest.get("tool")).get("hatch")).get("envs"))
    for path, prefix, table in (
        ("pyproject.toml", "tool.hatch.", inside),
        ("hatch.toml", "", as_table(files.toml("hatch.toml").get("envs"))),
    ):
        for name, environment in table.items():
            settings = as_table(environment)
            listed = as_texts(settings.get("dependencies"))
            if name == HATCH_TEST and not listed:
                listed = HATCH_TEST_REQUIREMENTS
            listed = (*listed, *as_texts(settings.get("extra-dependencies")))
            used = name in {"default", HATCH_TEST, *TEST_NAMES} or any(
                requirement_name(each) in tools for each in listed
            )
            extras = as_texts(settings.get("features"))
            if used and (listed or extras):
                line = files.line(path, f"[{prefix}envs.{name}]")
                plain = tuple(each for each in listed if "{" not in each)
                yield Wanted(Reason(path, f"has the environment `{name}` of Hatch", line), plain, extras)


def _tox_environments(
    files: ProjectFiles, manifest: Mapping[str, Any]
) -> Iterator[tuple[Reason, bool, Mapping[str, Sequence[str]]]]:
    """Yield for each environment its place, whether it is the base of all, and its lists by setting."""
    for path in ("tox.ini", "setup.cfg"):
        for name, section in files.ini(path).items():
            if name.startswith("testenv"):
                lines = {key: _own_lines(section.get(key, "")) for key in TOX_KEYS}
                yield _tox_reason(files, path, f"[{name}]"), name == "testenv", lines
    nested = as_table(as_table(manifest.get("tool")).get("tox"))
    for path, table in (("tox.toml", files.toml("tox.toml")), ("pyproject.toml", nested)):
        own = as_table(table.get("env"))
        for name, held in (("env_run_base", table.get("env_run_base")), *((f"env.{each}", own[each]) for each in own)):
            lines = {key: as_texts(as_table(held).get(key)) for key in TOX_KEYS}
            yield _tox_reason(files, path, name), name == "env_run_base", lines


def _tox_reason(files: ProjectFiles, path: str, heading: str) -> Reason:
    return Reason(path, "has the requirements of tox", files.line(path, heading))


def _own_lines(text: str) -> tuple[str, ...]:
    """Return the lines of a tox setting that hold in every environment and use no variables of tox."""
    lines = (line.partition(" #")[0].strip() for line in text.splitlines())
    return tuple(
        line for line in lines if line and not line.startswith("#") and "{" not in line and not _FACTORS.match(line)
    )


def _nox_requirements(files: ProjectFiles, known: Mapping[str, Any], tools: Sequence[str]) -> Iterator[Wanted]:
    calls = tuple(session_calls(files.text("noxfile.py")))
    using = {call.session for call in calls if call.method == "run" and not frozenset(tools).isdisjoint(call.words)}
    for call in calls:
        if call.method == "install" and call.session in using:
            reason = Reason("noxfile.py", f"installs it in the session `{call.session}`", call.line)
            yield from_words(reason, call.words, known, files)


def from_words(reason: Reason, words: Sequence[str], known: Mapping[str, Any], files: ProjectFiles) -> Wanted:
    """Return the requirements in the arguments of `pip install`; `known` are the project's dependency groups."""
    packages, extras, listed = list[str](), list[str](), list[str]()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        value = rest.pop(0) if word in {"-r", "--requirement", "-c", "--constraint", "--group", "-e"} and rest else ""
        editable = value if word == "-e" else word.removeprefix("-e")
        if word in {"-r", "--requirement"}:
            listed += [value] if files.has(value) else []
        elif word == "--group":
            packages += group_requirements(known, value)
        elif found := re.fullmatch(r"\.(?:\[(?P<extras>[\w, -]+)\])?", editable):
            extras += [each.strip() for each in (found["extras"] or "").split(",") if each.strip()]
        elif not word.startswith("-") and _NAME.match(word) and "/" not in word:
            packages.append(word)
    return Wanted(reason, tuple(packages), tuple(extras), tuple(listed))


def setup_commands(files: ProjectFiles, manifest: Mapping[str, Any], gates: Sequence[Gate]) -> Mapping[str, Reason]:
    """Return the commands that create `.venv`, in order, with their reasons; empty if nothing must be installed."""
    tools = tuple(name for name in CHECKERS if any(name in shlex.split(gate.command) for gate in gates))
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


def _uv_sync(manifest: Mapping[str, Any], tools: Sequence[str]) -> str:
    uv = as_table(as_table(manifest.get("tool")).get("uv"))
    chosen = uv.get("default-groups")
    known = groups(manifest)
    default = as_texts(chosen) if isinstance(chosen, list) else tuple(known) if chosen == "all" else ("dev",)
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
        path = MANIFEST if files.has(MANIFEST) else "setup.py"
        line = files.line(path, "[project.optional-dependencies]") if extras else files.line(path, "[build-system]")
        yield (
            f"{PIP_INSTALL} -e {shlex.quote(chosen)}",
            Reason(path, "describes the package", line or files.line(path, "[project]")),
        )
    installed = bool(listed or extras or needed or project.get("dependencies") or "build-system" in manifest)
    # The environment needs a test runner of its own, because the machine's is not in it.
    if "pytest" in tools and installed and not _may_list("pytest", needed, [files.text(name) for name in listed]):
        needed = (*needed, "pytest")
    if needed:
        yield f"{PIP_INSTALL} {shlex.join(needed)}", reason


def _may_list(name: str, packages: Sequence[str], texts: Sequence[str]) -> bool:
    """Return whether packages or requirement files list a distribution; True for files that name others, or nothing."""
    lines = [line.strip() for text in texts for line in text.splitlines() if line.strip() and line.strip()[0] != "#"]
    unknown = bool(texts) and (not lines or any(line.startswith("-") for line in lines))
    return unknown or name in map(requirement_name, (*packages, *lines))


def _check_packages(
    manifest: Mapping[str, Any], wanted: Sequence[Wanted], tools: Sequence[str], files: ProjectFiles
) -> tuple[tuple[str, ...], Reason]:
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
