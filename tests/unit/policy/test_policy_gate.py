from itertools import product

import pytest

from scaffold.core.errors import UsageProblem
from scaffold.policy.gate import (
    CATEGORIES,
    DEFAULTS,
    Denials,
    Rules,
    judge,
    parse_category,
    parse_decision,
    tightened,
)
from scaffold.policy.rules import Wish, parse_rule

FREE = {"file_read", "memory"}


def wish(category="file_write", *paths, tool="some_tool", subject="x"):
    return Wish(tool=tool, category=category, kind="text", subject=subject, paths=paths)


@pytest.mark.parametrize("category", CATEGORIES)
def test_without_rules_reading_and_memory_are_free_and_all_else_asks(category):
    """RA-13: the categories."""
    judged = judge(wish(category), Rules())
    assert (judged.decision, judged.rule) == ("allow" if category in FREE else "ask", "category")
    assert set(DEFAULTS) == set(CATEGORIES)


def test_python_is_free_in_a_sandbox_unless_it_was_set():
    """RA-13."""
    assert judge(wish("python"), Rules(sandboxed=True)).decision == "allow"
    assert judge(wish("python"), Rules(sandboxed=True, categories={"python": "ask"})).decision == "ask"
    assert judge(wish("shell"), Rules(sandboxed=True)).decision == "ask"


@pytest.mark.parametrize(("category", "decision"), list(product(CATEGORIES, ("allow", "ask", "deny"))))
def test_a_category_does_what_it_is_set_to(category, decision):
    """RA-13: `--allow-category`, configuration; `--yolo` asks nothing and lifts no denial."""
    rules = Rules(categories={category: decision})
    assert judge(wish(category), rules).decision == decision
    reckless = judge(wish(category), Rules(categories={category: decision}, yolo=True))
    assert reckless.decision == ("deny" if decision == "deny" else "allow")


ORDER = [
    # protected, pause, rule, category -> decision and what it rests on
    (True, True, True, "allow", "deny", "protected:.env*"),
    (True, False, True, "allow", "deny", "protected:.env*"),
    (True, False, False, "deny", "deny", "protected:.env*"),
    (False, True, True, "allow", "deny", "pause"),
    (False, True, False, "ask", "deny", "pause"),
    (False, False, True, "deny", "allow", "some_tool:*"),
    (False, False, True, "ask", "allow", "some_tool:*"),
    (False, False, False, "deny", "deny", "category"),
    (False, False, False, "ask", "ask", "category"),
    (False, False, False, "allow", "allow", "category"),
]


@pytest.mark.parametrize("yolo", [False, True])
@pytest.mark.parametrize(("protected", "paused", "ruled", "category", "decision", "rests_on"), ORDER)
def test_protected_files_come_first_then_the_pause_then_rules_then_the_category(
    protected, paused, ruled, category, decision, rests_on, yolo
):
    """RA-13: the order; `--yolo` never lifts protected files."""
    rules = Rules(categories={"file_write": category}, allow=(parse_rule("some_tool:*"),) if ruled else (), yolo=yolo)
    judged = judge(wish("file_write", "a/.env" if protected else "a/b"), rules, pause_s=2.0 if paused else 0.0)
    if yolo and decision == "ask":
        decision, rests_on = "allow", "--yolo"
    assert (judged.decision, judged.rule) == (decision, rests_on)


def test_any_of_several_paths_may_be_protected_and_reading_them_is_another_matter():
    assert judge(wish("file_write", "a", ".env"), Rules(yolo=True)).decision == "deny"
    assert judge(wish("shell", "a", ".env"), Rules(yolo=True)).decision == "deny"
    assert judge(wish("file_read", ".env"), Rules()).decision == "allow"


def test_what_was_allowed_once_and_for_all_is_allowed_exactly_so():
    """RA-13: allow always."""
    rules = Rules(always=frozenset({("some_tool", "x")}))
    assert judge(wish(subject="x"), rules).rule == "always"
    assert judge(wish(subject="x y"), rules).decision == "ask"
    assert judge(wish(subject="x", tool="other"), rules).decision == "ask"
    assert judge(wish("file_write", ".env", subject="x"), rules).decision == "deny"
    assert judge(wish(subject="x"), rules, pause_s=1).decision == "deny"


def test_every_judgement_says_why():
    for rules, paths, pause_s in product(
        (Rules(), Rules(categories={"file_write": "deny"}), Rules(yolo=True)), ((), (".env",)), (0.0, 2.5)
    ):
        assert judge(wish("file_write", *paths), rules, pause_s=pause_s).reason
    assert "2.5 s" in judge(wish(), Rules(), pause_s=2.5).reason


def test_from_the_third_denial_on_each_is_followed_by_a_pause_of_one_second_doubling_to_sixty():
    """RA-14."""
    denials, pauses = Denials(), []
    for _ in range(11):
        denials = denials.another(now_s=100.0)
        pauses.append(denials.pause_s(100.0))
    assert pauses == [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert denials.pause_s(130.0) == 30
    assert denials.pause_s(161.0) == 0


def test_even_very_many_denials_pause_no_longer_than_a_minute():
    assert Denials(count=5_000).another(0.0).pause_s(0.0) == 60


@pytest.mark.parametrize(
    ("user", "project", "result"),
    [
        ({}, {}, {}),
        ({"shell": "allow"}, {"shell": "ask"}, {"shell": "ask"}),
        ({"shell": "allow"}, {"shell": "deny"}, {"shell": "deny"}),
        ({"shell": "deny"}, {"shell": "allow"}, {"shell": "deny"}),
        ({"shell": "ask"}, {"shell": "allow"}, {"shell": "ask"}),
        ({}, {"shell": "allow"}, {}),
        ({}, {"python": "ask"}, {"python": "ask"}),
        ({}, {"file_read": "deny"}, {"file_read": "deny"}),
        ({}, {"file_write": "deny"}, {"file_write": "deny"}),
        ({"network": "allow"}, {"file_read": "ask"}, {"network": "allow", "file_read": "ask"}),
    ],
)
def test_a_project_may_tighten_and_never_loosen(user, project, result):
    """RA-13: project configuration can tighten, never loosen."""
    assert tightened(user, project) == result


def test_names_of_categories_and_decisions_are_checked():
    assert parse_category("shell") == "shell"
    assert [parse_decision(word) for word in ("allow", "ask", "gate", "deny")] == ["allow", "ask", "ask", "deny"]
    with pytest.raises(UsageProblem, match="no category `shel`") as caught:
        parse_category("shel")
    assert "file_write" in caught.value.fix
    with pytest.raises(UsageProblem, match="`maybe`"):
        parse_decision("maybe")
