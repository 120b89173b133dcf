"""The programs of others that could work here."""

import os
from collections.abc import Iterator
from pathlib import Path

from scaffold.cli.commands.doctor.checks import DoctorCheck
from scaffold.cli.commands.executors import executor_text
from scaffold.config.permission_settings import detect_sandbox_level
from scaffold.config.run.executor_choice import executor_settings
from scaffold.config.settings import load_settings
from scaffold.core.errors import ScaffoldError
from scaffold.executors.drill import UPDATE
from scaffold.executors.overview import KnownExecutor, known_executors
from scaffold.executors.program_zone import unasked_fix


async def check_executors() -> list[DoctorCheck]:
    """Return a check of each program that is installed or chosen, and one of their sandbox; empty if there is none."""
    cwd = Path.cwd()
    try:
        settings = executor_settings(load_settings(cwd, os.environ, {}))
    except ScaffoldError as error:
        return [DoctorCheck("executors", "fail", error.what, error.fix)]
    found = [each for each in await known_executors(settings, os.environ, cwd) if each.program or each.chosen]
    if not found:
        return []
    level = (await detect_sandbox_level()).level
    zone = "they, and the commands that they start, reach their login and their provider, and nothing else of yours"
    if level == "none":
        zone = "they, and the commands that they start, have all your rights"
    return [*_check_programs(found), DoctorCheck("executors", "warn" if level == "none" else "ok", f"{level}: {zone}")]


def _check_programs(found: list[KnownExecutor]) -> Iterator[DoctorCheck]:
    for each in found:
        fix = ""
        if each.program is None:
            fix = f"Install `{each.spec.command[0]}`, or choose another: `scaffold executors` lists them."
        elif each.program.is_old:
            fix = UPDATE
        elif each.chosen and each.unasked:
            fix = unasked_fix(each.spec)
        elif each.chosen and each.login == "missing":
            fix = f"Log in: `{each.spec.login}`."
        elif each.chosen and each.drilled and each.drilled.verdict == "refused":
            fix = f"Choose another; `scaffold executors check {each.spec.name}` tries it again."
        yield DoctorCheck(each.spec.name, "warn" if fix else "ok", executor_text(each), fix)
