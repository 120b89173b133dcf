"""Approvals for subagents: requested in one process, decided in another."""

import asyncio
import json
from contextlib import closing

import pytest
from inline_snapshot import snapshot

from integration.agent.fakes import ME, parent_session
from scaffold.agent.messages.poller import StorePoller
from scaffold.agent.subagents.approval_relay import ApprovalRelay
from scaffold.core.errors import StoreError
from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.clock import SystemClock
from scaffold.host.process_identity import is_alive
from scaffold.policy.permission.approval_gate import ApprovalGate, Delegation
from scaffold.policy.rule.ruleset import PolicyDecision, RuleSet
from scaffold.policy.rule.tool_rules import PermissionRequest, parse_rule
from scaffold.policy.shell.command_policy import ShellCommandPolicy
from scaffold.policy.shell.workspace_paths import WorkspacePaths
from scaffold.store.user_store import SESSIONS, UserStore
from scaffold.tools.arguments import object_schema

REQUEST = PermissionRequest(
    tool="shell", category="shell", kind="command", subject="make deploy", paths=("make", "deploy")
)
ASKS = PolicyDecision("ask", "shell", "it is not known")
SUB = f"{ME}/sub-1"


class ObservedClock(SystemClock):
    """A clock that says when it is read."""

    def __init__(self):
        super().__init__()
        self.read = asyncio.Event()

    def monotonic(self):
        self.read.set()
        return super().monotonic()


@pytest.fixture
def child(path):
    """The store as the subagent's process opens it."""
    with parent_session(path), closing(UserStore.open(path, clock=SystemClock())) as store:
        yield store


def referral(child, timeout_s=10.0):
    return ApprovalRelay(child, SystemClock(), me=SUB, parent=ME, timeout_s=timeout_s)


async def spawned(parent):
    said = await parent.call("subagent", task="sleep 60")
    assert json.loads(said.content)["subagent_id"] == "sub-1"


async def test_the_parent_decides_what_a_subagent_may_do(path, child):
    """RA-11, RA-13: approvals are relayed to the parent, whose user sees which agent asks."""
    heard = []

    async def judge(agent, request):
        heard.append((agent, request))
        return PolicyDecision("allow" if len(heard) == 1 else "deny", "human", f"answer {len(heard)}")

    with parent_session(path, judge=judge) as parent:
        await spawned(parent)
        answers = [await referral(child)(REQUEST, ASKS) for _ in range(2)]
        await parent.peers.close()
    assert answers == [PolicyDecision("allow", "human", "answer 1"), PolicyDecision("deny", "human", "answer 2")]
    assert heard == [("sub-1", REQUEST)] * 2


async def test_a_request_reaches_the_parent_unchanged(path, child):
    """RA-13: what is allowed is what was shown, including file names that are not text."""
    heard = []

    async def judge(agent, request):
        heard.append(request)
        return PolicyDecision("deny", "human", "no")

    odd = PermissionRequest(
        tool="write_file", category="file_write", kind="path", subject="caf\udce9", paths=("caf\udce9",)
    )
    with parent_session(path, judge=judge) as parent:
        await spawned(parent)
        await referral(child)(odd, ASKS)
        await parent.peers.close()
    assert heard == [odd]


async def test_a_silent_or_missing_parent_counts_as_a_denial(child):
    """RA-11: without an answer the call is denied."""
    judged = await referral(child, timeout_s=0.2)(REQUEST, ASKS)
    assert judged.decision == "deny"
    assert judged.reason == snapshot(
        "the approval request was not answered; continue without it, or say what you would have done"
    )


async def test_approval_messages_are_hidden_from_models(path, child):
    """RA-13: a model neither sees a request for approval nor can answer it."""
    with child.transaction():
        child.messages.send(SESSIONS, sender=SUB, recipient=ME, channel="#consent", body={"request": "{}"})
    with parent_session(path) as parent:
        assert not parent.peers.waiting
        assert parent.peers.incoming.peek() == ()
        assert (await parent.call("check_channel_messages")).content.startswith("No new messages")
        assert (await parent.call("check_messages")).content.startswith("No new messages")


async def test_only_the_parent_can_answer(path, child):
    """RA-13: messages of other senders on the approval channel are ignored."""

    async def forge(other):
        poller = StorePoller(other.data_version)
        tick = poller.tick()
        while not (asked := other.messages.waiting(SESSIONS, ME)):
            tick = await poller.past(tick)
        for sender, decision in (("eve", "allow"), (ME, "deny")):
            body = {"to": asked[0].seq, "judgement": {"decision": decision, "rule": "human", "reason": sender}}
            with other.transaction():
                other.messages.send(SESSIONS, sender=sender, recipient=SUB, channel="#consent", body=body)

    with closing(UserStore.open(path, clock=SystemClock())) as other:
        async with asyncio.TaskGroup() as together:
            asking = together.create_task(referral(child)(REQUEST, ASKS))
            together.create_task(forge(other))
    assert asking.result() == PolicyDecision("deny", "human", ME)


async def test_a_request_of_an_unknown_subagent_is_not_shown(path, child):
    """RA-13: only the session's own running subagents may ask."""
    heard = []

    async def judge(agent, request):
        heard.append(agent)
        return PolicyDecision("allow", "human", "yes")

    with parent_session(path, judge=judge) as parent:
        await spawned(parent)
        stranger = ApprovalRelay(child, SystemClock(), me="eve/sub-1", parent=ME, timeout_s=10.0)
        asking = asyncio.create_task(stranger(REQUEST, ASKS))
        while "eve/sub-1" not in {each.sender for each in child.messages.waiting(SESSIONS, ME)}:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert (await referral(child)(REQUEST, ASKS)).decision == "allow"  # it was asked later
        assert (heard, asking.done(), parent.peers.running) == (["sub-1"], False, 1)
        asking.cancel()
        await parent.peers.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (StoreError("the disk is full", "Free some space."), "the disk is full. Free some space."),
        (ExceptionGroup("two", [LookupError("no such window"), OSError()]), "LookupError: no such window"),
    ],
)
async def test_a_session_that_cannot_decide_ends_its_subagent_with_an_error(path, child, error, words):
    """RA-11: never a hang; a failed result for the agent, a line for the user, and the session continues."""

    async def judge(agent, request):
        raise error

    with parent_session(path, judge=judge) as parent:
        await spawned(parent)
        asking = asyncio.create_task(referral(child, timeout_s=1)(REQUEST, ASKS))
        async with asyncio.timeout(5):
            await parent.peers.arrival()
        ended = parent.peers.subagents()[0]
        assert (ended.status, ended.error.endswith(f": {words}")) == ("failure", True)
        (warning,) = parent.warnings
        assert warning.endswith(f": {words}")
        assert not is_alive(ended.process)
        assert (await asking).decision == "deny"
        await parent.peers.close()


@pytest.mark.slow
async def test_an_open_request_is_withdrawn_when_its_subagent_dies(path, child):
    """RA-11: a human who thinks holds nothing up that is over."""
    shown, withdrawn = asyncio.Event(), asyncio.Event()

    async def judge(agent, request):
        shown.set()
        try:
            await asyncio.Event().wait()
        finally:
            withdrawn.set()

    with parent_session(path, judge=judge) as parent:
        await parent.call("subagent", task="while ! [ -e asked ]; do sleep 0.01; done")
        asking = asyncio.create_task(referral(child, timeout_s=1)(REQUEST, ASKS))
        async with asyncio.timeout(5):
            await shown.wait()
        (path.parent / "asked").touch()
        async with asyncio.timeout(5):
            await parent.peers.arrival()
            await withdrawn.wait()
        assert (await asking).decision == "deny"


@pytest.mark.slow
async def test_waiting_for_a_human_does_not_count_against_the_timeout(path, child):
    """RA-11: waiting for consent does not count against the timeout."""

    clock = ObservedClock()

    async def judge(agent, request):
        clock.read.clear()
        await clock.read.wait()  # the time of the subagent would be up, and its supervisor looks
        return PolicyDecision("allow", "human", "yes")

    with parent_session(path, judge=judge, clock=clock) as parent:
        await parent.call("subagent", task="while ! [ -e answered ]; do sleep 0.01; done; exit 7", timeout_s=1)
        assert (await referral(child)(REQUEST, ASKS)).decision == "allow"
        (path.parent / "answered").touch()
        await parent.peers.arrival()
        assert "exit code 7" in parent.peers.subagents()[0].error


def gate(path, *, ask=None, refer=None, **rules):
    messages = []
    gate = ApprovalGate(
        RuleSet(**rules),
        workspace=WorkspacePaths.on_disk(path.parent, path.parent),
        clock=SystemClock(),
        tell=messages.append,
        shell=ShellCommandPolicy,
        approver=Delegation(refer) if refer else ask,
    )
    return messages, gate


def tool(ran):
    async def run(args):
        ran.append(args["command"])
        return ToolOutput("ran")

    return Tool(name="shell", description="", schema=object_schema({}), category="shell", run=run)


async def test_child_and_parent_gates_together_decide_like_one(path, child):
    """RA-11, RA-13: the child's rules, then what the parent has allowed, then its user, who sees which agent asks."""
    asked, ran = [], []

    async def ask(question):
        asked.append((question.agent, question.subject))
        return {"make a": "allow", "make b": "always"}.get(question.subject, "deny")

    messages, parents = gate(path, ask=ask, allow=(parse_rule("shell:make c"),))
    with parent_session(path, judge=parents.judge_for) as parent:
        await spawned(parent)
        _, childs = gate(path, refer=referral(child), allow=(parse_rule("shell:make d"),))
        guarded = childs.guard(tool(ran))
        for target in "abbcde":
            await guarded.run({"command": f"make {target}"})
        await parent.peers.close()
    assert ran == ["make a", "make b", "make b", "make c", "make d"]
    assert asked == [("sub-1", "make a"), ("sub-1", "make b"), ("sub-1", "make e")]
    assert {approval.agent for approval in messages} == {"sub-1"}


async def test_a_denial_without_a_user_says_what_would_allow_the_call(path, child):
    """RA-13: denied without a user, and the model is told so."""
    _, parents = gate(path)
    with parent_session(path, judge=parents.judge_for) as parent:
        await spawned(parent)
        _, childs = gate(path, refer=referral(child))
        said = await childs.guard(tool([])).run({"command": "make"})
        await parent.peers.close()
    assert said.failed
    assert said.content == snapshot(
        "Denied: `make` is not known to be read-only, and no rule allows it, and no user is available to approve it. "
        'It would be allowed by `--allow "shell:PATTERN"`, `--allow-category shell` or `--yolo`. '
        "Continue without it, or report what you would have done."
    )
