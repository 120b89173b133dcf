"""The parts of a compound command for whoever decides it, the most dangerous first, each with what it may do."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from scaffold.policy.shell.command_decision import visible_commands
from scaffold.policy.shell.denial import WRITERS
from scaffold.policy.shell.parsed_command import SimpleCommand, Word
from scaffold.policy.shell.reading.read_analysis import pipeline_before
from scaffold.policy.shell.workspace_paths import HARMLESS_SINKS, WorkspacePaths
from scaffold.policy.shell.wrappers import (
    INTERPRETERS,
    MAX_INNER,
    inner_commands,
    launched_program,
    program_name,
    runs_script,
)

MOST_PARTS = 12
MOST_CHARACTERS = 100
"""Of one part; the question shows the whole command as well."""

_INSTALLS = frozenset({"install", "i", "add", "ci", "get", "update", "upgrade", "sync", "require", "create", "init"})
INSTALLERS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun", "uv", "poetry", "cargo", "go", "gem", "bundle", "brew"), _INSTALLS),
    **dict.fromkeys(("pip", "pip3", "pipx", "apt", "apt-get", "dnf", "composer", "conda", "deno", "pdm"), _INSTALLS),
}
"""Programs and their subcommands that download packages, and run code of these."""
_FETCHERS = frozenset({"curl", "wget", "aria2c", "http", "https", "xh", "fetch"})
_REMOTE = _FETCHERS | frozenset({
    *("ssh", "scp", "sftp", "rsync", "ftp", "nc", "ncat", "telnet", "gh", "glab", "aws", "gcloud", "az", "kubectl"),
    *("docker", "podman", "twine", "ping", "dig", "nslookup", "host", "socat"),
})  # fmt: skip
_REMOTE_WORDS: Mapping[str, frozenset[str]] = {
    "git": frozenset({"push", "pull", "fetch", "clone", "ls-remote", "submodule"}),
    **dict.fromkeys(("npm", "pnpm", "yarn", "cargo", "uv", "poetry"), frozenset({"publish", "login", "dlx", "exec"})),
}
_DELETERS = frozenset({"rm", "rmdir", "unlink", "shred", "truncate", "mkfs", "wipefs"})
_DELETING_WORDS: Mapping[str, re.Pattern[str]] = {
    "git": re.compile(
        r"(?:clean|rm|filter-branch|worktree remove|stash (?:drop|clear)|reflog expire)\b.*|reset\b.* --hard\b.*"
        r"|(?:checkout|restore)\b.* (?:--|\.|:/)(?: .*)?|(?:branch|tag)\b.* (?:-[dD]|--delete)\b.*"
        r"|push\b.* (?:-f|-d|--force\S*|--delete|--mirror|[+:]\S+)(?: .*)?"
    ),
    "find": re.compile(r".* -delete\b.*"),
    "docker": re.compile(r"(?:\w+ )?(?:rm|rmi|prune|down)\b.*"),
    "kubectl": re.compile(r"delete\b.*"),
}
_OTHER_USER = frozenset({"sudo", "doas", "su", "runuser", "pkexec"})
_CODE_FLAG = re.compile(r"-[A-Za-z]*[ceE]|--eval|--print|--command|-p")


class CommandPart(Struct, frozen=True):
    """One simple command of a command line; the most dangerous have the lowest rank."""

    rank: int
    text: str
    does: str


def command_parts(
    command: str, workspace: WorkspacePaths, reads_only: Callable[[SimpleCommand], bool]
) -> Sequence[CommandPart]:
    """Return what a command line runs, the most dangerous first; commands that wrappers run count as parts, too."""
    found: list[CommandPart] = []
    before: list[SimpleCommand] = []
    folders = frozenset({workspace.root})
    for simple in _all_commands(visible_commands(command), 0):
        rank, does = _danger_of(simple, before, folders, workspace)
        if not does:
            sure = all(word.sure for word in simple.words)
            reads = sure and reads_only(simple)
            rank, does = rank + reads, "only reads" if reads else "is not known to only read"
        found.append(CommandPart(rank, part_text(simple), does))
        before.append(simple)
        if len(simple.words) == 2 and simple.words[0].text == "cd":
            folders |= frozenset(workspace.reached(simple.words[1].text, folders, tilde=simple.words[1].tilde))
    # Passes of a loop look the same.
    return sorted(dict.fromkeys(found), key=lambda part: part.rank)


def part_lines(parts: Sequence[CommandPart]) -> Sequence[str]:
    """Return lines about several parts, to follow a reason; empty for one part."""
    if len(parts) < 2:
        return ()
    lines = [f"{' ' if at else '!'} `{part.text}` {part.does}" for at, part in enumerate(parts[:MOST_PARTS])]
    more = [f"  and {len(parts) - MOST_PARTS} more"] if len(parts) > MOST_PARTS else []
    return (f"its {len(parts)} parts, the most dangerous first:", *lines, *more)


def part_text(simple: SimpleCommand) -> str:
    """Return a simple command as a user would write it, in one line."""
    words = (shlex.quote(word.text) if word.literal else word.text for word in simple.words)
    redirects = (f"{each.operator} {each.target.text}" for each in simple.redirects if not each.is_text)
    whole = " ".join((*(f"{name}={value}" for name, value in simple.assignments), *words, *redirects))
    line = " ".join(whole.split())
    return line if len(line) <= MOST_CHARACTERS else f"{line[: MOST_CHARACTERS - 1]}…"


def _all_commands(commands: Sequence[SimpleCommand], depth: int) -> Iterator[SimpleCommand]:
    for simple in commands:
        # A text that is only an expansion is seen as what it expands already.
        if depth == 0 or len(simple.words) != 1 or simple.words[0].sure:
            yield simple
        for inner in inner_commands(simple) if depth < MAX_INNER else ():
            yield from _all_commands(
                (inner,) if isinstance(inner, SimpleCommand) else visible_commands(inner), depth + 1
            )


def _danger_of(
    simple: SimpleCommand, before: Sequence[SimpleCommand], folders: frozenset[str], workspace: WorkspacePaths
) -> tuple[int, str]:
    """Return the rank and the effect of a simple command; an empty effect if none is known."""
    name = program_name(simple.words[0]) if simple.words else ""
    texts = [word.text for word in simple.words[1:]]
    source = _downloaded_code(simple, before)
    away = _written_outside(simple, name, folders, workspace)
    deletes = _DELETING_WORDS.get(name)
    written = [each.target.text for each in simple.redirects if each.writes and each.target.text not in HARMLESS_SINKS]
    installs = launched_program(simple.words) or not INSTALLERS.get(name, frozenset()).isdisjoint(texts[:2])
    remote = name in _REMOTE or not _REMOTE_WORDS.get(name, frozenset()).isdisjoint(texts[:2])
    given = name == "eval" or (_runs_code(name) and any(map(_CODE_FLAG.fullmatch, texts)))
    effects = (
        f"runs code that `{source}` downloads" if source else "",
        "runs a command as another user" if name in _OTHER_USER else "",
        f"changes {away}, outside this folder" if away else "",
        "deletes or overwrites" if name in _DELETERS or (deletes and deletes.fullmatch(" ".join(texts))) else "",
        "may download code and run it" if installs else "",
        "uses the network" if remote else "",
        "runs code that stands in the command" if given else "",
        f"writes {written[0]}" if written else "writes files" if name in WRITERS else "",
    )
    return next(((rank, does) for rank, does in enumerate(effects) if does), (len(effects), ""))


def _runs_code(name: str) -> bool:
    return name in INTERPRETERS or name in {"eval", "source", "."} or runs_script(name)


def _downloaded_code(simple: SimpleCommand, before: Sequence[SimpleCommand]) -> str:
    """Return the command that downloads what this one runs: by a pipe, a substitution or a file; empty if none does."""
    words = simple.words
    if not words or not (_runs_code(program_name(words[0])) or "/" in words[0].text):
        return ""
    reads_input = all(word.text.startswith("-") for word in words[1:])
    # Of a command that could not be parsed completely it is not known what feeds what.
    piped = tuple(before) if not simple.link and reads_input else pipeline_before(simple, before)
    inside = (each for word in words[1:] if not word.sure for each in visible_commands(word.text))
    named = {_file_name(word) for word in words}
    targets = ((each, (*each.words[1:], *(redirect.target for redirect in each.redirects))) for each in before)
    written = (each for each, files in targets if _is_fetch(each) and named & set(map(_file_name, files)))
    return next((part_text(each) for each in (*piped, *inside, *written) if _is_fetch(each)), "")


def _is_fetch(simple: SimpleCommand) -> bool:
    return bool(simple.words) and program_name(simple.words[0]) in _FETCHERS


def _file_name(word: Word) -> str:
    # `-O` writes the last part of an address.
    return word.text.rstrip("/").rpartition("/")[2]


def _written_outside(simple: SimpleCommand, name: str, folders: frozenset[str], workspace: WorkspacePaths) -> str:
    targets = [each.target for each in simple.redirects if each.writes]
    targets += [word for word in simple.words[1:] if name in WRITERS and not word.text.startswith("-")]
    away = (workspace.away(word, folders) for word in targets if word.text not in HARMLESS_SINKS)
    return next(filter(None, away), "")
