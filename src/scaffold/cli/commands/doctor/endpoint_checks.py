"""The endpoints of models that accept no requests at present."""

from contextlib import closing
from datetime import timedelta

from scaffold.cli.commands.doctor.checks import DoctorCheck
from scaffold.core.errors import StoreError
from scaffold.core.throttling import ThrottleState, cooldown_left_s, is_unavailable
from scaffold.host.clock import SystemClock
from scaffold.host.user_dirs import user_dirs
from scaffold.store.user_store import UserStore, user_database
from scaffold.views.text_format import local_time

LIFTS = "`scaffold doctor --fix` lets the next request ask at once."


def check_endpoints() -> list[DoctorCheck]:
    """Return a warning for each parked endpoint; empty if there is none."""
    if not user_database(user_dirs().data).exists():
        return []
    try:
        parked = _parked_endpoints()
    except StoreError as error:
        return [DoctorCheck("user data", "fail", error.what, error.fix)]
    now, warnings = SystemClock().now(), list[DoctorCheck]()
    for name, state in parked.items():
        until = local_time(now + timedelta(seconds=cooldown_left_s(state, now.timestamp())), now)
        why = "does not answer" if is_unavailable(state) else "is rate limited"
        warnings.append(DoctorCheck("endpoint", "warn", f"{name} {why}", f"It is asked again at {until}. {LIFTS}"))
    return warnings


def lift_parked() -> list[str]:
    """Let requests ask the parked endpoints again, and return their names."""
    if not user_database(user_dirs().data).exists():
        return []
    with closing(_open_user_store()) as user, user.transaction():
        return [name for name in _parked_endpoints(user) if user.endpoints.lift(name)]


def _parked_endpoints(user: UserStore | None = None) -> dict[str, ThrottleState]:
    if user is None:
        with closing(_open_user_store()) as opened:
            return _parked_endpoints(opened)
    now_s = SystemClock().now().timestamp()
    return {name: state for name, state in user.endpoints.states().items() if cooldown_left_s(state, now_s) > 0.0}


def _open_user_store() -> UserStore:
    return UserStore.open(user_database(user_dirs().data), clock=SystemClock(), create=False)
