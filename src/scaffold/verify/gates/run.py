"""One run of a gate: its command in the checkout, in the sandbox, and what its runner's own report says of it."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import structs

from scaffold.core.gates import Gate, GateRun, Runner, TestOutcome
from scaffold.host.process import Finished
from scaffold.verify.contract import COMMAND_NOT_EXECUTABLE, COMMAND_NOT_FOUND, Tree, explained
from scaffold.verify.gates.family import Bench, Ended, Family, Order
from scaffold.verify.gates.findings import FINDINGS
from scaffold.verify.gates.go_test import GO
from scaffold.verify.gates.jest import BETWEEN, JEST, VITEST
from scaffold.verify.gates.libtest import CARGO
from scaffold.verify.gates.node_test import NODE
from scaffold.verify.gates.reading import EXIT, MOST_BYTES, Reading, in_trouble
from scaffold.verify.gates.watched import PYTEST, UNITTEST_FAMILY
from scaffold.verify.services.attendance import run_attended
from scaffold.verify.steadiness import told, watch

SHORT_OUTPUT = 1_000_000
KILLED = 128
"""A shell ends with this and the number of the signal that ended its command."""


def _by_its_end(ended: Ended) -> Reading:
    return Reading(outcomes={EXIT: "passed" if ended.exit_code == 0 else "failed"})


FAMILIES: Mapping[Runner, Family] = {
    "pytest": PYTEST,
    "unittest": UNITTEST_FAMILY,
    "go": GO,
    "jest": JEST,
    "vitest": VITEST,
    "node": NODE,
    "cargo": CARGO,
    "findings": FINDINGS,
    "exit": Family(asked=lambda command, _: Order(command=command), read=_by_its_end),
}


async def run_gate(gate: Gate, tree: Tree, *, only: Sequence[str] = (), environment: str, timeout_s: float) -> GateRun:
    """Run a gate once and return what it showed, of `only` some tests (by name, or by file from the gate's folder).

    What the command leaves in the checkout stays there.
    """
    family = FAMILIES[gate.runner]
    with _bench(gate, tree, only) as bench:
        order = family.asked(gate.command, bench)
        tests = await watch(tree.git, tree.commit, gate.command) if gate.kind == "test" else None
        finished = await run_attended(
            order.command,
            tree.services,
            tree.enclosure,
            top=tree.git.cwd,
            cwd=bench.place,
            environ={**tree.environ, **order.variables},
            timeout_s=timeout_s,
            limit_bytes=MOST_BYTES if family.prints else SHORT_OUTPUT,
        )
        reading = _reading(family, bench, order, finished)
        reading = reading if family.chooses else _only(reading, bench)
        if tests is not None and reading.trouble is None and (touched := await tests.touched()):
            reading = in_trouble("error", told(touched), reading.outcomes)
    return GateRun(
        gate=gate,
        commit=tree.commit,
        environment=environment,
        exit_code=finished.exit_code,
        trouble=reading.trouble,
        outcomes=reading.outcomes,
        counts=reading.counts,
        detail=explained(reading.why, tree.clean(_printed(reading, finished))),
        duration_s=round(finished.duration_s, 3),
        output_hash=finished.stdout_sha256,
    )


@contextlib.contextmanager
def _bench(gate: Gate, tree: Tree, only: Sequence[str]) -> Iterator[Bench]:
    """Yield what surrounds one run, with an empty folder of our own that goes with it."""
    parent = tree.enclosure.confinement.temporary if tree.enclosure else None
    if parent:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="gate-", dir=parent)).resolve()
    place = tree.git.cwd / gate.folder
    try:
        yield Bench(folder=folder, place=place.resolve(), environ=tree.environ, only=tuple(only))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _reading(family: Family, bench: Bench, order: Order, finished: Finished) -> Reading:
    """Return what the run showed, or why it shows nothing."""
    ended = Ended(
        bench=bench, order=order, exit_code=finished.exit_code, stdout=finished.stdout, stderr=finished.stderr
    )
    code, number = finished.exit_code or 0, finished.signal
    if finished.timed_out:
        running = ", ".join(family.running(ended)[:3])
        return in_trouble("timeout", f"It was not finished in time{f'; {running} was running' if running else ''}.")
    if finished.crowded:
        return in_trouble("error", "It was stopped: it started too many processes.")
    if number is not None or code > KILLED:
        running = ", ".join(family.running(ended)[:3])
        return in_trouble("error", f"Signal {number or code - KILLED} ended it{f' in {running}' if running else ''}.")
    if code in {COMMAND_NOT_FOUND, COMMAND_NOT_EXECUTABLE}:
        return in_trouble("error", f"The command could not be run (exit {code}).")
    if family.prints and finished.truncated:
        return in_trouble("error", f"It printed more than {MOST_BYTES} bytes.")
    return family.read(ended)


def _only(reading: Reading, bench: Bench) -> Reading:
    """Return the reading of what was asked for alone, where the runner could not choose as finely."""
    if bench.whole or reading.trouble:
        return reading
    wanted = frozenset(bench.only)
    outcomes: dict[str, TestOutcome] = {
        name: outcome for name, outcome in reading.outcomes.items() if name in wanted or _file(name) in wanted
    }
    return structs.replace(reading, outcomes=outcomes) if outcomes else reading


def _file(name: str) -> str:
    """Return the file that a test's name begins with."""
    return name.partition("::")[0].partition(BETWEEN)[0]


def _printed(reading: Reading, finished: Finished) -> str:
    if reading.said is not None:
        return f"{reading.said}{finished.stderr.decode(errors='replace')}".strip()
    return (finished.stdout + finished.stderr).decode(errors="replace").strip()
