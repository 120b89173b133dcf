"""The configuration that `init` writes: it sets what can judge here, and means what a run would have detected."""

from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from msgspec import structs

from scaffold.cli.render.init_text import HEADER, configuration_text
from scaffold.config.settings_file import parse_settings
from scaffold.core.ids import Commit
from scaffold.core.proof.gates import Gate, GateKind
from scaffold.run.trial.gate_verdicts import GateTrial, Trial
from scaffold.verify.gates.detection import DetectedGates, apply_gate_settings
from scaffold.verify.gates.projects.project import Reason

TEXT = st.text(st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=30)
WORDS = TEXT.filter(lambda text: text.strip() and "\0" not in text)


def tried(detection, judging, *, problem=""):
    results = [
        GateTrial(
            name=gate.name,
            kind=gate.kind,
            command=gate.command,
            verdict="passes" if gate.name in judging else "cannot_judge",
            text="as it is",
            informative=gate.name in judging,
        )
        for gate in detection.gates
    ]
    return Trial(commit=Commit("a" * 40), at=datetime(2030, 1, 1, tzinfo=UTC), gates=tuple(results), problem=problem)


def settings_of(text):
    return {name: held.value for name, held in parse_settings(text, Path(".scaffold.yaml")).items()}


DETECTED = DetectedGates(
    kind="python",
    gates=(
        Gate(kind="test", command="python -m pytest -q", runner="pytest"),
        Gate(kind="lint", command="ruff check .", runner="findings"),
        Gate(kind="typecheck", command="mypy", runner="findings", advisory=True),
    ),
    setup=("uv sync --locked",),
    reasons={"test": Reason("tox.ini", "runs `pytest`", 7), "uv sync --locked": Reason("uv.lock", "is locked")},
)


def test_what_can_judge_is_set_and_everything_else_is_a_comment():
    """AL-28: a comment says where each command comes from, and what it gave."""
    text = configuration_text(DETECTED, tried(DETECTED, {"test", "typecheck"}))
    assert settings_of(text) == {"setup": ("uv sync --locked",), "quality_gates.test": "python -m pytest -q"}
    assert text.removeprefix(HEADER) == snapshot("""\

# Commands found here that prepare a checkout; they run once you trust this folder. `off` for none.
setup:
  # uv.lock is locked
  - uv sync --locked

# Checks found here. A command of yours, or `off`, replaces one; it then counts in any case.
quality_gates:
  # tox.ini:7 runs `pytest`
  # passes: as it is
  test: python -m pytest -q
  # cannot judge here: as it is
  # lint: ruff check .
  # only warns: no check of the project's own set-up runs it
  # passes: as it is
  # typecheck: mypy
""")


def test_without_a_trial_all_of_it_is_comments_that_can_be_switched_on():
    text = configuration_text(DETECTED, None)
    assert settings_of(text) == {}
    switched_on = "\n".join(
        line.removeprefix("# ") for line in text.removeprefix(HEADER).splitlines() if ". " not in line
    )
    assert yaml.safe_load(switched_on) == {
        "setup": ["uv sync --locked"],
        "quality_gates": {"test": "python -m pytest -q", "lint": "ruff check .", "typecheck": "mypy"},
    }


def test_after_a_failed_set_up_nothing_is_set():
    assert settings_of(configuration_text(DETECTED, tried(DETECTED, set(), problem="no network"))) == {}


def test_gates_in_folders_stay_automatic_so_that_each_keeps_its_folder_and_runner():
    gates = tuple(Gate(kind="test", command="go test ./...", runner="go", folder=folder) for folder in ("a", "b"))
    detection = DetectedGates(kind="go", gates=gates)
    text = configuration_text(detection, tried(detection, {gate.name for gate in gates}))
    assert settings_of(text) == {"quality_gates.test": "auto"}
    assert "  # in a: go test ./...\n" in text


@example(commands=["a\x85", "b\u2028c"], reason=Reason("f", "says"), setup=[])
@given(
    commands=st.lists(WORDS, min_size=1, max_size=4),
    reason=st.builds(Reason, TEXT, TEXT, st.none()),
    setup=st.lists(WORDS, max_size=2, unique=True),
)
def test_text_of_strangers_sets_nothing_but_the_command_it_is(commands, reason, setup):
    """AL-28: file names and commands of a repository cannot add settings of their own."""
    gates = tuple(Gate(kind=kind, command=text) for kind, text in zip(get_args(GateKind), commands, strict=False))
    names = [gate.name for gate in gates]
    detection = DetectedGates(
        kind="unknown", gates=gates, setup=tuple(setup), reasons=dict.fromkeys([*names, *setup], reason)
    )
    trial = tried(detection, set(names))
    trial = structs.replace(trial, gates=tuple(structs.replace(each, text=reason.says) for each in trial.gates))
    found = yaml.safe_load(configuration_text(detection, trial)) or {}
    assert found == ({"setup": setup} if setup else {}) | {"quality_gates": dict(zip(names, commands, strict=True))}


def test_a_run_uses_the_gates_that_were_tried():
    """AL-28: the settings give the same commands and runners as the detection."""
    settings = settings_of(configuration_text(DETECTED, tried(DETECTED, {"test", "lint"})))
    given_gates = [Gate(kind=kind, command=str(settings[f"quality_gates.{kind}"])) for kind in ("test", "lint")]
    assert apply_gate_settings(DETECTED, given_gates, ()).gates == DETECTED.gates
