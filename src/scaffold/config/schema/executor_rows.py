"""The settings of executors: who works, by role and tier, and the programs of others, `executors.NAME.FIELD`."""

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from scaffold.config.schema import parsers
from scaffold.config.schema.model_rows import MODEL_ROLES
from scaffold.config.schema.parsers import ConfigValue, list_of
from scaffold.config.schema.setting import NEVER, Setting
from scaffold.config.schema.tier_settings import BUILT_IN_TIERS, is_tier_name, is_tier_section
from scaffold.config.schema.tier_settings import FIELDS as TIER_FIELDS
from scaffold.core.executor_settings import NATIVE

SECTION = "executors"
ROLES, TIERS = "roles", "tiers"
WORKING_ROLES = (*MODEL_ROLES, "reviewer")
_PROGRAM = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_ACP = re.compile(r"acp:.*\S.*")
_VERSION = re.compile(r"\d+(\.\d+)*")


def parse_executor(given: object) -> ConfigValue:
    """Return the name of an executor; whether there is one is known once all settings are read."""
    if isinstance(given, str) and (_PROGRAM.fullmatch(given) or _ACP.fullmatch(given)):
        return given
    raise ValueError(f"`{NATIVE}`, the name of a program such as `claude`, or `acp:CMD`")


def _parse_version(given: object) -> ConfigValue:
    # YAML reads 2.1 as a number.
    if isinstance(given, str | int | float) and _VERSION.fullmatch(str(given)):
        return str(given)
    raise ValueError("a version in quotes such as `'2.1.300'`")


def _parse_arguments(given: object) -> ConfigValue:
    # Unlike other lists, the same word may come twice.
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise ValueError("a list of arguments")  # noqa: TRY004 - as every parser
    return tuple(map(str, given))


def _parse_folder(given: object) -> ConfigValue:
    if isinstance(given, str) and given.startswith(("~/", "/")):
        return given
    raise ValueError("a folder such as `~/.claude`")


def _user_setting(name: str, purpose: str, parse: parsers.Parser, default: ConfigValue = None) -> Setting:
    # It starts programs, with the user's logins.
    return Setting(f"{SECTION}.{name}", purpose, parse, default, project=NEVER, local=NEVER)


FIELDS: Mapping[str, Setting] = {
    row.name.rpartition(".")[2]: row
    for row in (
        _user_setting("NAME.command", "the program: a name on PATH, or a path", parsers.command),
        _user_setting("NAME.args", "its arguments, before those of its protocol", _parse_arguments, ()),
        _user_setting(
            "NAME.env",
            "names of variables that it gets too, also those with API keys",
            list_of("names of variables", parsers.variable),
            (),
        ),
        _user_setting("NAME.credentials", "the folder with its login, which it may write", _parse_folder),
        _user_setting("NAME.minimum", "the oldest version of it that you accept", _parse_version),
        _user_setting(
            "NAME.hosts",
            "hosts that it reaches besides its provider, such as `gateway.example.com` or `127.0.0.1:8080`",
            list_of("hosts", parsers.host),
            (),
        ),
    )
}
"""The fields of a program: a known one, whose values it has otherwise, or another one, which speaks ACP."""
EXECUTOR_ROWS = (
    _user_setting(
        "default", f"who works: `{NATIVE}`, a program such as `claude`, or `acp:CMD`", parse_executor, NATIVE
    ),
)
_BY_ROLE = _user_setting("roles.ROLE", "who works in this role", parse_executor)
_BY_TIER = _user_setting("tiers.TIER", "who works in runs of this tier", parse_executor)


def executor_tier(name: str) -> str | None:
    """Return the tier whose executor the setting `name` is about; None if it is no such name."""
    match name.split("."):
        case [section, kind, tier] if (section, kind) == (SECTION, TIERS) and is_tier_name(tier):
            return tier
    return None


def own_executor_setting(name: str) -> Setting | None:
    """Return the setting with this name about a program, a role or a tier; None if it is no such name."""
    match name.split("."):
        case [section, kind, role] if (section, kind) == (SECTION, ROLES) and role in WORKING_ROLES:
            row = _BY_ROLE
        case _ if executor_tier(name):
            row = _BY_TIER
        case [section, program, field] if section == SECTION and is_program_name(program) and field in FIELDS:
            row = FIELDS[field]
        case _:
            return None
    return structs.replace(row, name=name)


def names_below(section: str) -> Iterable[str]:
    """Return what may follow `tiers.NAME`, `executors.roles`, `executors.tiers` or a program; nothing for others."""
    match section.split("."):
        case _ if is_tier_section(section):
            return TIER_FIELDS
        case [first, below] if (first, below) == (SECTION, ROLES):
            return WORKING_ROLES
        case [first, below] if (first, below) == (SECTION, TIERS):
            return BUILT_IN_TIERS
        case [first, below] if first == SECTION and is_program_name(below):
            return FIELDS
    return ()


def is_program_name(word: str) -> bool:
    """Return whether a program may have this name."""
    return word not in {NATIVE, ROLES, TIERS, "default"} and bool(_PROGRAM.fullmatch(word))
