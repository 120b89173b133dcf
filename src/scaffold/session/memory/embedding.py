"""The embedder that the user has configured, and the budget that pays for it."""

import os
from collections.abc import Callable

from msgspec import structs

from scaffold.core.model import Usage
from scaffold.core.ports import Budget, History
from scaffold.host.clock import SystemClock
from scaffold.host.process_identity import own_identity
from scaffold.host.startup import lazy_import
from scaffold.memory.vector_port import Embedder
from scaffold.policy.secret.redaction import Redactor
from scaffold.store.spending.session_budget import session_budget
from scaffold.store.user_store import UserStore

REMOTE = "scaffold.memory.embedders.remote:RemoteEmbedder"
SEARCHING = "scaffold.memory.embedders.remote:SEARCHING"
INDEXING = "scaffold.memory.embedders.remote:INDEXING"
ACCOUNT = "memory"
"""The account of the user's own commands, which have no limit."""


class EmbedderSource:
    """Makes the embedder when it is first needed: most sessions need none."""

    def __init__(self, model: str | None, user: UserStore, redactor: Redactor, *, patient: bool = False) -> None:
        """`model`: a model string; None for the model of the extra `memory`. `patient`: nobody waits for it."""
        self._model = model
        self._user = user
        self._redactor = redactor
        self._waiting = INDEXING if patient else SEARCHING
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
        """Return the configured embedder; None for that of the extra, and if vectors cannot be compared here."""
        if self._model is None or self._made is not None:
            return self._made
        try:
            make = lazy_import(REMOTE)
        except ImportError:
            return None
        budget = self._budget or session_budget(
            self._user, ACCOUNT, limit_usd=None, model=self._model, clock=SystemClock(), owner=own_identity()
        )
        told = {} if self._spend is None else {"spend": self._spend}
        waiting = lazy_import(self._waiting)
        self._made = make(
            self._model, self._user, self._redactor, environ=os.environ, budget=budget, waiting=waiting, **told
        )
        return self._made
