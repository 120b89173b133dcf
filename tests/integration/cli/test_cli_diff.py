"""`diff`: landed commits, candidates, pinned work, and whole runs; byte for byte with --json."""

from inline_snapshot import snapshot

from builders import begin, fail, git, land, make_run, submit, work
from scaffold.core.ids import Commit
from scaffold.run.failures.attempt_end import AttemptEnd, end_attempt

NESTED = """\
version: 1
goals:
  - name: g
    goal_state: [done]
    actions:
      - {key: all, kind: compound, effects: [done]}
      - {key: one, parent: all, effects: [half]}
      - {key: two, parent: all, preconditions: [half], effects: [done]}
"""


def test_a_landed_action_is_shown_as_its_commit(context, run, scaffold):
    """AL-12: one commit for each landed action."""
    landed = land(context, run, "store", {"store.py": "x = 1\n"})
    stat = scaffold("diff", "--stat").out.splitlines()
    assert stat[:2] == [" store.py | 1 +", " 1 file changed, 1 insertion(+)"]
    land(context, run, "api", {"api.py": "y = 2\n"})
    answer = scaffold("diff", "store")
    assert answer.err == ""
    assert answer.out.startswith("diff --git a/store.py b/store.py\nnew file mode 100644\n")
    assert answer.out.endswith("@@ -0,0 +1 @@\n+x = 1\n")
    assert scaffold("diff", "store", "--json").json == {
        "action": "store",
        "commit": landed,
        "base": run.base_sha,
        "paths": ["store.py"],
        "patch": answer.out,
    }


def test_a_run_is_shown_from_its_base_to_its_branch(context, run, scaffold):
    land(context, run, "store", {"store.py": "x = 1\n"})
    tip = land(context, run, "api", {"api.py": "y = 2\n"})
    for target in ((), (run.id,), (run.session_branch,)):
        shown = scaffold("diff", *target, "--json").json
        assert (shown["action"], shown["base"], shown["commit"]) == (None, run.base_sha, tip)
        assert shown["paths"] == ["api.py", "store.py"]


def test_what_has_not_landed_is_marked_as_such(context, plan, scaffold):
    """BX-3: unlanded work can still be viewed."""
    run = begin(context, make_run(context, plan, attempts=2))
    nothing = scaffold("diff", "api", "--json")
    assert nothing.code == 0
    assert nothing.json == {"action": "api", "commit": None, "base": None, "paths": [], "patch": ""}
    fail(context, run, "store", {"store.py": "broken\n"})
    pinned = scaffold("diff", "store")
    assert "+broken" in pinned.out
    waiting = submit(context, run, "store", {"store.py": "x = 1\n"})
    candidate = scaffold("diff", "store", "--json")
    assert candidate.json["commit"] == waiting.head_sha
    begin(context, make_run(context, NESTED))
    assert [answer.err for answer in (nothing, pinned, candidate, scaffold("diff", "all"))] == snapshot(
        [
            "note: `api` has changed nothing yet\n",
            "note: `store` has not landed; this was pinned in attempt 1\n",
            "note: `store` has not landed; this is a candidate in attempt 2\n",
            "note: `all` is a compound: see its children one, two\n",
        ]
    )


def test_a_missing_commit_is_named(context, run, scaffold):
    gone = Commit("1" * 40)
    attempt = work(context, run, "store")
    end_attempt(context.store, run, attempt.id, AttemptEnd("contract_failed", "no"), head=gone)
    answer = scaffold("diff", "store")
    assert (answer.code, answer.out) == (1, "")
    assert gone[:12] in answer.err


def test_a_run_without_its_branch_says_so(context, run, scaffold, repository):
    git(repository, "branch", "-D", run.session_branch)
    answer = scaffold("diff")
    assert (answer.code, answer.out) == (0, "")
    assert run.session_branch in answer.err


def test_the_patch_can_be_applied_byte_for_byte(context, run, scaffold, repository):
    content = "caf\udce9\r\n\x1b[31mred\x00binary\n"
    land(context, run, "store", {"store.py": content})
    patch = scaffold("diff", "store").out
    git(repository, "apply", "-", stdin=patch.encode(errors="surrogateescape"))
    assert (repository / "store.py").read_bytes() == content.encode(errors="surrogateescape")


def test_an_unknown_action_or_run_is_refused(run, scaffold):
    answer = scaffold("diff", "nothing-like-it")
    assert answer.code == 64
    assert run.id in answer.err
