"""The models of a run: its tier's or the user's, and the models of roles and types of tasks."""

from msgspec import Struct

from scaffold.agent.model_access import resolve_model
from scaffold.agent.prompts import Notice
from scaffold.config.schema.model_rows import MODEL_ROLES, TASK_KINDS
from scaffold.config.schema.parsers import SIZES
from scaffold.config.settings import BUILT_IN, Settings
from scaffold.core.errors import UsageError
from scaffold.core.run_settings import KIND_BY_ROLE, AssignedModel, AssignedModels, ModelSettings, Tier
from scaffold.llm.registry.model_name import is_live, parse_model

WAYS_TO_A_MODEL = (
    "Pass `--model anthropic:NAME`, `--model cassette:FILE` or another model string, or set SCAFFOLD_MODEL; "
    "`scaffold demo` needs neither."
)
STAND_INS = {"small": ("medium", "large"), "medium": ("large", "small"), "large": ("medium", "small")}
"""The sizes that take the place of one that is not configured, the nearest first."""


class RunModels(Struct, frozen=True):
    """All models of a run."""

    model: ModelSettings
    assigned: AssignedModels


def run_models(settings: Settings, tier: Tier, *, notice: Notice) -> RunModels:
    """Return the models of a run in this tier; `notice` receives a line for each size without a model.

    Model strings become independent of the current directory. A model that the user chose for the run does everything
    that no role has a model for, and a cassette does everything. Raises UsageError if no model is configured, or if one
    cannot be used.
    """
    sizes = _Sizes(settings, notice)
    chosen = settings.model()
    if chosen is not None:
        word = settings.text("model") or ""
        main = sizes.assigned((word,))
    else:
        main = sizes.assigned((tier.model, *filter(None, [tier.fallback])))
    model = ModelSettings(
        name=main.name,
        cassette_hash=main.cassette_hash,
        others=main.others,
        effort=main.effort,
        role_efforts=settings.role_efforts(),
        compaction=settings.compaction(),
        windows=settings.windows(),
        profiles=settings.profiles(),
    )
    if chosen is not None and parse_model(main.name).provider == "cassette":
        return RunModels(model, AssignedModels())
    by_task = {}
    if chosen is None and tier.task_models:
        by_task = {kind: sizes.assigned(models_of(settings, kind)) for kind in TASK_KINDS}
    by_role = {role: by_task[kind] for role, kind in KIND_BY_ROLE.items() if kind in by_task and role in MODEL_ROLES}
    given = {role: sizes.assigned(words) for role in MODEL_ROLES if (words := models_of(settings, role))}
    if "worker" in given:
        # What the user says of all work counts more than what is built in for a kind of it.
        origins = {kind: settings.values[f"models.{kind}"].origin for kind in by_task}
        by_task = {kind: each for kind, each in by_task.items() if origins[kind] != BUILT_IN}
    by_role = {name: each for name, each in (by_role | given).items() if each != main or name in given}
    sizes.tell()
    return RunModels(model, AssignedModels(by_role=by_role, by_task=by_task, sized=chosen is None))


def models_of(settings: Settings, name: str) -> tuple[str, ...]:
    """Return the words of `models.NAME`, the preferred one first."""
    value = settings.values[f"models.{name}"].value
    return value if isinstance(value, tuple) else () if value is None else (str(value),)


class _Sizes:
    """The configured sizes, and the requested sizes that are not configured."""

    def __init__(self, settings: Settings, notice: Notice) -> None:
        self._settings = settings
        self._notice = notice
        self._unset: dict[str, str] = {}
        self._known: dict[str, tuple[str, str]] = {}

    def assigned(self, words: tuple[str, ...]) -> AssignedModel:
        """Return the model for model strings and sizes in order of preference; only live models replace the first."""
        found = dict.fromkeys(name for word in words for name in self._settings.models(self._resolve_size(word)))
        (name, digest), *others = map(self._known_model, found)
        size = self._resolve_size(words[0])
        return AssignedModel(
            name=name,
            cassette_hash=digest,
            others=tuple(other for other, _ in others if is_live(other)) if is_live(name) else (),
            effort=self._settings.effort(size),
        )

    def _resolve_size(self, word: str) -> str:
        """Return the model string, or the size that takes the place of an unset one."""
        if word not in SIZES or self._settings.models(word):
            return word
        stand_in = next((each for each in STAND_INS[word] if self._settings.models(each)), None)
        if stand_in is None:
            raise UsageError("no model is configured", WAYS_TO_A_MODEL)
        self._unset[word] = stand_in
        return stand_in

    def tell(self) -> None:
        """Report unconfigured sizes, and the sizes that take their place."""
        for stand_in in dict.fromkeys(self._unset.values()):
            unset = [f"models.{word}" for word, each in self._unset.items() if each == stand_in]
            verb, whose = ("is", "its") if len(unset) == 1 else ("are", "their")
            self._notice(f"{' and '.join(unset)} {verb} not set: models.{stand_in} takes {whose} place")

    def _known_model(self, name: str) -> tuple[str, str]:
        if name not in self._known:
            self._known[name] = resolve_model(name)
        return self._known[name]
