"""Candidates in conflict with what landed: real git, real checks."""

import pytest

from scaffold.core.landing.conflict import ConflictExplanation, MergedCode, NotMerged
from scaffold.core.states import Pending, blocked_on_inbox
from scaffold.landing.queue.step_result import BatchLanded, CandidateRefused
from scaffold.orchestrator.user_control.inbox_decisions import InboxDecision, decide_items
from support.conflict_race import ScriptedMerger, race, told

SHOP = "def buy():\n    return 1\n\n\ndef sell():\n    return 2\n"
PYTHON = "python3 -c 'from shop import *; assert {0}() is not None'"


def added(name):
    return f"printf '\\n\\ndef {name}():\\n    return 3\\n' >> shop.py"


@pytest.mark.slow
async def test_functions_of_both_sides_land_and_the_evidence_says_that_they_were_merged(harness):
    """AL-13: without a model; what lands is proven, and its files are told."""
    checks = PYTHON.format("rent"), PYTHON.format("give")
    run, step = await race(harness, {"shop.py": SHOP}, added("rent"), added("give"), checks=checks)
    assert step == BatchLanded(await harness.tip(run), tuple(each.id for each in harness.attempts(run, "b")))
    assert await harness.show(f"{run.session_branch}:shop.py") + "\n" == (
        f"{SHOP}\n\ndef rent():\n    return 3\n\n\ndef give():\n    return 3\n"
    )
    assert told(harness, run) == {"shop.py": "resolved"}
    evidence = [
        each for fact in harness.store.facts.for_goal(harness.action(run, "b").goal_id) for each in fact.evidence
    ]
    (merge,) = [each for each in evidence if each.kind == "merge"]
    assert "shop.py" in merge.detail
    assert merge.commit == await harness.tip(run)
    assert await harness.sh("git status --porcelain -- :!.scaffold") == ""


@pytest.mark.slow
async def test_a_merge_that_does_not_pass_is_a_conflict_and_no_failure_of_the_work(harness):
    """AL-13: each side is right by itself, and both together are not."""
    few = "python3 -c 'import shop; assert len([n for n in dir(shop) if n[0] != \"_\"]) == 3'"
    run, step = await race(harness, {"shop.py": SHOP}, added("rent"), added("give"), checks=(None, few))
    assert step.outcome == "conflict"
    assert step.why.startswith("conflicts with work that landed earlier in shop.py, and what was merged does not pass:")
    assert harness.statuses(run) == {"a": "completed", "b": "pending"}
    assert harness.store.actions.failures(harness.action(run, "b").id) == 0


NEWS = "# News\n\n- old\n"
ADD_NEWS = "sed -i 's/- old/- {0}\\n- old/' NEWS.md"
UNION = {"NEWS.md": NEWS, ".gitattributes": "NEWS.md merge=union\n"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "settings"),
    [
        pytest.param(UNION, {}, id="attribute"),
        pytest.param({"NEWS.md": NEWS}, {"union": ("*.md",)}, id="setting", marks=pytest.mark.slow),
    ],
)
async def test_a_declared_union_has_the_lines_of_both_sides(harness, files, settings):
    """AL-13: whether git knows it or the settings say it, it is certified and told."""
    run, step = await race(harness, files, ADD_NEWS.format("mine"), ADD_NEWS.format("other"), **settings)
    assert isinstance(step, BatchLanded)
    assert await harness.show(f"{run.session_branch}:NEWS.md") + "\n" == "# News\n\n- mine\n- other\n- old\n"
    assert told(harness, run) == {"NEWS.md": "resolved"}


@pytest.mark.slow
async def test_a_candidate_cannot_declare_a_union(harness):
    """AL-13: the attributes of the tip count."""
    declare = "echo 'NEWS.md merge=union' > .gitattributes; "
    run, step = await race(harness, {"NEWS.md": NEWS}, ADD_NEWS.format("mine"), declare + ADD_NEWS.format("other"))
    assert step.outcome == "conflict"
    assert told(harness, run) == {"NEWS.md": "refused"}


CASES = {
    "a link": ("ln -sf {0} link", {}, "it is not only its contents"),
    "deleted": ("test {0} = one && rm shop.py || echo >> shop.py", {}, "one side changes it, the other removes it"),
    "binary": ("printf '\\0{0}' > data", {}, "it is a binary file"),
    "attribute": ("echo {0} > data.py", {".gitattributes": "*.py -merge\n"}, "its attributes say"),
    "encoding": ("printf '# \\351\\n{0} = 1\\n' > data.py", {}, "it is not in UTF-8"),
    "broken": ("printf 'def {0}(\\n' > shop.py", {}, "cannot be read as Python"),
    "a lock file": ("echo {0} > yarn.lock", {"yarn.lock": "a\n"}, "a lock file is made by its own tool"),
    "mode": ("printf '{0} = 1\\n' > new.py; test {0} = one || chmod +x new.py", {}, ""),
}


@pytest.mark.slow
@pytest.mark.parametrize(("command", "files", "why"), CASES.values(), ids=CASES)
async def test_what_contents_do_not_decide_is_refused_and_told(harness, command, files, why):
    """AL-13: links, deletions, other kinds of files: no merge is guessed."""
    given = {"shop.py": SHOP, "data": b"\0", "data.py": "a = 1\n"} | files
    run, step = await race(harness, given, command.format("one"), command.format("two"))
    assert step.outcome == "conflict"
    assert why in step.why
    assert "refused" in told(harness, run).values()
    assert harness.statuses(run) == {"a": "completed", "b": "pending"}


@pytest.mark.slow
async def test_line_ends_of_one_kind_stay_as_they_are(harness):
    """AL-13: here those of Windows, without one at the end."""
    files = {"shop.py": SHOP.replace("\n", "\r\n").encode().removesuffix(b"\r\n")}
    add = "printf '\\r\\n\\r\\n\\r\\ndef {0}():\\r\\n    return 3' >> shop.py"
    run, step = await race(harness, files, add.format("rent"), add.format("give"))
    assert isinstance(step, BatchLanded)
    merged = (await harness.context.git("cat-file", "blob", f"{run.session_branch}:shop.py")).out
    wanted = SHOP + "\n\ndef rent():\n    return 3\n\n\ndef give():\n    return 3"
    assert merged == wanted.replace("\n", "\r\n").encode()


@pytest.mark.slow
async def test_commits_are_applied_one_after_another_where_all_at_once_conflict(harness):
    """AL-13: the first commit of the second candidate is what the first one has, too; its check asked for another."""
    same, check = "sed -i 's/^two/TWO/' list", "grep THREE list"
    run, step = await race(harness, {}, same, (same, "sed -i 's/^three/THREE/' list"), checks=(None, check))
    assert isinstance(step, BatchLanded), step
    assert await harness.show(f"{run.session_branch}:list") == "one\nTWO\nTHREE"
    assert told(harness, run) == {"list": "resolved"}


BOTH = "sed -i 's/return 1/return 1 {0}/' shop.py"


@pytest.mark.slow
async def test_an_agent_is_not_asked_where_nothing_could_show_that_it_is_right(harness):
    """AL-13: both sides change one function, and the repository has no tests."""
    merger = ScriptedMerger(MergedCode({"shop.py": SHOP.replace("return 1", "return 1 + 2 * 3")}))
    checks = PYTHON.format("buy"), PYTHON.format("buy")
    _, step = await race(
        harness, {"shop.py": SHOP}, BOTH.format("+ 2"), BOTH.format("* 3"), merger=merger, checks=checks
    )
    assert step.outcome == "conflict"
    assert merger.questions == []


APART = "# \f\ndef buy():\n    return 1\ndef sell():\n    return 2\n"
"""Two functions on adjacent lines, and a character that keeps this file from being taken apart."""
BUY, SELL = "sed -i 's/return 1/return 1 + 2/' shop.py", "sed -i 's/sell()/sell(n=0)/' shop.py"
APART_MERGED = APART.replace("return 1", "return 1 + 2").replace("sell()", "sell(n=0)")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "lands"),
    [
        (MergedCode({"shop.py": APART_MERGED}), True),
        (MergedCode({"shop.py": APART_MERGED.replace("n=0", "")}), False),
        (MergedCode({"shop.py": APART_MERGED + "\n\nprint(1)\n"}), False),
        (MergedCode({}), False),
        (NotMerged("the model refused"), False),
    ],
    ids=["both changes", "a change is lost", "a line is invented", "nothing", "no answer"],
)
async def test_an_agents_answer_counts_only_if_it_has_all_that_both_sides_have(harness, answer, lands):
    """AL-13: it is certified like any other merge, whatever it says; here the sides change different functions."""
    merger = ScriptedMerger(answer)
    run, step = await race(harness, {"shop.py": APART}, BUY, SELL, merger=merger)
    assert [each.files[0].path for each in merger.questions] == ["shop.py"]
    assert isinstance(step, BatchLanded) is lands
    assert told(harness, run) == {"shop.py": "resolved" if lands else "refused"}
    if not lands:
        assert isinstance(step, CandidateRefused)
        assert "merge agent" in step.why
        assert harness.store.inbox.open_of_run(run.id) == ()


@pytest.mark.slow
async def test_a_human_decides_at_once_what_a_merge_agent_explains(harness):
    """AL-13: the question has the explanation; the work is pinned, and nothing starts before the answer."""
    merger = ScriptedMerger(ConflictExplanation("both want another price"))
    run, step = await race(harness, {"shop.py": APART}, BUY, SELL, merger=merger)
    assert isinstance(step, CandidateRefused)
    assert told(harness, run) == {"shop.py": "explained"}
    (item,) = harness.store.inbox.open_of_run(run.id)
    (attempt,) = harness.attempts(run, "b")
    assert item.detail["context"] == (
        "shop.py: the merge agent left it: both want another price\n"
        "attempt 1 (conflict): conflicts with work that landed earlier in shop.py\n"
        f"  its changes: git diff {attempt.base_sha[:12]} refs/scaffold/rescue/{attempt.id}"
    )
    assert harness.action(run, "b").state == blocked_on_inbox(item.id)
    decide_items(harness.store, [item.id], InboxDecision(to="answered", words="retry at half of it"))
    assert (harness.action(run, "b").state, harness.action(run, "b").guidance) == (Pending(), "at half of it")
