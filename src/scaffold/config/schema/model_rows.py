"""The settings of models and their effort: for a run, each size, role and type of task."""

import re
from collections.abc import Mapping
from typing import get_args

from scaffold.config.schema import parsers
from scaffold.config.schema.parsers import SIZES, ConfigValue, Parser, list_of, one_of
from scaffold.config.schema.setting import NEVER, NO_ADDRESS, Setting
from scaffold.core.run_settings import CompactionWriter, Effort, ModelProfile, TaskKind

MODEL_ROLES = (
    *("planner", "supervisor", "worker", "drafter", "critic", "merger", "learner", "auditor"),
    *("implementation", "testing", "code_review", "architecture_review", "design_review", "pm_review"),
)
"""The roles in a run whose model can be set; the second reviewer has `reviewer.model`."""
TASK_MODELS: Mapping[TaskKind, str] = {
    "boilerplate": "small",
    "feature": "medium",
    "architecture": "large",
    "review": "medium",
}
"""The size of the model for each kind of task."""
TASK_KINDS: Mapping[TaskKind, str] = {
    "boilerplate": "tasks of the type SETUP",
    "feature": "tasks of the types FEATURE and BUGFIX",
    "architecture": "tasks of the type REFACTOR",
    "review": "reviews and critics",
}
EFFORT_ROLES = ("worker", "planner", "supervisor", "drafter", "critic", "reviewer", "merger")
"""The roles in a run whose effort can be set."""


_PROFILE = re.compile(r"models\.(?P<name>\S+)\.profile")


def model_with_profile(setting: str) -> str | None:
    """Return the size, role or model whose profile a setting of this name is; None if it is no such name."""
    found = _PROFILE.fullmatch(setting)
    return found and found["name"]


def _model_setting(name: str, purpose: str, parse: Parser) -> Setting:
    return Setting(name, purpose, parse, project=NO_ADDRESS, local=NO_ADDRESS)


def _user_setting(name: str, purpose: str, parse: Parser, default: ConfigValue = None) -> Setting:
    return Setting(name, purpose, parse, default, project=NEVER)


MODEL_ROWS = (
    _model_setting(
        "model",
        "the model of the whole run: a model string, or `small`, `medium`, `large`; without it, the tier and the type "
        "of each task choose among the sizes",
        parsers.model,
    ),
    *(
        _model_setting(
            f"models.{size}",
            "the model for each size; of a list, the first whose provider accepts requests",
            parsers.alternatives,
        )
        for size in SIZES
    ),
    *(
        _model_setting(
            f"models.{role}",
            "the model of a role: a model string or a size; of a list, the first whose provider accepts requests",
            parsers.role_models,
        )
        for role in MODEL_ROLES
    ),
    *(
        Setting(
            f"models.{kind}",
            f"the same for {what}, in tiers with `task_models`, unless `model` or the role's is set",
            parsers.role_models,
            TASK_MODELS[kind],
            project=NO_ADDRESS,
            local=NO_ADDRESS,
        )
        for kind, what in TASK_KINDS.items()
    ),
    _user_setting(
        "effort",
        "how much the model thinks: `auto` (as its provider recommends, where it is known to think), `low`, `medium`, "
        "`high` or `off`",
        one_of(*get_args(Effort)),
        "auto",
    ),
    *(
        _user_setting(f"efforts.{name}", "the effort of a model size, or of a role in a run, which counts first", each)
        for each in (one_of(*get_args(Effort)),)
        for name in (*SIZES, *EFFORT_ROLES)
    ),
    _user_setting(
        "compaction",
        "who writes the summary of a conversation that is too long: `code`, or the `model` besides, at the cost of a "
        "request",
        one_of(*get_args(CompactionWriter)),
        "code",
    ),
    _user_setting(
        "windows",
        "`MODEL TOKENS`: the context window of a model, by model string or name; otherwise it is what is known of the "
        "model, or what its local server tells",
        list_of("models, each with the tokens of its window", parsers.window),
        (),
    ),
    *(
        _user_setting(
            f"models.{size}.profile",
            "how an agent begins with the models of a size or role, or with the one named here: `small` with few tools "
            "and a short prompt, `full` with all; `auto`: `small` for a local model with a window of at most 32,768",
            one_of(*get_args(ModelProfile)),
        )
        for size in SIZES
    ),
    Setting(
        "models.embedding",
        "the model by which memories are found by meaning: `openai:NAME` or "
        "`local:NAME@http://HOST:PORT/v1`; without it, the one of the extra `memory`",
        parsers.embedding_model,
        project=NEVER,
        local=NEVER,
    ),
)
