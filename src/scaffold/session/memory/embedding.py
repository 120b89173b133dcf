"""The embedder that the user has configured, and the budget that pays for it."""

import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, structs

from scaffold.core.errors import NotInRepository
from scaffold.core.model import Usage
from scaffold.core.ports import Budget, History
from scaffold.git.common_dir import find_common_dir
from scaffold.host.clock import SystemClock
from scaffold.host.process_identity import own_identity
from scaffold.host.startup import importing
from scaffold.memory.vector_port import Embedder
from scaffold.policy.secret.redaction import Redactor
from scaffold.session.open_conversation import OpenConversation
from scaffold.session.options import SessionOptions
from scaffold.store.driver.location import existing_state_location
from scaffold.store.spending.session_budget import session_budget
from scaffold.store.user_store import UserStore

ACCOUNT = "memory"  # the account of the user's own commands, which have no limit


class EmbedderSource:
    """Makes the embedder when it is first needed: most sessions need none."""

    def __init__(self, model: str | None, user: UserStore, redactor: Redactor, *, patient: bool = False) -> None:
        """`model`: a model string; None for the model of the extra `memory`. `patient`: nobody waits for it."""
        self._model = model
        self._user = user
        self._redactor = redactor
        self._patient = patient
        self._made: Embedder | None = None
        self._told = False
        self._budget: Budget | None = None
        self._spend: Callable[[Usage], object] | None = None

    def pay_by(self, budget: Budget, history: History) -> None:
        """Let the budget of a session pay from the first vector on, and show that with the rest of the session."""
        self._budget = budget
        # A session's requests are counted by the turns of its agent.
        self._spend = lambda usage: history.spend(structs.replace(usage, requests=0))

    def first_trouble(self) -> str:
        """Return why texts have no vectors, the first time that there is a reason; empty otherwise."""
        trouble = None if self._made is None or self._told else self._made.trouble
        self._told = self._told or trouble is not None
        return "" if trouble is None else trouble.what

    def get(self) -> Embedder | None:
        """Return the configured embedder; None for the extra's own, and if vectors cannot be compared here."""
        if self._model is None or self._made is not None:
            return self._made
        try:
            with importing():
                from scaffold.memory.embedders.remote import INDEXING, SEARCHING, RemoteEmbedder
        except ImportError:
            return None
        budget = self._budget or session_budget(
            self._user, ACCOUNT, limit_usd=None, model=self._model, clock=SystemClock(), owner=own_identity()
        )
        self._made = RemoteEmbedder(
            self._model,
            self._user,
            self._redactor,
            environ=os.environ,
            budget=budget,
            waiting=INDEXING if self._patient else SEARCHING,
            **({} if self._spend is None else {"spend": self._spend}),
        )
        return self._made


class MemoryAccess(Struct, frozen=True, kw_only=True):
    """Where a session's memories are, and who it is."""

    cwd: Path
    store: UserStore
    redactor: Redactor
    source: str = "user"
    """Who remembers: `user`, or `session:ID`."""
    embedding: EmbedderSource | None = None
    """None for the model of the extra `memory`."""

    def embedder(self) -> Embedder | None:
        """Return the configured embedder; None for the one that comes with the extra."""
        return None if self.embedding is None else self.embedding.get()

    def may_have_any(self) -> bool:
        """Return whether there may be memories; False only if there are none."""
        if self.store.knowledge.collections.all():
            return True
        try:
            return existing_state_location(find_common_dir(self.cwd), os.environ) is not None
        except NotInRepository:
            return False


def memory_access(options: SessionOptions, conversation: OpenConversation, redactor: Redactor) -> MemoryAccess:
    """Return the access of a session's agent."""
    source = f"session:{conversation.id}"
    embedding = EmbedderSource(options.embedding, conversation.store, redactor)
    return MemoryAccess(
        cwd=options.cwd, store=conversation.store, redactor=redactor, source=source, embedding=embedding
    )
