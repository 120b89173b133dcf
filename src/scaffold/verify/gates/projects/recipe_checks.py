"""Which of a project's recipes are checks: scripts of package.json, targets of make, recipes of just, tasks of go-task.

A recipe is what its commands are, with those of the recipes that it starts: a check if each is a program that is known
to check; never one if any changes files or does not end.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from scaffold.core.proof.gates import GateKind
from scaffold.verify.gates.projects.own_commands import program_key

MAX_STEPS = 200
"""Commands of a recipe and of those that it starts, and their names; one with more is no check."""
MAX_CHECKS = 12
"""Of the recipes of one file that are checks."""
CHECK_KINDS: frozenset[GateKind] = frozenset({"lint", "typecheck"})
Words = tuple[str, ...]


class CheckProgram(Struct, frozen=True):
    """A program that checks: the kind of its gate, and the options that change what it does."""

    kind: GateKind
    home: Literal["python", "node", ""] = ""
    """Whose projects install it into an environment of their own."""
    writes: Collection[str] = frozenset({"--fix", "--write", "--apply"})
    """Options with which it changes files."""
    judges: Sequence[str] = ()
    """Options of which it needs one in order to judge, the usual one first; empty if it always does."""
    stays: Collection[str] = frozenset({"--watch", "--watchAll"})
    """Options with which it does not end."""


_WATCHED = frozenset({"--watch", "--watchAll", "-w"})
_FORMATTER_WRITES = frozenset({"-w", "--write"})
CHECK_PROGRAMS: Mapping[str, CheckProgram] = {
    **dict.fromkeys(("eslint", "oxlint", "stylelint", "standard", "ts-standard", "xo"), CheckProgram("lint", "node")),
    **dict.fromkeys(("biome check", "biome lint", "biome format", "biome ci"), CheckProgram("lint", "node")),
    **dict.fromkeys(("jshint", "cspell", "knip", "madge", "publint", "dprint check"), CheckProgram("lint", "node")),
    **dict.fromkeys(("markdownlint", "markdownlint-cli2", "editorconfig-checker"), CheckProgram("lint", "node")),
    "prettier": CheckProgram("lint", "node", _FORMATTER_WRITES, ("--check", "-c", "--list-different", "-l")),
    **dict.fromkeys(("tsc", "vue-tsc"), CheckProgram("typecheck", "node", (), (), _WATCHED)),
    **dict.fromkeys(("svelte-check", "tsd", "tstyche", "dtslint", "attw"), CheckProgram("typecheck", "node")),
    **dict.fromkeys(("jest", "vitest", "mocha", "ava", "tap", "borp"), CheckProgram("test", "node", (), (), _WATCHED)),
    "node --test": CheckProgram("test"),
    **dict.fromkeys(("ruff", "flake8", "pylint"), CheckProgram("lint", "python", ())),
    **dict.fromkeys(("codespell", "yamllint", "shellcheck"), CheckProgram("lint", "", {"-w", "--write-changes"})),
    "ruff format": CheckProgram("lint", "python", (), ("--check", "--diff")),
    "black": CheckProgram("lint", "python", (), ("--check",)),
    "isort": CheckProgram("lint", "python", (), ("--check", "--check-only", "-c")),
    **dict.fromkeys(("mypy", "pyright", "basedpyright", "ty", "stubtest"), CheckProgram("typecheck", "python")),
    **dict.fromkeys(("pytest", "py.test", "unittest", "tox", "nox"), CheckProgram("test", "python")),
    **dict.fromkeys(("go vet", "golangci-lint", "staticcheck", "cargo clippy"), CheckProgram("lint")),
    "cargo fmt": CheckProgram("lint", "", (), ("--check",)),
    "shfmt": CheckProgram("lint", "", _FORMATTER_WRITES, ("-d", "--diff")),
    "oxfmt": CheckProgram("lint", "node", _FORMATTER_WRITES, ("--check", "--list-different")),
    "dprint fmt": CheckProgram("lint", "node", {"fmt"}),
    **dict.fromkeys(("rustfmt", "stylua", "taplo fmt", "taplo format"), CheckProgram("lint", "", (), ("--check",))),
    **dict.fromkeys(("autoflake", "docformatter"), CheckProgram("lint", "python", (), ("--check",))),
    "clang-format": CheckProgram("lint", "", {"-i"}, ("--Werror",)),
    "yapf": CheckProgram("lint", "python", {"-i", "--in-place"}, ("--diff", "-d")),
    "terraform fmt": CheckProgram("lint", "", (), ("-check",)),
    "mix format": CheckProgram("lint", "", (), ("--check-formatted",)),
    "cargo check": CheckProgram("build"),
    **dict.fromkeys(("go test", "cargo test", "cargo nextest"), CheckProgram("test")),
}
"""Programs of a project's own checks, by what `program_key` says of a command."""
SERVERS = frozenset(
    {"nodemon", "serve", "http-server", "live-server", "webpack-dev-server", "ts-node-dev", "watchexec"}
)
BARE_SERVERS = frozenset({"vite", "parcel"})
SERVING = frozenset({"dev", "develop", "serve", "start", "preview", "watch"})
"""Programs that do not end | that do not without a subcommand | subcommands with which none ends."""
NEVER_FAILING = frozenset({"--fix-only", "--exit-zero", "--version", "-V", "--help"})
"""Options with which a tool does not judge."""
PREPARING = frozenset({"cd", "echo", "rm", "rimraf", "mkdir", "set", "export", "true", ":"})
"""Programs that only prepare for others."""
_NAMED = re.compile(r"(?:^|[:_./-])(?:(lint|check)|(types?|typecheck))(?=[:_./-]|$)")


class RecipeCheck(Struct, frozen=True):
    """A recipe that is a check."""

    name: str
    kind: GateKind
    is_run: bool
    """Whether the project's own set-up runs it, or none of them."""
    leaves: frozenset[Words]


class Recipes(Struct, frozen=True):
    """Recipes by name: their commands, each with the recipes that it starts, and which those are of any command."""

    steps: Mapping[str, Sequence[tuple[Words, Sequence[str]]]]
    started: Callable[[Words], Sequence[str]]

    def leaves(self, name: str) -> list[Words]:
        """Return the words of each program that a recipe runs, of those that it starts too, each once."""
        found, seen, steps = list[Words](), {name}, 0
        waiting = [(name, Words())]
        while waiting:
            name, added = waiting.pop()
            folder, own = "", self.steps.get(name, ())
            for at, (words, names) in enumerate(own, start=1):
                steps += 1 + len(names)
                if steps > MAX_STEPS:
                    return []
                more = _added_words(words, names)
                more += added if at == len(own) else ()
                if words[:1] == ("cd",):
                    folder = "".join(words[1:2]).strip("./")
                elif names and not folder:
                    waiting += [(each, more) for each in names if each not in seen]
                    seen.update(names)
                elif words and words[0] not in PREPARING:
                    # Elsewhere, the same name is another recipe.
                    found.append((f"{folder}/", *words) if names else (*words, *more))
        return found

    def run_by(self, commands: Sequence[Words]) -> frozenset[str]:
        """Return the recipes that commands start or repeat, and those that these start."""
        found, left, given = set[str](), [name for words in commands for name in self.started(words)], {*commands}
        left += [name for name in self.steps if (leaves := self.leaves(name)) and given.issuperset(leaves)]
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                left += [each for _, names in self.steps.get(name, ()) for each in names]
        return frozenset(found)

    def is_endless(self, name: str) -> bool:
        """Return whether a recipe may not end."""
        return any(map(_stays, self.leaves(name)))

    def is_check(self, name: str) -> bool:
        """Return whether a recipe ends and leaves files as they are, as far as its programs are known."""
        return not any(_stays(words) or _writes(words) for words in self.leaves(name))


def resolved(commands: Mapping[str, Sequence[Words]], started: Callable[[Words], Sequence[str]]) -> Recipes:
    """Return the recipes with these commands, each resolved once."""
    return Recipes({name: [(words, started(words)) for words in given] for name, given in commands.items()}, started)


def judged_kind(words: Words) -> GateKind | None:
    """Return the kind of gate that a command is; None if the program is unknown, or used so that it cannot judge."""
    known = CHECK_PROGRAMS.get(program_key(words))
    if known is None or _writes(words) or not NEVER_FAILING.isdisjoint(words):
        return None
    return known.kind


def check_mode(words: Words) -> Words | None:
    """Return a command as one that ends, and judges instead of changing files; None if the program is unknown."""
    known = CHECK_PROGRAMS.get(program_key(words))
    if known is None:
        return None
    kept = tuple(word for word in words if word not in known.writes and word not in known.stays)
    return kept if set(known.judges).intersection(kept) else (*kept, *known.judges[:1])


def recipe_checks(
    recipes: Recipes, exact: Mapping[str, GateKind], run: Collection[str], left_out: Collection[str] = ()
) -> tuple[RecipeCheck, ...]:
    """Return the checks among recipes that, together, check all that they do: the `exact` names first.

    `run` are the recipes that the project's own set-up runs; without any, nothing is known of that. Of recipes that do
    the same, the larger one counts.
    """
    names = [name for name in recipes.steps if name not in left_out]
    found = [check for name in names if (check := _recipe_check(recipes, name, exact.get(name), run))]
    kinds = {each.name: {judged_kind(words) for words in each.leaves} for each in found}
    found.sort(key=lambda each: (each.name not in exact, len(kinds[each.name]), not each.is_run, -len(each.leaves)))
    chosen, covered = list[RecipeCheck](), set[Words]()
    # First those that have nothing in common, then those that still add something.
    for apart in (True, False):
        for each in found:
            adds = covered.isdisjoint(each.leaves) if apart else not each.leaves <= covered
            if each not in chosen and (adds or each.name in exact):
                chosen.append(each)
                covered |= each.leaves
    return tuple(chosen[:MAX_CHECKS])


def _recipe_check(recipes: Recipes, name: str, kind: GateKind | None, run: Collection[str]) -> RecipeCheck | None:
    leaves = frozenset(recipes.leaves(name))
    if not leaves or not recipes.is_check(name):
        return None
    if kind is None:
        kinds = {judged_kind(words) for words in leaves}
        if None in kinds:
            # An unknown program is a check if the name says so, and the project's own set-up runs it.
            named = _NAMED.search(name) if name in run else None
            kind = named and ("lint" if named[1] else "typecheck")
        elif kinds <= CHECK_KINDS:
            kind = "typecheck" if kinds == {"typecheck"} else "lint"
    return None if kind is None else RecipeCheck(name, kind, name in run or not run, leaves)


def _added_words(words: Words, names: Sequence[str]) -> Words:
    """Return what a command adds to the end of the recipes that it starts: what follows `--`, or options after a name.

    npm keeps such options for itself.
    """
    if "--" in words:
        return words[words.index("--") + 1 :] if names else ()
    if not names or names[0] not in words or words[0] == "npm":
        return ()
    return tuple(word for word in words[words.index(names[0]) + 1 :] if word.startswith("-"))


def _writes(words: Words) -> bool:
    """Return whether a command of a known program changes files, or shows them, instead of judging them."""
    known = CHECK_PROGRAMS.get(program_key(words))
    return known is not None and (
        not set(known.writes).isdisjoint(words) or bool(known.judges and not set(known.judges).intersection(words))
    )


def _stays(words: Words) -> bool:
    """Return whether a command does not end."""
    program, known = words[0].rpartition("/")[2], CHECK_PROGRAMS.get(program_key(words))
    first = words[1] if len(words) > 1 else ""
    if program in SERVERS or first in SERVING or (program in BARE_SERVERS and first[:1] in {"", "-"}):
        return True
    stays = known.stays if known else CheckProgram("lint").stays
    return not set(stays).isdisjoint(words)
