"""Shell commands of a session, judged: a reader, the settings of its repository, and the rules it is handed."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from scaffold.core.errors import GitFailed
from scaffold.git.settings import RepositorySettings
from scaffold.policy.gate import Judgement
from scaffold.policy.rules import Rule
from scaffold.policy.shell.decision import decide, judge_command
from scaffold.policy.shell.ground import Ground
from scaffold.policy.shell.proposal import proposed
from scaffold.policy.shell.reading import ParserMissing, Reader, installed_parser
from scaffold.policy.shell.script import Simple, Understood


class Commands:
    """Judges commands. Implements `policy.judge.ShellJudge`."""

    def __init__(self, environ: Mapping[str, str] | None = None, *, parser: Path | None = None) -> None:
        """Judge for a machine with the environment `environ`, by default our own; `parser` is its shfmt."""
        found = os.environ if environ is None else environ
        bash = shutil.which("bash", path=found.get("PATH")) is not None
        self._reader = Reader(parser or installed_parser(), bash=bash)
        self._settings = RepositorySettings(found)

    async def judge(self, command: str, ground: Ground) -> Judgement:
        """Return what a command comes to by itself; what cannot be judged for want of a program is asked about."""
        try:
            return await judge_command(command, await self._known(command, ground), self._reader)
        except GitFailed as failure:
            denied = decide(self._reader.glance(command), ground)
            asked = Judgement("ask", "git", f"the settings of this repository cannot be read: {failure.what}")
            return denied if denied.decision == "deny" else asked
        except ParserMissing as missing:
            return Judgement("ask", "shell", f"what it does cannot be told for sure: {missing.what}")

    async def proposal(self, command: str, ground: Ground) -> str | None:
        """Return a pattern that would allow this command and others like it; None if only its whole text could."""
        try:
            known = await self._known(command, ground)
            reading = await self._reader.read(command)
        except (GitFailed, ParserMissing):
            return None
        pattern = proposed(reading, lambda simple: _only_reads(simple, known))
        if pattern is None:
            return None
        ruled = msgspec.structs.replace(known, allow=(*known.allow, Rule("*", pattern)))
        return pattern if decide(reading, ruled).decision == "allow" else None

    async def _known(self, command: str, ground: Ground) -> Ground:
        """Return the ground with the settings of the repository, if the command may be about one."""
        if "git" not in command:
            return ground
        settings = await self._settings.of(Path(ground.place.root))
        return msgspec.structs.replace(ground, settings=settings)


def _only_reads(simple: Simple, ground: Ground) -> bool:
    alone = msgspec.structs.replace(simple, link="")
    return decide(Understood((alone,)), msgspec.structs.replace(ground, allow=())).decision == "allow"
