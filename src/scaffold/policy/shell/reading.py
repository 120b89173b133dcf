"""Reads shell commands: what two parsers agree on is understood, and nothing else."""

import shutil
import sysconfig
from collections import OrderedDict
from pathlib import Path

from scaffold.core.errors import ScaffoldError
from scaffold.host.process import run
from scaffold.policy.shell.bash_grammar import read_by_grammar
from scaffold.policy.shell.bash_syntax import ARGUMENTS, read_syntax
from scaffold.policy.shell.crude import seen_crudely
from scaffold.policy.shell.fitness import MOST_COMMANDS, unfit
from scaffold.policy.shell.plain import read_plainly
from scaffold.policy.shell.script import NotUnderstood, Reading, Understood

PARSING_S = 5.0
MOST_KEPT = 512
LONGEST_TREE_BYTES = 8_000_000


class ParserMissing(ScaffoldError):
    """The second parser is not where it was installed."""


class Reader:
    """Reads commands, and remembers the latest readings."""

    def __init__(self, parser: Path, *, bash: bool = True) -> None:
        """Ask `parser`, an shfmt, for the second opinion; without `bash` only what every shell reads alike is read."""
        self._parser = parser
        self._bash = bash
        self._kept: OrderedDict[str, Reading] = OrderedDict()

    def glance(self, command: str) -> Reading:
        """Return what the first parser makes of `command`; enough to refuse it, never to allow it."""
        if reason := unfit(command):
            return NotUnderstood(reason, seen_crudely(command))
        first = read_by_grammar(command)
        if isinstance(first, Understood) and len(first.commands) > MOST_COMMANDS:
            return NotUnderstood(f"has more than {MOST_COMMANDS} parts", first.commands)
        if isinstance(first, Understood) and not self._bash and read_plainly(command) is None:
            return NotUnderstood("is more than plain words, and there is no bash here to read it", first.commands)
        return first

    async def read(self, command: str) -> Reading:
        """Return what `command` runs if that is sure: both parsers give the same words, assignments and redirects."""
        if (kept := self._kept.get(command)) is not None:
            self._kept.move_to_end(command)
            return kept
        reading = self.glance(command)
        if isinstance(reading, Understood):
            reading = agreed(reading, read_plainly(command) or await self.opinion(command))
        self._kept[command] = reading
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return reading

    async def opinion(self, command: str) -> Reading:
        """Return what the second parser makes of `command`, which must be fit to be parsed."""
        done = await run(
            (str(self._parser), *ARGUMENTS),
            cwd=Path("/"),
            env={},
            timeout_s=PARSING_S,
            stdin=command.encode(),
            limit_bytes=LONGEST_TREE_BYTES,
        )
        if done.exit_code in {126, 127}:
            raise ParserMissing(f"{self._parser} cannot be run", "Install the package again: it brings shfmt along.")
        if done.exit_code != 0 or done.truncated:
            return NotUnderstood("is no valid bash for its second parser")
        return read_syntax(done.stdout)


def agreed(first: Understood, second: Reading) -> Reading:
    """Return the first reading if the second is the same; otherwise why there is none."""
    match second:
        case NotUnderstood(reason=reason):
            return NotUnderstood(reason, first.commands)
        case Understood() if second == first:
            return first
        case _:
            return NotUnderstood("is read in two ways by two parsers", first.commands)


def installed_parser() -> Path:
    """Return where the shfmt is that was installed with this package; where it is not, asking it is ParserMissing."""
    beside = Path(sysconfig.get_path("scripts")) / "shfmt"
    return beside if beside.is_file() else Path(shutil.which("shfmt") or beside)
