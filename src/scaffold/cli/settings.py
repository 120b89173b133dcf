"""Configuration in layers: built-in, the user's file, the project's two files, the environment, flags; later wins."""

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import assert_never

from msgspec import Struct

from scaffold.core.errors import PlanInvalid, UsageProblem
from scaffold.host.dirs import user_dirs
from scaffold.llm.catalog import parse_model
from scaffold.plan.located import Listing, Located, Mark, Scalar, Table, read_located
from scaffold.plan.wording import Spelling

Setting = str | int | float | None

BUILT_IN = "built-in"
NOT_TRUSTED = "ignored: folder not trusted"
MODEL_VARIABLE = "SCAFFOLD_MODEL"
PROJECT_FILES = (".scaffold.yaml", ".scaffold/config.local.yaml")
MOST_AGENTS = 20


class Tier(Struct, frozen=True):
    """How much effort a run is worth."""

    name: str
    agents: int
    iterations: int
    """How often a failed contract may be put back into the same attempt."""
    timeout_s: float
    """What one attempt may take."""


TIERS = (Tier("quick", 1, 3, 300), Tier("scout", 2, 3, 300), Tier("builder", 3, 5, 900), Tier("architect", 5, 7, 1800))


class Value(Struct, frozen=True):
    """A setting's value and who set it: `built-in`, `FILE:LINE`, a variable or a flag."""

    value: Setting
    origin: str


class Settings(Struct, frozen=True):
    """Every setting by its dotted name."""

    values: Mapping[str, Value]
    ignored: tuple[Value, ...] = ()
    """Configuration files that exist but do not count, each with the reason as its origin."""

    def text(self, name: str) -> str | None:
        """Return a setting made of words, None where it is not set."""
        value = self.values[name].value
        return None if value is None else str(value)

    def money(self, name: str) -> float | None:
        """Return an amount, None where there is no limit."""
        value = self.values[name].value
        return None if value is None else float(value)

    def tier(self) -> Tier:
        """Return the chosen tier with its numbers; the setting `agents`, where there is one, outdoes the tier's."""
        name = str(self.values["tier"].value)
        agents = self.values["agents"].value or self.values[f"tiers.{name}.agents"].value
        return Tier(
            name=name,
            agents=int(agents or 1),
            iterations=int(self.values[f"tiers.{name}.iterations"].value or 1),
            timeout_s=60 * float(self.values[f"tiers.{name}.timeout_min"].value or 1),
        )


Check = Callable[[object], Setting]
"""Returns the value as it is kept; ValueError with what was expected."""


def load_settings(repository_root: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]) -> Settings:
    """Return every setting with its origin.

    `repository_root` is None outside a repository; `flags` are by dotted name, None for one that was not given.
    Raises UsageProblem naming file and line for keys nobody knows and values that will not do.
    """
    values = {name: Value(setting, BUILT_IN) for name, setting in _built_in().items()}
    values |= read_settings(user_file(environ))
    if model := environ.get(MODEL_VARIABLE):
        values["model"] = _judged("model", model, MODEL_VARIABLE)
    for name, given in flags.items():
        if given is not None:
            flag = f"--{name.replace('_', '-')}"
            values[name] = _judged(name, given, flag)
    return Settings(values, tuple(_ignored(repository_root)))


def user_file(environ: Mapping[str, str]) -> Path:
    """Return where the user's own settings are kept; the file need not exist."""
    return user_dirs(environ).config / "config.yaml"


def read_settings(path: Path) -> dict[str, Value]:
    """Return what a configuration file sets, by dotted name; nothing if there is no such file."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(f"{path} cannot be read: {error}", "Correct the file, or move it away.") from error
    return parse_settings(text, path)


def parse_settings(text: str, path: Path) -> dict[str, Value]:
    """Return what the text of a configuration file sets; UsageProblem with `path` and line for the first mistake."""
    try:
        root = read_located(text, name=str(path))
    except PlanInvalid as error:
        raise UsageProblem(error.what, error.fix) from error
    values: dict[str, Value] = {}
    for name, node in _leaves(root, "", path):
        origin = f"{path}:{node.mark.line}"
        if name in values:
            raise UsageProblem(f"{origin}: `{name}` is set twice", "Keep one of the two.")
        values[name] = _judged(name, node.value, origin)
    return values


def checked(name: str, setting: object) -> Setting:
    """Return a setting as it is kept; UsageProblem if nobody knows the name, ValueError if the value will not do."""
    check = CHECKS.get(name)
    if check is None:
        hint = Spelling(CHECKS).hint(name)
        raise UsageProblem(f"there is no setting `{name}`", f"{hint}`scaffold config` lists all of them.")
    return None if setting is None else check(setting)


def _judged(name: str, setting: object, origin: str) -> Value:
    try:
        return Value(checked(name, setting), origin)
    except ValueError as error:
        raise UsageProblem(f"{origin}: `{name}` must be {error}", f"It is {setting!r} now: change it.") from error
    except UsageProblem as problem:
        raise UsageProblem(f"{origin}: {problem.what}", problem.fix) from problem


def _leaves(node: Located, name: str, path: Path) -> Iterator[tuple[str, Scalar]]:
    """Yield the single values below `node` with their dotted names."""
    match node:
        case Scalar():
            if name or node.value is not None:
                yield name, node
        case Table(entries=entries):
            for key, value in entries:
                yield from _leaves(value, _dotted(name, key, path), path)
        case Listing(mark=mark):
            raise UsageProblem(f"{path}:{mark.line}: {_named(name)} is a list", "Write `key: value` lines.")
        case _:
            assert_never(node)


def _dotted(name: str, key: Located, path: Path) -> str:
    if not isinstance(key, Scalar):
        raise UsageProblem(f"{path}:{key.mark.line}: a key must be one word", "Write `key: value` lines.")
    below = f"{name}.{key.written}" if name else key.written
    if below not in CHECKS and not any(known.startswith(f"{below}.") for known in CHECKS):
        raise _unknown(below, key.mark, path)
    return below


def _unknown(name: str, mark: Mark, path: Path) -> UsageProblem:
    section = name.rpartition(".")[0]
    depth = name.count(".") + 1
    known = [".".join(each.split(".")[:depth]) for each in CHECKS if each.startswith(section)]
    hint = Spelling(known).hint(name)
    what = f"{path}:{mark.line}: there is no setting `{name}`"
    return UsageProblem(what, f"{hint}`scaffold config` lists all of them.")


def _named(name: str) -> str:
    return f"`{name}`" if name else "the configuration"


def _ignored(root: Path | None) -> Iterator[Value]:
    for name in PROJECT_FILES if root else ():
        if root and (root / name).exists():
            yield Value(name, NOT_TRUSTED)


def _built_in() -> dict[str, Setting]:
    values: dict[str, Setting] = {"model": None, "tier": "builder", "agents": None, "budget_usd": None}
    for tier in TIERS:
        values[f"tiers.{tier.name}.agents"] = tier.agents
        values[f"tiers.{tier.name}.iterations"] = tier.iterations
        values[f"tiers.{tier.name}.timeout_min"] = tier.timeout_s / 60
    return values


def _model(setting: object) -> Setting:
    if isinstance(setting, str):
        return str(parse_model(setting))
    raise ValueError("a model string such as `anthropic:NAME`")


def _tier(setting: object) -> Setting:
    names = [tier.name for tier in TIERS]
    if setting not in names:
        raise ValueError(f"one of {', '.join(names)}")
    return str(setting)


def _whole(least: int, most: int) -> Check:
    def check(setting: object) -> Setting:
        if isinstance(setting, bool) or not isinstance(setting, int) or not least <= setting <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return setting

    return check


def _dollars(setting: object) -> Setting:
    if isinstance(setting, bool) or not isinstance(setting, int | float) or not 0 <= setting < math.inf:
        raise ValueError("an amount in dollars, 0 or more")
    return setting


def _minutes(setting: object) -> Setting:
    if isinstance(setting, bool) or not isinstance(setting, int | float) or not 0 < setting < math.inf:
        raise ValueError("a number of minutes above 0")
    return setting


CHECKS: Mapping[str, Check] = {
    "model": _model,
    "tier": _tier,
    "agents": _whole(1, MOST_AGENTS),
    "budget_usd": _dollars,
} | {
    f"tiers.{tier.name}.{field}": check
    for tier in TIERS
    for field, check in (("agents", _whole(1, MOST_AGENTS)), ("iterations", _whole(1, 100)), ("timeout_min", _minutes))
}
"""Every setting there is, with what its value must be."""
