"""Whether each gate of the repository can judge work here, by its latest trial or by what is installed."""

import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from scaffold.cli.commands.doctor.checks import DoctorCheck
from scaffold.cli.execution.trial import run_trial
from scaffold.config.folder_trust import folder_trust
from scaffold.config.run.effective_settings import environment_settings, gate_settings
from scaffold.config.settings import load_settings
from scaffold.core.errors import ScaffoldError, TrustError
from scaffold.core.ids import Commit
from scaffold.core.printable_text import count_of
from scaffold.core.proof.gates import Gate
from scaffold.git.refs import resolve
from scaffold.git.repository import Repository
from scaffold.host.wall_clock import zoned_time
from scaffold.policy.secret.command_environment import command_environment
from scaffold.run.trial.gate_trial import unavailable_gates
from scaffold.run.trial.gate_verdicts import GateTrial, Trial, latest_trial
from scaffold.verify.environment.check_programs import missing_programs
from scaffold.verify.environment.dependencies import NODE_MODULES, VENV, installed_folders
from scaffold.verify.environment.preparation import SetupPlan, plan_setup
from scaffold.verify.gates.detection import DetectedGates, detect_for_run, drop_unavailable_gates, missing_tool

TRY = "`scaffold doctor --gates` tries it."
NETWORK_NOTE = "Set-up needs the network; checks run without it."


class RepositoryGates(Struct, frozen=True):
    """The gates that a run from the current commit would use, and how it would prepare their environment."""

    commit: Commit
    detection: DetectedGates
    plan: SetupPlan
    trial: Trial | None
    """The latest trial, of this commit or another one; None if there was none."""


async def check_gates(repository: Repository, environ: Mapping[str, str], *, attempt: bool) -> Sequence[DoctorCheck]:
    """Return a check for the set-up and for each gate; with `attempt` each gate is run once. Empty without gates."""
    try:
        found = await _repository_gates(repository, environ)
    except ScaffoldError:
        return []  # the other checks report it
    if found is None or not found.detection.gates:
        return []
    if attempt:
        try:
            trial = await run_trial(repository, found.commit, found.detection, on_result=lambda _: None)
        except TrustError as refused:
            return [DoctorCheck("gates", "fail", f"nothing was run: {refused.what}", refused.fix)]
        found = structs.replace(found, trial=trial)
    setup = [each async for each in _check_setup(repository, found, environ)]
    return [*setup, *_check_each_gate(found, repository.root, environ)]


async def _repository_gates(repository: Repository, environ: Mapping[str, str]) -> RepositoryGates | None:
    head = await resolve(repository.git, "HEAD")
    if head is None:
        return None  # there is no commit yet
    settings, trust = load_settings(repository.root, environ, {}), folder_trust(repository.root)
    setup = environment_settings(settings, trust).setup
    detection = await detect_for_run(repository.git, head, gate_settings(settings), setup)
    there = await installed_folders(repository.git, ignored=True)
    plan = plan_setup(detection.setup, there, trusted=trust.trusted)
    return RepositoryGates(head, detection, plan, latest_trial(repository))


async def _check_setup(
    repository: Repository, found: RepositoryGates, environ: Mapping[str, str]
) -> AsyncIterator[DoctorCheck]:
    commands = found.plan.run or found.plan.left_out
    if found.trial is not None and found.trial.problem and found.trial.commit == found.commit:
        yield DoctorCheck("gate set-up", "warn", found.trial.problem, NETWORK_NOTE)
    elif missing := await missing_programs(commands, repository.git, command_environment(environ)):
        named = ", ".join(missing)
        yield DoctorCheck(
            "gate set-up", "warn", f"{named} not installed", f"It is needed for `{' && '.join(commands)}`."
        )
    elif found.plan.left_out:
        fix = f"`scaffold trust` lets these run: {_quote_commands(commands)}. {NETWORK_NOTE}"
        yield DoctorCheck("gate set-up", "warn", "not done, as this folder is not trusted", fix)
    elif commands:
        yield DoctorCheck("gate set-up", "ok", f"{count_of(len(commands), 'command')}: {_quote_commands(commands)}")


def _quote_commands(commands: Sequence[str]) -> str:
    return ", ".join(f"`{command}`" for command in commands)


def _check_each_gate(found: RepositoryGates, root: Path, environ: Mapping[str, str]) -> Iterator[DoctorCheck]:
    tried = {(each.name, each.command): each for each in found.trial.gates} if found.trial else {}
    missing = _missing_tools(found, root, environ)
    for gate in found.detection.gates:
        result = tried.get((gate.name, gate.command))
        if result is not None and found.trial is not None:
            yield _check_by_trial(gate, result, found.trial, found.commit)
        elif gate.name in missing:
            yield DoctorCheck(f"gate {gate.name}", "warn", f"cannot judge here: {missing[gate.name]}", _gate_fix(gate))
        else:
            yield DoctorCheck(f"gate {gate.name}", "ok", f"`{gate.command}`, not tried yet", TRY)
    if not any(gate.kind == "test" for gate in found.detection.gates):
        fix = "Give the actions of your plans contracts with checks."
        yield DoctorCheck("gate test", "warn", "no tests were found", fix)


def _check_by_trial(gate: Gate, result: GateTrial, trial: Trial, commit: Commit) -> DoctorCheck:
    when = zoned_time(trial.at)
    older = "" if trial.commit == commit else f" at {trial.commit[:8]}, another commit,"
    name = f"gate {gate.name}"
    if result.judges:
        again = TRY if older else ""
        return DoctorCheck(name, "ok", f"{result.summary} (tried{older} {when})", again)
    log = f" Its output: {result.log}." if result.log else ""
    fix = "Its environment comes first." if trial.problem else _gate_fix(gate)
    return DoctorCheck(name, "warn", result.summary, f"{fix}{log} Tried{older} {when}.")


def _gate_fix(gate: Gate) -> str:
    return f"Make `{gate.command}` work in a clean checkout, or set `quality_gates.{gate.kind}` (`off` for none)."


def _missing_tools(found: RepositoryGates, root: Path, environ: Mapping[str, str]) -> Mapping[str, str]:
    if found.plan.run:
        return {}  # set-up will install what is missing now
    own = [str(root / VENV / "bin")] if found.plan.borrow else []
    if (root / NODE_MODULES).is_dir():
        own.append(str(root / NODE_MODULES / ".bin"))
    variables = command_environment(environ)
    path = os.pathsep.join([*own, variables["PATH"]])
    usable = drop_unavailable_gates(found.detection, root, {**variables, "PATH": path}, own)
    tests = {
        gate.name: f"{tool} is not installed"
        for gate in usable.gates
        if gate.kind == "test" and (tool := missing_tool(gate, found.detection, root, path))
    }
    return {**unavailable_gates(found.detection, usable), **tests}
