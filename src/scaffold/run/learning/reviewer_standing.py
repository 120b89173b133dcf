"""How a second reviewer did on planted faults, read from the user's database; loads little, for `status`."""

from scaffold.core.errors import StoreError
from scaffold.plan.review_rates import ProbeStanding, standing_of
from scaffold.run.learning.stores import user_store_if_any
from scaffold.store.driver.columns import TimeSource


def reviewer_standing(model: str, clock: TimeSource) -> ProbeStanding:
    """Return how the reviewer did on planted faults; without the user's database nothing is known."""
    try:
        with user_store_if_any(clock) as user:
            return standing_of(user.reviewers.probes_of(model)) if user is not None else ProbeStanding()
    except StoreError:
        return ProbeStanding()
