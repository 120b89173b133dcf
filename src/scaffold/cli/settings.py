"""Configuration in layers: built-in, the user's file, the project's two files, the environment, flags; later wins."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import assert_never

from msgspec import Struct

from scaffold.cli.setting import CHECKS, SIZES, Setting, Tier, built_in
from scaffold.core.errors import PlanInvalid, UsageProblem
from scaffold.host.dirs import user_dirs
from scaffold.plan.located import Listing, Located, Mark, Scalar, Table, read_located
from scaffold.plan.wording import Spelling

BUILT_IN = "built-in"
NOT_TRUSTED = "ignored: folder not trusted"
MODEL_VARIABLE = "SCAFFOLD_MODEL"
PROJECT_FILES = (".scaffold.yaml", ".scaffold/config.local.yaml")


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

    def model(self) -> str | None:
        """Return the chosen model string, None where none is configured; a size stands for the model it is set to.

        UsageProblem for a size that is set to none.
        """
        name = self.text("model")
        if name not in SIZES:
            return name
        model = self.text(f"models.{name}")
        if model is None:
            what = f"the model is `{name}`, and no model is configured for that size"
            raise UsageProblem(what, f"Set one with `scaffold config models.{name} MODEL`, or pass `--model MODEL`.")
        return model

    def approvals(self) -> Mapping[str, str]:
        """Return what the user's configuration says of categories of tools: `allow`, `ask` or `deny` by category."""
        prefix = "approvals."
        found = {name.removeprefix(prefix): self.text(name) for name in self.values if name.startswith(prefix)}
        return {category: rule for category, rule in found.items() if rule is not None}

    def number(self, name: str) -> float:
        """Return a number that is always set, by whoever; one that was unset is what it is built in as."""
        value = self.values[name].value
        return float(built_in()[name] or 0 if value is None else value)

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


def named_model(text: str, environ: Mapping[str, str]) -> str:
    """Return the model string that a user named; UsageProblem for a size that is set to none."""
    return load_settings(None, environ, {"model": text}).model() or text


def load_settings(repository_root: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]) -> Settings:
    """Return every setting with its origin.

    `repository_root` is None outside a repository; `flags` are by dotted name, None for one that was not given.
    Raises UsageProblem naming file and line for keys nobody knows and values that will not do.
    """
    values = {name: Value(setting, BUILT_IN) for name, setting in built_in().items()}
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
