"""Find the secrets that a search through folders would read, by `grep -r`, `rg`, `diff` or `git grep --untracked`.

A secret counts as read unless the flags certainly leave it out; a pattern that is not plain may match anything.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from msgspec import Struct

from scaffold.policy.secret.unreadable_files import is_secret_file_name, secret_entry
from scaffold.policy.shell.parsed_command import Word
from scaffold.policy.shell.reading.flags import ParsedArguments
from scaffold.policy.shell.workspace_paths import DirEntry, WorkspacePaths

MAX_WALKED = 1_000
"""Maximum number of names checked; the sandbox hides the rest."""

_UNREAD = frozenset({".git", "node_modules", ".venv", "__pycache__"})
"""Large folders that are skipped; people keep no secrets there."""
_SECRET_INSIDE = frozenset({".git", ".config", ".docker", ".cargo", ".gem", ".terraform.d", ".claude", ".codex"})
"""Folders of which only some files are secrets, by their whole path."""
_PLAIN_GLOB = re.compile(r"[\w.*?+-]+")
"""A glob that all programs read alike: no class, brace, escape or folder."""
_GIT_SECRETS = ("config", "config.worktree")
_IGNORE_FILES = (".gitignore", ".ignore", ".rgignore")
_RG_TYPES: Mapping[str, tuple[str, ...]] = {
    "py": ("*.py", "*.pyi"),
    "js": ("*.js", "*.jsx", "*.vue", "*.mjs", "*.cjs"),
    "ts": ("*.ts", "*.tsx", "*.mts", "*.cts"),
    "rust": ("*.rs",),
    "go": ("*.go",),
    "java": ("*.java", "*.jsp", "*.jspx", "*.properties"),
    "c": ("*.c", "*.h", "*.cats", "*.tpl"),
    "cpp": ("*.cpp", "*.hpp", "*.cc", "*.hh", "*.cxx", "*.hxx", "*.inl", "*.h", "*.C", "*.H"),
    "md": ("*.md", "*.markdown", "*.mdown", "*.mkdn", "*.mdx"),
    "html": ("*.html", "*.htm", "*.ejs"),
    "css": ("*.css", "*.scss"),
    "json": ("*.json", "composer.lock"),
    "yaml": ("*.yaml", "*.yml"),
    "toml": ("*.toml", "Cargo.lock"),
}
"""The file types of rg that contain no names of secrets but those of these globs."""


class NameFilter(Struct, frozen=True):
    """A flag that includes or excludes files by name; of those that match, the last one counts."""

    glob: str
    includes: bool
    ignores_case: bool = False

    def may_match(self, name: str) -> bool:
        """Return whether the flag matches this name; an unclear glob includes anything and excludes nothing."""
        if not _PLAIN_GLOB.fullmatch(self.glob):
            return self.includes
        if self.ignores_case:
            return fnmatchcase(name.casefold(), self.glob.casefold())
        return fnmatchcase(name, self.glob)


class SearchScope(Struct, frozen=True, kw_only=True):
    """The files that a search reads in its folders."""

    places: tuple[Word, ...] = ()
    """The files and folders; empty for the working directory."""
    filters: tuple[NameFilter, ...] = ()
    deep: bool = True
    """Whether it also reads folders inside them."""
    hidden: bool = True
    """Whether it reads hidden files that no ignore file names."""
    only_included: bool = False
    """Whether one including filter leaves out all files that no filter matches, wherever it stands."""
    follows: bool = False
    """Whether it reads the targets of links."""

    @property
    def selects(self) -> bool:
        """Whether a flag chooses files by name."""
        return any(each.includes for each in self.filters)

    def reads(self, name: str) -> bool:
        """Return whether it may read a file with this name in its folders."""
        last = next((each for each in reversed(self.filters) if each.may_match(name)), None)
        if last is not None:
            return last.includes
        return not (self.selects if self.only_included else [each.includes for each in self.filters[:1]] == [True])

    def found_secret(self, workspace: WorkspacePaths, folders: frozenset[str]) -> str | None:
        """Return the name of a secret that it would read from one of these working directories; None if none."""
        starts = [
            path for word in self.places for path in workspace.reached(word.text, folders, tilde=word.tilde)
        ] or sorted(folders)
        return next((name for name in _secrets_below(self, starts, workspace) if self.reads(name)), None)


def search_scope(name: str, given: ParsedArguments) -> SearchScope | None:
    """Return the reads of a read-only command in folders; None if it reads only the files that it names."""
    match name:
        case "grep" if _is_recursive_grep(given):
            return SearchScope(
                places=given.operands, filters=_name_filters(given, include="include", exclude="exclude")
            )
        case "rg" if not _given_flags(given, "files", "type-list"):
            filters = _rg_filters(given)
            hidden = any(each.includes for each in filters)
            return SearchScope(places=given.operands, filters=filters, hidden=hidden, only_included=True)
        case "diff":
            filters = _name_filters(given, include="", exclude="exclude")
            deep = bool(_given_flags(given, "r", "recursive"))
            return SearchScope(places=given.operands, filters=filters, deep=deep, follows=True)
        case "git grep" if _given_flags(given, "untracked", "no-exclude-standard"):
            return SearchScope()
        case "git diff" if len(given.operands) > 1:
            return SearchScope(places=given.operands)  # outside a repository, git compares them as folders
        case _:
            return None


def named_globs(scope: SearchScope) -> tuple[Word, ...]:
    """Return the globs that include files, as words: one that names a secret counts as its name."""
    last = (each.glob.rstrip("/").rpartition("/")[2] for each in scope.filters if each.includes)
    return tuple(Word(glob, glob=True) for glob in last if glob)


def _given_flags(given: ParsedArguments, *names: str) -> list[str]:
    return [name for name, _ in given.flags if name in names]


def _is_recursive_grep(given: ParsedArguments) -> bool:
    # Grep reads folders by a flag or by an action for folders; an abbreviated flag works, too.
    actions = [value.text for name, value in given.flags if name == "d" and value is not None]
    return bool(_given_flags(given, "r", "R", "recursive")) or any(each not in {"skip", "read"} for each in actions)


def _name_filters(given: ParsedArguments, *, include: str, exclude: str) -> tuple[NameFilter, ...]:
    return tuple(
        NameFilter(value.text, includes=name == include)
        for name, value in given.flags
        if value is not None and name in {include, exclude} and name
    )


def _rg_filters(given: ParsedArguments) -> tuple[NameFilter, ...]:
    filters: list[NameFilter] = []
    for name, value in given.flags:
        if value is None:
            continue
        if name in {"g", "glob", "iglob"}:
            glob = value.text.removeprefix("!")
            filters.append(NameFilter(glob, includes=glob == value.text, ignores_case=name == "iglob"))
        elif name in {"t", "type"}:
            filters += [NameFilter(glob, includes=True) for glob in _RG_TYPES.get(value.text, ("*",))]
    return tuple(filters)


def _secrets_below(scope: SearchScope, starts: list[str], workspace: WorkspacePaths) -> Iterator[str]:
    """Yield the names of secret files in the folders, breadth first."""
    pending, walked = list(starts), 0
    kept = [] if scope.hidden else [glob for start in starts for glob in _kept_above(start, workspace)]
    while pending and walked < MAX_WALKED:
        folder = pending.pop(0)
        entries = workspace.files.entries(folder)
        kept += () if scope.hidden else _kept_names(folder, entries, workspace)
        for entry in entries:
            walked += 1
            if not scope.hidden and entry.name.startswith(".") and not _is_kept(entry.name, kept):
                continue
            path = f"{folder.rstrip('/')}/{entry.name}"
            if _is_secret(path, entry, scope, workspace):
                yield entry.name
            elif entry.name in _UNREAD:
                yield from _GIT_SECRETS if entry.name == ".git" and scope.deep and scope.selects else ()
            elif entry.is_folder and scope.deep:
                pending.append(path)


def _is_secret(path: str, entry: DirEntry, scope: SearchScope, workspace: WorkspacePaths) -> bool:
    if is_secret_file_name(entry.name):
        return True
    if not entry.is_folder and _SECRET_INSIDE.intersection(path.split("/")):
        return secret_entry(path) is not None
    if not (scope.follows and entry.is_link):
        return False
    target = workspace.files.real(path)
    return secret_entry(target) is not None or workspace.outside(target)


def _kept_above(start: str, workspace: WorkspacePaths) -> Iterator[str]:
    """Yield the hidden names that ignore files in the folders above keep, up to the workspace's root."""
    root, folder = workspace.files.real(workspace.root), workspace.files.real(start)
    yield from _kept_lines(f"{root}/.git/info/exclude", workspace)
    while folder != root and not workspace.outside(folder):
        folder = folder.rpartition("/")[0]
        yield from _kept_names(folder, workspace.files.entries(folder), workspace)


def _kept_names(folder: str, entries: Iterable[DirEntry], workspace: WorkspacePaths) -> Iterator[str]:
    for entry in entries:
        if entry.name in _IGNORE_FILES:
            yield from _kept_lines(f"{folder.rstrip('/')}/{entry.name}", workspace)


def _kept_lines(file: str, workspace: WorkspacePaths) -> Iterator[str]:
    # rg reads files that an ignore file keeps, hidden or not.
    for line in workspace.files.text(file).splitlines():
        if line.startswith("!"):
            yield line.strip().rstrip("/").rpartition("/")[2].removeprefix("!")


def _is_kept(name: str, globs: Iterable[str]) -> bool:
    return any(not _PLAIN_GLOB.fullmatch(glob) or fnmatchcase(name, glob) for glob in globs)
