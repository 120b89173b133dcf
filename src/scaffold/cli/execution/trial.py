"""Try the gates of a repository once, with the user's settings, and keep the result for `doctor`."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import click
from msgspec import structs

from scaffold.cli.execution.unconfined import agreed_sandbox
from scaffold.cli.render.init_text import found_lines
from scaffold.cli.render.live.work_line import WorkLine
from scaffold.cli.render.terminal.text_layout import layout_for
from scaffold.cli.wiring import PROGRAM
from scaffold.config.folder_trust import folder_trust
from scaffold.config.permission_settings import detect_sandbox_level, sandbox_settings
from scaffold.config.run.effective_settings import environment_settings, gate_settings
from scaffold.config.settings import Settings, load_settings
from scaffold.core.errors import RepositoryError
from scaffold.core.ids import Commit
from scaffold.core.plan import Plan
from scaffold.core.printable_text import one_line, short_line
from scaffold.core.proof.contract import CheckResult
from scaffold.core.run_settings import SandboxSettings
from scaffold.git.refs import resolve
from scaffold.git.repository import Repository, open_repository
from scaffold.host.clock import SystemClock
from scaffold.host.slots import Slots
from scaffold.host.user_dirs import user_dirs
from scaffold.policy.command_sandbox import needs_agreement
from scaffold.run.trial.gate_trial import TrialRequest, try_checks, try_gates
from scaffold.run.trial.gate_verdicts import GateTrial, Trial, keep_trial, latest_trial
from scaffold.run.trial.temporary_checkout import remove_dead_trials, trial_place
from scaffold.verify.check_readiness import NotReady
from scaffold.verify.gates.detection import DetectedGates, detect_for_run

NOT_TRIED = "Its commands were not tried"
CANNOT_RUN = frozenset({"error", "timeout"})
MAX_COMMAND_CHARS, MAX_DETAIL_CHARS = 200, 100


async def run_trial(
    repository: Repository, commit: Commit, detection: DetectedGates, *, on_result: Callable[[GateTrial], None]
) -> Trial:
    """Try the gates at the commit and return their results; print each command on standard error as it starts.

    Raise TrustError if that would be without a sandbox and the user does not agree.
    """
    settings = load_settings(repository.root, os.environ, {})
    sandbox = await agreed_sandbox(sandbox_settings(settings), settings.trust, [*found_lines(detection)])
    request = await _trial_request(repository, commit, detection, settings, sandbox)
    trial = await try_gates(trial_place(repository, user_dirs().cache), structs.replace(request, on_result=on_result))
    keep_trial(repository, trial)
    return trial


async def _trial_request(
    repository: Repository, commit: Commit, detection: DetectedGates, settings: Settings, sandbox: SandboxSettings
) -> TrialRequest:
    gates, cache, clock = gate_settings(settings), user_dirs().cache, SystemClock()
    before = latest_trial(repository)
    took = {(each.folder, each.command): each.duration_s for each in before.gates} if before else {}
    shown = WorkLine(clock, last_s=lambda work: took.get((work.folder, work.command)), told=True)
    await remove_dead_trials(repository, cache)
    return TrialRequest(
        commit=commit,
        gates=detection,
        sandbox=sandbox,
        variables=settings.texts("environment"),
        environ=os.environ,
        slots=Slots(cache / "slots", gates.slots),
        timeout_s=gates.timeout_s,
        clock=clock,
        cleaner=(*PROGRAM, "trial-cleaner"),
        tell=lambda command: click.echo("\n".join(layout_for(sys.stderr).wrap("  running: ", command)), err=True),
        during=shown.during,
    )


async def contract_comments(plan: Plan, tell: Callable[[str], None]) -> tuple[str, ...]:
    """Run each command of a plan's contracts once, as before the work, and return what they gave, for its file.

    Nothing runs without a sandbox: a model may have written the commands. What cannot run is told, too.
    """
    contracts = [action.contract for action in plan.actions if action.contract]
    # An optional one that fails would count as passed with a warning.
    checks = dict.fromkeys(structs.replace(each, required=True) for own in contracts for each in own.commands)
    if not checks:
        return ()
    try:
        repository = await open_repository(Path.cwd(), environ=os.environ)
    except RepositoryError:
        return (f"{NOT_TRIED}: this is not in a repository.",)
    head = await resolve(repository.git, "HEAD")
    if head is None:
        return (f"{NOT_TRIED}: there is no commit yet.",)
    settings, trust = load_settings(repository.root, os.environ, {}), folder_trust(repository.root)
    sandbox, level = sandbox_settings(settings), await detect_sandbox_level()
    if sandbox.mode == "off" or level.level == "none":
        return (f"{NOT_TRIED}: there is no sandbox.",)
    setup = environment_settings(settings, trust).setup
    detection = await detect_for_run(repository.git, head, gate_settings(settings), setup)
    request = await _trial_request(repository, head, detection, settings, sandbox)
    request = structs.replace(request, trusted=trust.trusted, tell=lambda command: tell(f"trying: {command}"))
    results = await try_checks(trial_place(repository, user_dirs().cache), request, [*checks])
    if isinstance(results, NotReady):
        return (f"{NOT_TRIED}: {one_line(results.what)}.",)
    for each in results:
        if each.verdict in CANNOT_RUN:
            tell(f"{_before_the_work(each)}: {short_line(each.name, MAX_COMMAND_CHARS)}")
    title = f"Each command was run once at {head[:8]}, before the work, in a sandbox ({level.level}):"
    return (title, *(f"  {_before_the_work(each)}: {short_line(each.name, MAX_COMMAND_CHARS)}" for each in results))


def _before_the_work(result: CheckResult) -> str:
    match result.verdict:
        case "pass":
            return "passes already, so it shows that nothing breaks, not that the work is done"
        case verdict if verdict in CANNOT_RUN:
            # The last line of an error is mostly its cause.
            lines = result.detail.splitlines()
            cause = lines[-1 if result.verdict == "error" else 0] if lines else result.verdict
            return f"cannot run ({short_line(cause, MAX_DETAIL_CHARS)})"
        case _:
            return "fails, as it may before the work"


async def confinement_text(repository: Repository) -> str:
    """Return where commands of a trial run, after the words "run them": `in a sandbox (bubblewrap)`.

    Empty if `run_trial` asks the user about that.
    """
    sandbox = sandbox_settings(load_settings(repository.root, os.environ, {}))
    found = await detect_sandbox_level()
    if needs_agreement(sandbox, found):
        return ""
    return "WITHOUT a sandbox (it is off)" if sandbox.mode == "off" else f"in a sandbox ({found.level})"
