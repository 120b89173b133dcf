"""A fault that is planted in one file."""

from typing import Literal

from msgspec import Struct

FaultKind = Literal["operator", "boundary", "deleted_check", "removed_test", "swapped_arguments"]


class Fault(Struct, frozen=True, kw_only=True, order=True):
    """Replaces the bytes from `start` to `end` of a file by `new`."""

    path: str
    line: int
    """Where it is in the file with the fault; from 1."""
    start: int
    end: int
    new: bytes
    kind: FaultKind

    def planted(self, content: bytes) -> bytes:
        """Return the file with the fault."""
        return content[: self.start] + self.new + content[self.end :]
