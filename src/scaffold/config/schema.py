"""Each setting there is: its name, what it is before anybody sets it, and what its value must be."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import get_args

from scaffold.core.gates import GateKind
from scaffold.core.run_settings import TIERS, NetworkMode, SandboxSettings, SupervisionMode
from scaffold.host.environment import is_never_inherited
from scaffold.llm.registry.model_name import parse_model
from scaffold.policy.rule.rules import parse_rule
from scaffold.policy.rule.ruleset import CATEGORIES, DECISIONS
from scaffold.verify.services.specs import parse_external

Setting = str | int | float | tuple[str, ...] | None
SettingCheck = Callable[[object], Setting]
"""Returns the value as it is kept; ValueError with what was expected, or UsageProblem where more is to be said."""

SIZES = ("small", "medium", "large")
"""Names for models that the user's configuration fills in: `models.small` and so on."""
MAX_AGENTS = 20
MAX_SUBAGENTS = 20

SANDBOX_MODES = ("off", "auto", "require")
"""From loose to strict: no sandbox, the best there is, none but a real one."""
NETWORKS: tuple[NetworkMode, ...] = ("hosts", "loopback", "none")
"""What commands may reach, from loose to strict."""

AUTO = "auto"
OFF = "off"


def built_in_settings() -> dict[str, Setting]:
    """Return every setting as it is before anybody sets it."""
    values: dict[str, Setting] = {"model": None, "tier": "builder", "agents": None, "budget_usd": None}
    values |= {"max_workers_per_goal": 3, "supervision": "mechanical", "replans": 3, "idle_s": 300}
    values |= {"notify": None, "max_subagents": 5, "subagent_timeout_s": 300}
    values |= {f"models.{size}": None for size in (*SIZES, "embedding")}
    values |= {f"approvals.{category}": None for category in CATEGORIES}
    values |= {"permissions.allow": (), "permissions.deny": (), "environment": (), "inbox.wait_s": 10}
    values |= {"areas.globs": (), "areas.words": (), "areas.types": ()}
    values |= {"sandbox.mode": "auto", "sandbox.network": "loopback", "sandbox.hosts": ()}
    values |= {"sandbox.memory_gb": int(SandboxSettings().memory_gb)}
    values |= {f"quality_gates.{kind}": AUTO for kind in get_args(GateKind)}
    values |= {
        "quality_gates.timeout_s": 600,
        "quality_gates.slots": 1,
        "quality_gates.tags": (),
        "setup": (),
        "services": (),
    }
    for tier in TIERS:
        values[f"tiers.{tier.name}.threshold"] = tier.threshold
        values[f"tiers.{tier.name}.agents"] = tier.agents
        values[f"tiers.{tier.name}.iterations"] = tier.iterations
        values[f"tiers.{tier.name}.timeout_min"] = tier.timeout_min
    return values


def _model(setting: object) -> Setting:
    return str(setting) if setting in SIZES else _named_model(setting)


def _named_model(setting: object) -> Setting:
    if isinstance(setting, str):
        return str(parse_model(setting))
    raise ValueError("a model string such as `anthropic:NAME`")


def _command(setting: object) -> Setting:
    if isinstance(setting, str) and setting.strip() and "\0" not in setting:
        return setting.strip()
    raise ValueError("a command for /bin/sh")


def _gate(setting: object) -> Setting:
    """Return how a kind of gate is found: by itself, not at all, or the command that is given."""
    return OFF if setting is False else _command(setting)  # as YAML reads a plain `off`


def _shell_command(text: str) -> str:
    return str(_command(text))


def _tagged(text: str) -> str:
    path, *tags = text.split() or [""]
    inside = path and not path.startswith(("/", "@")) and ".." not in path.split("/")
    if not inside or not tags or not all(map(_TAG.fullmatch, tags)):
        raise ValueError(f"a list of paths, each with tags of tests, such as `src/auth @auth`, and `{text}` is none")
    return " ".join((path, *tags))


def _service(text: str) -> str:
    command = _shell_command(text)
    parse_external(command)
    return command


def _one_of(*words: str) -> SettingCheck:
    def check(setting: object) -> Setting:
        word = "off" if setting is False else setting  # as YAML reads a plain `off`
        if word not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return str(word)

    return check


def _list_of(what: str, item: Callable[[str], str]) -> SettingCheck:
    """Return the check of a list; `item` returns one of its entries as it is kept, or raises as a Check does."""

    def check(setting: object) -> Setting:
        if not isinstance(setting, Sequence) or isinstance(setting, str):
            raise ValueError(f"a list of {what}")  # noqa: TRY004 - a Check raises it
        return tuple(dict.fromkeys(item(str(each).strip()) for each in setting))

    return check


def _rule(text: str, *, denies: bool = False) -> str:
    parse_rule(text, denies=denies)
    return text


def _host(text: str) -> str:
    found = _HOST.fullmatch(text)
    if found is None or not 0 < int(found["port"] or 443) < 65_536:
        raise ValueError(
            f"a list of hosts such as `example.com`, `*.example.com` or `example.com:8443`, and `{text}` is none"
        )
    return text.lower()


def _variable(text: str) -> str:
    if not _VARIABLE.fullmatch(text):
        raise ValueError(f"a list of names of variables such as `NPM_CONFIG_CACHE`, and `{text}` is none")
    if is_never_inherited(text):
        raise ValueError(f"a list of names of variables, and `{text}` would lead commands astray")
    return text


def _area_glob(text: str) -> str:
    if not text or text.startswith("/") or ".." in text.split("/"):
        raise ValueError(f"a list of globs from the repository's root such as `billing/**`, and `{text}` is none")
    return text


def _area_word(text: str) -> str:
    if not _WORD.fullmatch(text):
        raise ValueError(f"a list of words of letters alone such as `invoice`, and `{text}` is none")
    return text.casefold()


def _area_type(text: str) -> str:
    if not _FILE_SUFFIX.fullmatch(text):
        raise ValueError(f"a list of endings of files such as `.proto`, and `{text}` is none")
    return text.casefold()


_TAG = re.compile(r"@[A-Za-z_][\w-]*")
_WORD = re.compile(r"[A-Za-z]+")
_FILE_SUFFIX = re.compile(r"(\.[\w-]+)+")
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9-]+)*(:(?P<port>[0-9]{1,5}))?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _integer(least: int, most: int) -> SettingCheck:
    def check(setting: object) -> Setting:
        if isinstance(setting, bool) or not isinstance(setting, int) or not least <= setting <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return setting

    return check


def _dollars(setting: object) -> Setting:
    if isinstance(setting, bool) or not isinstance(setting, int | float) or not 0 <= setting < math.inf:
        raise ValueError("an amount in dollars, 0 or more")
    return setting


def _duration(unit: str) -> SettingCheck:
    def check(setting: object) -> Setting:
        if isinstance(setting, bool) or not isinstance(setting, int | float) or not 0 < setting < math.inf:
            raise ValueError(f"a number of {unit} above 0")
        return setting

    return check


def _setup(setting: object) -> Setting:
    """Return the commands that prepare a checkout; `off` alone, as a word or a list of one, for none."""
    expected = "commands, or `off` alone"
    commands = _list_of(expected, _shell_command)([OFF] if setting is False or setting == OFF else setting)
    if commands != (OFF,) and isinstance(commands, tuple) and OFF in commands:
        raise ValueError(f"a list of {expected}")
    return commands


LISTS: Mapping[str, SettingCheck] = {
    "permissions.allow": _list_of("rules TOOL:PATTERN", _rule),
    "permissions.deny": _list_of("rules TOOL:PATTERN", partial(_rule, denies=True)),
    "sandbox.hosts": _list_of("hosts", _host),
    "environment": _list_of("names of variables", _variable),
    "areas.globs": _list_of("globs", _area_glob),
    "areas.words": _list_of("words", _area_word),
    "areas.types": _list_of("endings of files", _area_type),
    "quality_gates.tags": _list_of("paths, each with tags of tests", _tagged),
    "setup": _setup,
    "services": _list_of("commands", _service),
}
"""The settings that are lists, each entry of which counts once."""

CHECKS: Mapping[str, SettingCheck] = {
    **LISTS,
    "model": _model,
    "tier": _one_of(*(tier.name for tier in TIERS)),
    "agents": _integer(1, MAX_AGENTS),
    "max_workers_per_goal": _integer(1, MAX_AGENTS),
    "budget_usd": _dollars,
    "notify": _command,
    "supervision": _one_of(*get_args(SupervisionMode)),
    "replans": _integer(0, 100),
    "idle_s": _duration("seconds"),
    "max_subagents": _integer(1, MAX_SUBAGENTS),
    "subagent_timeout_s": _duration("seconds"),
    **{f"models.{size}": _named_model for size in (*SIZES, "embedding")},
    **{f"approvals.{category}": _one_of(*DECISIONS) for category in CATEGORIES},
    "sandbox.mode": _one_of(*SANDBOX_MODES),
    "sandbox.network": _one_of(*NETWORKS),
    "sandbox.memory_gb": _duration("gigabytes"),
    "inbox.wait_s": _duration("seconds"),
    **{f"quality_gates.{kind}": _gate for kind in get_args(GateKind)},
    "quality_gates.timeout_s": _duration("seconds"),
    "quality_gates.slots": _integer(1, 64),
} | {
    f"tiers.{tier.name}.{field}": check
    for tier in TIERS
    for field, check in (
        ("agents", _integer(1, MAX_AGENTS)),
        ("iterations", _integer(1, 100)),
        ("timeout_min", _duration("minutes")),
        ("threshold", _integer(0, 9)),
    )
}
"""Every setting there is, with what its value must be."""
