"""What a run is about, if it is not to have a little of everything: some faults are too rare otherwise."""

from msgspec import Struct


class Focus(Struct, frozen=True, kw_only=True):
    """How often some things happen in a run; the defaults are those of a run without a focus."""

    shared_files: float = 0.35
    """The share of actions that write a file that others write, too."""
    questions: float = 12
    """How often an agent asks a human, besides the other things that it may do, which add up to about 100."""
    agents: int | None = None
    """How many agents work at once; None to draw it."""
    branch_changes: int | None = None
    """How often users revert and rebase; None to draw it."""
    repeated: float = 0.5
    """How likely a user whose command died repeats it at once."""
    deaths_in_branch_changes: float | None = None
    """The probability that the process of such a command dies, at each of its writes; None for that of all others."""
    slow_git: float | None = None
    """The probability that a git command takes long; None to draw it."""


NO_FOCUS = Focus()
FOCUSES = {
    "": NO_FOCUS,
    "files": Focus(shared_files=0.9, agents=4, slow_git=0.3),
    "questions": Focus(questions=300, agents=1),
    "reverts": Focus(branch_changes=8, repeated=0.1, deaths_in_branch_changes=0.15),
}
"""By name, for the command line."""
