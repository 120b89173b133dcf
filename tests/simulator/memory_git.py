"""Git in memory: commits of whole trees, refs with compare-and-swap, merges by path.

It understands the plumbing that owners, recovery and landing use, and nothing else.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from scaffold.core.errors import GitError
from scaffold.git.client.answer_cache import Answers, GitResult
from scaffold.git.commits import READ_COMMIT
from simulator.faults import FaultInjector
from simulator.processes import Process

Files = Mapping[str, str]
"""A tree: content by path."""
_SUCCESS = frozenset({0})

T = TypeVar("T")


def _blob(text: str | None) -> str:
    """Return the id of a text; the null id for None."""
    return "0" * 40 if text is None else hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


class Commit(Struct, frozen=True):
    """A commit, which never changes."""

    tree: str
    parents: tuple[str, ...]
    message: str


class Objects:
    """The objects of one repository, and the files of its worktrees."""

    def __init__(self) -> None:
        self.trees: dict[str, Files] = {}
        self.commits: dict[str, Commit] = {}
        self.refs: dict[str, str] = {}
        self.worktrees: dict[Path, dict[str, str]] = {}
        self.snapped: set[Path] = set()
        """Worktrees whose files were added to an index to be pinned."""
        self.indexes: dict[str, Files] = {}
        self.moved: list[Callable[[str, str | None, str | None], None]] = []
        """Called for each moved ref with its name, its old and its new commit."""

    def tree(self, files: Files) -> str:
        """Store a tree and return its id: the same for the same files."""
        name = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        self.trees[name] = dict(files)
        return name

    def commit(self, tree: str, parents: tuple[str, ...], message: str) -> str:
        """Store a new commit and return its id."""
        name = hashlib.sha1(f"commit {len(self.commits)}".encode()).hexdigest()
        self.commits[name] = Commit(tree, parents, message)
        return name

    def commit_to(self, ref: str, files: Files) -> str:
        """Commit more files to a branch, as somebody else does, and return the commit."""
        tip = self.refs.get(ref)
        there = self.files(tip) if tip else {}
        self.refs[ref] = self.commit(self.tree({**there, **files}), (tip,) if tip else (), "Theirs")
        return self.refs[ref]

    def files(self, commit: str) -> Files:
        """Return the files of a commit."""
        return self.trees[self.commits[commit].tree]

    def history(self, commit: str) -> Iterator[str]:
        """Yield a commit and all its ancestors, nearest first."""
        seen, waiting = {commit}, [commit]
        for each in waiting:
            yield each
            new = [parent for parent in self.commits[each].parents if parent not in seen]
            seen.update(new)
            waiting += new

    def contains(self, newer: str, older: str) -> bool:
        """Return whether `newer` contains `older`."""
        return older in self.history(newer)

    def resolve(self, name: str) -> str | None:
        """Return the commit that a ref, an id or `X^` stands for."""
        if name.endswith("^"):
            child = self.resolve(name[:-1])
            parents = self.commits[child].parents if child else ()
            return parents[0] if parents else None
        return self.refs.get(name, name if name in self.commits else None)

    def move(self, ref: str, new: str | None) -> None:
        """Move a ref, create it, or delete it for None."""
        old = self.refs.pop(ref, None)
        if new is not None:
            self.refs[ref] = new
        for callback in self.moved:
            callback(ref, old, new)

    def move_all(self, moves: Mapping[str, str | None]) -> None:
        """Move several refs at once."""
        for ref, new in moves.items():
            self.move(ref, new)

    def base(self, ours: str, theirs: str) -> Files:
        """Return the files of the base of a merge."""
        return next(self.files(each) for each in self.history(theirs) if self.contains(ours, each))

    def text_of(self, blob: str) -> str:
        """Return the text of a file by its id."""
        return next(text for files in self.trees.values() for text in files.values() if _blob(text) == blob)

    def merged(self, ours: str, theirs: str) -> tuple[Files, tuple[str, ...]]:
        """Return the merge of two commits, and the conflicting paths."""
        base = self.base(ours, theirs)
        one, other = self.files(ours), self.files(theirs)
        result, conflicts = dict[str, str](), []
        for path in sorted({*base, *one, *other}):
            was, mine, yours = base.get(path), one.get(path), other.get(path)
            if was not in {mine, yours} and mine != yours:
                conflicts.append(path)
            content = yours if mine == was else mine
            if content is not None:
                result[path] = content
        return result, tuple(conflicts)

    def differing(self, old: str, new: str) -> list[str]:
        """Return the paths that differ between two commits."""
        before, after = self.files(old), self.files(new)
        return sorted(path for path in {*before, *after} if before.get(path) != after.get(path))


class MemoryGit:
    """Git as one process calls it; replaces `git.command.Git`."""

    def __init__(self, objects: Objects, process: Process, faults: FaultInjector, cwd: Path) -> None:
        self._objects = objects
        self._process = process
        self._faults = faults
        self.cwd = cwd
        self.environ: Mapping[str, str] = {}
        self.answers = Answers()

    def at(self, path: Path) -> "MemoryGit":
        """Return the same git at the top of another checkout."""
        return MemoryGit(self._objects, self._process, self._faults, path)

    async def made_whole(self, make: Callable[[], Awaitable[T]]) -> T:
        """Nothing that is made is ever collected."""
        return await make()

    def met_collection(self) -> bool:
        """Nobody collects garbage here."""
        return False

    async def still_has(self, new: str, *, known: str) -> bool:
        """Nobody collects garbage here."""
        return True

    async def has_all(self, new: str, *, known: str) -> bool:
        """Nothing is ever deleted."""
        return True

    async def __call__(
        self,
        *args: str,
        stdin: bytes = b"",
        timeout_s: float = 120,
        ok: frozenset[int] = _SUCCESS,
        env: Mapping[str, str] | None = None,
        limit_bytes: int | None = None,
    ) -> GitResult:
        """Execute a command, some time later; GitFailed if its exit code is not among `ok`."""
        self._process.require_alive()
        await asyncio.sleep(self._faults.latency_s(args[0]))
        self._process.require_alive()
        # No setting is set.
        code, out = (1, "") if args[0] == "config" else self._answer(args, stdin.decode(), env or {})
        if code not in ok:
            raise GitError(f"git {' '.join(args)} failed with exit code {code}", "This is a simulation.")
        return GitResult(code, out.encode(), b"")

    async def read_cached(self, *args: str, commits: Sequence[str], ok: frozenset[int] = _SUCCESS) -> GitResult:
        """Read from commits, without a cache."""
        return await self(*args, *commits, ok=ok)

    def _answer(self, args: tuple[str, ...], stdin: str, env: Mapping[str, str]) -> tuple[int, str]:
        objects = self._objects
        match args:
            case ("rev-parse", *_, name):
                return self._rev_parse(name)
            case ("update-ref", *rest):
                return self._update_ref(rest, stdin)
            case ("for-each-ref", _, prefix):
                found = sorted((ref, commit) for ref, commit in objects.refs.items() if ref.startswith(prefix))
                return 0, "\n".join(f"{commit} {ref}" for ref, commit in found)
            case ("merge-base", "--is-ancestor", older, newer):
                return 0 if objects.contains(newer, older) else 1, ""
            case ("rev-list", *_) | ("merge-base", _, _):
                return 0, self._log(args)
            case ("merge-tree" | "check-attr" | "cat-file", *_):
                return self._about_merge(args, stdin)
            case ("commit-tree", *flags, "-F", "-", tree):
                return 0, objects.commit(tree, tuple(flags[1::2]), stdin)
            case ("worktree", "list", *_):
                return 0, f"worktree {self.cwd}\0HEAD {'0' * 40}\0\0"
            case _ if "GIT_INDEX_FILE" in env and args[0] != "diff-tree":
                return self._about_files(args, env["GIT_INDEX_FILE"])
            case _:
                return 0, self._listed(args)

    def _log(self, args: tuple[str, ...]) -> str:
        """Return the text of a commit, or what there is between commits."""
        objects = self._objects
        match args:
            case ("merge-base", one, other):
                return next(each for each in objects.history(other) if objects.contains(one, each))
            case (*words, name) if tuple(words) == READ_COMMIT:
                found = objects.commits[commit := self._known(name)]
                return " ".join((commit, found.tree, *found.parents))
            case ("rev-list", "--max-count=1", *_, commit):
                return f"Ada\0ada@localhost\0\0Ada\0ada@localhost\0{objects.commits[self._known(commit)].message}\n"
            case ("rev-list", "--reverse", "--topo-order", "--parents", _, head, tip):
                known = set(objects.history(tip.removeprefix("^")))
                added = [each for each in objects.history(head) if each not in known]
                return "\n".join(" ".join((each, *objects.commits[each].parents)) for each in reversed(added))
            case ("rev-list", "--reverse", "--topo-order", _, _, head, *left_out):
                known = {each for tip in left_out for each in objects.history(tip.removeprefix("^"))}
                added = [each for each in objects.history(head) if each not in known]
                return "".join(map(self._line, reversed(added)))
            case _:
                raise NotImplementedError(f"git {' '.join(args)}")

    def _line(self, name: str) -> str:
        commit = self._objects.commits[name]
        return f"{name}\0{commit.tree}\0{' '.join(commit.parents)}\0{commit.message.splitlines()[0]}\0\n"

    def _about_merge(self, args: tuple[str, ...], stdin: str) -> tuple[int, str]:
        """Merge two commits, or answer what is asked about their files in conflict."""
        objects = self._objects
        match args:
            case ("merge-tree", "--write-tree", "-z", ours, theirs):
                return self._merge_tree(ours, theirs)
            case ("check-attr", "--cached", "-z", "--stdin", *names):
                paths = stdin.split("\0")[:-1]
                return 0, "".join(f"{path}\0{name}\0unspecified\0" for path in paths for name in names)
            case ("cat-file", "--batch", "-z"):
                found = [(blob, objects.text_of(blob).encode()) for blob in stdin.split("\0")[:-1]]
                return 0, "".join(f"{blob} blob {len(data)}\n{data.decode()}\n" for blob, data in found)
            case _:
                raise NotImplementedError(f"git {' '.join(args)}")

    def _merge_tree(self, ours: str, theirs: str) -> tuple[int, str]:
        """Merge two commits; name the versions in conflict, and say what kind of conflict it is."""
        objects = self._objects
        files, conflicts = objects.merged(ours, theirs)
        if not conflicts:
            return 0, f"{objects.tree(files)}\0"
        base = objects.base(ours, theirs)
        staged = [
            f"100644 {_blob(version[path])} {stage}\t{path}\0"
            for path in conflicts
            for stage, version in enumerate((base, objects.files(ours), objects.files(theirs)), 1)
            if path in version
        ]
        kind = "CONFLICT (contents)"
        said = [f"1\0{path}\0{kind}\0{kind}: Merge conflict in {path}\0" for path in conflicts]
        return 1, f"{objects.tree(files)}\0{''.join(staged)}\0{''.join(said)}"

    def _listed(self, args: tuple[str, ...]) -> str:
        """Answer with a list of paths."""
        objects = self._objects
        match args:
            case (
                "diff-tree",
                "-r",
                "-z",
                "--raw",
                "--no-renames",
                "--no-abbrev",
                "--ignore-submodules=none",
                old,
                new,
            ):
                then, now = self._known(old), self._known(new)
                return "".join(self._raw(path, then, now) for path in objects.differing(then, now))
            case ("diff-tree", "-r", "-z", "--numstat", *_, old, new):
                return "".join(f"1\t1\t{path}\0" for path in objects.differing(self._known(old), self._known(new)))
            case ("diff-tree", "-r", "-p", *rest) if "--" in rest:
                *_, old, new = rest[: rest.index("--")]
                return "\n".join(f"+++ {path}" for path in objects.differing(old, new))
            case ("diff-tree", "-r", "-p", "--binary", *_):  # written to a file, for people
                return ""
            case ("ls-tree", "-r", "-z", "--full-tree", commit):
                found = sorted(objects.files(self._known(commit)).items())
                return "".join(f"100644 blob {_blob(text)}\t{path}\0" for path, text in found)
            case _:
                raise NotImplementedError(f"git {' '.join(args)}")

    def _raw(self, path: str, old: str, new: str) -> str:
        """Return how a path differs, as git writes it."""
        before, after = (self._objects.files(commit).get(path) for commit in (old, new))
        kind = "A" if before is None else "D" if after is None else "M"
        return f":100644 100644 {_blob(before)} {_blob(after)} {kind}\0{path}\0"

    def _about_files(self, args: tuple[str, ...], index: str) -> tuple[int, str]:
        """Answer commands about the files of a worktree; the index is a separate tree."""
        objects = self._objects
        match args:
            case ("read-tree", name):
                objects.indexes[index] = objects.trees.get(name) or objects.files(name)
            case ("add", "--all", *_):
                objects.indexes[index] = dict(objects.worktrees.get(self.cwd, {}))
                objects.snapped.add(self.cwd)
            case ("write-tree",):
                return 0, objects.tree(objects.indexes.pop(index, {}))
            case ("ls-files", *_):
                pass
            case _:
                raise NotImplementedError(f"git {' '.join(args)}")
        return 0, ""

    def _rev_parse(self, name: str) -> tuple[int, str]:
        if name.endswith("^{tree}"):
            return 0, self._objects.commits[self._known(name.removesuffix("^{tree}"))].tree
        commit = self._objects.resolve(name.removesuffix("^{commit}"))
        return (0, commit) if commit else (1, "")

    def _known(self, name: str) -> str:
        commit = self._objects.resolve(name)
        if commit is None:
            raise GitError(f"git knows no {name}", "This is a simulation.")
        return commit

    def _update_ref(self, args: list[str], stdin: str) -> tuple[int, str]:
        objects = self._objects
        match args:
            case ["--stdin"]:
                (_, ref, new, old), *deletions = (line.split() for line in stdin.splitlines())
                drop = {name: kept for _, name, kept in deletions}
                allowed = all(objects.refs.get(name) == kept for name, kept in drop.items())
                moves: dict[str, str | None] = {ref: new, **dict.fromkeys(drop)}
                return self._swap(ref, old, lambda: objects.move_all(moves)) if allowed else (128, "")
            case ["-d", ref, old]:
                return self._swap(ref, old, lambda: objects.move(ref, None))
            case [ref, new, old]:
                return self._swap(ref, old or None, lambda: objects.move(ref, new))
            case [ref, new]:
                return self._swap(ref, objects.refs.get(ref), lambda: objects.move(ref, new))
            case _:
                raise NotImplementedError(f"git update-ref {' '.join(args)}")

    def _swap(self, ref: str, old: str | None, change: Callable[[], object]) -> tuple[int, str]:
        """Change a ref that has its expected value; the process may die right before or right after."""
        if self._objects.refs.get(ref) != old:
            return 128, ""
        self._faults.execute_write(self._process, change)
        return 0, ""
