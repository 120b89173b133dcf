"""Builders of stored values, repositories, and runs in any state: real store, real git, no model, no worker.

Also marks that skip a test if a program it needs is missing; the reason names the program.
"""

import asyncio
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from scaffold.cli.wiring import open_context
from scaffold.config.settings import Settings, default_values
from scaffold.config.settings_file import SettingValue
from scaffold.core.ids import ActionKey, Commit
from scaffold.core.landing.branch_move import Intent
from scaffold.core.model import Action, Attempt, Evidence, Goal, InboxItem, PlanningTurn, ProcessIdentity, Run, Usage
from scaffold.core.proof.contract import CheckResult, Verification
from scaffold.core.run_settings import ModelSettings, RunIdentity, RunSettings, Signature, Tier
from scaffold.core.spending import Spender, SpendingLimits
from scaffold.core.states import Active, Landing, Pending, Planning, Running, Verifying
from scaffold.git import commits, refs
from scaffold.git.client.command_line import Git
from scaffold.git.repository import checkout_status
from scaffold.host.process_identity import identify, own_identity
from scaffold.host.random_ids import new_id
from scaffold.host.sandbox.level import DetectedLevel, detect_level
from scaffold.landing.facts.landing_record import record_recovered_landing, session_ref, session_tip
from scaffold.orchestrator.owner.recovery.interrupted_run import ensure_session_branch
from scaffold.orchestrator.user_control.open_run import RunInput, open_run
from scaffold.plan.text.file_format import read_plan
from scaffold.run.context import RunContext
from scaffold.run.failures.attempt_end import AttemptEnd, end_attempt
from scaffold.store.database import Store
from scaffold.store.driver.location import PostgresLocation, StoreLocation, state_location
from scaffold.store.run.attempts import AgentAnswer
from scaffold.store.spending.run_budget import RunBudgetAccount
from support.fake_clock import FakeClock
from support.samples import folder_until_exit, place_empty_store, sample_environ

ADA = Signature("Ada Example", "ada@example.org")
PASSED = CheckResult(name="make test", verdict="pass", exit_code=0, detail="exit 0\n3 passed")
FAILED = CheckResult(
    name="make test", verdict="fail", exit_code=1, detail="Expected exit code 0, but got exit code 1.\n1 failed"
)


OPTIONAL = {"rg": "ripgrep (rg)", "node": "Node.js (node)", "npm": "npm (part of Node.js)"}
"""What a person calls a program that a test may need, where that is not its name."""
FOUND: list[DetectedLevel] = []
"""The sandbox of this machine, once it was looked for."""


@cache
def is_usable(program: str) -> bool:
    """Return whether a program is on PATH; those of rustup are proxies, which do nothing without a toolchain."""
    asked = f"{program} --version >/dev/null 2>&1" if program in {"cargo", "rustc"} else "true"
    return shutil.which(program) is not None and os.system(asked) == 0


def needs(*programs: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test unless all these programs are on PATH; the reason names those that are not."""
    lacking = [OPTIONAL.get(name, name) for name in programs if not is_usable(name)]
    return pytest.mark.skipif(bool(lacking), reason=f"not installed: {', '.join(lacking)}")


async def bubblewrap_or_skip() -> DetectedLevel:
    """Return the working bubblewrap of this machine; skip the test, with the reason, if there is none."""
    return await _sandbox_or_skip("bubblewrap")


async def sandbox_or_skip() -> DetectedLevel:
    """Return the strongest sandbox of this machine; skip the test, with the reason, if there is none."""
    return await _sandbox_or_skip("bubblewrap", "landlock", "seatbelt")


async def _sandbox_or_skip(*levels: str) -> DetectedLevel:
    found = await machine_sandbox()
    if found.level not in levels:
        pytest.skip(f"{found.problem}; {found.fix}")
    return found


async def machine_sandbox() -> DetectedLevel:
    """Return the sandbox of this machine; it is looked for once."""
    if not FOUND:
        FOUND.append(await detect_level(os.environ))
    return FOUND[0]


def git(folder: Path, *args: str, env: Mapping[str, str] | None = None, stdin: bytes = b"") -> str:
    """Run git and return its output; unlike in the product, clones of local repositories are allowed."""
    local = {"GIT_ALLOW_PROTOCOL": "file"} | dict(env or {})
    return asyncio.run(Git(folder, environ=os.environ)(*args, env=local, stdin=stdin)).line


async def commit_all(git: Git, message: str, *, author: Signature, committer: Signature) -> Commit | None:
    """Commit everything in a worktree; return the commit, or None if nothing changed."""
    before = await commits.read_head(git)
    now = await commits.commit_all_info(git, message, author=author, committer=committer)
    return None if now == before else now.commit


def make_repository(folder: Path) -> Path:
    """Make a repository with one commit of one file and a configured user; `folder` is new or empty."""
    shutil.copytree(_sample_repository(), folder, symlinks=True, dirs_exist_ok=True)
    git(folder, "update-index", "--refresh", "-q")
    return folder


@cache
def _sample_repository() -> Path:
    folder = folder_until_exit()
    repository = folder / "repository"
    repository.mkdir()
    (repository / "app.py").write_text("print('hello')\n")
    commands = (
        ("init", "--quiet", "--initial-branch=main"),
        ("config", "user.name", ADA.name),
        ("config", "user.email", ADA.email),
        ("add", "--all"),
        ("commit", "--quiet", "--message", "First"),
    )
    for command in commands:
        asyncio.run(Git(repository, environ=sample_environ(folder))(*command))
    return repository


def make_context(repository: Path) -> RunContext:
    """Open a repository with a new store; the caller closes the store."""
    if (repository / ".git").is_dir():
        place = state_location(repository / ".git", os.environ)
        if isinstance(place, Path) and not place.exists():
            place_empty_store(place)
    return asyncio.run(open_context(repository, create=True))


RENAMED_SETTINGS = {
    "model": "model.name",
    "sandbox": "sandbox.mode",
    "environment": "environment.variables",
    "gates": "gates.enabled",
    "given_gates": "gates.given",
}
"""Short names for fields of a run's settings whose own name says too little without their part's name."""


def _setting_places() -> dict[str, tuple[str, str]]:
    """Return the part and the field of each setting that tests name without its part."""
    parts = {part.name: part.type for part in structs.fields(RunSettings)}
    places = {field.name: (part, field.name) for part, kind in parts.items() for field in structs.fields(kind)}
    return places | {name: (place.split(".")[0], place.split(".")[1]) for name, place in RENAMED_SETTINGS.items()}


SETTING_PLACES = _setting_places()


def built_in_tiers() -> Mapping[str, Tier]:
    """Return the tiers that come with Scaffold, by name."""
    values = default_values()
    return {
        name: Settings(values | {"tier": SettingValue(name, "--tier")}).tier()
        for name in ("quick", "scout", "builder", "architect")
    }


def with_settings(settings: RunSettings, **changes: Any) -> RunSettings:
    """Return a run's settings with fields of their parts changed, each named without its part: `agents=2`.

    With `attempt_timeout_s` an attempt ends then, unless a `soft_timeout` is given, too. `tier` is the name of a
    built-in one.
    """
    if (name := changes.pop("tier", None)) is not None:
        settings = structs.replace(settings, tier=built_in_tiers()[name])
    if (seconds := changes.pop("attempt_timeout_s", None)) is not None:
        changes = {"soft_timeout": 1, **changes, "timeout_min": seconds / 60}
    # As `--agents` is, no advice lowers it.
    changes = {"fixed_agents": True, **changes} if "agents" in changes else changes
    for name, value in changes.items():
        part, field = SETTING_PLACES[name]
        settings = structs.replace(settings, **{part: structs.replace(getattr(settings, part), **{field: value})})
    return settings


def make_settings(**given: Any) -> RunSettings:
    """Return the settings of a run, the default ones but for `given`: see `with_settings`."""
    identity = RunIdentity(repository="/nowhere", author=ADA, committer=ADA)
    plain = RunSettings(identity=identity, model=ModelSettings(name="cassette:/nowhere.yaml"))
    # On a machine without a sandbox, who runs the tests has agreed.
    return with_settings(plain, unconfined=True, **given)


def make_run(context: RunContext, plan_text: str, **settings: object) -> Run:
    """Store a run of the plan, in `planning` and without an owner."""
    plan, _ = read_plan(plan_text, name="plan.yaml")
    return open_run(
        context.store,
        RunInput(request="plan.yaml", source=plan_text, plan=plan),
        survey=asyncio.run(checkout_status(context.repository)),
        settings=make_settings(**({"repository": str(context.repository.root), "attempts": 1} | settings)),
        now=context.clock.now(),
    )


def begin(context: RunContext, run: Run) -> Run:
    """Make this process the owner of the run, and the run and its goals active."""
    store = context.store
    with store.transaction():
        store.runs.take(run.id, own_identity(), expected_fence=run.fence)
        if isinstance(run.state, Planning):
            store.runs.move(run.id, Active())
        for goal in store.goals.for_run(run.id):
            if isinstance(goal.state, Planning):
                store.goals.move(goal.id, Active())
    asyncio.run(ensure_session_branch(context, run))
    return store.runs.get(run.id) or run


def work(
    context: RunContext,
    run: Run,
    key: str,
    *,
    log_file: str | None = None,
    folder: Path = Path("/nowhere"),
    worker: ProcessIdentity | None = None,
) -> Attempt:
    """Start an attempt of an action in phase `executing`; its worker is this process, or `worker`."""
    store = context.store
    action = store.actions.by_key(run.id, ActionKey(key))
    assert action is not None
    goal = store.goals.get(action.goal_id)
    assert goal is not None
    attempt = Attempt(
        id=new_id(),
        run_id=run.id,
        action_id=action.id,
        number=store.attempts.next_number(action.id),
        fence=run.fence,
        status="queued",
        phase="workspace",
        model=run.settings.model.name,
        base_sha=asyncio.run(session_tip(context, run)),
        usage=Usage(),
        queued_at=context.clock.now(),
    )
    log_file = log_file or str(context.journal(goal.name, key))
    with store.transaction():
        store.attempts.open(attempt)
        store.actions.move(action.id, Running())
        store.attempts.claim(
            attempt.id, fence=run.fence, worker=worker or own_identity(), worktree=str(folder), log_file=log_file
        )
        store.attempts.advance(attempt.id, fence=run.fence, phase="executing")
        pay(store, attempt, Usage(input_tokens=900, output_tokens=100, cost_usd=0.25))
    return store.attempts.get(attempt.id) or attempt


def pay(store: Store, attempt: Attempt, usage: Usage, *, role: str = "implementation") -> None:
    """Book usage on an attempt, as settled requests do; needs a transaction."""
    account = RunBudgetAccount(store, attempt.run_id, SpendingLimits())
    account.book(attempt.id, Spender(role, attempt.model), usage)


def submit(context: RunContext, run: Run, key: str, files: Mapping[str, str]) -> Attempt:
    """Execute an action in a new attempt, up to a submitted candidate with `files`."""
    attempt = work(context, run, key)
    head = make_commit(context, attempt.base_sha, files, key)
    verification = Verification(commit=head, results=(PASSED,))
    with context.store.transaction():
        context.store.actions.move(attempt.action_id, Verifying())
        context.store.attempts.advance(
            attempt.id,
            fence=run.fence,
            phase="candidate",
            head_sha=head,
            verification=verification,
            answer=AgentAnswer(f"Did {key}.\nAll of it.", attempt.iteration),
        )
        context.store.actions.move(attempt.action_id, Landing())
    return context.store.attempts.get(attempt.id) or attempt


def land(context: RunContext, run: Run, key: str, files: Mapping[str, str]) -> Commit:
    """Execute an action and land it; its effects become facts."""
    attempt = submit(context, run, key, files)
    assert attempt.head_sha is not None
    ends = {"ref": session_ref(run), "old": attempt.base_sha, "new": attempt.head_sha}
    intent = an_intent(attempt, f"of {attempt.id}", fence=run.fence, commit=attempt.head_sha, **ends)
    with context.store.transaction():
        context.store.intents.add(intent)
    asyncio.run(refs.move(context.git, intent.ref, new=intent.new, old=intent.old))
    asyncio.run(record_recovered_landing(context, run, intent))
    return attempt.head_sha


def fail(
    context: RunContext, run: Run, key: str, files: Mapping[str, str], *, error: str = "make test: 1 failed"
) -> Attempt:
    """Execute an action in an attempt whose checks fail; `files` are its pinned work."""
    attempt = work(context, run, key)
    head = make_commit(context, attempt.base_sha, files, key) if files else None
    if head is not None:
        verification = Verification(commit=head, results=(FAILED,))
        with context.store.transaction():
            context.store.attempts.advance(attempt.id, fence=run.fence, phase="verifying", verification=verification)
    end_attempt(context.store, run, attempt.id, AttemptEnd("contract_failed", error), head=head)
    return context.store.attempts.get(attempt.id) or attempt


def make_commit(context: RunContext, parent: Commit, files: Mapping[str, str], message: str) -> Commit:
    """Commit `files` on top of `parent` without touching a checkout."""
    folder = context.repository.root
    index = {"GIT_INDEX_FILE": str(context.repository.common_dir / f"index-{new_id()}")}
    git(folder, "read-tree", parent, env=index)
    for path, content in files.items():
        blob = git(folder, "hash-object", "-w", "--stdin", stdin=content.encode(errors="surrogateescape"))
        git(folder, "update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", env=index)
    tree = git(folder, "write-tree", env=index)
    made = commits.commit_tree(context.git, tree, parents=(parent,), message=message, author=ADA, committer=ADA)
    return asyncio.run(made)


THEN = datetime(2030, 1, 1, 12, 30, tzinfo=UTC)
BASE = "b" * 40
HEAD = "c" * 40
STEP_S = 0.01
NOBODY = 65534
ME = own_identity()
ALIVE = identify(os.getppid())
"""Another process that lives as long as the test."""
OWNER = ProcessIdentity(100, "start-100", "boot")
RIVAL = ProcessIdentity(200, "start-200", "boot")
SETTINGS = make_settings(repository="/somewhere/shop")


def a_run(run_id: str = "run-1", **fields: Any) -> Run:
    given = {
        "request": "add a shop",
        "input_hash": "input-1",
        "state": Planning(),
        "base_branch": "main",
        "base_sha": BASE,
        "session_branch": f"session-{run_id}",
        "settings": SETTINGS,
        "created_at": THEN,
        "updated_at": THEN,
    }
    return Run(id=run_id, **(given | fields))


def a_goal(name: str = "shop", *, run_id: str = "run-1", **fields: Any) -> Goal:
    given = {
        "id": f"{run_id}/{name}",
        "description": f"the {name} works",
        "desired": ("done",),
        "state": Active(),
        "created_at": THEN,
        "updated_at": THEN,
    }
    return Goal(run_id=run_id, name=name, **(given | fields))


def an_action(key: str, *, goal: Goal | None = None, **fields: Any) -> Action:
    goal = goal or a_goal()
    given = {
        "id": f"{goal.run_id}/{key}",
        "run_id": goal.run_id,
        "goal_id": goal.id,
        "parent_id": None,
        "description": f"do {key}",
        "kind": "primitive",
        "method": "htn",
        "role": "implementation",
        "preconditions": (),
        "effects": (),
        "files": (),
        "contract": None,
        "state": Pending(),
        "unmet": 0,
        "position": 0,
        "created_at": THEN,
        "updated_at": THEN,
    }
    return Action(key=key, **(given | fields))


def an_attempt(action: Action, number: int = 1, **fields: Any) -> Attempt:
    given = {
        "id": f"{action.id}#{number}",
        "fence": 1,
        "status": "queued",
        "phase": "workspace",
        "base_sha": BASE,
        "usage": Usage(),
        "queued_at": THEN,
    }
    return Attempt(run_id=action.run_id, action_id=action.id, number=number, **(given | fields))


def an_intent(attempt: Attempt, intent_id: str = "intent-1", **fields: Any) -> Intent:
    given = {"fence": 1, "ref": "refs/heads/session-run-1", "old": BASE, "new": HEAD, "commit": HEAD}
    return Intent(id=intent_id, run_id=attempt.run_id, attempt_id=attempt.id, **(given | fields))


def a_turn(run: Run, turn_id: str = "turn-1", **fields: Any) -> PlanningTurn:
    given = {"goal_id": None, "action_id": None, "event": "plan", "usage": Usage(), "started_at": THEN}
    return PlanningTurn(id=turn_id, run_id=run.id, **(given | fields))


def an_item(attempt: Attempt, item_id: str = "i7", **fields: Any) -> InboxItem:
    given = {"kind": "approval", "text": "shell: make deploy", "detail": {"tool": "shell"}, "created_at": THEN}
    about = {"run_id": attempt.run_id, "action_id": attempt.action_id, "attempt_id": attempt.id}
    return InboxItem(id=item_id, **(given | about | fields))


def some_evidence(detail: str = "3 passed") -> Evidence:
    return Evidence(kind="contract", command="pytest -q", exit_code=0, commit=HEAD, at=THEN, detail=detail)


def store_run(store: Store, *actions: Action, goal: Goal | None = None) -> None:
    """Store one run with one goal and its actions."""
    goal = goal or a_goal()
    with store.transaction():
        store.runs.add(a_run(goal.run_id))
        store.goals.add(goal)
        if actions:
            store.actions.add(actions)


def claim(store: Store, attempt: Attempt, phase: str = "workspace") -> None:
    """Open the attempt, claim it for a worker and advance it to `phase`."""
    with store.transaction():
        store.attempts.open(attempt)
        store.attempts.claim(attempt.id, fence=attempt.fence, worker=OWNER, worktree="/tree", log_file="/log")
        store.attempts.advance(attempt.id, fence=attempt.fence, phase=phase)


def events_of(store: Store, run_id: str = "run-1") -> list[Any]:
    return [recorded.event for recorded in store.events.since(run_id, 0)]


def location_arguments(place: StoreLocation) -> list[str]:
    """Return the location as arguments of a command."""
    return [str(place)] if isinstance(place, Path) else [place.url, place.schema]


def parse_location(words: list[str]) -> StoreLocation:
    """Return the location that `location_arguments` gave."""
    return Path(words[0]) if len(words) == 1 else PostgresLocation(*words)


async def pass_time(clock: FakeClock, seconds: float) -> None:
    """Advance the clock in small steps, and run the tasks that wake."""
    for _ in range(round(seconds / STEP_S)):
        await run_ready_tasks()
        clock.advance(STEP_S)
    await run_ready_tasks()


async def run_ready_tasks() -> None:
    """Run all tasks that are ready."""
    for _ in range(3):
        await asyncio.sleep(0)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Run the block as an ordinary user, so that permissions apply to root, too."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if user == 0:
            os.seteuid(user)
