"""Frames of a watched run: they fit, items that need a human come first, what is left out is counted."""

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from rich.cells import cell_len

from builders import a_run, make_settings
from scaffold.cli.render.live.event_lines import work_lines
from scaffold.cli.render.live.watch_view import agent_lines, frame_lines, print_changes
from scaffold.cli.render.terminal.text_layout import UNLIMITED
from scaffold.core.model import Activity, CurrentActivity, InboxItem, Usage
from scaffold.core.spending import AccountTotals, Amount, SpendingLimits
from scaffold.core.states import Active, Paused
from scaffold.plan.budget import BudgetUse, spending_limits
from scaffold.views.agent_list import AgentRow
from scaffold.views.journal_entries import LastActivity
from scaffold.views.run_view import GoalProgress, RunSummary
from scaffold.views.text_format import clip_middle
from scaffold.views.waiting import entry_of_item
from support.fake_clock import FakeClock

NOW = FakeClock().now()
RUN = a_run(
    "r1",
    request="add rate limiting to every endpoint of the shop, and tests",
    state=Active(),
    settings=make_settings(budget_usd=5.0),
    created_at=NOW - timedelta(seconds=125),
)


def worker(number, **changes):
    act = LastActivity(NOW - timedelta(seconds=12), "shell: python -m pytest -q tests")
    member = AgentRow(
        role="implementation",
        goal="shop",
        action=f"endpoint-{number}",
        attempt=1,
        pid=100 + number,
        alive=True,
        state="running",
        phase="executing",
        since=NOW - timedelta(seconds=60),
        usage=Usage(cost_usd=0.12),
        last_activity=act,
    )
    return msgspec.structs.replace(member, **changes)


SHOP = (GoalProgress("shop", "active", 3, 7, {"completed": 12, "running": 8, "failed": 1}),)


def run_view(*agents, goals=SHOP, waiting=0, **changes):
    item = InboxItem(id="i7", run_id="r1", kind="question", text="?", detail={}, created_at=NOW)
    made = RunSummary(
        at=NOW,
        run=RUN,
        status="active",
        spent=Usage(cost_usd=1.2),
        budget=BudgetUse(limits=spending_limits(RUN.settings.limits)),
        goals=goals,
        turns=(),
        agents=agents,
        waiting=(entry_of_item(item, (), Path()),) * waiting,
        is_live=changes.get("status", "active") in {"active", "planning"},
    )
    return msgspec.structs.replace(made, **changes)


@pytest.fixture(autouse=True)
def without_colour(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")


def test_the_used_share_of_the_tokens_is_in_the_title():
    """AL-21."""
    totals = AccountTotals(spent=Amount(1.2, 850))
    budget = BudgetUse(limits=SpendingLimits(usd=5.0, tokens=1_000), totals=totals)
    assert frame_lines(run_view(budget=budget), 100, 40)[0].endswith("2 m 05 s, $1.20 of $5.00, 85% of its tokens")


def test_twenty_agents_have_a_row_each_with_all_details():
    """BX-12: action, phase, the last meaningful step, how long ago, the cost."""
    lines = frame_lines(run_view(*map(worker, range(20))), 100, 40)
    assert lines[0].startswith("▶ run r1 active: add rate limiting to every endpoint")
    assert lines[0].endswith("  2 m 05 s, $1.20 of $5.00")
    assert lines[1] == "  ▶ shop: active, 3/7 hold, 12 of 21 actions done, 1 failed"
    own = [line for line in lines if "endpoint-" in line]
    assert len(own) == 20
    assert " ".join(own[3].split()) == "▶ endpoint-3#1 executing shell: python -m pytest -q tests 12 s ago $0.12"


def test_twenty_agents_of_many_goals_fit_on_the_smallest_screen():
    """BX-12, SC-19: 80 columns by 24 lines; agents with a common key prefix stay distinguishable."""
    goals = tuple(GoalProgress(f"g{n}", "active", n % 2, 1, {"pending": 1, "completed": 1}) for n in range(20))
    agents = [worker(n, action=f"rate-limiting-of-the-endpoint-{n}") for n in range(20)]
    lines = frame_lines(run_view(*agents, goals=goals, waiting=1), 80, 23)
    assert lines[1:3] == [
        "  20 goals: 10/20 hold, 20 of 40 actions done",
        "  ■ needs you: 1 item waits, `scaffold inbox`",
    ]
    assert [line.split()[1] for line in lines[3:]] == [
        clip_middle(f"rate-limiting-of-the-endpoint-{n}#1", 26) for n in range(20)
    ]
    assert lines[-1].startswith(f"▶ {clip_middle('rate-limiting-of-the-endpoint-19#1', 26)} executing")


def test_on_a_narrow_screen_an_agent_has_two_lines_if_there_is_room():
    """BX-12, SC-19: its activity can be read at 40 columns; else the age of the last activity is what stays."""
    rows = {width: frame_lines(run_view(worker(3)), width, 24)[-2:] for width in (40, 20)}
    assert rows == {
        40: [f"▶ endpoint-3#1{' ' * 11} 12 s ago $0.12", "  executing shell: python -m pytest -q …"],
        20: ["▶ endp…-3#1 12 s ago", "  executing shell: …"],
    }
    crowded = frame_lines(run_view(*map(worker, range(4))), 40, 9)
    assert crowded[-1] == "▶ endp…-3#1 executing shell: p… 12 s ago"


def test_the_reason_for_waiting_comes_before_the_last_activity():
    waiting = worker(1, state="waiting_approval", waits_on="you (i7): may I run make deploy?")
    (line,) = [line for line in frame_lines(run_view(waiting, waiting=1), 120, 20) if "endpoint-1" in line]
    assert line.startswith("■ endpoint-1#1")
    assert waiting.waits_on in line
    assert any("needs you" in line for line in frame_lines(run_view(waiting, waiting=1), 120, 20))


def proving(last_s=70.0, **changes):
    work = Activity(label="test", command="python -m pytest -q tests", folder="")
    step = CurrentActivity(
        run_id="r1", attempt_id="a1", fence=1, stage="", work=work, since=NOW - timedelta(seconds=125), last_s=last_s
    )
    return worker(1, phase="verifying", activity=step, **changes)


def test_a_running_check_shows_how_long_it_takes_and_took():
    """AL-26, BX-12: the command is shortened first, then the cost goes, then seconds, then what it took before."""
    table = {
        100: f"▶ endpoint-1#1 verifying test: python -m pytest -q tests{' ' * 14} 2 m 05 s, last 1 m 10 s $0.12",
        80: "▶ endpoint-1#1 verifying test: python -m pytest -… 2 m 05 s, last 1 m 10 s $0.12",
        60: "▶ endpoint-1#1 verifying test: pyth… 2 m 05 s, last 1 m 10 s",
    }
    assert {width: frame_lines(run_view(proving()), width, 24)[-1] for width in table} == table
    assert frame_lines(run_view(proving()), 40, 24)[-2:] == [
        "▶ endpoint-1#1   2 m 05 s, last 1 m 10 s",
        "  verifying test: python -m pytest -q t…",
    ]


def test_a_check_that_never_ended_here_shows_no_earlier_duration():
    """AL-26: nothing is guessed."""
    assert frame_lines(run_view(proving(last_s=None)), 80, 24)[-1].endswith(" 2 m 05 s $0.12")


def test_a_candidate_that_is_checked_is_landing():
    row = frame_lines(run_view(proving(waits_on="the merge queue")), 80, 24)[-1]
    assert row.startswith("↓ endpoint-1#1 landing test: python")
    (line,) = work_lines([proving(waits_on="the merge queue")], "")
    assert line.startswith("running  landing endpoint-1#1: test `python")


def test_a_planning_turn_shows_how_long_it_takes_already():
    """AL-26: whose turn it is, about which goal, and since when."""
    turn = worker(1, role="supervisor", action="store", attempt=None, phase="decompose")
    row = frame_lines(run_view(turn), 100, 24)[-1]
    assert " ".join(row.split()) == snapshot(
        "▶ supervisor shop: store decompose shell: python -m pytest -q tests 1 m 00 s $0.12"
    )


def test_short_names_leave_their_room_to_the_rest():
    row = frame_lines(run_view(proving(action="b")), 60, 24)[-1]
    assert row == "▶ b#1 verifying test: python … 2 m 05 s, last 1 m 10 s $0.12"


def test_in_a_pipe_a_row_is_whole():
    """AL-26, SC-19."""
    (row,) = [line for line in frame_lines(run_view(proving()), UNLIMITED) if "endpoint-1" in line]
    assert row == "▶ endpoint-1#1  verifying  test: python -m pytest -q tests  2 m 05 s, last 1 m 10 s  $0.12"


def test_in_a_pipe_a_sentence_tells_each_command_and_what_the_run_waits_for():
    """AL-26: work that consists of other work has none, because that is told."""
    around = Activity(label="proves the work", is_whole=False, surrounds=True)
    outer = worker(2, activity=msgspec.structs.replace(proving().activity, work=around))
    assert work_lines([proving(), outer], "anthropic, which does not answer") == snapshot(
        [
            "running  endpoint-1#1: test `python -m pytest -q tests` (last 1 m 10 s)",
            "waits    for anthropic, which does not answer",
        ]
    )


def test_what_the_run_waits_for_is_wrapped_and_not_cut():
    """AL-26: a provider that is away, and until when."""
    why = "api.anthropic.com, which accepts no requests until 12:03:04 because of a rate limit"
    lines = frame_lines(run_view(run=msgspec.structs.replace(RUN, waits_for=why)), 60, 24)
    start = next(number for number, line in enumerate(lines) if "waits for" in line)
    assert " ".join(" ".join(lines[start : start + 2]).split()) == f"■ waits for {why}"


def test_rows_and_goals_that_do_not_fit_are_counted():
    lines = frame_lines(run_view(*map(worker, range(20))), 80, 10)
    assert len(lines) == 10
    assert lines[-1] == "  and 13 more"
    goals = tuple(GoalProgress(f"g{n}", "active", 0, 1, {"pending": 1}) for n in range(9))
    assert "    and 5 more goals: `scaffold goals`" in frame_lines(run_view(goals=goals), 80, 24)


def test_a_run_without_workers_says_so():
    assert frame_lines(run_view(), 80, 24)[-1] == snapshot("  No agent is working.")
    over = run_view(run=msgspec.structs.replace(RUN, state=Paused("the budget is used up")), status="paused")
    assert frame_lines(over, 80, 24)[-1] == snapshot("  paused: the budget is used up")


def test_without_a_screen_nothing_is_left_out():
    assert len([line for line in frame_lines(run_view(*map(worker, range(300))), 80) if "endpoint-" in line]) == 300


TEXTS = st.text(max_size=60)
MEMBERS = st.builds(
    worker,
    st.integers(0, 10**6),
    phase=TEXTS,
    waits_on=TEXTS,
    action=TEXTS,
    last_activity=st.one_of(st.none(), st.builds(LastActivity, st.just(NOW), TEXTS)),
    since=st.just(None),
    usage=st.builds(Usage, cost_usd=st.one_of(st.none(), st.floats(0, 10**9))),
)
STANDINGS = st.builds(
    GoalProgress, TEXTS, st.just("active"), st.integers(0, 10**6), st.integers(0, 10**6), st.just({"failed": 10**6})
)


@settings(max_examples=40)
@given(
    members=st.lists(MEMBERS, max_size=30),
    goals=st.lists(STANDINGS, max_size=8),
    width=st.integers(20, 200),
    height=st.integers(1, 60),
    waiting=st.integers(0, 3),
)
def test_no_frame_is_wider_or_higher_than_its_terminal(members, goals, width, height, waiting):
    """BX-12: whatever models, plans and people write, a frame fits and has no control character."""
    shown = run_view(*members, goals=tuple(goals), waiting=waiting)
    for lines in (frame_lines(shown, width, height), agent_lines(shown, width, max(2, height))):
        assert len(lines) <= max(2, height)
        assert all(cell_len(line) <= width for line in lines)
        assert not any(character in "".join(lines) for character in "\x1b\x07\r\n\u202e")
    assert len(frame_lines(shown, width, height)) <= height


def test_a_watched_run_has_a_line_for_each_change_in_a_pipe(capsys):
    """AL-26, BX-12: only of what changed, and the passing of time is no change."""
    show, first = print_changes(), run_view(worker(1), worker(2))

    def printed(view):
        show(view)
        return [line[10:] for line in capsys.readouterr().out.splitlines()]

    assert [line.split("  ")[0] for line in printed(first)[2:]] == ["▶ endpoint-1#1", "▶ endpoint-2#1"]
    later = msgspec.structs.replace(first, at=NOW + timedelta(seconds=9))
    assert printed(later) == []
    acting = run_view(worker(1), worker(2, last_activity=LastActivity(NOW, "shell: ls")))
    assert printed(acting) == ["▶ endpoint-2#1  executing  shell: ls  0 s ago  $0.12"]
    assert printed(run_view()) == snapshot(["  No agent is working."])
    assert printed(None) == []


def test_the_progress_is_shown_below_the_rows_of_a_run():
    assert agent_lines(run_view(*map(worker, range(3))), 80, 3) == [
        *frame_lines(run_view(worker(0)), 80, 24)[-1:],
        "  and 2 more",
        "  12 of 21 actions done, 3 facts, $1.20",
    ]
