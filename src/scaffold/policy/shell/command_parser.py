"""Parse shell commands. A command counts as parsed only if two parsers agree on it."""

import shutil
import sysconfig
from collections import OrderedDict
from pathlib import Path

from scaffold.core.errors import ScaffoldError
from scaffold.host.process.command import OutputCapture, run_command
from scaffold.policy.shell.plain_commands import parse_plain
from scaffold.policy.shell.precheck import MAX_COMMANDS, precheck_problem
from scaffold.policy.shell.rough_scan import scan_roughly
from scaffold.policy.shell.script import ParsedCommand, ParseResult, UnparsedCommand
from scaffold.policy.shell.shfmt_parser import ARGUMENTS, parse_shfmt_tree
from scaffold.policy.shell.tree_sitter_parser import parse_with_tree_sitter

PARSE_TIMEOUT_S = 5.0
MAX_CACHED = 512
MAX_TREE_BYTES = 8_000_000


class ParserMissing(ScaffoldError):
    """The second parser, shfmt, is missing."""


class CommandParser:
    """Parses commands and caches the latest results."""

    def __init__(self, parser: Path, *, bash: bool = True) -> None:
        """Use the shfmt at `parser` as second parser; with `bash=False`, parse only what all shells read alike."""
        self._parser = parser
        self._bash = bash
        self._cache: OrderedDict[str, ParseResult] = OrderedDict()

    def parse_first(self, command: str) -> ParseResult:
        """Return the first parser's result for `command`; enough to deny it, never to allow it."""
        if reason := precheck_problem(command):
            return UnparsedCommand(reason, scan_roughly(command))
        first = parse_with_tree_sitter(command)
        if isinstance(first, ParsedCommand) and len(first.commands) > MAX_COMMANDS:
            return UnparsedCommand(f"has more than {MAX_COMMANDS} parts", first.commands)
        if isinstance(first, ParsedCommand) and not self._bash and parse_plain(command) is None:
            return UnparsedCommand("is more than plain words, and bash is not installed here", first.commands)
        return first

    async def read(self, command: str) -> ParseResult:
        """Return what `command` runs if both parsers agree on all words, assignments and redirects; else why not."""
        if (cached := self._cache.get(command)) is not None:
            self._cache.move_to_end(command)
            return cached
        result = self.parse_first(command)
        if isinstance(result, ParsedCommand):
            result = agreed_result(result, parse_plain(command) or await self.parse_second(command))
        self._cache[command] = result
        if len(self._cache) > MAX_CACHED:
            self._cache.popitem(last=False)
        return result

    async def parse_second(self, command: str) -> ParseResult:
        """Return the second parser's result for `command`, which must have passed the precheck."""
        done = await run_command(
            (str(self._parser), *ARGUMENTS),
            cwd=Path("/"),
            env={},
            timeout_s=PARSE_TIMEOUT_S,
            stdin=command.encode(),
            output=OutputCapture(limit_bytes=MAX_TREE_BYTES),
        )
        if done.exit_code in {126, 127}:
            raise ParserMissing(f"{self._parser} cannot be run", "Reinstall the package: it includes shfmt.")
        if done.exit_code != 0 or done.truncated:
            return UnparsedCommand("is not valid bash for the second parser")
        return parse_shfmt_tree(done.stdout)


def agreed_result(first: ParsedCommand, second: ParseResult) -> ParseResult:
    """Return the first result if the second is equal, else why the command counts as unparsed."""
    match second:
        case UnparsedCommand(reason=reason):
            return UnparsedCommand(reason, first.commands)
        case ParsedCommand() if second == first:
            return first
        case _:
            return UnparsedCommand("is parsed differently by two parsers", first.commands)


def installed_parser() -> Path:
    """Return the path of the shfmt installed with this package, else of the one on PATH.

    The path need not exist: running it then raises ParserMissing.
    """
    bundled = Path(sysconfig.get_path("scripts")) / "shfmt"
    return bundled if bundled.is_file() else Path(shutil.which("shfmt") or bundled)
