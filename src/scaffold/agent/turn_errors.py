"""Errors of a turn that has no answer."""

from scaffold.core.errors import ModelError


def cutoff_error(times: int) -> ModelError:
    """Return the error after so many replies in a row that were cut off."""
    return ModelError(
        f"{times} replies in a row were cut off at the model's length limit",
        "Ask for less at a time, or choose a model with longer replies with `--model`.",
    )


def no_answer_error() -> ModelError:
    """Return the error after a second empty reply."""
    return ModelError(
        "the model ended its work without an answer, also when it was asked for one",
        "What it did is kept; ask it with `ralph -c`, or choose another model with `--model`.",
    )
