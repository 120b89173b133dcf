"""Who takes the turns of an agent that changes no files: a model, which our own loop asks, or a program of others."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from scaffold.core.executor_settings import ProgramSpec
from scaffold.core.model import Run
from scaffold.core.ports import Model
from scaffold.core.run_settings import ModelSettings
from scaffold.llm.transport.live_context import Patience
from scaffold.run.context import RunContext


class AgentProgram(Struct, frozen=True, kw_only=True):
    """A program of others that takes the turns of an agent; it reads a folder, and changes nothing."""

    context: RunContext
    run: Run
    spec: ProgramSpec
    spender: str
    """Under which name its usage is booked."""
    folder: Path
    patience: Patience
    """How long it waits for its provider."""


AgentSource = Model | AgentProgram


class OpenSource(Protocol):
    """Opens who takes the turns of an agent."""

    def __call__(self, *, patience: Patience) -> AbstractAsyncContextManager[AgentSource]:
        """Return a model that waits for its endpoint as `patience` says; raises UsageError if it cannot be used."""
        ...


def booked_as(source: AgentSource, own: ModelSettings) -> str:
    """Return the name under which the usage of an agent is booked, whose model is `own` unless a program is its."""
    return source.spender if isinstance(source, AgentProgram) else own.name
