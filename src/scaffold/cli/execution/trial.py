"""Try the gates of a repository once, with the user's settings, and keep the result for `doctor`."""

import os
import sys
from collections.abc import Callable

import click

from scaffold.cli.execution.unconfined import agreed_sandbox
from scaffold.cli.render.init_text import found_lines
from scaffold.cli.render.live.work_line import WorkLine
from scaffold.cli.render.terminal.text_layout import layout_for
from scaffold.cli.wiring import PROGRAM
from scaffold.config.permission_settings import detect_sandbox_level, sandbox_settings
from scaffold.config.run.effective_settings import gate_settings
from scaffold.config.settings import load_settings
from scaffold.core.ids import Commit
from scaffold.git.repository import Repository
from scaffold.host.clock import SystemClock
from scaffold.host.slots import Slots
from scaffold.host.user_dirs import user_dirs
from scaffold.policy.command_sandbox import needs_agreement
from scaffold.run.trial.gate_trial import TrialRequest, try_gates
from scaffold.run.trial.gate_verdicts import GateTrial, Trial, keep_trial, latest_trial
from scaffold.run.trial.temporary_checkout import remove_dead_trials, trial_place
from scaffold.verify.gates.detection import DetectedGates


async def run_trial(
    repository: Repository, commit: Commit, detection: DetectedGates, *, on_result: Callable[[GateTrial], None]
) -> Trial:
    """Try the gates at the commit and return their results; print each command on standard error as it starts.

    Raise TrustError if that would be without a sandbox and the user does not agree.
    """
    settings = load_settings(repository.root, os.environ, {})
    sandbox = await agreed_sandbox(sandbox_settings(settings), settings.trust, [*found_lines(detection)])
    gates, cache, clock = gate_settings(settings), user_dirs().cache, SystemClock()
    before = latest_trial(repository)
    took = {(each.folder, each.command): each.duration_s for each in before.gates} if before else {}
    shown = WorkLine(clock, last_s=lambda work: took.get((work.folder, work.command)), told=True)
    await remove_dead_trials(repository, cache)
    request = TrialRequest(
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
        on_result=on_result,
    )
    trial = await try_gates(trial_place(repository, cache), request)
    keep_trial(repository, trial)
    return trial


async def confinement_text(repository: Repository) -> str:
    """Return where commands of a trial run, after the words "run them": `in a sandbox (bubblewrap)`.

    Empty if `run_trial` asks the user about that.
    """
    sandbox = sandbox_settings(load_settings(repository.root, os.environ, {}))
    found = await detect_sandbox_level()
    if needs_agreement(sandbox, found):
        return ""
    return "WITHOUT a sandbox (it is off)" if sandbox.mode == "off" else f"in a sandbox ({found.level})"
