"""The fenced blocks of our documents and the commands in them.

A block in `sh` is commands for bash. A test parses all of them and runs those of every block, unless a line of its own
right before the block says why it does not run: `<!-- not run: it needs a key -->`.
"""

import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import click
import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from scaffold.cli.entry import load_command
from scaffold.cli.main import ENDING_OPTIONS, RALPH_COMMANDS, scaffold_group
from scaffold.core.errors import ScaffoldError

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    if path.name != "CHANGELOG.md"
)
LANGUAGES = frozenset({"sh", "yaml", "json", "toml", "ini", "text"})
RUNNABLE = frozenset({"scaffold", "ralph", "git", "cat", "cd", "echo", "eval", "mkdir", "printf", "test"})
"""Programs of blocks that run: nothing that reaches beyond the scratch repository."""
OUR_FILE = re.compile(r"(?:\.venv/bin|\.ci|bench|docs|examples|tests)/\S+")
PROGRAM = re.compile(r"^\s*(?:\$ )?(?:scaffold|ralph|make|git|uv|uvx|pipx) [a-z\"-]", re.MULTILINE)
NUMBERS = frozenset({"N", "S", "P", "X", "MORE"})
_BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n+)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_INLINE = re.compile(r"(?<!`)`((?:scaffold|ralph) [^`\n]+)`(?!`)")
_STEP = re.compile(r"^\s*- run: (.+)$", re.MULTILINE)
"""A command in the YAML of a CI system."""
_BASH = Parser(Language(tree_sitter_bash.language()))


class Block(NamedTuple):
    """A fenced block of a page."""

    page: str
    line: int
    """Of the opening fence, from 1."""
    language: str
    text: str
    reason: str | None
    """Why it does not run; None if it does."""

    @property
    def place(self) -> str:
        """Return where it is, as editors understand it."""
        return f"{self.page}:{self.line}"


def blocks(page: str, text: str | None = None) -> list[Block]:
    """Return the fenced blocks of a page, in their order."""
    text = (ROOT / page).read_text(encoding="utf-8") if text is None else text
    return [
        Block(page, text.count("\n", 0, found.start("language")) + 1, found["language"], found["text"], found["reason"])
        for found in _BLOCK.finditer(text)
    ]


def inline_commands(page: str) -> list[str]:
    """Return the commands that the page's sentences name, with the notation of a synopsis."""
    prose = _BLOCK.sub("", (ROOT / page).read_text(encoding="utf-8"))
    return [found[1].replace("\\|", "|") for found in _INLINE.finditer(prose)]


def synopsis(text: str) -> list[str]:
    """Return the words of a command in a sentence: what is optional is there, of `a|b` the first is, N is a number."""
    words = shlex.split(re.sub(r"[\[\]]", "", text.partition(" | ")[0]))
    return ["1" if word in NUMBERS else word.partition("|")[0] if " " not in word else word for word in words]


def commands(text: str) -> list[list[str]]:
    """Return the words of each command in a script, also of those inside others; ValueError if it is not bash."""
    root = _BASH.parse(text.encode()).root_node
    if root.has_error:
        raise ValueError("this is not bash")
    return [shlex.split(node.text.decode()) for node in _walk(root) if node.type == "command" and node.text]


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _walk(child)


def problems(block: Block) -> list[str]:
    """List what is wrong with a block: its language, its commands, or that it would run what must not run here."""
    if block.language not in LANGUAGES:
        return [f"{block.place}: say the language of the block: one of {', '.join(sorted(LANGUAGES))}"]
    if block.language != "sh" and PROGRAM.search(block.text):
        return [f"{block.place}: commands belong in a block of `sh`"]
    runs = block.language == "sh" and block.reason is None
    try:
        found = commands(block.text if block.language == "sh" else "\n".join(_STEP.findall(block.text)))
    except ValueError as error:
        return [f"{block.place}: {error}"]
    wrong = [f"{block.place}: {problem}" for words in found if (problem := parse_problem(words))]
    programs = sorted({words[0] for words in found if runs} - RUNNABLE)
    return [*wrong, *(f"{block.place}: `{each}` cannot run here; mark the block as not run" for each in programs)]


def parse_problem(words: list[str], *, is_whole: bool = True) -> str:
    """Return why a command cannot be right; empty if nothing is known against it.

    One that is not `is_whole` may lack arguments: a sentence may name the command alone.
    """
    match words:
        case ["scaffold" | "ralph", "--check-update" | "--update"]:
            return ""  # to parse it is to do it
        case ["scaffold" | "ralph", *_]:
            return _argument_problem(words, is_whole=is_whole)
        case ["make", *targets]:
            known = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
            return ", ".join(f"there is no target `{each}`" for each in targets if each not in known)
        case _:
            files = [word for word in words if OUR_FILE.fullmatch(word)]
            return ", ".join(f"there is no {each}" for each in files if not (ROOT / each.partition("::")[0]).exists())


def _argument_problem(words: list[str], *, is_whole: bool) -> str:
    """Let click parse a command of ours without calling it."""
    name, *args = words
    command: click.Command = scaffold_group if name == "scaffold" else load_command("ralph")
    if name == "ralph" and args and args[0] in RALPH_COMMANDS:
        command, args = load_command(args[0]), args[1:]
    if name == "scaffold" and args and args[0].startswith("-") and args[0] not in {*ENDING_OPTIONS, "--debug", "-C"}:
        args = ["run", *args]  # what is piped in is a task
    context = None
    try:
        with redirect_stdout(StringIO()):
            while args and isinstance(command, click.Group):
                context = command.make_context(name, list(args), parent=context)
                called, inner, args = command.resolve_command(context, [*context._protected_args, *context.args])
                name, command = called or name, inner or command
            if not isinstance(command, click.Group):
                command.make_context(name, list(args), parent=context)
    except click.exceptions.Exit:  # of --help and --version
        return ""
    except ScaffoldError as error:
        return f"{words}: {error.what}"
    except click.MissingParameter as error:
        return f"{words}: {error.format_message()}" if is_whole else ""
    except click.BadParameter as error:
        return "" if isinstance(error.param and error.param.type, click.Path) else f"{words}: {error.format_message()}"
    except click.UsageError as error:
        return f"{words}: {error.format_message()}"
    return ""


def named_refs() -> list[re.Pattern[str]]:
    """Return patterns of the refs that the guide's table names, and of the user's own `main`."""
    text = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `refs/")]
    names = [name for row in rows for name in re.findall(r"`(refs/[^`]+)`", row)]
    return [re.compile(re.sub(r"[A-Z]{2,}", "[^/]+", name)) for name in (*names, "refs/heads/main")]
