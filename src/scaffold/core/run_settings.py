"""The settings of a run, by subject. They are stored with the run: each process and each `resume` uses the same."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, structs

from scaffold.core.executor_settings import NATIVE, ExecutorSettings
from scaffold.core.extension_set import Extensions
from scaffold.core.plan import TaskType
from scaffold.core.proof.gates import Gate, TaggedTests
from scaffold.core.tool import ToolCategory

SandboxMode = Literal["require", "auto", "off"]
"""Refuse to run commands without a sandbox | use the strongest one available | use none."""
NetworkMode = Literal["none", "loopback", "hosts"]
"""What commands can connect to: unix sockets only | also a private loopback | also the listed hosts."""
SupervisionMode = Literal["mechanical", "agent"]
"""Who takes a goal's next step: the pure `decide`, which asks an agent only to plan, or the agent itself by tools."""
Effort = Literal["auto", "low", "medium", "high", "off"]
"""How much a model thinks before it answers; `auto`: as its provider recommends, where it is known to think."""


TaskFormat = Literal["prd", "task-master", "spec-kit", "kiro", "beads"]
"""The tools whose lists of tasks are read."""
CompactionWriter = Literal["code", "model"]
"""Who writes the summary of the messages that a compaction drops."""


class Signature(Struct, frozen=True):
    """Name and mail address of a git author or committer."""

    name: str
    email: str


class RunIdentity(Struct, frozen=True, kw_only=True):
    """Which checkout a run works on, and in whose name it commits."""

    repository: str
    """Absolute path of the checkout the run was started from."""
    author: Signature
    committer: Signature


ModelProfile = Literal["auto", "small", "full"]
"""How much an agent is told and offered at the start: `auto` is `small` for a local model with a small window."""


class ModelSettings(Struct, frozen=True, kw_only=True):
    """The model that agents use, and what runs them."""

    name: str
    """A model string, e.g. `cassette:/abs/path.yaml`."""
    cassette_hash: str = ""
    """SHA-256 of the cassette's bytes; empty for live models."""
    others: tuple[str, ...] = ()
    """Live models that take its place, the first of them first, while its endpoint accepts no requests."""
    effort: Effort = "auto"
    compaction: CompactionWriter = "code"
    windows: Mapping[str, int] = {}
    """Configured context windows in tokens, by model string or by the model's name at its provider."""
    profiles: Mapping[str, ModelProfile] = {}
    """Configured profiles, by the same."""
    role_efforts: Mapping[str, Effort] = {}
    """The effort of agents with a role of their own: `planner`, `supervisor`, `worker`, `drafter`, `critic`, ..."""

    def effort_of(self, role: str) -> Effort:
        """Return the thinking effort of agents with this role."""
        return self.role_efforts.get(role, self.effort)


Size = Literal["small", "medium", "large"]
"""Names for models that the user's configuration fills in: `models.small` and so on."""
ReviewMode = Literal["none", "second", "human"]
"""Who reviews what no check can decide: no one | a second reviewer | a second reviewer, then a human."""


class AssignedModel(Struct, frozen=True, kw_only=True):
    """The model of a role or of a type of task, where it is not the run's."""

    name: str
    """A model string, as in `ModelSettings`, and so are the others."""
    cassette_hash: str = ""
    others: tuple[str, ...] = ()
    effort: Effort = "auto"


TaskKind = Literal["boilerplate", "feature", "architecture", "review"]
"""The kind of an action, which may choose its model."""
KIND_BY_TYPE: Mapping[TaskType, TaskKind] = {
    "SETUP": "boilerplate",
    "FEATURE": "feature",
    "BUGFIX": "feature",
    "REFACTOR": "architecture",
}
KIND_BY_ROLE: Mapping[str, TaskKind] = {"reviewer": "review", "critic": "review", "architecture": "architecture"}


def task_kind(role: str, task: TaskType | None) -> TaskKind | None:
    """Return the kind of an action with this role and type; None if neither has one."""
    if role.endswith("_review"):
        return "review"
    return KIND_BY_ROLE.get(role) or (KIND_BY_TYPE[task] if task else None)


class AssignedModels(Struct, frozen=True, kw_only=True):
    """The models of a run that are not `model`: resolved at its start, so that each process uses the same."""

    by_role: Mapping[str, AssignedModel] = {}
    """For agents with a role of their own (`planner`, ...), for roles of actions, and for `worker`: any of these."""
    by_task: Mapping[TaskKind, AssignedModel] = {}
    """For actions whose role has no model of its own."""
    sized: bool = False
    """Whether the tier chose the run's model, which another tier then chooses again."""


class Tier(Struct, frozen=True, kw_only=True):
    """How much effort a run spends. Each field but `name` is a setting `tiers.NAME.FIELD`.

    The defaults are the values of the tier `builder`.
    """

    name: str
    agents: int = 3
    """How many agents may work at once."""
    iterations: int = 5
    """How many times a failed contract may be sent back to the same attempt."""
    timeout_min: float = 15
    """Minutes that one attempt may take."""
    threshold: int = 7
    """The critic's minimum score, of 9; 0 for neither a critic nor drafted contracts."""
    tokens: int = 0
    """Tokens for each action of the plan that the user agreed to; 0, as in runs of older versions, for no limit."""
    decompose: bool = True
    """Whether a planner breaks the request down; if False, it is one action."""
    review: ReviewMode = "second"
    review_share: float | None = None
    """The share of the large or widespread changes that the second reviewer judges; None for all tiers' share."""
    model: Size = "medium"
    """The size of the model that does the work, unless a model is chosen for the run, a role or a type of task."""
    fallback: Size | None = None
    """The size of the model that takes its place while its endpoint accepts no requests."""
    task_models: bool = True
    """Whether the type of a task may choose another size."""
    questions: int | None = 2
    """How many questions to a human the agents of one action may ask; None for any number."""
    question_gates: bool = False
    """Whether agents without questions may ask nevertheless: after many failures, and about protected areas."""

    @property
    def timeout_s(self) -> float:
        """Seconds that one attempt may take."""
        return 60 * self.timeout_min


BUILDER = Tier(name="builder", tokens=100_000)
"""The tier of a plan that is given without one."""


class TierChoice(Struct, frozen=True, kw_only=True):
    """How a run's tier was found."""

    confidence: float = 1.0
    """From 0 to 1: how much the words of the request say for it; 1 only if the user chose it."""
    found_words: tuple[str, ...] = ()
    """The words of the request that decided, as the table of keywords has them."""
    reason: str = ""
    """Why, in words; empty if the user chose it."""
    fixed_agents: bool = False
    """Whether the number of agents was given, so that no advice lowers it."""

    def text(self, tier: str) -> str:
        """Explain how the tier was chosen and how to choose another; empty if the user chose it."""
        if not self.reason:
            return ""
        return f"tier {tier}: {self.reason} (confidence {self.confidence:.2f}); `--tier` chooses another"


class ReviewerSettings(Struct, frozen=True, kw_only=True):
    """The second reviewer of work whose rightness no program can decide."""

    model: ModelSettings
    share: float = 1.0
    """The share, from 0 to 1, of the actions whose change it judges because of its size or its place alone."""


class RunLimits(Struct, frozen=True, kw_only=True):
    """A run's own limits, besides its tier's."""

    goal_agents: int = 3
    """How many agents may work on the same goal at once."""
    attempts: int = 3
    """How many failures that count an action may have."""
    replans: int = 3
    """How many times a goal may be replanned without a new fact before it fails."""
    idle_s: float = 300.0
    """Seconds without output after which an agent counts as hung."""
    model_wait_s: float = 3600.0
    """Seconds that a request waits for an endpoint that is down or limited, before its run is paused."""
    budget_usd: float | None = None
    budget_tokens: int | None = None
    """The limit in tokens that the user named, in place of the default."""
    action_tokens: int = 0
    """The default limit in tokens, for each agreed action; 0 if none holds: `plan/budget.py`."""
    agreed_actions: int = 0
    """The number of actions that the agreed plan counts as; 0 without a plan."""


class PlanningSettings(Struct, frozen=True, kw_only=True):
    """The source of the plan, and the agents that take part in addition to the workers."""

    plan_path: str = ""
    """The plan file the run was started with; empty without one."""
    planner: bool = False
    """Whether a planner creates, decomposes and repairs the plan; if False, the given plan runs unchanged."""
    one_shot: bool = False
    """Whether the request is worked as a single story, which has no PRD."""
    rounds: int = 0
    """The most rounds in which the request is worked, each with a fresh context; 0 if it is not worked in rounds."""
    until_complied: bool = False
    """Whether the requirements of the specification are audited after the work, and gaps become tasks."""
    supervision: SupervisionMode = "mechanical"
    drafter: bool = False
    """Whether to draft a contract before the work for actions without one, and to extend it after the work."""
    critic: bool = False
    """Whether a critic scores work that passes; work below the tier's threshold is sent back."""
    reviewer: ReviewerSettings | None = None
    """The second reviewer; None for none, so that doubts remain."""
    prompts: tuple[str, ...] = ()
    """Absolute paths of folders with `ROLE.md` files, first match wins; other roles use the built-in prompt."""


class SandboxSettings(Struct, frozen=True, kw_only=True):
    """How commands are confined."""

    mode: SandboxMode = "auto"
    """A command that cannot be confined waits for approval."""
    network: NetworkMode = "loopback"
    hosts: tuple[str, ...] = ()
    """The reachable hosts if `network` is `hosts`."""
    memory_gb: float = 16.0
    """Memory limit for each process of a command."""
    unconfined: bool = False
    """Whether the user agreed that the repository's own code runs without a sandbox if this machine has none."""
    read: tuple[str, ...] = ()
    """Paths that commands may read besides what their tools need; relative ones are in the home."""


class EnvironmentSettings(Struct, frozen=True, kw_only=True):
    """What commands and checks run in."""

    variables: tuple[str, ...] = ()
    """Names of environment variables passed to commands in addition to the default ones."""
    source: str = ""
    """The user's command that prints more variables, run at each start of the run's owner; empty for none."""
    setup: tuple[str, ...] | None = None
    """Commands that prepare a checkout for its checks; None means detect them."""
    services: tuple[str, ...] = ()
    """Services on each check's loopback: commands that run as long as the check, or addresses outside."""
    include: tuple[str, ...] = ()
    """Patterns of ignored files that are copied to worktrees: the lines of a trusted `.worktreeinclude`."""
    trusted: bool = False
    """Whether set-up commands from the repository may run outside a sandbox without approval."""
    hooks: Mapping[str, str] = {}
    """The files that define commit hooks, as the user trusts them: path -> SHA-256. Others do not run."""


class ExtraProtectedAreas(Struct, frozen=True, kw_only=True):
    """Protected parts of a repository that the configuration adds to the built-in ones."""

    globs: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class PermissionSettings(Struct, frozen=True, kw_only=True):
    """What agents may do without a human, and how the human is reached."""

    allow: tuple[str, ...] = ()
    """Rules `TOOL:PATTERN` for calls that need no approval."""
    deny: tuple[str, ...] = ()
    """Rules `TOOL:PATTERN` for calls that are always refused; no approval overrides them."""
    approvals: Mapping[ToolCategory, Literal["allow", "ask", "deny"]] = {}
    """The user's setting per tool category; it can only restrict what a worker may do."""
    yolo: bool = False
    areas: ExtraProtectedAreas = ExtraProtectedAreas()
    inbox_wait_s: float = 10.0
    """How long a worker waits for a human before it saves its work and ends the attempt as `waiting`."""
    notify: str | tuple[str, ...] = ""
    """What tells a human that they are needed, that the run has ended, or that the budget runs low: a command, or
    channels as `plan/notification.py` reads them; empty for none."""
    quiet_hours: str = ""
    """The time of the day in which nothing tells them, as `BEGIN-END`; empty for none."""


class GateSettings(Struct, frozen=True, kw_only=True):
    """How the repository's tests, build, lint, type check and commit hooks are run and compared with their baseline."""

    enabled: bool = True
    given: tuple[Gate, ...] = ()
    """Gates from the configuration; each replaces the detected gates of its kind."""
    off: tuple[str, ...] = ()
    """Kinds of gates that the configuration turns off."""
    timeout_s: float = 600.0
    """A gate's timeout while it has no baseline duration."""
    slots: int = 1
    """How many gates may run at once on this machine."""
    tagged: tuple[TaggedTests, ...] = ()
    """Tests to run for given paths, in addition to those found automatically."""


HumanReview = Literal["tier", "always", "never"]
"""Whether a human approves each change before it lands: in the tiers that have it | in all | in none."""


class WriteBack(Struct, frozen=True, kw_only=True):
    """The list of tasks that a run executes, in which those that land are marked as done."""

    path: str
    """Of the file: below the top of the repository if it is tracked, else absolute."""
    format: TaskFormat
    tracked: bool
    """Whether it is a file of the run's base commit; any other is left as it is, and a copy is marked."""


class LandingSettings(Struct, frozen=True, kw_only=True):
    """How candidates are merged."""

    union: tuple[str, ...] = ()
    """Globs of files whose lines are independent of each other: where both sides add some, all of them are kept."""
    write_back: WriteBack | None = None
    """The list of tasks whose marks follow what lands; None if no file does."""
    human_review: HumanReview = "tier"

    @property
    def tracked_list(self) -> WriteBack | None:
        """The list if its marks are part of what lands."""
        return self.write_back if self.write_back is not None and self.write_back.tracked else None


class SchedulingSettings(Struct, frozen=True, kw_only=True):
    """Which ready actions may run at the same time."""

    collisions: bool = True
    """Whether an action is held back while another one that may change the same files has not landed."""
    directory_agents: int = 2
    """How many agents may work in one directory of the repository, or package, at once."""


class FailureSettings(Struct, frozen=True, kw_only=True):
    """The treatment of attempts that take long or fail."""

    soft_timeout: float = 0.8
    """The share of an attempt's time after which a human is asked to kill it or to wait; 1 for never."""
    other_model: ModelSettings | None = None
    """The model of attempts that are to take another approach; None for the one of the run."""


class LearningSettings(Struct, frozen=True, kw_only=True):
    """How attempts learn from earlier work, and later ones from theirs."""

    tokens: int = 800
    """About how many tokens of learnings a prompt has room for; 0 for none."""
    extract: bool = False
    """Whether a model is asked for a learning when work passes that had failed before."""


class KeepSettings(Struct, frozen=True, kw_only=True):
    """How much is kept beside the work itself, and how much of the disk stays free."""

    ignored_mb: float = 20.0
    """Size in megabytes of the ignored files that are kept of one attempt."""
    days: float = 30.0
    """For how many days logs, reports, patches and prepared environments without use are kept."""
    logs_mb: float = 500.0
    """Size in megabytes of the logs and reports that are kept of a repository."""
    free_mb: float = 500.0
    """Megabytes that stay free on each disk: with less, no new work starts."""


class TakingSettings(Struct, frozen=True, kw_only=True):
    """What happens to the work of a run that has completed; otherwise it stays on the session branch."""

    fast_forward: bool = False
    """Fast-forward the base branch (`--greenfield`)."""
    pull_request: bool = False
    """Push it and open a pull request (`--pr`, or `publish: pr` in the user's configuration)."""


class PluginSettings(Struct, frozen=True, kw_only=True):
    """Which of the user's plugins take part in a run, by the names of their files."""

    workers: tuple[str, ...] = ()
    """Those that run with each worker."""
    network: tuple[str, ...] = ()
    """Those of them that may use the network."""


class McpSettings(Struct, frozen=True, kw_only=True):
    """Which of the user's MCP servers take part in a run."""

    workers: tuple[str, ...] = ()
    """The names of those whose tools each worker has."""
    trust_once: bool = False
    """Whether the repository's file counts for this run alone."""


def program_model(executor: str) -> ModelSettings:
    """Return what stands for the model of a program, which chooses it itself."""
    return ModelSettings(name=f"executor:{executor}")


class RunSettings(Struct, frozen=True, kw_only=True):
    """Everything a process needs to continue the run as it started."""

    identity: RunIdentity
    model: ModelSettings
    assigned: AssignedModels = AssignedModels()
    tier: Tier = BUILDER
    choice: TierChoice = TierChoice()
    limits: RunLimits = RunLimits()
    planning: PlanningSettings = PlanningSettings()
    sandbox: SandboxSettings = SandboxSettings()
    environment: EnvironmentSettings = EnvironmentSettings()
    permissions: PermissionSettings = PermissionSettings()
    gates: GateSettings = GateSettings()
    landing: LandingSettings = LandingSettings()
    scheduling: SchedulingSettings = SchedulingSettings()
    failures: FailureSettings = FailureSettings()
    learning: LearningSettings = LearningSettings()
    keep: KeepSettings = KeepSettings()
    taking: TakingSettings = TakingSettings()
    plugins: PluginSettings = PluginSettings()
    mcp: McpSettings = McpSettings()
    executors: ExecutorSettings = ExecutorSettings()
    extensions: Extensions = Extensions()
    """The hooks, skills and roles of its workers."""

    @property
    def human_reviews(self) -> bool:
        """Whether a human approves each change before it lands. `--yolo`, which is about agents, does not lift that."""
        chosen = self.landing.human_review
        return chosen == "always" or (chosen == "tier" and self.tier.review == "human")

    def agent_executor(self, role: str) -> str:
        """Return who takes the turns of an agent with a role of its own, such as `planner` or `critic`."""
        return self.executors.chosen(role, self.tier.name)

    def agent_model(self, role: str) -> ModelSettings:
        """Return the model of an agent with a role of its own, or what stands for that of a program."""
        # The second reviewer's model is set apart from the models of the run's agents.
        reviewer = self.planning.reviewer if role == "reviewer" else None
        own = reviewer.model if reviewer else self._with_assigned(self.assigned.by_role.get(role))
        executor = self.agent_executor(role)
        return own if executor == NATIVE else program_model(executor)

    def worker_model(self, role: str, task: TaskType | None, *, alternative: bool = False) -> ModelSettings:
        """Return the model of the work on an action of this role and type.

        `alternative`: the attempt is to take another approach.
        """
        if alternative and self.failures.other_model:
            return self.failures.other_model
        kind, by_role = task_kind(role, task), self.assigned.by_role
        return self._with_assigned(
            by_role.get(role) or (self.assigned.by_task.get(kind) if kind else None) or by_role.get("worker")
        )

    def worker_executor(self, role: str, chosen: str = "") -> str:
        """Return who works on an action of this role, for which its plan may have `chosen` somebody."""
        roles = self.executors.roles
        return chosen or roles.get(role) or roles.get("worker") or self.executors.chosen(role, self.tier.name)

    @property
    def models(self) -> tuple[ModelSettings, ...]:
        """The models of the run that may be used, without duplicates, its main one first."""
        assigned = (*self.assigned.by_role.values(), *self.assigned.by_task.values())
        others = (self.planning.reviewer and self.planning.reviewer.model, self.failures.other_model)
        found = (self.model, *map(self._with_assigned, assigned), *(each for each in others if each))
        return tuple({(each.name, each.others): each for each in found}.values())

    def _with_assigned(self, assigned: AssignedModel | None) -> ModelSettings:
        if assigned is None:
            return self.model
        return structs.replace(
            self.model,
            name=assigned.name,
            cassette_hash=assigned.cassette_hash,
            others=assigned.others,
            effort=assigned.effort,
        )
