"""The plan of a soak: goals with actions, and how the agent of each action behaves."""

import random  # noqa: TID251 - seeded
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from model_server.turn import Call

Behaviour = Literal["honest", "second_try", "hangs_once", "stalls_once", "fails", "idle", "breaks_gate", "edits_gate"]
"""How an agent works.

It does its work | only after wrong work was refused | only after a command, or a reply, that does not end |
always does wrong work | only says that it is done | breaks what the gate checks | and changes the gate, too.
"""

LANDS: Mapping[Behaviour, bool] = {
    "honest": True,
    "second_try": True,
    "hangs_once": True,
    "stalls_once": True,
    "fails": False,
    "idle": False,
    "breaks_gate": False,
    "edits_gate": False,
}
HARMFUL_SHARE = 0.2
"""The share of actions whose agents are not simply honest, in a soak with harm."""
HANG_SHARE = 0.25
"""Of them, the share of those that hang: each costs the time after which an agent counts as hung."""
BROKEN = "BROKEN"
"""What the gate finds."""
GATE = "check.sh"
FILES = {
    "README.md": "# The soak's repository\n",
    GATE: f"! grep -rq {BROKEN} work\n",
    "work/README.md": "Agents write here.\n",
}
"""The repository before the run. Its gate passes while no file of the agents has the mark."""
CHAIN = 4
"""Every action of a goal needs the one that many before it."""


class Job(Struct, frozen=True, kw_only=True):
    """One action, and the behaviour of its agent."""

    key: str
    goal: str
    behaviour: Behaviour
    needs: str | None
    pause_s: float
    """How long a command of the agent takes."""

    @property
    def path(self) -> str:
        """The file that the action declares."""
        return f"work/{self.goal}/{self.key}.txt"

    @property
    def content(self) -> str:
        """What an honest agent writes."""
        return f"the work of {self.key}\n"

    @property
    def lands(self) -> bool:
        """Whether its work has to land; if False, nothing of it may."""
        return LANDS[self.behaviour]

    def steps(self, *, first: bool) -> Sequence[Call]:
        """Return the calls of its agent; `first` while none of its conversations was finished."""
        honest = Call("write_file", {"path": self.path, "content": self.content})
        wrong = Call("write_file", {"path": self.path, "content": "something else\n"})
        broken = Call("write_file", {"path": self.path, "content": f"{self.content}{BROKEN}\n"})
        hang = Call("shell", {"command": "sleep 100000", "timeout_s": 600})
        rest = Call("shell", {"command": f"sleep {self.pause_s:.2f}"})
        steps: Mapping[Behaviour, tuple[Call, ...]] = {
            "honest": (rest, honest) if self.pause_s else (honest,),
            "second_try": (wrong,) if first else (honest,),
            "hangs_once": (hang,) if first else (honest,),
            "stalls_once": (honest,),
            "fails": (wrong,),
            "idle": (),
            "breaks_gate": (broken,),
            "edits_gate": (Call("shell", {"command": f"echo true > {GATE}"}), broken),
        }
        return steps[self.behaviour]


class Workload(Struct, frozen=True):
    """All actions of a soak."""

    jobs: tuple[Job, ...]

    @property
    def by_key(self) -> Mapping[str, Job]:
        """Return the actions by key."""
        return {job.key: job for job in self.jobs}

    def plan(self) -> Mapping[str, Any]:
        """Return the plan file's content."""
        goals = dict.fromkeys(job.goal for job in self.jobs)
        return {"version": 1, "goals": [self._goal(name) for name in goals]}

    def _goal(self, name: str) -> Mapping[str, Any]:
        jobs = [job for job in self.jobs if job.goal == name]
        return {
            "name": name,
            "description": f"have the files of {name}",
            "goal_state": [_fact(job.key) for job in jobs],
            "actions": [
                {
                    "key": job.key,
                    "description": f"write {job.path}",
                    "preconditions": [_fact(job.needs)] if job.needs else [],
                    "effects": [_fact(job.key)],
                    "files": [job.path],
                    "contract": {"commands": [{"command": f"grep -qx 'the work of {job.key}' {job.path}"}]},
                }
                for job in jobs
            ],
        }


def make_workload(dice: random.Random, actions: int, goals: int, *, not_honest: float) -> Workload:
    """Return that many actions, spread evenly over the goals; nothing needs those that never land.

    `not_honest` is the share of those whose agents are not simply honest; with 0, agents take no time, either.
    """
    return Workload(tuple(_jobs(dice, actions, goals, not_honest)))


def _jobs(dice: random.Random, actions: int, goals: int, share: float) -> Iterator[Job]:
    earlier: dict[str, list[str]] = {}
    for number in range(actions):
        goal, key = f"goal{number % goals:03}", f"job{number:05}"
        behaviour = _behaviour(dice) if dice.random() < share else "honest"
        before = earlier.setdefault(goal, [])
        needs = before[-CHAIN] if len(before) >= CHAIN else None
        pause_s = dice.choice((0.0, 0.0, 0.5, 1.0)) if share else 0.0
        yield Job(key=key, goal=goal, behaviour=behaviour, needs=needs, pause_s=pause_s)
        if LANDS[behaviour]:
            before.append(key)


def _behaviour(dice: random.Random) -> Behaviour:
    if dice.random() < HANG_SHARE:
        return dice.choice(("hangs_once", "stalls_once"))
    return dice.choice(("second_try", "fails", "idle", "breaks_gate", "edits_gate"))


def _fact(key: str) -> str:
    return f"{key}_done"
