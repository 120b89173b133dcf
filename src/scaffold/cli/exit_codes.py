"""Exit codes: what a script can tell from how a command ended."""

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
BROKEN_PIPE = 141
"""Nobody read the output to its end; the same as a program that a closed pipe ends."""

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
    """Return the code of a command that ends with `error`."""
    return next(code for kind, code in EXIT_CODES if isinstance(error, kind))
