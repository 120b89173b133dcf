"""Every way in which a program's turn fails, or only seems to succeed, as a recorded stream for each program."""

from pathlib import Path
from typing import NamedTuple

import pytest

from builders import bubblewrap_or_skip
from scaffold.executors.acp import AcpProtocol
from scaffold.executors.claude import Claude
from scaffold.executors.codex import CodexProtocol
from scaffold.executors.pi import Pi
from scaffold.executors.port import EndedTool, Noticed, ReportedUsage, StartedSession, Waits
from scaffold.host.process_identity import identify
from scaffold.host.sandbox.confinement import Confinement, SandboxSpec
from support.turn_listeners import Answers

STREAMS = Path(__file__).parent / "streams"
PROGRAMS = {"claude": Claude, "pi": Pi, "codex": CodexProtocol, "acp": lambda: AcpProtocol("default", "plan")}


class Expected(NamedTuple):
    """How a turn ends with this stream, and what is heard of it."""

    failure: str | None
    heard: type | None = None


CLASSES = {
    "login": Expected("login"),
    "overloaded": Expected("overloaded", Waits),
    "quota": Expected("quota"),
    "context": Expected("context"),
    "dropped": Expected("overloaded", Waits),
    "denied": Expected(None, EndedTool),
    "malformed": Expected(None, Noticed),
    "killed": Expected("program", ReportedUsage),
    "lingers": Expected(None),
    "undone": Expected(None),
    "orphan": Expected(None),
    "twice": Expected(None),
}
# ACP has a name for an expired login alone: other errors bear the status of the provider at best, and no reset time.
# It does not tell of requests that are sent again.
OF_ACP = {"quota": Expected("overloaded"), "overloaded": Expected("overloaded"), "dropped": Expected("overloaded")}
each_program = pytest.mark.parametrize("program", PROGRAMS)


@each_program
@pytest.mark.parametrize("kind", CLASSES)
async def test_each_class_of_failure_is_told_apart_by_what_the_program_reports(play, program, kind):
    """AL-24"""
    answers = Answers()
    end = await play(PROGRAMS[program](), STREAMS / program / f"{kind}.txt", answers)
    expected = (OF_ACP if program == "acp" else {}).get(kind, CLASSES[kind])
    assert end.failure == expected.failure
    assert bool(end.why) == (expected.failure is not None)
    assert end.session == "id1"
    assert {StartedSession, expected.heard or StartedSession} <= set(answers.told)


async def test_a_quota_that_is_used_up_says_when_it_is_full_again(play):
    end = await play(Claude(), STREAMS / "claude" / "quota.txt", Answers())
    assert end.resets_at == 1796000000


@each_program
async def test_a_success_without_work_is_only_a_claim(play, worktree, program):
    """AL-24, BX-19: the program says that it is done; that nothing has changed is seen in the worktree alone."""
    end = await play(PROGRAMS[program](), STREAMS / program / "undone.txt", Answers())
    assert end.failure is None
    assert end.text
    assert list(worktree.iterdir()) == []


@each_program
async def test_what_comes_after_the_first_result_is_not_of_the_turn(play, program):
    end = await play(PROGRAMS[program](), STREAMS / program / "twice.txt", Answers())
    assert end.text == "Done."
    assert end.usage is not None
    assert end.usage.cost_usd != 9.9


@each_program
async def test_a_process_that_a_program_leaves_behind_ends_with_the_turn(play, worktree, program):
    await play(PROGRAMS[program](), STREAMS / program / "orphan.txt", Answers())
    child = int((worktree / "child.pid").read_text())
    assert identify(child) is None


@each_program
async def test_a_program_cannot_write_outside_of_its_worktree(play, worktree, tmp_path, program):
    """BX-19"""
    found = await bubblewrap_or_skip()
    zone = Confinement(writable=(worktree,), temporary=tmp_path / "temporary", readable=(STREAMS, STREAMS.parents[2]))
    sandbox = SandboxSpec("bubblewrap", zone, program=found.program)
    end = await play(PROGRAMS[program](), STREAMS / program / "outside.txt", Answers(), sandbox=sandbox)
    assert end.failure is None
    assert not (tmp_path / "outside.txt").exists()


@each_program
async def test_a_start_that_hangs_is_repeated_twice_and_no_more(play, program):
    """AL-20: nothing was sent to a model yet, so nothing is paid twice."""
    answers = Answers()
    end = await play(PROGRAMS[program](), "! hang\n", answers, start_s=0.05)
    assert end.failure == "program"
    assert "sent no message" in end.why
    assert sum("started again" in event.text for event in answers.heard if isinstance(event, Noticed)) == 2


async def test_a_start_that_hangs_after_it_wrote_something_is_not_repeated(play):
    class AfterTheFirstLine(Claude):
        async def converse(self, lines, turn, listener):
            await answers.told[Noticed].wait()
            return await super().converse(lines, turn, listener)

    answers = Answers()
    end = await play(AfterTheFirstLine(), "<~ warming up\n! hang\n", answers, start_s=0.05)
    assert end.failure == "program"
    assert [event.text for event in answers.heard if isinstance(event, Noticed)] == ["warming up"]
