"""New entries of unlanded manifests that lead elsewhere than to the user's package indexes, or bring code of their own.

The network of a set-up refuses what they lead to, whether they are recognised here or not: this only finds the line to
ask a human about.
"""

import json
import posixpath
import re
from collections.abc import AsyncIterator, Collection, Iterable, Iterator

from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.git import commits
from scaffold.git.client.command_line import Git
from scaffold.verify.environment.dependencies import selects_dependencies
from scaffold.verify.environment.later_commit import READ, manifest_entries
from scaffold.verify.environment.setup_network import PACKAGE_INDEXES, hosts_in
from scaffold.verify.gates.projects.project_files import ProjectFiles, as_table, files_at_commit

UV_LOCK = "uv.lock"
NODE_LOCKS = frozenset({"package-lock.json", "npm-shrinkwrap.json"})
DEFAULT_HOSTS = frozenset(host for index in PACKAGE_INDEXES for host in index.hosts)
_OPTION = re.compile(r"^-(?!-?(r|c|e|requirement|constraint|editable|hash|pre|prefer-binary|require-hashes)\b)")
BUILD_BACKENDS = frozenset(
    {
        *("setuptools", "wheel", "setuptools-scm", "hatchling", "hatch-vcs", "flit-core", "flit-scm", "poetry-core"),
        *("pdm-backend", "uv-build", "maturin", "scikit-build-core", "meson-python", "cython", "numpy", "pybind11"),
    }
)
"""Packages whose code may build a project without a question: the usual ones, as an index has them."""
_BACKEND = re.compile(r"\[build-system\] (?:build-backend \S+|(?P<name>[\w.-]+)[\s\w.,<>=!~*\[\]-]*)")
_CODE = re.compile(
    r"^\[(build-system|requires-plugins|plugins)\]|hasInstallScript|requiresBuild: true|configDependencies"
)
_SHELL_LOGIN = re.compile(r"(^|[\s\"'])[\w.-]+@[\w.-]+\.\w+:(?!\d)")
"""A repository as `git@HOST:PATH`."""
_NODE_PLACE = re.compile(r"^\S+ (?!npm:|workspace:|catalog:|file:|link:|portal:|patch:)\S*[/:]\S*$")
_PATH = re.compile(r"(?:^(?:-\w\s*)?|[\s\"'=@(]|\b(?:file|link|portal|path):(?://)?)((?:\.\.?|~)?/[^\s\"',;)\]}]*)")
_METADATA = re.compile(
    r"""^["']?(funding|deprecated|url["']:|license|homepage|repository|documentation|readme|description|authors)"""
)
_PNPM_PACKAGE = re.compile(r"^['\"]?/.*:$")


class WorkSources(Struct, frozen=True, kw_only=True):
    """Where the changed manifests of unlanded work lead."""

    new: tuple[str, ...]
    """The new entries that a human has to agree to, after their files, sorted."""
    hosts: tuple[str, ...]
    """The hosts that entries of the base name."""
    unbuilt: tuple[str, ...]
    """The packages in a lock of uv that are new, also in another version, sorted."""


async def work_sources(
    git: Git, base: Commit, work: Commit, changed: Iterable[str], indexes: Collection[str]
) -> WorkSources:
    """Return where the manifests in the `changed` paths lead; `indexes` are the hosts of the user's indexes."""
    known = DEFAULT_HOSTS.union(indexes)
    old, now = await files_at_commit(git, base), await files_at_commit(git, work)
    new, hosts = list[str](), dict[str, None]()
    for path in sorted(filter(selects_dependencies, changed)):
        before = frozenset([entry async for entry in _entries(git, base, path, old)])
        hosts |= dict.fromkeys(host for entry in before for host in hosts_in(entry))
        found = dict.fromkeys([entry async for entry in _entries(git, work, path, now) if entry not in before])
        new += [f"{path}: {entry}" for entry in found if _needs_agreement(path, entry, known)]
    packages = r'(?m)^name = "(.+)"\n(?:version = "(.+)")?'
    locks = [{*re.findall(packages, await _text(git, each, UV_LOCK))} for each in (base, work)]
    unbuilt = tuple(sorted({name for name, _ in locks[1] - locks[0]}))
    return WorkSources(new=tuple(new), hosts=tuple(hosts), unbuilt=unbuilt)


async def _text(git: Git, commit: Commit, path: str) -> str:
    return (await commits.file_contents(git, commit, path) or b"").decode(errors="replace")


async def _entries(git: Git, commit: Commit, path: str, files: ProjectFiles) -> AsyncIterator[str]:
    name = path.rpartition("/")[2]
    if name in READ:
        for entry in manifest_entries(files, path):
            yield entry
        return
    text = await _text(git, commit, path)
    if name in NODE_LOCKS:
        for entry in _locked_packages(text):
            yield entry
        return
    for line in text.replace("\\\n", " ").splitlines():
        entry = re.sub(r"(^|\s)(#|//)(\s.*|$)", "", line).strip().rstrip(",")
        if entry and not _METADATA.match(entry) and not _PNPM_PACKAGE.match(entry):
            yield entry


def _locked_packages(text: str) -> Iterator[str]:
    try:
        lock = as_table(json.loads(text))
    except (ValueError, RecursionError):
        yield from text.splitlines()
        return
    for name, entry in {**as_table(lock.get("dependencies")), **as_table(lock.get("packages"))}.items():
        about = as_table(entry)
        place = str(about.get("resolved", about.get("version", "")))
        script = f" hasInstallScript {about.get('version')} {about.get('integrity')}"
        yield f"{name} {place}{script if about.get('hasInstallScript') else ''}"


def _needs_agreement(path: str, entry: str, known: Collection[str]) -> bool:
    backend = _BACKEND.fullmatch(entry)
    if backend and (backend["name"] is None or re.sub(r"[-_.]+", "-", backend["name"]).lower() in BUILD_BACKENDS):
        return False
    folder, _, name = path.rpartition("/")
    is_requirement = name.endswith((".txt", ".in"))
    return bool(
        _CODE.search(entry)
        or (is_requirement and _OPTION.match(entry))
        or _SHELL_LOGIN.search(entry)
        or (name == "package.json" and _NODE_PLACE.match(entry))
        or any(host not in known for host in hosts_in(entry))
        or re.search(r"\b(git|hg|svn|bzr)\+", entry)
        or any(
            posixpath.normpath(posixpath.join(folder, found[1])).startswith(("..", "/", "~"))
            for found in _PATH.finditer(re.sub(r"\w+://[^/\s]+\S*", "", entry))
        )
    )
