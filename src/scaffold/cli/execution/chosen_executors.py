"""The programs of others that a run uses: each has passed its drill before the run starts or goes on."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from msgspec import structs

from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.core.executor_settings import NATIVE
from scaffold.core.run_settings import RunSettings
from scaffold.host.startup import importing
from scaffold.run.context import RunContext


def used_executors(settings: RunSettings, chosen: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the programs that a run may use, of which its plan has `chosen` some."""
    executors = settings.executors
    names = (executors.chosen("", settings.tier.name), *executors.roles.values(), *chosen)
    return tuple(sorted({name for name in names if name and name != NATIVE}))


async def with_ready_executors(context: RunContext, settings: RunSettings, chosen: Iterable[str]) -> RunSettings:
    """Return the settings with the version of each program that the run uses.

    Raises UsageError if there is none of this name, or if its drill has refused it; EnvironmentNotReady if it is not
    installed.
    """
    names = used_executors(settings, chosen)
    if not names:
        return settings
    with importing():
        from scaffold.executors.catalog import find_program
        from scaffold.executors.drill import require_drilled
    tell, versions = partial(print_text, err=True), dict[str, str]()
    for name in names:
        spec = find_program(name, settings.executors.programs)
        program = await require_drilled(spec, context.repository.root, context.environ, settings.sandbox, tell)
        versions[name] = program.version
    return structs.replace(settings, executors=structs.replace(settings.executors, versions=versions))


def executor_lines(settings: RunSettings, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a line about each program of a run: its version, and who pays for it."""
    if not settings.executors.versions:
        return
    with importing():
        from scaffold.executors.catalog import find_program
        from scaffold.executors.program_zone import payer
    for name, version in settings.executors.versions.items():
        spec = find_program(name, settings.executors.programs)
        paid = payer(spec, environ) or ("your subscription" if spec.keys else "its own login")
        yield f"executor {' '.join(filter(None, (name, version)))}, paid by {paid}"
