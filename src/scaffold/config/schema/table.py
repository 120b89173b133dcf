"""The table of all settings: name, purpose, parser, default, and rules for a repository's files."""

from collections.abc import Mapping
from typing import Literal, get_args

import msgspec

from scaffold.config.schema import parsers
from scaffold.config.schema.executor_rows import EXECUTOR_ROWS, names_below, own_executor_setting
from scaffold.config.schema.model_rows import MODEL_ROWS, model_with_profile
from scaffold.config.schema.parsers import AUTO, OFF, ConfigValue, Parser, integer, list_of, one_of, positive
from scaffold.config.schema.setting import (
    ADD,
    LOWER,
    NEVER,
    NO_ADDRESS,
    NOT_OFF,
    RAISE,
    SUBSET,
    MergeRule,
    Setting,
    stricter,
)
from scaffold.config.schema.tier_settings import BUILT_IN_TIERS, MAX_AGENTS, own_tier_setting, tier_rows
from scaffold.core.extension_set import HookSandbox
from scaffold.core.proof.gates import GateKind
from scaffold.core.run_settings import (
    FailureSettings,
    GateSettings,
    HumanReview,
    KeepSettings,
    LearningSettings,
    NetworkMode,
    PermissionSettings,
    PlanningSettings,
    RunLimits,
    SandboxMode,
    SandboxSettings,
    SchedulingSettings,
    SupervisionMode,
)
from scaffold.policy.rule.ruleset import CATEGORIES, DECISIONS, DEFAULT_DECISIONS

MAX_SUBAGENTS = 20
MAX_LEARNING_TOKENS = 20_000


TerminalMode = Literal["auto", "plain"]
PagerMode = Literal["auto", "off"]


def _user_setting(name: str, purpose: str, parse: Parser, default: ConfigValue = None) -> Setting:
    return Setting(name, purpose, parse, default, project=NEVER)


def _own_setting(name: str, purpose: str, parse: Parser, default: ConfigValue = None) -> Setting:
    return Setting(name, purpose, parse, default, project=NEVER, local=NEVER)


def _upper_bound(name: str, purpose: str, parse: Parser, default: ConfigValue = None) -> Setting:
    return Setting(name, purpose, parse, default, project=LOWER)


def _list_setting(
    name: str, purpose: str, parse: Parser, project: MergeRule = ADD, *, of_repository: bool = False
) -> Setting:
    return Setting(name, purpose, parse, (), project=project, local=ADD, of_repository=of_repository)


def _whole_number(number: float) -> int | float:
    # Users write 300, not 300.0.
    return int(number) if number == int(number) else number


_LIMITS, _SANDBOX, _GATES, _PERMISSIONS = RunLimits(), SandboxSettings(), GateSettings(), PermissionSettings()
_KEEP, _LEARNING, _FAILURES = KeepSettings(), LearningSettings(), FailureSettings()

_ROWS = (
    *MODEL_ROWS,
    Setting(
        "reviewer.model",
        "the second reviewer's model: a model string or size; `auto`: another configured size of the same provider, "
        "or else the model that does the work; `off`: no second reviewer",
        parsers.reviewer,
        AUTO,
        project=NEVER,
        local=NO_ADDRESS,
    ),
    Setting(
        "reviewer.share",
        "the share, from 0 to 1, of the large or widespread changes without doubts that it judges",
        parsers.share,
        1,
        project=RAISE,
    ),
    Setting(
        "reviews.human",
        "whether you approve each change before it lands: `tier`: if its `review` is `human`; `always`, `never`",
        one_of(*get_args(HumanReview)),
        "tier",
        project=stricter(("never", "tier", "always")),
    ),
    Setting(
        "tier",
        "`auto`: by the words of the request; `quick`, `scout`, `builder`, `architect`, or a tier of your own",
        parsers.tier,
        AUTO,
    ),
    *(row for tier in BUILT_IN_TIERS for row in tier_rows(tier)),
    _upper_bound("agents", "how many agents work at once, overriding the tier", integer(1, MAX_AGENTS)),
    _upper_bound(
        "max_workers_per_goal", "how many of them work on the same goal", integer(1, MAX_AGENTS), _LIMITS.goal_agents
    ),
    Setting(
        "collisions",
        "whether an action is held back while another one that may change the same files has not landed: `on` or `off`",
        parsers.switch,
        "on",
        project=stricter(("off", "on")),
    ),
    _upper_bound(
        "agents_per_directory",
        "how many of them work in one directory, or package, of a repository that has several",
        integer(1, MAX_AGENTS),
        SchedulingSettings().directory_agents,
    ),
    _upper_bound("budget_usd", "spending limit; no request starts beyond it", parsers.dollars, _LIMITS.budget_usd),
    # A project's could be more than the tier allows; that lowers `tiers.NAME.tokens`.
    _user_setting(
        "budget_tokens",
        "limit in tokens of a run, input that no cache has and output, in place of the tier's",
        parsers.tokens,
        _LIMITS.budget_tokens,
    ),
    _user_setting(
        "supervision",
        "how the next step of a goal is chosen: `mechanical` (without a model) or `agent`",
        one_of(*get_args(SupervisionMode)),
        PlanningSettings().supervision,
    ),
    _upper_bound(
        "replans", "how many times a goal may be replanned without a new fact", integer(0, 100), _LIMITS.replans
    ),
    _upper_bound(
        "idle_s", "how many seconds an agent may show no activity", positive("seconds"), _whole_number(_LIMITS.idle_s)
    ),
    _upper_bound(
        "model_wait_s",
        "how many seconds an agent waits for a model that is down or limited, before its run is paused",
        positive("seconds"),
        _whole_number(_LIMITS.model_wait_s),
    ),
    _user_setting(
        "soft_timeout",
        "the share of an attempt's time after which you are asked to kill it or to wait, and it is given half of its "
        "time more, once; 1: never",
        parsers.positive_share,
        _FAILURES.soft_timeout,
    ),
    Setting(
        "other_approach.model",
        "the model of attempts that are to take another approach, because two before failed in the same way: a model "
        "string or size; `off`: the one that does the work",
        parsers.reviewer,
        OFF,
        project=NEVER,
        local=NO_ADDRESS,
    ),
    _upper_bound("max_subagents", "how many subagents a session may run at once", integer(1, MAX_SUBAGENTS), 5),
    _upper_bound("subagent_timeout_s", "how many seconds a subagent may take", positive("seconds"), 300),
    _user_setting(
        "terminal",
        "how a chat shows itself: `auto`, or `plain`: line by line, without redrawing, for screen readers",
        one_of(*get_args(TerminalMode)),
        "auto",
    ),
    _user_setting(
        "pager",
        "what shows output that is longer than the terminal: `auto` (GIT_PAGER, PAGER, else less), or `off`",
        one_of(*get_args(PagerMode)),
        "auto",
    ),
    _user_setting("refresh", "the seconds between two drawings of `status --watch` or a run", positive("seconds"), 1),
    *(
        Setting(
            f"approvals.{category}",
            "`allow`, `ask` or `deny` for a category of tools",
            one_of(*DECISIONS),
            project=stricter(DECISIONS, default=DEFAULT_DECISIONS[category]),
        )
        for category in CATEGORIES
    ),
    _list_setting(
        "permissions.allow",
        "rules TOOL:PATTERN for calls that need no approval",
        list_of("rules TOOL:PATTERN", parsers.allow_rule),
        NEVER,
    ),
    _list_setting(
        "permissions.deny",
        "rules TOOL:PATTERN for calls that are always denied",
        list_of("rules TOOL:PATTERN", parsers.deny_rule),
    ),
    _list_setting(
        "areas.globs",
        "globs of files to protect besides the built-in ones",
        list_of("globs", parsers.path_glob),
        of_repository=True,
    ),
    _list_setting(
        "areas.words", "words, in the singular, in names of files to protect", list_of("words", parsers.area_word)
    ),
    _list_setting("areas.types", "extensions of files to protect", list_of("file endings", parsers.area_type)),
    Setting(
        "sandbox.mode",
        "`require`: fail without a sandbox; `auto`: use the strongest available; `off`",
        one_of(*get_args(SandboxMode)),
        _SANDBOX.mode,
        project=stricter(tuple(reversed(get_args(SandboxMode)))),
    ),
    Setting(
        "sandbox.network",
        "what commands can reach: `none`, `loopback` or `hosts`",
        one_of(*get_args(NetworkMode)),
        _SANDBOX.network,
        project=stricter(tuple(reversed(get_args(NetworkMode)))),
    ),
    Setting(
        "sandbox.hosts",
        "with `hosts`: names such as `*.example.com` or `example.com:8443`",
        list_of("hosts", parsers.host),
        (),
        project=SUBSET,
    ),
    _upper_bound(
        "sandbox.memory_gb",
        "memory limit for each process of a command",
        positive("gigabytes"),
        _whole_number(_SANDBOX.memory_gb),
    ),
    _own_setting(
        "sandbox.read",
        "paths in your home, or others that are hidden, that commands may read, such as `~/data`; not secrets in them",
        list_of("paths", parsers.hidden_path),
        (),
    ),
    _own_setting(
        "plugins.workers",
        "file names of plugins that also run with the workers of a run, which need a sandbox for them",
        list_of("file names", parsers.file_name),
        (),
    ),
    _own_setting(
        "plugins.network",
        "file names of plugins that may use the network; the others reach no host",
        list_of("file names", parsers.file_name),
        (),
    ),
    _own_setting(
        "mcp.workers",
        "names of MCP servers whose tools also the workers of a run have; programs need a sandbox for that",
        list_of("names of servers", parsers.file_name),
        (),
    ),
    _own_setting(
        "hooks.sandbox",
        "which hooks run in the sandbox of commands: `all`, only the `project`'s, or `none`",
        one_of(*get_args(HookSandbox)),
        "all",
    ),
    _own_setting(
        "environment",
        "names of variables that commands see although they look like secrets",
        list_of("names of variables", parsers.variable),
        (),
    ),
    _own_setting(
        "env.from",
        "a command for `/bin/sh` that prints more variables for workers and checks, as lines KEY=VALUE; values of at "
        "least 8 characters are secrets",
        parsers.command,
    ),
    *(
        Setting(
            f"quality_gates.{kind}",
            "`auto`: the detected command; `off`; or a command for `/bin/sh` at the top of the repository",
            parsers.gate,
            AUTO,
            project=NOT_OFF,
            of_repository=True,
        )
        for kind in get_args(GateKind)
        if kind != "hooks"
    ),
    Setting(
        "quality_gates.hooks",
        "`auto`: the commit hooks of pre-commit, husky and lefthook run on each change in a trusted folder; `off`",
        one_of(AUTO, "off"),
        AUTO,
        project=NOT_OFF,
        of_repository=True,
    ),
    Setting(
        "quality_gates.timeout_s",
        "timeout of a gate until there is a baseline to derive it from",
        positive("seconds"),
        _whole_number(_GATES.timeout_s),
        of_repository=True,
    ),
    _user_setting("quality_gates.slots", "how many gates run at once on this machine", integer(1, 64), _GATES.slots),
    _list_setting(
        "quality_gates.tags",
        "`PATH @TAG...`: run tests with a tag when a path, folder or glob changes",
        list_of("paths, each with tags of tests", parsers.tagged_path),
        of_repository=True,
    ),
    Setting(
        "setup",
        "commands that prepare a checkout for its checks, run in a trusted folder only; `off` for none",
        parsers.setup,
        (),
        of_repository=True,
    ),
    Setting(
        "services",
        "commands that run alongside every check, in its sandbox, and end with it; "
        "`compose ... @PORT`, `host @PORT` for services outside the sandbox",
        list_of("commands", parsers.service),
        (),
        of_repository=True,
    ),
    _list_setting(
        "landing.union",
        "globs of files, e.g. a changelog, in which conflicting lines of both sides are kept, as `merge=union` in "
        "`.gitattributes` does",
        list_of("globs", parsers.path_glob),
        of_repository=True,
    ),
    _upper_bound(
        "learning.tokens",
        "about how many tokens of learnings a prompt has at most; 0 for none",
        integer(0, MAX_LEARNING_TOKENS),
        _LEARNING.tokens,
    ),
    _user_setting(
        "learning.extract",
        "whether a model is asked what was learned when work passes that had failed before; it counts if that work "
        "lands: `on` or `off`",
        parsers.switch,
        OFF,
    ),
    _user_setting(
        "keep.ignored_mb",
        "how many megabytes of the ignored files that an agent made are kept of each attempt",
        positive("megabytes"),
        _whole_number(_KEEP.ignored_mb),
    ),
    _user_setting(
        "keep.days",
        "for how many days `cleanup` keeps logs, reports, patches and prepared environments without use",
        positive("days"),
        _whole_number(_KEEP.days),
    ),
    _user_setting(
        "keep.logs_mb",
        "how many megabytes of logs and reports `cleanup` keeps of a repository, the latest",
        positive("megabytes"),
        _whole_number(_KEEP.logs_mb),
    ),
    _user_setting(
        "keep.free_mb",
        "how many megabytes stay free on the disk: with less, unused caches are deleted and no new work starts",
        positive("megabytes"),
        _whole_number(_KEEP.free_mb),
    ),
    _own_setting(
        "publish",
        "what a plain `scaffold land` does: `ff` (fast-forward the base branch), `squash` (one commit on it) or `pr` "
        "(push, and open a pull request); with `pr`, a run opens its pull request when it completes",
        one_of("ff", "squash", "pr"),
        "ff",
    ),
    _list_setting(
        "protected_branches",
        "base branches, besides `main`, `master` and `dev`, that `scaffold land` moves only after a question, if there "
        "is a terminal to ask at",
        list_of("names of branches", parsers.branch),
        of_repository=True,
    ),
    Setting(
        "land.sign_off",
        "whether `scaffold land` adds `Signed-off-by:` to the commits: `on` or `off`",
        parsers.switch,
        OFF,
    ),
    Setting(
        "land.message",
        "the message of a squashed commit; `{request}`, `{actions}` and `{run}` in it are replaced",
        parsers.message,
    ),
    *EXECUTOR_ROWS,
    _user_setting("notify", "what receives notifications: a command, or a list of channels", parsers.notify),
    _user_setting("quiet_hours", "when notifications wait, in local time, e.g. `22:00-07:00`", parsers.quiet_hours),
    Setting(
        "inbox.wait_s",
        "how many seconds a worker waits for your decision before it pins its work and ends, if no terminal asks",
        positive("seconds"),
        _whole_number(_PERMISSIONS.inbox_wait_s),
    ),
)

SETTINGS: Mapping[str, Setting] = {row.name: row for row in _ROWS}
"""Every setting by name, in the order in which it is shown."""


def find_setting(name: str) -> Setting | None:
    """Return the setting with this name, also of a tier, a model or an executor that the user names; None for none."""
    if model_with_profile(name) and name not in SETTINGS:
        return msgspec.structs.replace(SETTINGS["models.small.profile"], name=name)
    return SETTINGS.get(name) or own_tier_setting(name) or own_executor_setting(name)


def names_beside(name: str) -> tuple[str, ...]:
    """Return the names of all settings, and of those in the section of `name`, if it is of a tier or a program."""
    section, _, _ = name.rpartition(".")
    return (*SETTINGS, *(f"{section}.{each}" for each in names_below(section)))
