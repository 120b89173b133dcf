"""Find the changed parts of manifests that decide checks; other parts, such as dependencies, may change freely.

A dependency taken from the repository itself counts: the work's own code could replace an installed package.
"""

import hashlib
import json
import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from scaffold.plan.text.bounded import read_ini, read_json, read_toml

REQUIREMENT_FILES = ("*requirements*.txt", "*requirements*.in", "constraints*.txt")
"""Names of files with one requirement for pip a line, in lower case."""
_NAMED = re.compile(r"[\w.-]+(?:\[[^\]]*\])?\s*@\s*(?:file:|[./])\S*")
_LOCAL_PATH = re.compile(r"(?:file:|link:|portal:|\.{1,2}(?:/|$)|~?/)")
_ARCHIVE = re.compile(r"[^\s:]+\.(?:whl|zip|tgz|tar\.\w+)$")
_VERSION = re.compile(r"[\^~*=<>!\d]")
_OPTION = re.compile(r"(?:-e|--editable|-f|--find-links)[\s=]+")
_SCHEME = re.compile(r"[\w+.-]+:")
_EXTRAS = re.compile(r"\[[\w\s,.-]*\]$")
_REQUIREMENT_COMMENT = re.compile(r"(?:^|\s)#.*$")
MANIFESTS = ("pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "pytest.ini", ".pytest.ini", "package.json")
DENO_MANIFESTS = ("deno.json", "deno.jsonc")
BUILD_MANIFESTS = ("cargo.toml", "go.mod")
_ALL_MANIFESTS = frozenset({*MANIFESTS, *DENO_MANIFESTS, *BUILD_MANIFESTS})
HARMLESS_TOOLS = frozenset(
    {"poetry", "uv", "pdm", "commitizen", "towncrier", "semantic_release", "bumpversion", "setuptools_scm", "flit"}
)
"""Tables of pyproject.toml that only describe a project, except their plugin and script settings."""
SUBSTITUTION_KEYS = ("scripts", "build", "sources", "override-dependencies", "workspace")
"""Keys of such a table that decide what is run, or which package replaces another."""
JS_TOOLS = (
    *("jest", "vitest", "mocha", "ava", "tap", "nyc", "c8", "babel", "swc", "ts-node", "tsd", "xo", "standard"),
    *("eslintConfig", "eslintIgnore", "stylelint", "wallaby"),
)
HARMLESS_DENO_KEYS = frozenset({"name", "version", "license", "description", "exports", "publish", "imports", "tasks"})
CARGO_PARTS = ("lib", "test", "profile", "lints", "patch", "replace")
HARMLESS_WORKSPACE_KEYS = frozenset({"dependencies", "package", "metadata"})
"""Keys of a Cargo workspace that do not decide checks."""
PYTEST_CHECK_KEYS = frozenset(
    {
        *("addopts", "usefixtures", "required_plugins", "python_files", "python_classes", "python_functions"),
        *("norecursedirs", "collect_ignore", "confcutdir"),
    }
)
"""pytest settings that can deselect tests or load code."""
PIN_TABLES = ("overrides", "resolutions", "pnpm")
NODE_DEPENDENCIES = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies", *PIN_TABLES)
TOOL_DEPENDENCIES = ("dependencies", "dev-dependencies", "group")
"""Keys below which Poetry, PDM and uv list dependencies."""
SCRIPTS_KEY = '"scripts"'
IMPORTS_KEY = '"imports"'
"""Names that a Node package gives to modules for itself, tests included."""
NAME_KEY = '"name"'
"""The name of a Node package. Its modules import the package itself by that name, even if another is installed."""
LOCAL_PART = "dependencies from the repository itself"
"""Such a dependency can replace an installed package by the candidate's own."""
ManifestParts = Iterator[tuple[str, object]]
_CHECKING = re.compile(
    r"(test|tests|build|lint|type-?check|types|checks?|ci|verify|validate|tsc|coverage|e2e|unit)([:._-].*)?"
)
_HOOK = re.compile(r"(?:pre|post)(.+)")
_REQUIRE = re.compile(r"^require[ \t]*+\([^()]*+\)|^require[ \t]++\S.*$", re.MULTILINE)
_COMMENT = re.compile(r"//.*$", re.MULTILINE)
_PLUGIN = re.compile(r"pytest11")


def is_manifest(path: str) -> bool:
    """Return True if only parts of the file decide checks, so that its contents must be compared."""
    return path.rpartition("/")[2].casefold() in _ALL_MANIFESTS


def has_settings(path: str) -> bool:
    """Return True for a manifest, and for files that list requirements, of which only local ones matter."""
    return is_manifest(path) or is_requirement_file(path)


def changed_check_settings(
    path: str, before: bytes | None, after: bytes | None, *, untested: bool = False, asked: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the parts that decide checks and differ between two versions; a missing version is None.

    Scripts named in `asked` always count. In an `untested` repository new settings are allowed, except those that
    deselect pytest tests or load code.
    """
    name = path.rpartition("/")[2].casefold()
    name = "requirements" if is_requirement_file(path) else name
    old, new = _manifest_parts(name, before, asked), _manifest_parts(name, after, asked)
    differing = [part for part in {**old, **new} if old.get(part) != new.get(part) and not _is_harmless(part, old, new)]
    if untested:
        return tuple(part for part in differing if part in old or part.rpartition(" ")[2] in PYTEST_CHECK_KEYS)
    return tuple(differing)


def _is_harmless(part: str, old: Mapping[str, object], new: Mapping[str, object]) -> bool:
    """Return True for a part that affects nothing that existed before.

    These are the name of a new package, a new script that is not a hook, a new name for a module, and fewer local
    dependencies.
    """
    key, _, name = part.partition(" ")
    if key == NAME_KEY:
        return part not in old or part not in new
    if part == LOCAL_PART:
        return _local_entries(new) <= _local_entries(old)
    if key == IMPORTS_KEY:
        # A pattern of old covers the part if Node would have used it for the name that now has an entry of its own.
        patterns = (each.partition("*") for each in old)
        is_covered = any(star and part.startswith(begin) and part.endswith(end) for begin, star, end in patterns)
        return part not in old and not is_covered
    # npm runs `pretest` with `test`, so a new hook does change what an existing command runs.
    return key == SCRIPTS_KEY and part not in old and _HOOK.fullmatch(name) is None


def _local_entries(parts: Mapping[str, object]) -> frozenset[str]:
    found = parts.get(LOCAL_PART, ())
    return frozenset(found) if isinstance(found, tuple) else frozenset()


def _manifest_parts(name: str, text: bytes | None, asked: Collection[str]) -> Mapping[str, object]:
    """Return the parts of a manifest that decide checks, by display name; all of it if it cannot be parsed."""
    if text is None:
        return {}
    try:
        decoded = text.decode("utf-8-sig")
        return dict(_package_parts(decoded, asked) if name == "package.json" else _READERS[name](decoded))
    # Parsers differ: the runner's may accept what ours cannot read.
    except ValueError:
        return {"the whole file, which cannot be parsed": hashlib.sha256(text).hexdigest()}


def _pyproject_parts(text: str) -> ManifestParts:
    data = read_toml(text)
    for key, value in data.items():
        if key not in {"project", "dependency-groups", "tool"}:
            yield f"[{key}]", value
    yield from _plugin_parts("project", "entry-points", _as_dict(data.get("project")))
    project, tools = _as_dict(data.get("project")), _as_dict(data.get("tool"))
    listed = (_as_dict(tools.get(tool)).get(key) for tool in HARMLESS_TOOLS for key in TOOL_DEPENDENCIES)
    declared = (project.get("dependencies"), project.get("optional-dependencies"), data.get("dependency-groups"))
    yield from _local_parts([*declared, *listed])
    for tool, table in tools.items():
        if tool == "pytest":
            yield from _pytest_parts("[tool.pytest]", _as_dict(table) | _as_dict(_as_dict(table).get("ini_options")))
        # An unknown tool may be one that checks: asking for a declaration is better than knowing every tool.
        elif tool not in HARMLESS_TOOLS:
            yield f"[tool.{tool}]", table
        else:
            yield from ((f"[tool.{tool}.{key}]", table[key]) for key in SUBSTITUTION_KEYS if key in _as_dict(table))
            yield from _plugin_parts(f"tool.{tool}", "plugins", _as_dict(table))


def _local_parts(values: object) -> ManifestParts:
    local = tuple(sorted(local_entries(values)))
    if local:
        yield LOCAL_PART, local


def _requirements_parts(text: str) -> ManifestParts:
    yield LOCAL_PART, local_lines(text)


def _plugin_parts(where: str, key: str, table: Mapping[str, Any]) -> ManifestParts:
    plugins = _as_dict(table.get(key)).get("pytest11")
    if plugins is not None:
        yield f"[{where}.{key}.pytest11]", plugins


def _pytest_parts(where: str, table: Mapping[str, object]) -> ManifestParts:
    # pytest reads one configuration only: one without settings may hide the one with all settings.
    yield where, True
    yield from ((f"{where} {key}", value) for key, value in table.items() if key != "ini_options")


def _ini_parts(text: str) -> ManifestParts:
    sections = read_ini(text)
    required = sections.get("options", {}).get("install_requires", "").splitlines()
    extras = sections.get("options.extras_require", {}).values()
    yield from _local_parts([*required, *(line for value in extras for line in value.splitlines())])
    for section, values in sections.items():
        if section in {"pytest", "tool:pytest"}:
            yield from _pytest_parts(f"[{section}]", values)
        elif section == "options.entry_points":
            yield f"[{section}] pytest11", values.get("pytest11")
        elif section != "metadata" and section.partition(".")[0] != "options":
            yield f"[{section}]", values


def _pytest_ini(text: str) -> ManifestParts:
    # Such a file counts for pytest even if it is empty.
    yield from _pytest_parts("[pytest]", {})
    yield from _ini_parts(text)


def _setup_parts(text: str) -> ManifestParts:
    # All of setup.py counts if it mentions pytest plugins: code cannot be compared further.
    if _PLUGIN.search(text):
        yield "pytest11", text


def _package_parts(text: str, called: Collection[str]) -> ManifestParts:
    data = _as_dict(read_json(text))
    yield NAME_KEY, data.get("name")
    yield from ((f'"{key}"', data[key]) for key in JS_TOOLS if key in data)
    yield from _local_parts([data.get(key) for key in NODE_DEPENDENCIES])
    # As text, because Node takes the first condition that holds.
    yield from ((f"{IMPORTS_KEY} {name}", json.dumps(to)) for name, to in _as_dict(data.get("imports")).items())
    scripts = _as_dict(data.get("scripts"))
    asked = {*called, *(word for command in scripts.values() for word in str(command).split())}
    for name, command in scripts.items():
        hook = _HOOK.fullmatch(name)
        # `prepare` is a hook of `pare` only if such a script exists.
        around = hook[1] if hook and hook[1] in scripts else name
        if around in asked or _CHECKING.fullmatch(around):
            yield f"{SCRIPTS_KEY} {name}", command


def _deno_parts(text: str) -> ManifestParts:
    data = _as_dict(read_json(text))
    yield from ((f'"{key}"', value) for key, value in data.items() if key not in HARMLESS_DENO_KEYS)
    yield from ((f"{SCRIPTS_KEY} {name}", task) for name, task in _as_dict(data.get("tasks")).items())
    # Another version of a package is ordinary work; a file of the repository in its place is not.
    imports = _as_dict(data.get("imports")).items()
    yield from (
        (f"{IMPORTS_KEY} {name}", to if str(to).startswith((".", "/", "file:")) else "") for name, to in imports
    )


def _cargo_parts(text: str) -> ManifestParts:
    data = read_toml(text)
    yield from ((f"[{key}]", data[key]) for key in CARGO_PARTS if key in data)
    package = _as_dict(data.get("package"))
    yield from ((f"[package] {key}", package[key]) for key in ("autotests", "autobins", "build") if key in package)
    workspace = _as_dict(data.get("workspace"))
    yield from ((f"[workspace] {key}", value) for key, value in workspace.items() if key not in HARMLESS_WORKSPACE_KEYS)


def _go_mod_parts(text: str) -> ManifestParts:
    # What is left, such as `replace` and `go`, decides which code and which language version is tested.
    kept = _REQUIRE.sub("", _COMMENT.sub("", text))
    yield "settings other than required packages", tuple(kept.split())


def _as_dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


_READERS: Mapping[str, Callable[[str], ManifestParts]] = {
    "pyproject.toml": _pyproject_parts,
    "setup.cfg": _ini_parts,
    "setup.py": _setup_parts,
    "tox.ini": _ini_parts,
    "pytest.ini": _pytest_ini,
    ".pytest.ini": _pytest_ini,
    "requirements": _requirements_parts,
    **dict.fromkeys(DENO_MANIFESTS, _deno_parts),
    "cargo.toml": _cargo_parts,
    "go.mod": _go_mod_parts,
}


def is_requirement_file(path: str) -> bool:
    """Return True for a file with requirements for pip, by its name or because it is in a folder of such files."""
    folder, _, name = path.casefold().rpartition("/")
    inside = posixpath.basename(folder) == "requirements" and name.endswith((".txt", ".in"))
    return inside or any(fnmatchcase(name, glob) for glob in REQUIREMENT_FILES)


def local_lines(text: str) -> tuple[str, ...]:
    """Return the lines of a file for pip that name a folder or archive here, except the project itself (`-e .`)."""
    lines = (_REQUIREMENT_COMMENT.sub("", line).strip() for line in text.splitlines())
    return tuple(line for line in lines if line and _is_local(line))


def local_entries(value: object, name: str = "") -> Iterator[str]:
    """Yield the local dependencies below a part of a TOML or JSON manifest, however deep."""
    match value:
        case str() if _is_local(value) or (name and _LOCAL_PATH.match(value)):
            yield f"{name} {value}".strip()
        case dict():
            yield from _table_dependencies(value, name)
        case list():
            for each in value:
                yield from local_entries(each)


def _table_dependencies(table: dict[str, Any], name: str) -> Iterator[str]:
    # Poetry, PDM and pipenv write `{path = "..."}`, and some `{file = "..."}` for an archive. `path` is a package, too.
    place = table.get("path", table.get("file"))
    if isinstance(place, str) and not _VERSION.match(place):
        yield f"{name} {place}".strip()
        return
    for key, each in table.items():
        yield from local_entries(each, key)


def _is_local(requirement: str) -> bool:
    if _NAMED.match(requirement):
        return True
    option = _OPTION.match(requirement)
    place = requirement[option.end() if option else 0 :].partition(" ;")[0].strip()
    if _EXTRAS.sub("", place).removeprefix("file:").rstrip("/") == ".":
        return False
    # The value of an option names a folder if it has no scheme, as in `-e tools` and `-f wheels`.
    is_folder = option is not None and _SCHEME.match(place) is None
    return is_folder or _LOCAL_PATH.match(place) is not None or _ARCHIVE.match(place) is not None
