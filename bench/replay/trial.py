"""One change as the work of an agent: the real command lands or refuses it, and says why."""

import json
import subprocess  # noqa: TID251 - the real command is measured
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
import yaml
from msgspec import Struct

from replay.place import APPLY, PATCH, Place
from replay.runner_times import CommandRun, watch

KEY = "change"
EFFECT = "changed"
SHOWN_TESTS = 8
SHOWN_LINES = 12
OUTPUT = "output"
"""The file in the home of a place with what the last command printed."""

Outcome = Literal["proven", "reviewed", "unchanged", "weak", "refused", "broken", "not_judged"]
"""Landed with which strength of evidence | did not land | did not land, and rightly so | nothing can be told here."""


class Contract(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The contract of the plan's action, under the names of a plan file."""

    commands: tuple[str, ...]
    must_exist: tuple[str, ...] = ()
    must_not_exist: tuple[str, ...] = ()


class Work(Struct, frozen=True, kw_only=True):
    """A change, and what is asked of it."""

    task: str
    base: str
    patch: bytes
    files: tuple[str, ...]
    """The paths that the action declares."""
    contract: Contract
    settings: Mapping[str, Any] = {}
    """The user's configuration."""


class Ending(Struct, frozen=True, kw_only=True):
    """How a run ended."""

    outcome: Outcome
    reason: str = ""
    """Why it was refused or not judged: what Scaffold said of the first attempt, else of the run."""
    doubts: tuple[str, ...] = ()
    """Why the facts are not proven, as Scaffold says it: `code: text`."""
    failed: tuple[str, ...] = ()
    """The checks and gates that block, with the first tests and lines that they report."""
    landed: str | None = None
    """The commit that landed."""
    total_s: float = 0.0
    runs: tuple[CommandRun, ...] = ()
    """Every execution of a check or gate, wherever it happened."""
    asked: tuple[str, ...] = ()
    """What a human was asked and agreed to: the loss of tests. The author of the change stands for that human."""
    printed: str = ""
    """The end of what the command printed; empty if the work landed."""

    @property
    def runners_s(self) -> float:
        """Return the time of all checks and gates."""
        return sum(run.seconds for run in self.runs)


def replay(work: Work, place: Place, *, keep: bool = False) -> Ending:
    """Let an agent make the change on its base, and return how that ended.

    With `keep`, results of earlier runs in the place stay known: what ran on the same base is not run there again.
    """
    if not keep:
        place.forget()
    place.reset(work.base)
    (place.repo / ".git" / PATCH).write_bytes(work.patch)
    _write(place, "scaffold/config/config.yaml", dict(work.settings))
    plan, cassette = _write(place, "plan.yaml", _plan(work)), _write(place, "cassette.yaml", _cassette(attempt=1))
    began = time.monotonic()
    shells = _finished(place, "run", "--plan", plan, "--model", f"cassette:{cassette}", "--yes")
    asked = dict(_questions(_json(place, "status")))
    if asked:
        _finished(place, "approve", *asked)
        again = _write(place, "cassette-again.yaml", _cassette(attempt=2))
        shells += _finished(place, "resume", "--model", f"cassette:{again}")
    took = time.monotonic() - began
    runs = tuple(run for run in shells if run.command != APPLY)
    printed = (place.home / OUTPUT).read_text(errors="replace")
    ending = read_ending(_json(place, "status"), _json(place, "contract", KEY), printed, took=took, runs=runs)
    return msgspec.structs.replace(ending, asked=tuple(asked.values()))


def _finished(place: Place, *args: str) -> tuple[CommandRun, ...]:
    """Run a command of Scaffold to its end, and return what it executed; its output is kept in the home."""
    with (place.home / OUTPUT).open("wb") as out:
        process = subprocess.Popen(
            _scaffold(*args), cwd=place.repo, env=dict(place.environ), stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
        return watch(process)


def _questions(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the id and the text of each question about lost tests that a run waits for; none if it waits for others."""
    waiting = status["inbox"] if status["run"]["status"] == "paused" else []
    if all("lost" in item["detail"] for item in waiting):
        yield from ((item["id"], item["text"]) for item in waiting)


def read_ending(
    status: Mapping[str, Any], contract: Mapping[str, Any], printed: str, *, took: float, runs: tuple[CommandRun, ...]
) -> Ending:
    """Return how a run of one action ended, from `status --json`, `contract --json` and what `run` printed."""
    facts = [fact for goal in status["goals"] for fact in goal["facts"] if fact["state"] == "holds"]
    last = contract.get("last") or {}
    attempts = status["actions"][0]["attempts"] if status["actions"] else []
    landed = next((each["head_sha"] for each in attempts if each["outcome"] == "landed"), None)
    total_s = round(took, 2)
    if landed and facts and status["run"]["status"] == "completed":
        strength, doubts = _strength(facts[0], last)
        return Ending(outcome=strength, doubts=doubts, landed=landed, total_s=total_s, runs=runs)
    return Ending(
        outcome="refused" if attempts else "not_judged",
        reason=_reason(status, attempts),
        failed=tuple(_blocking(last)),
        landed=landed,
        total_s=total_s,
        runs=runs,
        printed=printed[-4_000:],
    )


def _strength(fact: Mapping[str, Any], last: Mapping[str, Any]) -> tuple[Outcome, tuple[str, ...]]:
    """Return the strength of a fact's evidence, and the doubts about it."""
    told = fact if "doubts" in fact else last
    doubts = tuple(f"{doubt['code']}: {doubt['text']}" for doubt in told.get("doubts", ()))
    strength = fact.get("strength") or ("weak" if fact["weak"] else "proven")
    if strength == "weak" and not doubts:
        doubts = ("green-on-base: no check failed before the work",)
    return strength, doubts


def _reason(status: Mapping[str, Any], attempts: Sequence[Mapping[str, Any]]) -> str:
    """Return the reason that tells most: later attempts of our worker change nothing, so theirs say little."""
    told = [attempt["error"] for attempt in attempts if attempt["error"]]
    return str((told or [status["actions"][0]["reason"] or status["run"]["reason"] or status["run"]["status"]])[0])


def _blocking(last: Mapping[str, Any]) -> Iterator[str]:
    """Yield a text for each check and gate that blocks."""
    for result in last.get("results", ()):
        if result["verdict"] != "pass":
            yield f"{result['name']}: {result['verdict']}\n{_end(result['detail'])}"
    for gate in last.get("gates", ()):
        if gate["verdict"] in {"new_failure", "vacuous", "error", "timeout"}:
            bad = [f"  {verdict} {name}" for name, verdict in gate["tests"].items() if verdict == "new_failure"]
            yield "\n".join([f"{gate['name']}: {gate['verdict']}", *bad[:SHOWN_TESTS], _end(gate["detail"])])


def _end(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-SHOWN_LINES:])


def _plan(work: Work) -> dict[str, Any]:
    action = {
        "key": KEY,
        "description": work.task,
        "effects": [EFFECT],
        "files": list(work.files),
        "contract": msgspec.to_builtins(work.contract),
    }
    goal = {"name": "replay", "description": work.task, "goal_state": [EFFECT], "actions": [action]}
    return {"version": 1, "goals": [goal]}


def _cassette(*, attempt: int) -> dict[str, Any]:
    """Return the replies of a worker that makes the change at once in an attempt, and nothing when asked again."""
    make = {"name": "shell", "args": {"command": APPLY, "timeout_s": 60}}
    first = {"when": {"action": KEY, "turn": 1, "attempt": attempt}, "tool_calls": [make]}
    return {"version": 1, "replies": [first, {"when": {"action": KEY}, "text": "It is done."}]}


def _write(place: Place, name: str, value: Mapping[str, Any]) -> str:
    """Write a file below the home of the place; return its path."""
    path = place.home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(value))
    return str(path)


def _json(place: Place, *args: str) -> dict[str, Any]:
    """Return what a command of Scaffold prints as JSON; empty if it fails."""
    command = _scaffold(*args, "--json")
    done = subprocess.run(command, cwd=place.repo, env=dict(place.environ), capture_output=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def _scaffold(*args: str) -> list[str]:
    return [sys.executable, "-m", "scaffold", *args]
