"""What one try of a gate says about it: whether it can judge here, and what is missing if not."""

import os

from inline_snapshot import snapshot

from scaffold.core.ids import Commit
from scaffold.core.proof.gates import RED_ANYWAY, Gate, GateRun
from scaffold.git.repository import Repository
from scaffold.run.trial.gate_verdicts import FILE, judged, latest_trial

COMMIT = Commit("a" * 40)


def tried(kind="test", runner="pytest", **found):
    gate = Gate(kind=kind, command="the command", runner=runner)
    found = {"exit_code": 0, **found}
    return judged(GateRun(gate=gate, commit=COMMIT, environment="", **found))


def test_a_gate_passes_fails_ran_nothing_or_cannot_judge_here_and_says_why():
    """AL-28: `init` and `doctor` say of each gate whether a run could use it here."""
    results = [
        tried(outcomes={"a": "passed", "b": "skipped", "c": "passed"}),
        tried("lint", "findings"),
        tried("build", "exit", outcomes={"exit": "passed"}),
        tried(outcomes={"a": "passed", "b": "failed", "c": "error"}),
        tried(outcomes={"a": "passed", "b": "failed"}, refused={"b": "the sandbox's network is none"}),
        tried("lint", "findings", outcomes={"a": "failed"}, counts={"a": 3}),
        tried("test", "exit", exit_code=2, outcomes={"exit": "failed"}),
        tried(problem="vacuous", exit_code=5),
        tried(problem="timeout", duration_s=600.0),
        tried(problem="error", exit_code=1, detail="x: No module named 'trio'"),
        tried(problem="error", exit_code=4, detail="the runner exited with code 4.\n\nE   old is gone\n\n"),
        tried(problem="error", exit_code=127, detail="/bin/sh: 1: just: not found"),
        tried("build", "exit", problem="error", exit_code=1, detail="Could not resolve host: crates.example.org"),
        tried(outcomes={"a": "failed"}, detail="E   ConnectionError: Failed to resolve 'files.example.org'"),
    ]
    assert [(result.summary.replace(RED_ANYWAY, "RED_ANYWAY"), result.judges) for result in results] == snapshot(
        [
            ("passes: 2 passed, 1 skipped", True),
            ("passes: no findings", True),
            ("passes: exit code 0", True),
            ("fails on the base: 1 passed, 1 failed, 1 error; fails: b, c", True),
            (
                "fails on the base: 1 passed, 1 failed; 1 test not checkable here: b (the sandbox's network is none)",
                True,
            ),
            ("fails on the base: 3 findings", True),
            ("fails on the base: exit code 2; it RED_ANYWAY", False),
            ("ran nothing: no tests were collected", False),
            ("cannot judge here: it timed out after 600 s", False),
            ("cannot judge here: the Python module `trio` is not installed", False),
            ("cannot judge here: the runner exited with code 4: E   old is gone", False),
            ("cannot judge here: the program `just` was not found", False),
            ("cannot judge here: it needs the network: it asks for crates.example.org", False),
            ("cannot judge here: it needs the network: it asks for files.example.org", False),
        ]
    )


def test_a_stored_trial_that_someone_else_wrote_neither_stops_nor_crashes_anything(tmp_path):
    """AL-28: it is a file of the git directory, which may come with the repository."""
    path, repository = tmp_path / FILE, Repository(root=tmp_path, common_dir=tmp_path, git=None)
    path.parent.mkdir()
    path.write_text('{"x":' + "[" * 100_000)
    assert latest_trial(repository) is None
    path.unlink()
    os.mkfifo(path)
    assert latest_trial(repository) is None
