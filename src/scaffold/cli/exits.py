"""Exit codes: what a script can tell from how a command ended."""

from collections.abc import Sequence

from scaffold.core import errors
from scaffold.core.errors import ScaffoldError

OK = 0
FAILED = 1
LIMIT = 2
WAITS = 3
INVALID = 4
USAGE = 64
INTERRUPTED = 130
CUT_OFF = 141
"""Nobody read the output to its end; the same as a program that a closed pipe ends."""

CODES: Sequence[tuple[type[ScaffoldError], int]] = (
    (errors.PlanInvalid, INVALID),
    (errors.UsageProblem, USAGE),
    (errors.TrustProblem, USAGE),
    (errors.RepositoryUnfit, USAGE),
    (errors.BudgetSpent, LIMIT),
    (errors.TurnLimit, LIMIT),
    (ScaffoldError, FAILED),
)


def exit_code(error: ScaffoldError) -> int:
    """Return the code of a command that ends with `error`."""
    return next(code for kind, code in CODES if isinstance(error, kind))
