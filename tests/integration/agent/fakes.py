"""A session in a real database whose subagents are shell scripts."""

import asyncio
import os
from contextlib import contextmanager
from datetime import timedelta

from scaffold.agent.messages.mailbox import ClaimedSession
from scaffold.agent.subagents.peers import Peers
from scaffold.agent.subagents.process_pool import SubagentLimits, SubagentSpec
from scaffold.core.errors import UsageError
from scaffold.host.child_environment import child_environment
from scaffold.host.clock import SystemClock
from scaffold.host.process.child import start_child
from scaffold.host.process_identity import own_identity
from scaffold.policy.rule.ruleset import PolicyDecision
from scaffold.policy.secret.redaction import Redactor
from scaffold.store.user_store import SESSIONS, ConversationHistory, UserStore

SECRET = "sesame-42-open"
ME = "ann"
"""The session; ids of others are `ben` and `cid`."""


class ScriptedSubagents:
    """A launcher whose subagents run their task as a shell script."""

    def __init__(self, folder):
        self._folder = folder
        self.able, self.slow = True, False
        self.before = lambda: None
        """What happens before a process is started."""

    def spec(self, model, role=None):
        if model == "nobody:knows":
            raise UsageError("there is no model `nobody:knows`", "Name another one.")
        return SubagentSpec(model or "cassette:/tape", "{}")

    async def start(self, subagent):
        self.before()
        if self.slow:
            await asyncio.Event().wait()
        if not self.able:
            raise OSError(11, "Resource temporarily unavailable")
        argv = ["sh", "-c", subagent.task]
        return await start_child(argv, cwd=self._folder, env=child_environment(os.environ), log=self._log(subagent))

    def take_log_tail(self, subagent):
        log = self._log(subagent)
        said = log.read_text().strip() if log.exists() else ""
        log.unlink(missing_ok=True)
        return said

    def _log(self, subagent):
        return self._folder / "logs" / f"{subagent.name}.log"


class ShiftedClock(SystemClock):
    """The system clock, moved by `by`."""

    by = timedelta()

    def now(self):
        return super().now() + self.by


async def deny_all(agent, request):
    return PolicyDecision("deny", "category", f"{agent} may not {request.subject}")


class ParentSession:
    """The session ME in the database at `path`, claimed by this process, with its subagents."""

    def __init__(self, path, *, judge=deny_all, clock=None, timeout_s=10.0, **limits):
        self.clock = clock or SystemClock()
        self.path = path
        self.store = UserStore.open(path, clock=self.clock, timeout_s=timeout_s)
        self.starter = ScriptedSubagents(path.parent)
        self.warnings = []
        if self.store.conversations.get(ME) is None:
            begin(self.store, ME)
        with self.store.transaction():
            self.store.conversations.claim(ME, own_identity())
        self.peers = Peers(
            ClaimedSession(self.store, ME, "/shop", self.clock),
            starter=self.starter,
            decider=judge,
            about=lambda: {"model": "cassette:/tape", "mode": "default"},
            warn=self.warnings.append,
            limits=SubagentLimits(**limits),
            redactor=Redactor({"DOOR": SECRET}),
        )
        self.tools = {tool.name: tool for tool in self.peers.tools}
        self.history = self.peers.kept(ConversationHistory(self.store, ME, own_identity()))

    async def call(self, name, **args):
        """Return the output of a tool; it has a `failed` flag."""
        return await self.tools[name].run(args)

    def inbox(self):
        """Return the bodies of all messages that wait for the session."""
        return [envelope.body for envelope in self.store.messages.waiting(SESSIONS, ME)]


def begin(store, name, *, cwd="/shop", owner=None, **fields):
    with store.transaction():
        store.conversations.begin(name, cwd=cwd, model="m", title=f"the title of {name}", **fields)
        if owner is not None:
            store.conversations.claim(name, owner)


@contextmanager
def parent_session(path, **options):
    """Yield a session; the database is closed at the end, the subagents keep running."""
    parent = ParentSession(path, **options)
    try:
        yield parent
    finally:
        parent.store.close()
