"""The stored records: runs, goals, actions, attempts, facts and their evidence."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct, structs

from scaffold.core.executor_settings import NATIVE
from scaffold.core.ids import ActionId, ActionKey, Assertion, AttemptId, Commit, ControlRequestId, GoalId, RunId, TurnId
from scaffold.core.plan import ActionKind, Method, TaskText, WorkKind, Workspace
from scaffold.core.proof.contract import Contract, Doubt, Strength, Verification, strength_of
from scaffold.core.run_settings import RunSettings
from scaffold.core.states import (
    ActionState,
    AttemptOutcome,
    AttemptPhase,
    AttemptStatus,
    Escalation,
    EvidenceKind,
    FactState,
    GoalState,
    RunState,
)


class Activity(Struct, frozen=True, kw_only=True):
    """One thing that may take minutes: a command, or a wait."""

    label: str
    """Its purpose, e.g. `check`, or the name of a gate."""
    command: str = ""
    """The command that runs; empty for a wait."""
    folder: str = ""
    """Where it runs, relative to the top of the checkout."""
    is_whole: bool = True
    """Whether its duration says how long the same command will take: False for a part of the tests, and for a wait."""
    surrounds: bool = False
    """Whether it consists of other work, which is shown instead while it runs."""

    @property
    def text(self) -> str:
        """Return the work as one line for people: `check: pytest -q tests/test_store.py`."""
        return f"{self.label}: {self.command}" if self.command else self.label


class CurrentActivity(Struct, frozen=True, kw_only=True):
    """The work that a process of a run is doing now; it is recorded once it lasts."""

    run_id: RunId
    attempt_id: AttemptId | None
    """The attempt that it is for; None if it is for the run as a whole."""
    fence: int
    """The run's fence: what a process of an earlier owner was doing does not count."""
    stage: str
    """The activity around it, in one word for people; empty in an attempt, whose phase says it."""
    work: Activity
    since: datetime
    last_s: float | None = None
    """How many seconds the same command took when it last ended in this repository; None if that is unknown."""


class ProcessIdentity(Struct, frozen=True):
    """A process, identified uniquely: pids are reused, this triple is not."""

    pid: int
    started: str
    """The process start time as the kernel reports it; only compared, never parsed."""
    boot: str
    """The machine's boot id."""


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens and cost of one or more requests."""

    input_tokens: int = 0
    """All input tokens, cached ones included."""
    cached_input_tokens: int = 0
    """Input tokens read from the provider's cache."""
    cache_write_tokens: int = 0
    """Input tokens written to the provider's cache, if it reports them; priced differently. Not stored."""
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    """None if the price is unknown."""
    requests: int = 0
    estimated_tokens: int = 0
    """How many of its `counted_tokens` are our estimate, as no reply said how many there were."""

    def __add__(self, other: "Usage") -> "Usage":
        # A sum with an unknown part is unknown: counting it as 0 would show too low a cost.
        unknown = self.cost_usd is None or other.cost_usd is None
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=None if unknown else (self.cost_usd or 0.0) + (other.cost_usd or 0.0),
            requests=self.requests + other.requests,
            estimated_tokens=self.estimated_tokens + other.estimated_tokens,
        )

    @property
    def counted_tokens(self) -> int:
        """The tokens that count against a limit: uncached input, and output."""
        return self.input_tokens - self.cached_input_tokens + self.output_tokens

    @property
    def as_estimate(self) -> "Usage":
        """The same usage as an estimate."""
        return structs.replace(self, estimated_tokens=self.counted_tokens)

    @property
    def tokens(self) -> int:
        """Input plus output tokens."""
        return self.input_tokens + self.output_tokens


HaltRequest = Literal["stop", "pause", "cancel"]
"""A user's request to end a run: at once, after running work, or for good."""
ControlRequestKind = HaltRequest | Literal["resume"]
"""A user's request to the owner of a run; `resume` of a run withdraws a pause that has not ended it yet."""


class Run(Struct, frozen=True, kw_only=True):
    """One request executed on one repository."""

    id: RunId
    request: str
    input_hash: str
    """Hash of the input; equal hashes mean the same input was given again."""
    state: RunState
    base_branch: str | None
    """None if HEAD was detached."""
    base_sha: Commit
    session_branch: str
    settings: RunSettings
    fence: int = 0
    """Increases with each owner; writes with an older fence are refused."""
    owner: ProcessIdentity | None = None
    heartbeat_at: float | None = None
    """The owner's last heartbeat, on the monotonic clock of its machine."""
    waits_for: str = ""
    """An endpoint that its owner waits for, and until when; empty if it does not wait."""
    advised_agents: int | None = None
    """How many agents its plan deserves; None before there is a plan."""
    advice: str = ""
    """Why."""
    request_to_owner: ControlRequestKind | None = None
    """The user's request to its owner, until it has ended the run."""
    restarter: ProcessIdentity | None = None
    """The process that starts another owner if this one is killed; None without one."""
    created_at: datetime
    updated_at: datetime

    @property
    def agents(self) -> int:
        """How many agents may work at once: what its plan deserves, and at most what its tier or the user says."""
        most, advised = self.settings.tier.agents, self.advised_agents
        return most if advised is None or self.settings.choice.fixed_agents else min(most, advised)

    @property
    def session_ref(self) -> str:
        """The full name of the session branch."""
        return f"refs/heads/{self.session_branch}"


class Rest(Struct, frozen=True):
    """A time in which a goal starts no attempt, because its workers died. A clock set back ends it."""

    since: datetime
    until: datetime

    def includes(self, now: datetime) -> bool:
        """Return whether it is still open."""
        return self.since <= now < self.until


class Goal(Struct, frozen=True, kw_only=True):
    """A desired world state within a run."""

    id: GoalId
    run_id: RunId
    name: str
    description: str
    desired: tuple[Assertion, ...]
    state: GoalState
    summary: str = ""
    persistent: bool = False
    worker_cap: int = 3
    supervisor: ProcessIdentity | None = None
    supervisor_started_at: datetime | None = None
    deaths: int = 0
    """How many workers died in a row, counting one of those that ran at the same time."""
    rest: Rest | None = None
    """The pause after the last of these deaths."""
    created_at: datetime
    updated_at: datetime


class Action(TaskText, frozen=True, kw_only=True):
    """A node of the plan, with its state."""

    id: ActionId
    run_id: RunId
    goal_id: GoalId
    parent_id: ActionId | None
    key: ActionKey
    kind: ActionKind
    method: Method
    workspace: Workspace = "own"
    executor: str = ""
    """Who does the work, by name; empty for the one that the run chooses."""
    role: str
    preconditions: tuple[Assertion, ...]
    effects: tuple[Assertion, ...]
    files: tuple[str, ...]
    contract: Contract | None
    state: ActionState
    unmet: int
    """How many preconditions do not hold, plus one if the parent is not running. 0 means ready."""
    position: int
    """Order in the plan, from 0; breaks ties between ready actions."""
    result: str | None = None
    """The agent's final message, in full."""
    guidance: str = ""
    """A different approach to try, given after a failure."""
    deaths: int = 0
    """How many of its workers died in a row."""
    extra_attempts: int = 0
    """How many failures are allowed beyond the run's `attempts`, granted along with `guidance`."""
    created_at: datetime
    updated_at: datetime


FileGrantor = Literal["rule", "reviewer", "human"]
"""Who grants files: a rule, for all but what judges the work | a second reviewer | a human. The latter two in full."""


class FileGrant(Struct, frozen=True, kw_only=True):
    """An entry added to an action's files because its agent asked for it."""

    path: str
    """A path, folder or glob, as in the action's files."""
    by: FileGrantor
    reason: str
    """Why the agent needs it, in its words."""
    at: datetime


class CriticScore(Struct, frozen=True, kw_only=True):
    """A critic's score for work that passed its checks."""

    total: int
    """From 3 to 9."""
    correctness: int | None = None
    """From 1 to 3, as are the next two; None if the critic gave only the total."""
    readability: int | None = None
    edge_cases: int | None = None
    threshold: int
    """The total the run requires. After the last iteration, work below it lands anyway."""


class Attempt(Struct, frozen=True, kw_only=True):
    """One execution of a primitive action."""

    id: AttemptId
    run_id: RunId
    action_id: ActionId
    number: int
    """From 1, counting every attempt of the action."""
    fence: int
    status: AttemptStatus
    phase: AttemptPhase
    outcome: AttemptOutcome | None = None
    executor: str = NATIVE
    executor_version: str = ""
    """The version of the program that does the work; empty for our own agents."""
    model: str = ""
    """The model string; for a program, which chooses its model itself, the name of the executor."""
    worker: ProcessIdentity | None = None
    heartbeat_at: float | None = None
    """The worker's last heartbeat, on the monotonic clock of its machine."""
    ends_at: float | None = None
    """When its time was over, by the worker's last heartbeat, on the same clock: later if its model was away."""
    iteration: int = 0
    """How many times its work was checked."""
    waits_for: str | None = None
    """The inbox item that its worker waits, or waited at its end, for; it holds no slot meanwhile."""
    kind: WorkKind = "change"
    """What it hands in."""
    workspace: str = ""
    """The name of the worktree, or of its place alone, that it shares with earlier attempts; empty if of neither."""
    worktree: str | None = None
    base_sha: Commit
    """The commit of the session branch that its work, including the earlier steps, started from."""
    start_sha: Commit | None = None
    """The commit at which it begins, if earlier steps have changed something."""
    head_sha: Commit | None = None
    """The candidate's commit, or the commit where unfinished work was saved."""
    briefing: str = ""
    """What earlier attempts showed: failures, or both diffs of a conflict."""
    verification: Verification | None = None
    """The worker's own checks of its last commit; landing repeats them."""
    score: CriticScore | None = None
    """The critic's latest score; None without a critique."""
    result: str | None = None
    edits: str | None = None
    """The changes it requests to the steps of its story: the file that its agent wrote."""
    usage: Usage
    log_file: str | None = None
    error: str | None = None
    alternative: bool = False
    """Whether it was to take another approach than those before, because they had failed in the same way."""
    fingerprint: str = ""
    """Of its failure: equal for failures that are the same; empty if it did not fail, or shows nothing."""
    escalation: Escalation | None = None
    """The consequence of its failure; None without a failure that counts."""
    queued_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def start(self) -> Commit:
        """The commit at which it begins."""
        return self.start_sha or self.base_sha

    @property
    def workspace_name(self) -> str:
        """The name of its worktree in the run's folder."""
        return self.workspace or self.id


PlanningEvent = Literal["plan", "decompose", "replan", "judge"]
"""The reason for the turn: the request | a compound that became ready | a failure or dead end | the goal as a whole."""
PlanningTurnOutcome = Literal["done", "refused", "failed", "budget", "unavailable", "lost"]
"""Changes written | never became valid | no reply from the model | budget used up | the process died."""


class PlanningTurn(Struct, frozen=True, kw_only=True):
    """One turn of the planner or of a supervisor's agent. Its changes are written in one transaction."""

    id: TurnId
    run_id: RunId
    goal_id: GoalId | None
    """None for the planner's turns."""
    action_id: ActionId | None
    """The compound to decompose or replan; None for the whole goal."""
    event: PlanningEvent
    facts: int = 0
    """How many assertions of the goal had ever been proven when the turn began; a later rise means progress."""
    model: str = ""
    """The model string of its agent; empty in runs of older versions."""
    outcome: PlanningTurnOutcome | None = None
    """None while the turn is running."""
    error: str | None = None
    usage: Usage
    log_file: str | None = None
    started_at: datetime
    ended_at: datetime | None = None


class ControlRequest(Struct, frozen=True, kw_only=True):
    """A human's request about a goal or an action, kept until the run's owner has handled it."""

    id: ControlRequestId
    run_id: RunId
    kind: ControlRequestKind
    goal_id: GoalId
    action_id: ActionId | None = None
    """None for the whole goal."""
    created_at: datetime


class Evidence(Struct, frozen=True, kw_only=True):
    """Why a fact is believed: a command's result, a review, a gate or a human decision. Never an agent's claim."""

    kind: EvidenceKind
    command: str | None
    exit_code: int | None
    commit: Commit
    at: datetime
    detail: str
    output_hash: str | None = None
    """SHA-256 of the whole output."""
    attempt_id: AttemptId | None = None


def orders_only(evidence: Iterable[Evidence]) -> bool:
    """Return whether evidence only says that a step or an audit has ended, so that what follows it may begin."""
    return any(each.kind in {"step", "audit"} for each in evidence)


class Fact(Struct, frozen=True, kw_only=True):
    """An assertion proven at a commit."""

    goal_id: GoalId
    assertion: Assertion
    state: FactState
    commit: Commit
    paths: tuple[str, ...]
    """The paths it depends on: those its landing changed or its evidence cites."""
    evidence: tuple[Evidence, ...]
    doubts: tuple[Doubt, ...] = ()
    """Why the evidence does not show that the work is right; empty for a proven fact."""
    reviewed: bool = False
    """True if a second reviewer or a human agreed to the work in spite of the doubts."""

    @property
    def only_orders(self) -> bool:
        """Whether it orders work, as after a step or an audit, and shows nothing about the branch."""
        return orders_only(self.evidence)

    @property
    def strength(self) -> Strength:
        """How much its evidence says."""
        return strength_of(self.doubts, reviewed=self.reviewed)


InboxKind = Literal["approval", "question", "notice"]
InboxVerdict = Literal["approved", "rejected", "answered"]
InboxState = Literal["open", "approved", "rejected", "answered", "expired", "withdrawn"]
"""`withdrawn`: the decision is no longer needed."""
DecisionScope = Literal["call", "action", "goal", "run"]
"""What a decision applies to: one request in each attempt of who asked | the action and its descendants | goal, run."""


class InboxItem(Struct, frozen=True, kw_only=True):
    """A request for a human, or a notice to one; other work continues meanwhile."""

    id: str
    run_id: RunId
    goal_id: GoalId | None = None
    action_id: ActionId | None = None
    attempt_id: AttemptId | None = None
    kind: InboxKind
    text: str
    """The question or notice, as shown to the user."""
    detail: Mapping[str, Any]
    """The exact subject, as JSON; a decision applies to nothing else."""
    state: InboxState = "open"
    answer: str | None = None
    """The human's answer, or the reason for the approval or rejection."""
    created_at: datetime
    decided_at: datetime | None = None
    expires_at: datetime | None = None
    """Time after which it can no longer be decided; None means never."""
    scope: DecisionScope = "run"
    """Where the decision applies without asking again."""
    valid_until: datetime | None = None
    """Time after which the decision no longer applies and the question is asked again; None means never."""


class Assumption(Struct, frozen=True, kw_only=True):
    """An assumption that an agent made instead of asking a human."""

    action_id: ActionId
    attempt_id: AttemptId
    question: str
    assumed: str
    """Empty until it says so."""
    created_at: datetime


class Envelope(Struct, frozen=True, kw_only=True):
    """A message between agents, with its addresses."""

    seq: int
    """From 1 within a scope, in sending order."""
    scope: str
    """Who can exchange messages: the agents of one run (its id), or all sessions of a user."""
    sender: str
    recipient: str
    channel: str | None
    """The channel it was published to; None for a direct message."""
    body: Mapping[str, Any]
    """Any JSON object."""
    created_at: datetime
    expires_at: datetime | None
    """Time after which it is no longer delivered; None means never."""
