"""What each family of runners has to tell: how it is asked for a report, and how that is read."""

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from scaffold.verify.gates.reading import Reading


class Bench(Struct, frozen=True, kw_only=True):
    """What surrounds one run."""

    folder: Path
    """Empty, ours, outside of the checkout; the command may write there."""
    place: Path
    """Where the command runs; files are told as from there."""
    environ: Mapping[str, str]
    only: tuple[str, ...] = ()
    """Names of tests or files, of which alone it is asked; empty for all."""

    @property
    def whole(self) -> bool:
        """Whether all tests are to run."""
        return not self.only


class Order(Struct, frozen=True, kw_only=True):
    """What to run instead of a gate's command."""

    command: str
    variables: Mapping[str, str] = {}
    key: bytes = b""
    """What a report is signed with; empty where none is."""


class Ended(Struct, frozen=True, kw_only=True):
    """How a run ended by itself, or was ended for its time."""

    bench: Bench
    order: Order
    exit_code: int | None
    stdout: bytes
    stderr: bytes

    @property
    def output(self) -> bytes:
        """Everything that it printed."""
        return self.stdout + self.stderr


def nobody(_: Ended) -> tuple[str, ...]:
    """Return no test: what runs just now cannot be told."""
    return ()


class Family(Struct, frozen=True, kw_only=True):
    """How a runner is asked, and what is made of its answer."""

    asked: Callable[[str, Bench], Order]
    read: Callable[[Ended], Reading]
    running: Callable[[Ended], tuple[str, ...]] = nobody
    """Returns the tests that had begun when the time ran out."""
    prints: bool = False
    """Whether its report is what it prints, so that all of that is needed."""
    chooses: bool = False
    """Whether it runs exactly what was asked for; the outcomes of others are cut down to that."""
