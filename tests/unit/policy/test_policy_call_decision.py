"""The order in which a tool call is decided, one table for each step; a scripted parser stands in for shells."""

import asyncio
from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from scaffold.policy.permission.call_decision import READ_ONLY_MODES, CallContext, decide_call
from scaffold.policy.permission.call_request import ToolInvocation, invocation_by_name, permission_request
from scaffold.policy.rule.ruleset import CATEGORIES, DEFAULT_DECISIONS, PolicyDecision, RuleSet
from scaffold.policy.rule.tool_rules import PermissionRequest, Rule, parse_rule
from scaffold.policy.shell.workspace_paths import EmptyFileSystem, WorkspacePaths

PLACE = WorkspacePaths(root="/w", home="/home/u", files=EmptyFileSystem())
FREE = {"file_read", "memory"}
MODES = ("default", "debug", "plan", "explore", "review")


class Written:
    """Knows four commands and respects which paths may be read."""

    async def judge(self, command, context):
        if command == "reads" and not context.reading_allowed:
            return PolicyDecision("ask", "shell", "only commands that a rule allows may run here")
        return {
            "reads": PolicyDecision("allow", "read-only", "it only reads"),
            "ruled": PolicyDecision("allow", "shell:ruled", "a rule allows it"),
            "leaks": PolicyDecision("deny", "secret:.env", "it contains secrets"),
        }.get(command, PolicyDecision("ask", "shell", "it is not known to be read-only"))

    async def proposal(self, command, context):
        return command


def judged(request, rules=None, *, mode="default", pause_s=0.0):
    context = CallContext(workspace=PLACE, mode=mode, pause_s=pause_s)
    return asyncio.run(decide_call(request, rules or RuleSet(), context, Written()))


def said(request, rules=None, **context):
    found = judged(request, rules, **context)
    return found.decision, found.rule


def request(category, **fields):
    return PermissionRequest(**{"tool": "some_tool", "category": category, "kind": "text", "subject": "x", **fields})


def writing(path, tool="write_file"):
    return permission_request(invocation_by_name(tool, {"path": path, "content": "x"}), PLACE)


def command(text):
    return permission_request(invocation_by_name("shell", {"command": text}), PLACE)


def test_without_rules_reading_and_memory_are_allowed_and_the_rest_asks():
    """RA-13: the categories."""
    assert {category: said(request(category)) for category in CATEGORIES} == {
        category: ("allow" if category in FREE else "ask", "category") for category in CATEGORIES
    }
    assert set(DEFAULT_DECISIONS) == set(CATEGORIES)


def test_python_is_allowed_in_a_sandbox_unless_configured_otherwise():
    """RA-13."""
    assert said(request("python", confined=True))[0] == "allow"
    assert said(request("python", confined=True), RuleSet(categories={"python": "ask"}))[0] == "ask"
    assert said(request("shell", confined=True))[0] == "ask"


def test_a_category_follows_its_setting():
    """RA-13: `--allow-category`, configuration; `--yolo` asks nothing and lifts no denial."""
    for category, decision in product(CATEGORIES, ("allow", "ask", "deny")):
        categories = {category: decision}
        assert said(request(category), RuleSet(categories=categories))[0] == decision, category
        reckless = said(request(category), RuleSet(categories=categories, yolo=True))
        assert reckless[0] == ("deny" if decision == "deny" else "allow"), (category, decision)


ORDER = {
    # what it is, pause, mode, rule, category -> decision and what it rests on
    (".env", True, "plan", True, "allow"): ("deny", "protected:.env*"),
    (".env", False, "default", True, "allow"): ("deny", "protected:.env*"),
    ("no/x", False, "default", True, "allow"): ("deny", "deny:write_file:no/**"),
    ("no/x", True, "plan", True, "allow"): ("deny", "deny:write_file:no/**"),
    ("a", True, "plan", True, "allow"): ("deny", "mode:plan"),
    ("a", True, "default", False, "ask"): ("deny", "pause"),
    ("a", True, "default", False, "deny"): ("deny", "category"),
    ("a", True, "default", True, "ask"): ("allow", "write_file:**"),
    ("a", True, "default", False, "allow"): ("allow", "category"),
    ("a", False, "plan", True, "allow"): ("deny", "mode:plan"),
    ("a", False, "review", False, "deny"): ("deny", "mode:review"),
    ("a", False, "debug", True, "deny"): ("allow", "write_file:**"),
    ("a", False, "default", True, "ask"): ("allow", "write_file:**"),
    ("a", False, "default", False, "deny"): ("deny", "category"),
    ("a", False, "default", False, "ask"): ("ask", "category"),
    ("a", False, "default", False, "allow"): ("allow", "category"),
    ("../a", False, "default", False, "ask"): ("ask", "outside"),
    ("../a", False, "default", False, "allow"): ("allow", "category"),
    ("../a", False, "default", True, "ask"): ("ask", "outside"),
    ("a\tb", False, "default", False, "ask"): ("ask", "path"),
}


def ordered(path, paused, mode, ruled, category, *, yolo):
    rules = RuleSet(
        categories={"file_write": category},
        allow=(parse_rule("write_file:**"),) if ruled else (),
        deny=(parse_rule("write_file:no/**"),),
        yolo=yolo,
    )
    return said(writing(path), rules, mode=mode, pause_s=2.0 if paused else 0.0)


def test_denials_come_first_then_mode_rules_category_and_backoff():
    """RA-13, RA-14: the order; `--yolo` lifts neither protected files nor a mode, the pause takes nothing allowed."""
    assert {row: ordered(*row, yolo=False) for row in ORDER} == ORDER
    assert {row: ordered(*row, yolo=True) for row in ORDER} == {
        row: ("allow", "--yolo") if decision == "ask" or rests_on == "pause" else (decision, rests_on)
        for row, (decision, rests_on) in ORDER.items()
    }


COMMANDS = {
    # command, mode, category -> decision and what it rests on
    ("leaks", "default", "allow"): ("deny", "secret:.env"),
    ("leaks", "plan", "allow"): ("deny", "secret:.env"),
    ("reads", "default", None): ("allow", "read-only"),
    ("reads", "plan", None): ("allow", "read-only"),
    ("reads", "review", "allow"): ("allow", "read-only"),
    ("reads", "default", "deny"): ("deny", "category"),
    ("reads", "plan", "deny"): ("deny", "mode:plan"),
    ("ruled", "default", "deny"): ("allow", "shell:ruled"),
    ("ruled", "plan", None): ("deny", "mode:plan"),
    ("other", "default", None): ("ask", "shell"),
    ("other", "default", "ask"): ("ask", "shell"),
    ("other", "default", "allow"): ("allow", "category"),
    ("other", "explore", "allow"): ("deny", "mode:explore"),
    ("other", "debug", "deny"): ("deny", "category"),
}


def test_a_command_is_decided_by_its_parse_and_its_category():
    """RA-13, RA-14: in read-only modes only commands known to be read-only run, whatever else allows more."""
    assert {
        (text, mode, category): said(
            command(text), RuleSet(categories={"shell": category} if category else {}), mode=mode
        )
        for text, mode, category in COMMANDS
    } == COMMANDS


def test_a_mode_restricts_only_what_may_change_something():
    """RA-13: plan, explore and review; reading, memory, subagents and web pages stay allowed."""
    free = RuleSet(categories=dict.fromkeys(CATEGORIES, "allow"))
    page = permission_request(invocation_by_name("web_fetch", {"url": "https://a.example/"}), PLACE)
    for mode in MODES:
        tight = {category: said(request(category), free, mode=mode)[0] for category in CATEGORIES}
        changing = {"file_write", "shell", "network", "mcp", "python", "plugin"} if mode in READ_ONLY_MODES else set()
        assert tight == {category: "deny" if category in changing else "allow" for category in CATEGORIES}, mode
        assert said(request("network", read_only=True), free, mode=mode) == ("allow", "category"), mode
        assert said(page, mode=mode)[0] == "ask", mode


def test_a_denial_by_a_mode_says_how_to_leave_it():
    """RA-13."""
    assert judged(writing("a"), mode="plan").reason == snapshot(
        "the mode plan allows no changes; leave it with switch_mode first if that is what the user wants"
    )
    assert judged(command("other"), mode="plan").reason.startswith("it is not known to be read-only; the mode plan")


def test_one_protected_path_of_several_is_enough_and_reading_is_separate():
    """RA-14."""

    def at(category):
        return request(category, kind="path", paths=("a", "Makefile", ".bashrc"))

    assert said(at("file_write"), RuleSet(yolo=True)) == ("deny", "protected:.bashrc")
    assert said(at("file_read")) == ("allow", "category")
    assert said(writing(".env", tool="read_file")) == ("deny", "secret:.env")
    assert said(writing("/dev/zero", tool="read_file"), RuleSet(yolo=True)) == ("deny", "device")


def test_a_path_is_found_under_the_names_that_other_agents_give_it():
    """RA-14, BX-19: an editor of notebooks writes no protected file either."""
    for name in ("path", "file_path", "notebook_path", "file", "filename"):
        call = ToolInvocation(tool="NotebookEdit", category="file_write", args={name: "/w/.git/config", "content": "x"})
        assert said(permission_request(call, PLACE), RuleSet(yolo=True)) == ("deny", "protected:.git")
    for tool in ("glob", "Glob"):
        call = ToolInvocation(tool=tool, category="file_read", args={"pattern": "/etc/*"})
        assert said(permission_request(call, PLACE)) == ("ask", "outside")


def test_no_secret_file_is_passed_to_a_user_defined_tool():
    """RA-13, RA-14: any text in its arguments may be a path, whatever allows the tool."""
    expected = {
        "~/.ssh/id_rsa": "deny",
        "file:///w/.env": "deny",
        "a/../.git/config": "deny",
        "what is .env for": "allow",
    }
    for tool in ["mcp_fs_write", "some_plugin"]:
        rules = RuleSet(allow=(parse_rule(f"{tool}:*"),), yolo=True)
        calls = {text: invocation_by_name(tool, {"deep": [{"er": text}]}) for text in expected}
        found = {text: said(permission_request(call, PLACE), rules)[0] for text, call in calls.items()}
        assert found == expected, tool


def test_internal_addresses_are_denied_whatever_is_allowed():
    """RA-13: deny rules and private addresses win over allow rules."""
    rules = RuleSet(allow=(parse_rule("web_fetch:*"),), deny=(parse_rule("web_fetch:*.evil.example"),), yolo=True)
    urls = ("http://169.254.169.254/", "http://localhost/", "https://www.evil.example/x", "https://good.example/")
    found = [said(permission_request(invocation_by_name("web_fetch", {"url": url}), PLACE), rules) for url in urls]
    assert found == [
        ("deny", "metadata"),
        ("deny", "network"),
        ("deny", "deny:web_fetch:*.evil.example"),
        ("allow", "web_fetch:*"),
    ]


def test_a_remembered_approval_covers_exactly_that_call():
    """RA-13: allow always."""
    once = writing("a/b")
    rules = RuleSet(always=frozenset({once.identity}))
    assert said(once, rules) == ("allow", "always")
    assert said(writing("a/c"), rules)[0] == "ask"
    assert said(writing("a/b", tool="append_file"), rules)[0] == "ask"
    assert said(once, rules, pause_s=1)[0] == "allow"
    assert said(once, rules, mode="plan")[0] == "deny"


def test_a_question_about_a_protected_area_names_it():
    """AL-18: the user sees that the change deserves a second look."""
    assert judged(writing("src/auth/views.py")).reason == snapshot(
        "write_file needs approval (file_write); the path is in a protected area (**/auth/**)"
    )
    assert judged(writing("src/author/views.py")).reason.endswith("approval (file_write)")


TEXTS = st.sampled_from(["a", "reads", "ruled", "leaks", ".env", "../a", "no/x", "src/a.py", "https://a.example/"])
WISHES = st.builds(
    lambda tool, text: permission_request(
        invocation_by_name(tool, {"path": text, "command": text, "url": text}), PLACE
    ),
    st.sampled_from(["write_file", "read_file", "shell", "python", "web_fetch", "mcp_x_y", "nobody", "TodoRead"]),
    TEXTS,
)
RULES = st.builds(
    RuleSet,
    categories=st.dictionaries(st.sampled_from(CATEGORIES), st.sampled_from(["allow", "ask", "deny"])),
    allow=st.sampled_from([(), (Rule("*", "**"),), (Rule("write_file", "**"),)]),
    deny=st.sampled_from([(), (Rule("write_file", "no/**"),)]),
)


@given(WISHES, RULES, st.sampled_from(MODES))
def test_yolo_turns_asks_into_allows_and_changes_nothing_else(request, rules, mode):
    """RA-13."""
    careful, reckless = (
        judged(request, rules, mode=mode),
        judged(request, RuleSet(**{**fields(rules), "yolo": True}), mode=mode),
    )
    assert reckless.decision == ("allow" if careful.decision == "ask" else careful.decision)
    assert careful.reason
    assert reckless.reason


@given(WISHES, RULES, st.sampled_from(sorted(READ_ONLY_MODES)))
def test_a_mode_never_allows_more_than_no_mode(request, rules, mode):
    """RA-13: modes tighten."""
    strictness = {"allow": 0, "ask": 1, "deny": 2}
    loose, tight = judged(request, rules), judged(request, rules, mode=mode)
    assert strictness[tight.decision] >= strictness[loose.decision]


@given(WISHES, RULES, st.sampled_from(MODES))
def test_a_deny_rule_never_loosens_anything(request, rules, mode):
    """RA-13: denials win over everything."""
    denying = RuleSet(**{**fields(rules), "deny": (*rules.deny, Rule("*", "*"))})
    strictness = {"allow": 0, "ask": 1, "deny": 2}
    assert (
        strictness[judged(request, denying, mode=mode).decision]
        >= strictness[judged(request, rules, mode=mode).decision]
    )


def fields(rules):
    return {name: getattr(rules, name) for name in rules.__struct_fields__}
