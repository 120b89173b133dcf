"""Read what the tests and checks of a Python project need: groups, extras, environments of tox, nox and Hatch."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from scaffold.verify.gates.projects.noxfile import session_calls
from scaffold.verify.gates.projects.project import Reason
from scaffold.verify.gates.projects.project_files import ProjectFiles, as_table, as_texts, ini_sections

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
    """What one place in the project says has to be installed."""

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
    """Return the requirements of a dependency group, those of the groups that it includes among them."""
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
    """Return the names of the groups or extras for tests, and of the smallest that list each other one of the tools.

    `given` are the names of those that are installed in any case.
    """
    chosen = [name for name in found if name in TEST_NAMES or name in given]
    # A group with the name of a tool is there for it, even if it comes with another distribution.
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
    yield from _tox_requirements(files, manifest, tools)
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


def _tox_requirements(files: ProjectFiles, manifest: Mapping[str, Any], tools: Sequence[str]) -> Iterator[Wanted]:
    """Yield what tox installs in every environment, then of those that list another tool, which their commands run."""
    missing = {*tools, *CHECKERS}
    environments = list(_tox_environments(files, manifest))
    for reason, is_base, lines in sorted(environments, key=lambda each: not each[1]):
        listed = frozenset(map(requirement_name, lines["deps"]))
        if is_base or not missing.isdisjoint(listed):
            yield _of_tox(reason, lines, groups(manifest), files)
            missing -= listed


def _tox_environments(
    files: ProjectFiles, manifest: Mapping[str, Any]
) -> Iterator[tuple[Reason, bool, Mapping[str, Sequence[str]]]]:
    """Yield of each environment where it is, whether it is the base of all, and what it lists, by the setting."""
    for path in ("tox.ini", "setup.cfg"):
        for name, section in ini_sections(files.text(path)).items():
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


def _of_tox(
    reason: Reason, lines: Mapping[str, Sequence[str]], known: Mapping[str, Any], files: ProjectFiles
) -> Wanted:
    words = [word for line in lines["deps"] for word in _requirement_words(line)]
    found = from_words(reason, words, known, files)
    grouped = (each for name in lines["dependency_groups"] for each in group_requirements(known, name))
    return Wanted(reason, (*found.packages, *grouped), (*found.extras, *lines["extras"]), found.files)


def _requirement_words(line: str) -> tuple[str, ...]:
    """Return `-r FILE` as two words; a requirement is one word, whatever spaces it has."""
    if line.startswith("-r"):
        return ("-r", line[2:].strip())
    return () if line.startswith("-") else (line,)


def _own_lines(text: str) -> tuple[str, ...]:
    """Return the lines of a setting of tox that hold in every environment and need nothing of tox's own."""
    lines = (line.partition(" #")[0].strip() for line in text.splitlines())
    return tuple(
        line
        for line in lines
        if line and not line.startswith("#") and "{" not in line and not re.match(r"[\w,.!-]+:\s", line)
    )


def _nox_requirements(files: ProjectFiles, known: Mapping[str, Any], tools: Sequence[str]) -> Iterator[Wanted]:
    """Yield what sessions install that run one of the tools."""
    calls = tuple(session_calls(files.text("noxfile.py")))
    using = {call.session for call in calls if call.method == "run" and not frozenset(tools).isdisjoint(call.words)}
    for call in calls:
        if call.method == "install" and call.session in using:
            reason = Reason("noxfile.py", f"installs it in the session `{call.session}`", call.line)
            yield from_words(reason, call.words, known, files)


def from_words(reason: Reason, words: Sequence[str], known: Mapping[str, Any], files: ProjectFiles) -> Wanted:
    """Return what the arguments of `pip install` ask for; `known` are the project's dependency groups."""
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
