"""Try each gate once at a commit: in a sandbox, in a worktree that is removed afterwards."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

from msgspec import Struct, structs

from scaffold.core.ids import Commit
from scaffold.core.ports import Clock
from scaffold.core.proof.contract import Check, CheckResult
from scaffold.core.proof.gates import CheckEnvironment, Gate
from scaffold.core.run_settings import SandboxSettings
from scaffold.git.client.command_line import Git
from scaffold.host.contained_path import ContainedPath
from scaffold.host.sandbox.launch import temporary_variables
from scaffold.host.slots import Slots
from scaffold.policy.secret.command_environment import command_environment, relocated
from scaffold.policy.secret.sources import redactor_for
from scaffold.run.gate_logs import write_gate_log
from scaffold.run.resources.candidate_environment import FIXED
from scaffold.run.resources.sandbox import SandboxPlace, open_checkout_sandbox
from scaffold.run.trial.gate_verdicts import GateTrial, Trial, judged
from scaffold.run.trial.temporary_checkout import TrialPlace, add_checkout, guarded
from scaffold.verify.check_readiness import NotReady
from scaffold.verify.contract.check_runs import During, HookPlace, Tree, restore_tracked_files, run_check, unseen
from scaffold.verify.environment.check_env import check_environ, program_folders, with_shown_folders
from scaffold.verify.environment.import_proof import prove_imports
from scaffold.verify.environment.preparation import EnvironmentRequest, prepare_environment
from scaffold.verify.environment.provisioning import forget_copies, provision_checkout, with_new_temporary_folder
from scaffold.verify.gates.detection import DetectedGates, drop_unavailable_gates
from scaffold.verify.gates.observed_run import gate_slot, run_gate
from scaffold.verify.regression.baseline_capture import missing_dependency

LOGS = "scaffold/logs/trial"
"""The folder of the logs of gates that cannot judge, in the git directory."""


NO_ENVIRONMENT = "it was not run, because its environment could not be prepared"


class TrialRequest(Struct, frozen=True, kw_only=True):
    """What is tried, and how."""

    commit: Commit
    gates: DetectedGates
    """The gates, and the set-up commands, to which the user agreed."""
    trusted: bool = True
    """Whether the set-up commands may run."""
    sandbox: SandboxSettings
    variables: tuple[str, ...] = ()
    """Names of variables that commands see although they look like secrets."""
    environ: Mapping[str, str]
    """The environment of this process."""
    slots: Slots
    timeout_s: float
    clock: Clock
    cleaner: Sequence[str]
    """The command that removes the worktree if this process is killed."""
    tell: Callable[[str], None]
    """Called with each command before it runs."""
    during: During = unseen
    """Shows each command while it runs."""
    on_result: Callable[[GateTrial], None] = lambda _: None
    """Called with the result of each gate as soon as it is known."""


async def try_gates(place: TrialPlace, request: TrialRequest) -> Trial:
    """Return the result of each gate at the commit; the user's checkout is not written."""
    async with guarded(place, request.cleaner), _open_tree(place, request) as opened:
        results = opened if isinstance(opened, NotReady) else await _run_gates(request, opened.tree, opened.environment)
    trial = Trial(commit=request.commit, at=request.clock.now(), gates=(), setup=request.gates.setup)
    if isinstance(results, NotReady):
        missing = missing_dependency(results.detail)
        fix = f"{results.fix[:1].upper()}{results.fix[1:].rstrip('.')}."
        problem = f"{results.what}{f' ({missing})' if missing else ''}. {fix}"
        untried = tuple(_unavailable_gate(gate, NO_ENVIRONMENT) for gate in request.gates.gates)
        for each in untried:
            request.on_result(each)
        return structs.replace(trial, gates=untried, problem=problem, output=results.detail)
    return structs.replace(trial, gates=tuple(results))


async def try_checks(
    place: TrialPlace, request: TrialRequest, checks: Sequence[Check]
) -> tuple[CheckResult, ...] | NotReady:
    """Return the result of each check of a contract at the commit, without any work on it."""
    async with guarded(place, request.cleaner), _open_tree(place, request) as opened:
        if isinstance(opened, NotReady):
            return opened
        results = list[CheckResult]()
        for check in checks:
            request.tell(check.command)
            await restore_tracked_files(opened.tree)
            async with gate_slot(request.slots, request.during):
                results.append(await run_check(check, with_new_temporary_folder(opened.tree)))
        return tuple(results)


class _OpenedTree(Struct, frozen=True):
    tree: Tree
    environment: CheckEnvironment


@asynccontextmanager
async def _open_tree(place: TrialPlace, request: TrialRequest) -> AsyncIterator[_OpenedTree | NotReady]:
    prepared = await prepare_environment(_environment_request(place, request))
    if isinstance(prepared, NotReady):
        yield prepared
        return
    environment = prepared.environment
    git = await add_checkout(place, request.commit)
    try:
        await provision_checkout(environment, place.checkout)
        async with open_checkout_sandbox(request.sandbox, _sandbox_place(place, request), place.checkout) as sandbox:
            tree = _checkout_tree(place, request, environment, git)
            tree = structs.replace(tree, sandbox=with_shown_folders(environment, sandbox))
            if sandbox is None:
                # Without a sandbox, commands would write into the temporary folder of the user.
                place.temporary.mkdir(mode=0o700, parents=True, exist_ok=True)
                tree = structs.replace(tree, environ={**tree.environ, **temporary_variables(place.temporary)})
            proven = await prove_imports(environment, tree)
            if isinstance(proven, NotReady):
                yield proven
                return
            tree = structs.replace(tree, environ=check_environ(proven, tree.git.cwd, tree.environ))
            yield _OpenedTree(tree, proven)
    finally:
        forget_copies(environment, [place.checkout])


async def _run_gates(request: TrialRequest, tree: Tree, environment: CheckEnvironment) -> list[GateTrial]:
    own = program_folders(environment, tree.git.cwd)
    usable = drop_unavailable_gates(request.gates, tree.git.cwd, tree.environ, own)
    missing = unavailable_gates(request.gates, usable)
    results = list[GateTrial]()
    for gate in request.gates.gates:
        if gate.name in missing:
            result = _unavailable_gate(gate, missing[gate.name])
        else:
            request.tell(f"cd {gate.folder} && {gate.command}" if gate.folder else gate.command)
            # A gate may change files, and the next one must judge the commit.
            await restore_tracked_files(tree)
            async with gate_slot(request.slots, tree.during):
                run = await run_gate(
                    gate,
                    with_new_temporary_folder(tree),
                    environment=environment.fingerprint,
                    timeout_s=gate.timeout_s or request.timeout_s,
                )
            result = judged(run)
        request.on_result(result)
        results.append(result)
    return results


def unavailable_gates(detection: DetectedGates, usable: DetectedGates) -> Mapping[str, str]:
    """Return why each gate was dropped whose tool is missing, by its name."""
    kept = {gate.name for gate in usable.gates}
    dropped = [gate.name for gate in detection.gates if gate.name not in kept]
    notes = usable.notes[len(detection.notes) :]
    return {name: note.rpartition(", so ")[0] for name, note in zip(dropped, notes, strict=True)}


def _unavailable_gate(gate: Gate, text: str) -> GateTrial:
    return GateTrial(
        name=gate.name,
        kind=gate.kind,
        command=gate.command,
        folder=gate.folder,
        verdict="cannot_judge",
        text=text,
        informative=False,
        advisory=gate.advisory,
    )


def _environment_request(place: TrialPlace, request: TrialRequest) -> EnvironmentRequest:
    repository, cache = place.repository, place.cache
    sandbox = partial(open_checkout_sandbox, request.sandbox, _sandbox_place(place, request))
    return EnvironmentRequest(
        repository=repository,
        base=request.commit,
        setup=request.gates.setup,
        trusted=request.trusted,
        sandbox=str(request.sandbox),
        cache=cache,
        environ=command_environment(request.environ, names=request.variables),
        open_sandbox=sandbox,
        clean=redactor_for(request.environ, repository.root).clean,
        tell=request.tell,
        during=request.during,
    )


def _sandbox_place(place: TrialPlace, request: TrialRequest) -> SandboxPlace:
    return SandboxPlace(place.repository, place.cache, request.environ, place.temporary)


def _checkout_tree(place: TrialPlace, request: TrialRequest, environment: CheckEnvironment, git: Git) -> Tree:
    repository, checkout = place.repository, place.checkout
    own = command_environment(request.environ, names=request.variables)
    environ = relocated(own, repository.root, checkout, fixed=FIXED)
    clean = redactor_for(request.environ, repository.root).clean

    def keep_log(name: str, text: str) -> str:
        return write_gate_log(ContainedPath(repository.common_dir, LOGS), name, clean(text), repository.root)

    return Tree(
        git=git,
        base=request.commit,
        commit=request.commit,
        environ=check_environ(environment, checkout, environ),
        clean=clean,
        keep_log=keep_log,
        during=request.during,
        hooks=HookPlace(common_dir=repository.common_dir, prepare=partial(provision_checkout, environment)),
    )
