"""All programs that could work on this machine, and what is known of each without a request."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from scaffold.core.errors import EnvironmentNotReady
from scaffold.core.executor_settings import NATIVE, ExecutorSettings, ProgramSpec
from scaffold.executors.catalog import find_program, known_programs
from scaffold.executors.drill import DrillVerdict, kept_verdict, user_place
from scaffold.executors.installed import InstalledProgram, LoginState, ask_version, login_state
from scaffold.executors.program_zone import ProgramPlace, standing_permissions
from scaffold.host.sandbox.level import LEVEL_CACHE, detect_level
from scaffold.host.user_dirs import user_dirs


class KnownExecutor(Struct, frozen=True, kw_only=True):
    """A program, installed or not."""

    spec: ProgramSpec
    chosen: bool
    """Whether the configuration lets it work."""
    program: InstalledProgram | None
    login: LoginState = "unknown"
    drilled: DrillVerdict | None = None
    """None if this version was not drilled yet."""
    unasked: Sequence[str] = ()
    """What in the user's folder for it lets it act without a question; it is refused."""


async def known_executors(settings: ExecutorSettings, environ: Mapping[str, str], root: Path) -> list[KnownExecutor]:
    """Return all programs that are known by name, configured or chosen; those in the repository `root` do not count.

    Each that is installed is asked for its version and its login.
    """
    chosen = {settings.default, *settings.roles.values(), *settings.tiers.values()} - {NATIVE}
    names = dict.fromkeys((*known_programs, *settings.programs, *sorted(chosen)))
    level = (await detect_level(environ, cache=user_dirs().cache / LEVEL_CACHE)).level

    async def look_at(spec: ProgramSpec) -> KnownExecutor:
        found = await _look_at(spec, user_place(root, environ), is_chosen=spec.name in chosen)
        return structs.replace(found, unasked=standing_permissions(spec, environ, level)) if found.program else found

    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(look_at(find_program(name, settings.programs))) for name in names]
    return [task.result() for task in asked]


async def _look_at(spec: ProgramSpec, place: ProgramPlace, *, is_chosen: bool) -> KnownExecutor:
    try:
        program = await ask_version(spec, place)
    except EnvironmentNotReady:
        return KnownExecutor(spec=spec, chosen=is_chosen, program=None)
    return KnownExecutor(
        spec=spec,
        chosen=is_chosen,
        program=program,
        login=await login_state(program, place),
        drilled=kept_verdict(program),
    )
