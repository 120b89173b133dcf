"""Configuration in layers: built-in, the user's file, the project's two files, the environment, flags; later wins."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from scaffold.config.file import SettingValue, decode_config, parse_settings, read_settings, validate_setting
from scaffold.config.folder_trust import folder_trust
from scaffold.config.project_overrides import IgnoredConfig, merge_local_settings, merge_project_settings
from scaffold.config.schema import SIZES, built_in_settings
from scaffold.core.errors import UsageError
from scaffold.core.run_settings import Tier
from scaffold.host.user_dirs import user_dirs
from scaffold.policy.trust import LOCAL_SETTINGS_FILE, SETTINGS_FILE, TrustStatus

BUILT_IN = "built-in"
MODEL_VARIABLE = "SCAFFOLD_MODEL"
PROJECT_FILES = (SETTINGS_FILE, LOCAL_SETTINGS_FILE)
FLAG_BY_SETTING: Mapping[str, str] = {"sandbox.mode": "--sandbox"}
"""Flags that are not called like the setting they outdo."""


class Settings(Struct, frozen=True):
    """Every setting by its dotted name."""

    values: Mapping[str, SettingValue]
    ignored: tuple[IgnoredConfig, ...] = ()
    """What stands in a project's files and does not count."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what users should know of configuration that does not count, in lines."""
        files = [each for each in self.ignored if not each.setting]
        notes = [f"{each.path}: `{each.setting}` is ignored: {each.reason}" for each in self.ignored if each.setting]
        if files:
            named = " and ".join(each.path for each in files)
            notes.append(f"{named} ignored: {files[0].reason}; `scaffold trust` shows what is in there, and trusts it")
        return tuple(notes)

    def text(self, name: str) -> str | None:
        """Return a setting made of words, None where it is not set."""
        value = self.values[name].value
        return None if value is None else str(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a setting that is a list, empty where it is not set."""
        value = self.values[name].value
        return value if isinstance(value, tuple) else ()

    def money(self, name: str) -> float | None:
        """Return an amount, None where there is no limit."""
        value = self.values[name].value
        return float(value) if isinstance(value, int | float) else None

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
            raise UsageError(what, f"Set one with `scaffold config models.{name} MODEL`, or pass `--model MODEL`.")
        return model

    def approvals(self) -> Mapping[str, str]:
        """Return what the user's configuration says of categories of tools: `allow`, `ask` or `deny` by category."""
        prefix = "approvals."
        found = {name.removeprefix(prefix): self.text(name) for name in self.values if name.startswith(prefix)}
        return {category: rule for category, rule in found.items() if rule is not None}

    def number(self, name: str) -> float:
        """Return a number that is always set, by whoever."""
        value = self.values[name].value
        return float(value) if isinstance(value, int | float) else 0.0

    def tier(self) -> Tier:
        """Return the chosen tier with its numbers; the setting `agents`, where there is one, outdoes the tier's."""
        name = str(self.values["tier"].value)
        agents = self.values["agents"].value or self.values[f"tiers.{name}.agents"].value
        return Tier(
            name=name,
            agents=int(agents) if isinstance(agents, int | float) else 1,
            iterations=int(self.number(f"tiers.{name}.iterations")),
            timeout_min=self.number(f"tiers.{name}.timeout_min"),
            threshold=int(self.number(f"tiers.{name}.threshold")),
        )


def resolve_model_name(text: str, environ: Mapping[str, str], start: Path) -> str:
    """Return the model string that a user named in the folder `start`; UsageProblem for a size that is set to none."""
    return load_settings(start, environ, {"model": text}).model() or text


def load_settings(
    start: Path | None, environ: Mapping[str, str], flags: Mapping[str, object], *, trust_once: bool = False
) -> Settings:
    """Return every setting with its origin.

    `start` is a folder: it, or the repository it is in, may bring its own configuration, which counts if the folder
    is trusted or with `trust_once`; None for the user's alone. `flags` are by dotted name, None for one that was not
    given. Raises UsageProblem naming file and line for keys nobody knows and values that will not do.
    """
    values = {name: SettingValue(setting, BUILT_IN) for name, setting in built_in_settings().items()}
    values |= {name: each for name, each in read_settings(user_config_file(environ)).items() if each.value is not None}
    ignored: tuple[IgnoredConfig, ...] = ()
    if start is not None:
        values, ignored = _with_project(values, folder_trust(start, environ, once=trust_once))
    if model := environ.get(MODEL_VARIABLE):
        values["model"] = validate_setting("model", model, MODEL_VARIABLE)
    for name, given in flags.items():
        if given is not None:
            values[name] = validate_setting(name, given, FLAG_BY_SETTING.get(name, f"--{name.replace('_', '-')}"))
    return Settings(values, ignored)


def user_config_file(environ: Mapping[str, str]) -> Path:
    """Return where the user's own settings are kept; the file need not exist."""
    return user_dirs(environ).config / "config.yaml"


def _with_project(
    values: dict[str, SettingValue], folder: TrustStatus
) -> tuple[dict[str, SettingValue], tuple[IgnoredConfig, ...]]:
    """Return the settings with those that the folder brings along, and what does not count."""
    if not folder.trusted:
        return values, _untrusted(folder)
    values, ignored = merge_project_settings(values, project_settings(folder, SETTINGS_FILE))
    values, more = merge_local_settings(values, project_settings(folder, LOCAL_SETTINGS_FILE))
    return values, ignored + more


def project_settings(folder: TrustStatus, name: str) -> dict[str, SettingValue]:
    """Return what one of the project's files sets, if it counts; UsageProblem naming file and line for mistakes."""
    content = folder.content(name)
    path = folder.folder.top / name
    return {} if content is None else parse_settings(decode_config(content, path), path)


def _untrusted(folder: TrustStatus) -> tuple[IgnoredConfig, ...]:
    telling = {piece.name for piece in folder.folder.pieces if not piece.blank}
    return tuple(IgnoredConfig(name, folder.reason) for name in PROJECT_FILES if name in telling)
