"""Settings in layers: built-in, the user's file, the project's two files, the environment, flags; later layers win."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from msgspec import Struct

from scaffold.config.folder_trust import folder_trust
from scaffold.config.schema.executor_rows import executor_tier
from scaffold.config.schema.model_rows import EFFORT_ROLES, model_with_profile
from scaffold.config.schema.parsers import AUTO, SIZES, ConfigValue
from scaffold.config.schema.setting import LOWER, MergeRule, Setting
from scaffold.config.schema.table import SETTINGS, find_setting
from scaffold.config.schema.tier_settings import (
    BUILT_IN_TIERS,
    FIELDS,
    is_tier_field,
    read_tier,
    require_complete,
    require_other_fallback,
    require_tier,
    tier_names,
)
from scaffold.config.settings_file import (
    FOLDER,
    SettingValue,
    built_in_values,
    decode_config,
    parse_settings,
    read_settings,
    user_values,
    validate_setting,
)
from scaffold.core.errors import UsageError
from scaffold.core.run_settings import BUILDER, CompactionWriter, Effort, ModelProfile, Tier
from scaffold.host.user_dirs import user_dirs
from scaffold.policy.trust_decision import LOCAL_SETTINGS_FILE, SETTINGS_FILE, TrustStatus

BUILT_IN = "built-in"
MODEL_VARIABLE = "SCAFFOLD_MODEL"
PROJECT_FILES = (SETTINGS_FILE, LOCAL_SETTINGS_FILE)
EFFORT_FLAG = "--effort"
NO_NEW_TIER = "only your own configuration may define a tier"
FLAG_BY_SETTING: Mapping[str, str] = {"sandbox.mode": "--sandbox"}
"""Flags whose name differs from the setting they override."""

Values = Mapping[str, SettingValue]


class IgnoredConfig(Struct, frozen=True):
    """Configuration without effect: a file, or one setting at a line of a file."""

    path: str
    """`FILE`, or `FILE:LINE`."""
    reason: str
    setting: str = ""


class Settings(Struct, frozen=True):
    """Every setting by its dotted name."""

    values: Values
    ignored: tuple[IgnoredConfig, ...] = ()
    """Parts of the project's files without effect."""
    trust: TrustStatus | None = None
    """Whether the folder's own configuration applies; None if no folder was looked at."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines that tell the user which configuration is ignored."""
        files = [each for each in self.ignored if not each.setting]
        notes = [f"{each.path}: `{each.setting}` is ignored: {each.reason}" for each in self.ignored if each.setting]
        if files:
            named = " and ".join(each.path for each in files)
            notes.append(f"{named} ignored: {files[0].reason}; `scaffold trust` shows what is in there, and trusts it")
        return tuple(notes)

    def text(self, name: str) -> str | None:
        """Return a setting that is text; None if it is not set."""
        value = self.values[name].value
        return None if value is None else str(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a setting that is a list; empty if it is not set."""
        value = self.values[name].value
        return value if isinstance(value, tuple) else ()

    def money(self, name: str) -> float | None:
        """Return an amount of money; None if there is no limit."""
        value = self.values[name].value
        return float(value) if isinstance(value, int | float) else None

    def number(self, name: str) -> float:
        """Return a number that has a default."""
        return self.money(name) or 0.0

    def model(self) -> str | None:
        """Return the model string, of a size if one is chosen; None if no model is configured.

        Raise UsageError if no model is configured for the size.
        """
        name = self.text("model")
        return None if name is None else self.model_of(name, fix=", or pass `--model MODEL`")

    def model_of(self, word: str, *, fix: str = "") -> str:
        """Return the model string for a size, any other word unchanged; UsageError if the size has no model."""
        if word not in SIZES:
            return word
        models = self.models(word)
        if not models:
            what = f"the model is `{word}`, and no model is configured for that size"
            raise UsageError(what, f"Set one with `scaffold config models.{word} MODEL`{fix}.")
        return models[0]

    def models(self, word: str) -> tuple[str, ...]:
        """Return the model strings for a size, the preferred one first; for any other word itself."""
        if word not in SIZES:
            return (word,)
        given = self.text(f"models.{word}")
        return self.texts(f"models.{word}") or (() if given is None else (given,))

    def effort(self, size: str | None = None) -> Effort:
        """Return the effort of a model of a size; without a size, of any other model."""
        return self._specific_effort(f"efforts.{size}") or cast("Effort", self.text("effort"))

    def role_efforts(self) -> Mapping[str, Effort]:
        """Return the effort of each role with its own setting."""
        found = {role: self._specific_effort(f"efforts.{role}") for role in EFFORT_ROLES}
        return {role: effort for role, effort in found.items() if effort is not None}

    def _specific_effort(self, name: str) -> Effort | None:
        """Return the effort set for a size or role; None if it is not set, or if the flag decides."""
        if name not in self.values or self.values["effort"].origin == EFFORT_FLAG:
            return None
        return cast("Effort | None", self.text(name))  # the parser checked it

    def compaction(self) -> CompactionWriter:
        """Return the writer of summaries for compacted messages: `code` or `model`."""
        return cast("CompactionWriter", self.text("compaction"))  # the parser checked it

    def windows(self) -> Mapping[str, int]:
        """Return the configured context windows in tokens, by model string or name."""
        entries = (entry.split() for entry in self.texts("windows"))
        return {model: int(tokens) for model, tokens in entries}

    def profiles(self) -> Mapping[str, ModelProfile]:
        """Return the configured profiles by model string or name; those of a size or role are of its models."""
        found: dict[str, ModelProfile] = {}
        named = {name: setting for setting in self.values if (name := model_with_profile(setting))}
        for name, setting in named.items():
            profile = self.text(setting)
            if profile is None:
                continue
            role = f"models.{name}"
            words = (self.texts(role) or (self.text(role),)) if role in SETTINGS else (name,)
            models = (model for word in words if word for model in self.models(word))
            found |= dict.fromkeys(models, cast("ModelProfile", profile))  # the parser checked it
        return found

    def approvals(self) -> Mapping[str, str]:
        """Return `allow`, `ask` or `deny` for each category of tools that has a setting."""
        prefix = "approvals."
        found = {name.removeprefix(prefix): self.text(name) for name in self.values if name.startswith(prefix)}
        return {category: rule for category, rule in found.items() if rule is not None}

    @property
    def tier_is_chosen(self) -> bool:
        """Whether a tier is configured or given; if not, the words of the request decide."""
        return self.text("tier") != AUTO

    def tier(self) -> Tier:
        """Return the chosen tier, `builder` if the request decides; the setting `agents` overrides the tier's."""
        name = _tier_name(self.values)
        return read_tier(name, {**_tier_fields(self.values, name), "agents": int(_agent_count(self.values))})

    def tiers(self) -> tuple[str, ...]:
        """Return the names of all tiers, the built-in ones first."""
        return tier_names(self.values)


def resolve_model_name(text: str, environ: Mapping[str, str], start: Path) -> str:
    """Return the model string for what a user typed in the folder `start`; raise UsageError for an unset size."""
    return load_settings(start, environ, {"model": text}).model() or text


def load_settings(
    start: Path | None, environ: Mapping[str, str], flags: Mapping[str, object], *, trust_once: bool = False
) -> Settings:
    """Return every setting with its origin.

    `start` is a folder. The files of the folder, or of the repository that contains it, apply if the folder is trusted
    or with `trust_once`; with None, only the user's own file applies. `flags` are by dotted name, None for a flag that
    was not given. Raise UsageError naming file and line for unknown names and invalid values.
    """
    given = {name: validate_setting(name, value, _flag_of(name)) for name, value in flags.items() if value is not None}
    values = default_values() | user_values(user_config_file().parent / FOLDER)
    values |= {name: each for name, each in read_settings(user_config_file()).items() if each.value is not None}
    ignored: tuple[IgnoredConfig, ...] = ()
    trust = None if start is None else folder_trust(start, once=trust_once)
    if trust is not None:
        values, ignored = _with_project(values, trust, given.get("tier"))
    if model := environ.get(MODEL_VARIABLE):
        values["model"] = validate_setting("model", model, MODEL_VARIABLE)
    values |= given
    _check_tiers(values)
    return Settings(values, ignored, trust)


def _flag_of(setting: str) -> str:
    if setting in FLAG_BY_SETTING or "." in setting:
        return FLAG_BY_SETTING.get(setting, setting)
    return f"--{setting.replace('_', '-')}"


def default_values() -> dict[str, SettingValue]:
    """Return the built-in value of every setting."""
    tiers = {name: SettingValue(each.value, BUILT_IN) for name, each in built_in_values().items()}
    return {name: SettingValue(setting.default, BUILT_IN) for name, setting in SETTINGS.items()} | tiers


def _check_tiers(values: Values) -> None:
    """Raise UsageError if the chosen tier does not exist, or if a tier cannot be used."""
    chosen = values["tier"]
    if chosen.value != AUTO:
        require_tier(str(chosen.value), tier_names(values), chosen.origin)
    for tier in tier_names(values):
        held = _tier_fields(values, tier)
        # A built-in tier is complete; what is wrong with it comes from a file of the user.
        names = [name for name in FIELDS if held.get(name) is not None]
        if tier not in BUILT_IN_TIERS:
            require_complete(tier, held, values[f"tiers.{tier}.{names[0]}"].origin)
        if held.get("fallback") is not None:
            require_other_fallback(tier, held, values[f"tiers.{tier}.fallback"].origin)
    for name, each in values.items():
        if (works_in := executor_tier(name)) and each.value is not None:
            require_tier(works_in, tier_names(values), each.origin)


def _tier_fields(values: Values, tier: str) -> dict[str, ConfigValue]:
    found = {name: values.get(f"tiers.{tier}.{name}") for name in FIELDS}
    return {name: each.value for name, each in found.items() if each is not None and each.value is not None}


def _tier_name(values: Values) -> str:
    name = str(values["tier"].value)
    return BUILDER.name if name == AUTO else name


def user_config_file() -> Path:
    """Return the path of the user's own settings file, which may not exist."""
    return user_dirs().config / "config.yaml"


def project_settings(folder: TrustStatus, name: str) -> dict[str, SettingValue]:
    """Return the settings of a project's file, if it applies; raise UsageError with file and line for mistakes."""
    content = folder.content(name)
    path = folder.folder.top / name
    return {} if content is None else parse_settings(decode_config(content, path), path)


def merge_project_settings(values: Values, asked: Values) -> tuple[dict[str, SettingValue], tuple[IgnoredConfig, ...]]:
    """Return the settings with those of `.scaffold.yaml`, and the ignored parts of that file."""
    tiers = tier_names(values)
    own = {name: each for name, each in asked.items() if not is_tier_field(name) or name.split(".")[1] in tiers}
    merged, ignored = _merge_layers(values, own, lambda setting: setting.project)
    new = tuple(IgnoredConfig(each.origin, NO_NEW_TIER, name) for name, each in asked.items() if name not in own)
    return merged, ignored + new


def merge_local_settings(values: Values, asked: Values) -> tuple[dict[str, SettingValue], tuple[IgnoredConfig, ...]]:
    """Return the settings with those of `.scaffold/config.local.yaml`, and the ignored parts of that file."""
    return _merge_layers(values, asked, lambda setting: setting.local)


def _with_project(
    values: dict[str, SettingValue], folder: TrustStatus, tier: SettingValue | None
) -> tuple[dict[str, SettingValue], tuple[IgnoredConfig, ...]]:
    if not folder.trusted:
        present = {piece.name for piece in folder.folder.pieces if not piece.blank}
        return values, tuple(IgnoredConfig(name, folder.reason) for name in PROJECT_FILES if name in present)
    # What a project may lower is what the tier of the flag says; the flag itself wins over both files.
    values |= {"tier": tier} if tier else {}
    asked, local = (project_settings(folder, name) for name in PROJECT_FILES)
    if tier is not None:
        asked.pop("tier", None)
        local.pop("tier", None)
    values, ignored = merge_project_settings(values, asked)
    values, more = merge_local_settings(values, local)
    return values, ignored + more


def _merge_layers(
    values: Values, asked: Values, rule_of: Callable[[Setting], MergeRule]
) -> tuple[dict[str, SettingValue], tuple[IgnoredConfig, ...]]:
    merged, ignored = dict(values), []
    for name, wanted in sorted(asked.items(), key=lambda item: item[0] != "tier"):  # the tier's agents are a limit
        if wanted.value is None:
            continue
        setting = find_setting(name)
        if setting is None:
            raise LookupError(name)
        held, rule = merged.get(name, SettingValue(None, BUILT_IN)), rule_of(setting)
        # Without a value of its own, `agents` is what the tier says, and a project may only lower that.
        limit = _agent_count(merged) if name == "agents" and rule is LOWER else held.value
        result = rule.merge(limit, wanted.value)
        if result.reason:
            ignored.append(IgnoredConfig(wanted.origin, result.reason, name))
        # A refused value leaves the origin as it was, or the user would read that the project set it.
        if result.value != held.value and not (result.reason and result.value == limit):
            origin = f"{held.origin}, {wanted.origin}" if setting.accumulates and held.value else wanted.origin
            merged[name] = SettingValue(result.value, origin)
    return merged, tuple(ignored)


def _agent_count(values: Values) -> float:
    # The setting `agents` overrides the tier's.
    tier = values.get(f"tiers.{_tier_name(values)}.agents")
    agents = values["agents"].value or (tier and tier.value)
    return agents if isinstance(agents, int) else 1
