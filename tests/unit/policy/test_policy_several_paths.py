"""A call that names several files, as a patch does: each of them must be allowed."""

import asyncio

from scaffold.policy.permission.call_decision import CallContext, decide_call
from scaffold.policy.permission.call_request import invocation_by_name, permission_request
from scaffold.policy.rule.ruleset import RuleSet
from scaffold.policy.rule.tool_rules import parse_rule
from scaffold.policy.shell.workspace_paths import EmptyFileSystem, WorkspacePaths

PLACE = WorkspacePaths(root="/w", home="/home/u", files=EmptyFileSystem())


def request(*lines):
    patch = "\n".join(("*** Begin Patch", *lines, "*** End Patch"))
    return permission_request(invocation_by_name("apply_patch", {"input": patch}), PLACE)


def decided(*lines, mode="default", **rules):
    decision = asyncio.run(
        decide_call(request(*lines), RuleSet(**rules), CallContext(workspace=PLACE, mode=mode), None)
    )
    return decision.decision, decision.rule


UPDATED = ("*** Update File: src/a.py", "-x", "+y")
MOVED = ("*** Update File: src/a.py", "*** Move to: other/b.py", "-x", "+y")
TWO = (*UPDATED, "*** Delete File: other/b.py")


def test_a_request_names_every_file_of_a_patch():
    """RA-13."""
    found = request(*MOVED, "*** Add File: /w/new", "*** Delete File: src/a.py")
    assert (found.kind, found.named) == ("path", ("src/a.py", "other/b.py", "/w/new"))
    assert found.paths == ("src/a.py", "other/b.py", "new")
    assert found.subject == "src/a.py\nother/b.py\n/w/new"


def test_rules_allow_a_patch_only_if_they_allow_each_file():
    """RA-13."""
    source, everything, other = (parse_rule(f"apply_patch:{pattern}") for pattern in ("src/**", "**", "other/*"))
    denied = parse_rule("apply_patch:other/**", denies=True)
    assert decided(*UPDATED, allow=(source,)) == ("allow", "apply_patch:src/**")
    assert decided(*UPDATED, deny=(denied,)) == ("ask", "category")
    for several in (MOVED, TWO):
        assert decided(*several, allow=(source,)) == ("ask", "category")
        assert decided(*several, allow=(other, source)) == ("allow", "apply_patch:src/**, apply_patch:other/*")
        assert decided(*several, allow=(everything,)) == ("allow", "apply_patch:**")
        assert decided(*several, allow=(everything,), deny=(denied,)) == ("deny", "deny:apply_patch:other/**")


def test_one_file_that_may_not_be_written_decides_the_whole_patch():
    """RA-13, RA-14: wherever it stands in the patch."""
    rows = [
        (("*** Add File: .env", "+x"), ("deny", "protected:.env*")),
        (("*** Update File: src/b", "*** Move to: .git/hooks/x"), ("deny", "protected:.git")),
        (("*** Delete File: ../out",), ("ask", "outside")),
        (("*** Delete File: /etc/passwd",), ("ask", "outside")),
        (("*** Delete File: a\x07b",), ("ask", "path")),
        (("*** Delete File: a\0b",), ("deny", "path")),
        ((f"*** Delete File: {'x' * 5_000}",), ("deny", "path")),
    ]
    for last, expected in rows:
        for lines in ((*UPDATED, *last), (*last, *UPDATED)):
            assert decided(*lines, yolo=expected[0] == "deny", allow=()) == expected, last


def test_an_answer_for_ever_holds_for_the_same_patch_alone():
    """RA-13: one that deletes the same files is another one."""
    always = frozenset({request(*TWO).identity})
    assert decided(*TWO, always=always) == ("allow", "always")
    assert decided(*MOVED, always=always) == ("ask", "category")
    assert decided(*UPDATED, always=always) == ("ask", "category")


def test_what_is_no_patch_is_decided_by_its_category():
    """RA-13: the tool refuses it, so it names no file."""
    found = permission_request(invocation_by_name("apply_patch", {"input": "*** Begin Patch"}), PLACE)
    assert (found.kind, found.paths) == ("text", ())
