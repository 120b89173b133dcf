"""Exit codes of commands."""

from collections.abc import Sequence

from scaffold.core import errors
from scaffold.core.errors import ScaffoldError

OK = 0
FAILED = 1
LIMIT = 2
WAITING = 3
INVALID = 4
USAGE = 64
INTERRUPTED = 130
BROKEN_PIPE = 141  # the code of a program killed by SIGPIPE

# The first match counts.
EXIT_CODES: Sequence[tuple[type[ScaffoldError], int]] = (
    (errors.PlanInvalid, INVALID),
    (errors.UsageError, USAGE),
    (errors.TrustError, USAGE),
    (errors.RepositoryError, USAGE),
    (errors.BudgetExceeded, LIMIT),
    (errors.TurnLimitExceeded, LIMIT),
    (ScaffoldError, FAILED),
)


def exit_code(error: ScaffoldError) -> int:
    """Return the exit code of a command that fails with `error`."""
    return next(code for kind, code in EXIT_CODES if isinstance(error, kind))
