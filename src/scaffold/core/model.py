"""The nouns as they are stored: runs, goals, actions, attempts, facts and their evidence."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from scaffold.core.contract import Contract, Verification
from scaffold.core.gates import Gate, Tagged
from scaffold.core.ids import ActionId, Assertion, AttemptId, Commit, GoalId, Key, RunId, TurnId, WishId
from scaffold.core.plan import Kind, Method
from scaffold.core.states import (
    ActionState,
    AttemptStatus,
    EvidenceKind,
    FactState,
    GoalState,
    Outcome,
    Phase,
    RunState,
)
from scaffold.core.tool import Category


class ProcessIdentity(Struct, frozen=True):
    """Which process, beyond doubt: pids are recycled, this triple is not."""

    pid: int
    started: str
    """The kernel's start time of the process, in its own notation; compared, never computed with."""
    boot: str
    """Changes with every boot of the machine."""


class Signature(Struct, frozen=True):
    """Name and mail address of an author or committer."""

    name: str
    email: str


SandboxMode = Literal["require", "auto", "off"]
"""No command without a sandbox | the best there is | none."""
Network = Literal["none", "loopback", "hosts"]
"""What commands reach: sockets of files alone | a loopback of their own | besides, named hosts."""


Supervision = Literal["mechanical", "agent"]
"""Who takes the next step in a goal: a pure decision, which asks an agent to plan, or the agent itself by tools."""


class AddedAreas(Struct, frozen=True, kw_only=True):
    """Protected parts of a repository that the configuration adds to those there always are."""

    globs: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class RunSettings(Struct, frozen=True, kw_only=True):
    """Everything a process needs to carry the run on as it began: stored with the run, changed by nobody else."""

    repository: str
    """Absolute path of the checkout the run was started from."""
    model: str
    """A model string, e.g. `cassette:/abs/path.yaml`."""
    author: Signature
    committer: Signature
    model_hash: str = ""
    """SHA-256 of a cassette's bytes; empty for live models."""
    plan_path: str = ""
    tier: str = "builder"
    tier_confidence: float = 1.0
    agents: int = 3
    goal_agents: int = 3
    """How many of the agents may work in the same goal at once."""
    executor: str = "native"
    iterations: int = 5
    """How often a failed contract may be put back into the same attempt."""
    attempts: int = 3
    """How many own failures an action may have."""
    attempt_timeout_s: float = 900.0
    budget_usd: float | None = None
    sandbox: SandboxMode = "auto"
    """What holds commands; where nothing does, they wait for a human."""
    network: Network = "loopback"
    hosts: tuple[str, ...] = ()
    memory_gb: float = 16.0
    """What each process of a command may have."""
    yolo: bool = False
    environment: tuple[str, ...] = ()
    """Names of variables that commands see besides the usual ones."""
    inbox_wait_s: float = 10.0
    """How long a worker waits for a human before it puts its attempt down."""
    allow: tuple[str, ...] = ()
    """Rules, `TOOL:PATTERN`, of calls that workers need not ask for."""
    deny: tuple[str, ...] = ()
    """Rules of calls that nobody can consent to."""
    approvals: Mapping[Category, Literal["allow", "ask", "deny"]] = {}
    """What the user set for categories of tools; it makes a worker's freedoms smaller, never larger."""
    planner: bool = False
    """Whether somebody lays out, breaks down and replans; otherwise a plan is carried out as it was given."""
    supervision: Supervision = "mechanical"
    replans: int = 3
    """How often a goal may be replanned without a new fact before it fails."""
    prompts: tuple[str, ...] = ()
    """Folders with `ROLE.md` files, absolute, in order of preference; who is in none has a built-in prompt."""
    idle_s: float = 300.0
    """How long an agent may give no sign of life."""
    drafter: bool = False
    """Whether a contract is drafted for an action that has none, before its work, and strengthened after it."""
    critic: bool = False
    """Whether work that passes is criticised, and goes on until it is good enough."""
    threshold: int = 7
    """Of 9: what is good enough for the critic."""
    gates: bool = True
    """Whether the repository's own tests, build, lint and type check are held against their baseline."""
    given_gates: tuple[Gate, ...] = ()
    """Gates the configuration gives; they stand in for what would be detected of their kind."""
    gates_off: tuple[str, ...] = ()
    """Kinds of gates the configuration has turned off."""
    gate_timeout_s: float = 600.0
    """What a gate may take before there is a baseline to measure it by."""
    setup: tuple[str, ...] | None = None
    """Commands that prepare a checkout for its checks; None for those that are detected."""
    tagged: tuple[Tagged, ...] = ()
    """Which tests have to do with which paths, besides what can be seen."""
    gate_slots: int = 1
    """How many gates may run at once on this machine."""
    services: tuple[str, ...] = ()
    """Lines of what every check finds on its loopback: commands that are ended with it, or what is outside."""
    trusted: bool = False
    """Whether what the repository says may be run unasked outside a sandbox: its set-up commands."""
    areas: AddedAreas = AddedAreas()
    notify: str = ""
    """A command that is told of what needs a human, of the end, and of a budget that runs out; empty for none."""


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens and money of one or more requests."""

    input_tokens: int = 0
    """All input, cached included."""
    cached_input_tokens: int = 0
    """What of the input came from the provider's cache."""
    written_input_tokens: int = 0
    """What of the input was put into it, where the provider tells; its price is another one. Counted, not stored."""
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    """None where no price is known."""
    requests: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        unknown = self.cost_usd is None or other.cost_usd is None
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            written_input_tokens=self.written_input_tokens + other.written_input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=None if unknown else (self.cost_usd or 0.0) + (other.cost_usd or 0.0),
            requests=self.requests + other.requests,
        )

    @property
    def tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens


class Run(Struct, frozen=True, kw_only=True):
    """One request carried out on one repository."""

    id: RunId
    request: str
    input_hash: str
    """Tells whether the same input is run again."""
    state: RunState
    base_branch: str | None
    """None for a detached head."""
    base_sha: Commit
    session_branch: str
    settings: RunSettings
    fence: int = 0
    """Rises with each owner; a write that names an older fence is refused."""
    owner: ProcessIdentity | None = None
    beat: float | None = None
    """When the owner last gave a sign of life, on the monotonic clock of its machine; None before the first."""
    created_at: datetime
    updated_at: datetime


class Goal(Struct, frozen=True, kw_only=True):
    """A desired world state inside a run."""

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
    created_at: datetime
    updated_at: datetime


class Action(Struct, frozen=True, kw_only=True):
    """A node of the plan with its state."""

    id: ActionId
    run_id: RunId
    goal_id: GoalId
    parent_id: ActionId | None
    key: Key
    description: str
    kind: Kind
    method: Method
    role: str
    preconditions: tuple[Assertion, ...]
    effects: tuple[Assertion, ...]
    files: tuple[str, ...]
    contract: Contract | None
    state: ActionState
    unmet: int
    """How many preconditions do not hold; a parent that is not running counts as one more."""
    position: int
    """Order in the plan, from 0; ties between ready actions are broken by it."""
    result: str | None = None
    """The worker's own final words, whole."""
    guidance: str = ""
    """Another approach to take, given after others failed."""
    extra_attempts: int = 0
    """How many own failures it may have beyond the run's maximum, for that other approach."""
    created_at: datetime
    updated_at: datetime


class Score(Struct, frozen=True, kw_only=True):
    """How good a critic found work that had passed its checks."""

    total: int
    """Of 9."""
    correctness: int | None = None
    """Of 3, as the other two; None where the critic gave the total alone."""
    readability: int | None = None
    edge_cases: int | None = None
    threshold: int
    """What total the run asks for; work of its last iteration lands below it as well."""


class Attempt(Struct, frozen=True, kw_only=True):
    """One execution of a primitive action."""

    id: AttemptId
    run_id: RunId
    action_id: ActionId
    number: int
    """From 1, counting every attempt of the action."""
    fence: int
    status: AttemptStatus
    phase: Phase
    outcome: Outcome | None = None
    executor: str = "native"
    model: str = ""
    worker: ProcessIdentity | None = None
    beat: float | None = None
    """When its worker last gave a sign of life, on the monotonic clock of its machine."""
    iteration: int = 0
    """How often its work was checked; 0 before the first time."""
    worktree: str | None = None
    base_sha: Commit
    head_sha: Commit | None = None
    """The candidate, or what was pinned."""
    briefing: str = ""
    """What earlier attempts taught: failures, or both diffs of a conflict."""
    verification: Verification | None = None
    """The worker's own checks of its last commit; landing checks again."""
    score: Score | None = None
    """What a critic gave last; None where nobody did."""
    result: str | None = None
    usage: Usage
    log_file: str | None = None
    error: str | None = None
    queued_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None


PlanningEvent = Literal["plan", "decompose", "replan", "judge"]
"""What a turn is about: a request | a compound that became ready | a way that is closed | the goal as a whole."""
TurnOutcome = Literal["done", "refused", "failed", "budget", "lost"]
"""What was proposed is written | it never became sound | there was no reply | there was no money | it was cut off."""


class Turn(Struct, frozen=True, kw_only=True):
    """One turn of the planner or of a supervisor's agent: asked once, answered once, written in one transaction."""

    id: TurnId
    run_id: RunId
    goal_id: GoalId | None
    """None for the planner's."""
    action_id: ActionId | None
    """The compound it is about, if it is about one."""
    event: PlanningEvent
    facts: int = 0
    """How many assertions the goal ever had shown when it began: whether anything came of it is seen by that."""
    outcome: TurnOutcome | None = None
    """None while it goes on."""
    error: str | None = None
    usage: Usage
    log_file: str | None = None
    started_at: datetime
    ended_at: datetime | None = None


WishKind = Literal["stop", "pause", "cancel", "resume"]


class Wish(Struct, frozen=True, kw_only=True):
    """What a human asked of a goal or of an action, until the run's owner has done it."""

    id: WishId
    run_id: RunId
    kind: WishKind
    goal_id: GoalId
    action_id: ActionId | None = None
    """None where the whole goal is meant."""
    created_at: datetime


class Evidence(Struct, frozen=True, kw_only=True):
    """Why a fact is believed: a command and how it ended, a review, a gate or a human - never an agent's word."""

    kind: EvidenceKind
    command: str | None
    exit_code: int | None
    commit: Commit
    at: datetime
    detail: str
    output_hash: str | None = None
    """SHA-256 of the whole output."""
    attempt_id: AttemptId | None = None


class Fact(Struct, frozen=True, kw_only=True):
    """An assertion shown true at a commit."""

    goal_id: GoalId
    assertion: Assertion
    state: FactState
    commit: Commit
    weak: bool
    """Whether nothing speaks for it that did not speak for the base as well."""
    paths: tuple[str, ...]
    """What it depends on: the paths its landing changed."""
    evidence: tuple[Evidence, ...]


class Intent(Struct, frozen=True, kw_only=True):
    """A ref update that is about to happen: written first, so that a crash in between can be read back."""

    id: str
    run_id: RunId
    attempt_id: AttemptId
    fence: int
    ref: str
    old: Commit
    new: Commit


InboxKind = Literal["approval", "question", "notice"]
Decision = Literal["approved", "rejected", "answered"]
InboxState = Literal["open", "approved", "rejected", "answered", "expired", "withdrawn"]
"""`withdrawn`: nobody needs a decision any more."""
Scope = Literal["action", "goal", "run"]
"""Whom a decision is for: the action that asked, and those below it | its goal | the run."""


class InboxItem(Struct, frozen=True, kw_only=True):
    """Something that waits for a human; other work goes on meanwhile."""

    id: str
    run_id: RunId
    goal_id: GoalId | None = None
    action_id: ActionId | None = None
    attempt_id: AttemptId | None = None
    kind: InboxKind
    text: str
    """What is asked or told, in words for a person."""
    detail: Mapping[str, Any]
    """What the words are about, as JSON; a decision holds for exactly this."""
    state: InboxState = "open"
    answer: str | None = None
    """The human's own words: an answer, or why something was approved or rejected."""
    created_at: datetime
    decided_at: datetime | None = None
    expires_at: datetime | None = None
    """From when on nobody may decide any more; None means never."""
    scope: Scope = "run"
    """Who needs not ask the same again."""
    holds_until: datetime | None = None
    """From when on a decision counts no more, and the same is asked anew; None means never."""


class Envelope(Struct, frozen=True, kw_only=True):
    """A message between agents, with who it is for."""

    seq: int
    """From 1 in each scope, in the order of sending."""
    scope: str
    """Who can reach each other: the agents of a run, by its id, or all sessions of a user."""
    sender: str
    recipient: str
    channel: str | None
    """Where it was published; None for a message to the recipient alone."""
    body: Mapping[str, Any]
    """Whatever the agents agree on, as JSON."""
    created_at: datetime
    expires_at: datetime | None
    """From when on nobody reads it any more; None means never."""
