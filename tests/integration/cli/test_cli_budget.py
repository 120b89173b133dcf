"""Limits on the command line: what is none, and one below what is spent."""

from builders import begin, make_run, pay, work
from scaffold.core.model import Usage
from scaffold.core.states import Paused

NO_LIMITS = {
    "--budget-usd": ("0", "-1", "nan", "1e400", "much"),
    "--budget-tokens": ("0", "-5", "1.5", f"1{'0' * 5_000}"),
}


def test_what_is_no_limit_is_a_usage_error_with_an_example(repository, scaffold):
    """AL-21: before anything is stored, or asked of a model."""
    for command in (("run", "a task"), ("resume",)):
        rows = [(flag, value) for flag, values in NO_LIMITS.items() for value in values]
        answers = {row: scaffold(*command, *row) for row in rows}
        assert {answer.code for answer in answers.values()} == {64}
        assert [row for row, answer in answers.items() if f"`{row[0]} " not in answer.err] == []
        assert {answer.err.count("\n") for answer in answers.values()} == {2}


def test_a_limit_below_what_is_spent_is_refused_and_the_run_keeps_its_own(context, plan, scaffold):
    """AL-21: exit 2, as no request could start; what to pass is said."""
    run = begin(context, make_run(context, plan, budget_usd=5.0, model="codex:gpt-5"))
    attempt = work(context, run, "store")
    store = context.store
    with store.transaction():
        pay(store, attempt, Usage(input_tokens=9_000, cost_usd=1.0, requests=1))
        store.runs.move(run.id, Paused("the budget is used up"))
        store.runs.release(run.id, fence=run.fence)
    for flag, value, more in (("--budget-usd", "0.5", "--budget-usd 2.50"), ("--budget-tokens", "9", "20000")):
        answer = scaffold("resume", flag, value)
        assert (answer.code, more in answer.err) == (2, True)
    assert store.runs.get(run.id).settings == run.settings


def test_a_tier_whose_limit_is_below_what_is_spent_is_refused(context, plan, scaffold):
    """AL-1, AL-21: its limit takes the place of the run's; the run keeps its own tier."""
    run = begin(context, make_run(context, plan, action_tokens=100_000, agreed_actions=2, model="codex:gpt-5"))
    attempt = work(context, run, "store")
    store = context.store
    with store.transaction():
        pay(store, attempt, Usage(input_tokens=150_000, requests=1))
        store.runs.move(run.id, Paused("asked"))
        store.runs.release(run.id, fence=run.fence)
    answer = scaffold("resume", "--tier", "scout")
    assert answer.code == 2
    assert "120,000 tokens" in answer.err
    assert store.runs.get(run.id).settings == run.settings
