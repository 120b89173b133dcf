"""The request for a proof: what a candidate is checked against, and how its gates run."""

from collections.abc import Callable, Collection, Iterable

from msgspec import Struct, structs

from scaffold.core.ids import TreeId
from scaffold.core.plan import ActionSpec
from scaffold.core.proof.contract import Contract
from scaffold.core.proof.gates import Baseline, CheckEnvironment, Gate, GateResult, GateRun, TaggedTests
from scaffold.host.slots import Slots
from scaffold.policy.path.protected_areas import ProtectedAreas
from scaffold.verify.locate_tests import path_of_test
from scaffold.verify.paths.declared_paths import is_declared_path, named_tests

GateRunLookup = Callable[[Gate, TreeId, str], GateRun | None]
"""Return the stored run of a gate on a tree in an environment, or None."""


class ProofRequest(Struct, frozen=True, kw_only=True):
    """Everything that a candidate is checked against."""

    contract: Contract | None = None
    files: tuple[str, ...] = ()
    """The paths, folders and globs that the action declared; tests in them may be removed if that loses nothing."""
    task: ActionSpec | None = None
    """Whose work it is; if it declares no files, the existing tests that it names are declared."""
    granted: tuple[str, ...] = ()
    """Further paths that it may change, unless they decide about the work; its agent asked for them."""
    areas: ProtectedAreas = ProtectedAreas()
    """The paths that may be changed only if the action declared them."""
    accepted_losses: frozenset[str] = frozenset()
    """The tests whose loss a reviewer or a human agreed to, by name."""
    installed: tuple[str, ...] = ()
    """The module names of the distributions that are installed where checks run."""
    settled: frozenset[str] = frozenset()
    """The tests that landed work of the run removed, replaced or moved; the change need not account for them again."""
    failed_on_base: tuple[str, ...] = ()
    """The names of the contract's checks that were seen to fail on the base."""
    lacks: str = ""
    """Which dependencies of the work its environment lacks, and what to do; shown with what fails."""
    baseline: Baseline | None = None
    """The gate results from before the run's work; None to run no gates."""
    focused: bool = True
    """Whether to run only the tests affected by the change."""
    landed_gates: tuple[GateResult, ...] | None = None
    """At the end of a run: the gate results of all that landed, in order. Else None."""
    marked_list: str = ""
    """The list in which landings mark tasks: earlier marks in it say nothing about tests. Empty for none."""
    tagged: tuple[TaggedTests, ...] = ()
    """Tests that are selected by their tags when certain paths change."""
    gates_given: tuple[Gate, ...] = ()
    """The gates that the settings name; what the repository's files say of their kinds does not count."""
    gates_off: tuple[str, ...] = ()
    """Kinds of gates not to run, even if the work adds one."""
    gate_timeout_s: float = 600.0
    """The timeout of a gate that the work added."""
    slots: Slots | None = None
    """Limits how many gates run at once; None for no limit."""
    find_gate_run: GateRunLookup | None = None
    """Finds a stored gate run by tree; None to run every gate."""
    store_gate_run: Callable[[GateRun, TreeId], None] | None = None
    """Stores a gate run without a problem for `find_gate_run`; None to store none."""

    def declared_among(self, paths: Collection[str]) -> tuple[str, ...]:
        """Return what is declared in a repository with these paths: `files`, and the tests that the task names instead.

        Of the latter only those that a gate ran on the base: without their results, nothing shows that some are lost.
        """
        named = named_tests(self.task, paths, self.areas) if self.task else ()
        if not named:
            return self.files
        gates = [(run.gate, run.outcomes) for run in self.baseline_runs if run.gate.kind == "test"]
        ran = {path_of_test(gate, name, paths) for gate, outcomes in gates for name in outcomes}
        # For Go it is the folder.
        place = {path: path.rpartition("/")[0] if path.endswith(".go") else path for path in named}
        return (*self.files, *(path for path in named if place[path] in ran))

    def named_only(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Return those of some changed tests that only the task's words declare: work may add to them, no more."""
        if self.task is None or self.task.files:
            return ()
        return tuple(path for path in paths if not is_declared_path(path, self.files))

    def may_change(self, path: str) -> bool:
        """Return whether a test of the base is declared, by its path or by the task's words."""
        return is_declared_path(path, self.files) or bool(self.named_only([path]))

    @property
    def baseline_runs(self) -> tuple[GateRun, ...]:
        """The baseline's runs; empty if no gates run."""
        return self.baseline.runs if self.baseline else ()


def with_environment(request: ProofRequest, environment: CheckEnvironment, *, lacks: str) -> ProofRequest:
    """Return the request for checks in another environment than the baseline's."""
    baseline = structs.replace(request.baseline, environment=environment) if request.baseline else None
    return structs.replace(request, baseline=baseline, lacks=lacks)
