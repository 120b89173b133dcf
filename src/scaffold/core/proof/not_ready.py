"""Why a check cannot run where it would have to: a program is missing. As a value, and as the text of a reason."""

import re

from msgspec import Struct

ENVIRONMENT_NOT_READY = "environment_not_ready"
_TEXT = re.compile(rf"{ENVIRONMENT_NOT_READY}: `([^`]+)` cannot run in (.+)\. (.+)", re.DOTALL)


class MissingProgram(Struct, frozen=True, tag_field="kind", tag=ENVIRONMENT_NOT_READY):
    """A program that checks need, and that does not run in their environment."""

    program: str
    environment: str
    """Where it was looked for."""
    fix: str
    """What to do next."""

    @property
    def what(self) -> str:
        """Return the problem in one line."""
        return f"{ENVIRONMENT_NOT_READY}: `{self.program}` cannot run in {self.environment}"


def read_missing_program(reason: str) -> MissingProgram | None:
    """Return the missing program that the reason of a failed action names; None for other reasons."""
    found = _TEXT.fullmatch(reason)
    return MissingProgram(*found.groups()) if found else None
