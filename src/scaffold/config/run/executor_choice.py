"""Who works in a run, by the settings: our own agents, or programs of others by role and tier."""

from collections.abc import Mapping

from msgspec import structs

from scaffold.config.schema.executor_rows import ROLES, SECTION, TIERS
from scaffold.config.settings import Settings
from scaffold.config.settings_file import SettingValue
from scaffold.core.errors import UsageError
from scaffold.core.executor_settings import NATIVE, ExecutorSettings, ProgramSpec
from scaffold.host.startup import importing


def executor_settings(settings: Settings) -> ExecutorSettings:
    """Return who works in a run as configured, with the programs that the configuration describes.

    Raises UsageError, with file and line, for an executor that nobody knows, and for a program without a command.
    """
    given = {
        name.removeprefix(f"{SECTION}."): each
        for name, each in settings.values.items()
        if name.startswith(f"{SECTION}.") and each.value is not None
    }
    default = given.pop("default")
    if not given and default.value == NATIVE:  # the catalog of programs is loaded only if there are some
        return ExecutorSettings()
    with importing():
        from scaffold.executors.catalog import find_program, known_programs
    chosen: dict[str, dict[str, str]] = {ROLES: {}, TIERS: {}}
    fields: dict[str, dict[str, SettingValue]] = {}
    for name, each in given.items():
        section, _, below = name.partition(".")
        if section in chosen:
            chosen[section][below] = str(each.value)
        else:
            fields.setdefault(section, {})[below] = each
    programs = {name: _configured_program(name, held, known_programs.get(name)) for name, held in fields.items()}
    for each in (default, *(each for name, each in given.items() if name.partition(".")[0] in chosen)):
        if each.value != NATIVE:
            try:
                find_program(str(each.value), programs)
            except UsageError as unknown:
                raise UsageError(f"{each.origin}: {unknown.what}", unknown.fix) from unknown
    return ExecutorSettings(default=str(default.value), roles=chosen[ROLES], tiers=chosen[TIERS], programs=programs)


def _configured_program(name: str, held: Mapping[str, SettingValue], known: ProgramSpec | None) -> ProgramSpec:
    def values(field: str) -> tuple[str, ...]:
        value = held[field].value if field in held else ()
        return value if isinstance(value, tuple) else ()

    command = held.get("command")
    if known is None and command is None:
        origin = next(iter(held.values())).origin
        what = f"{origin}: `{SECTION}.{name}` has no `command`, and there is no known program of this name"
        raise UsageError(what, f"Name the program: `{SECTION}.{name}.command`. It has to speak ACP.")
    spec = known or ProgramSpec(name=name, command=("",), protocol="acp")
    program = spec.command[0] if command is None else str(command.value)
    texts = {field: str(held[field].value) for field in ("credentials", "minimum") if field in held}
    return structs.replace(
        spec,
        command=(program, *(values("args") if "args" in held else spec.command[1:])),
        env=tuple(dict.fromkeys((*spec.env, *values("env")))),
        hosts=tuple(dict.fromkeys((*spec.hosts, *values("hosts")))),
        **texts,
    )
