"""The user's login with a subscription."""

from contextlib import closing

from scaffold.agent.model_access import connect_login
from scaffold.cli.commands.doctor.checks import DoctorCheck
from scaffold.cli.render.login_text import overview_lines
from scaffold.core.errors import ScaffoldError
from scaffold.host.clock import SystemClock
from scaffold.host.user_dirs import user_dirs
from scaffold.login.names import CODEX
from scaffold.store.user_store import UserStore, user_database


async def check_login() -> list[DoctorCheck]:
    """Return a check of the login; empty if there is none. Asks no server."""
    path = user_database(user_dirs().data)
    if not path.exists():
        return []
    try:
        with closing(UserStore.open(path, clock=SystemClock(), create=False)) as user:
            if user.logins.find(CODEX) is None:
                return []
        async with connect_login() as stored:
            seen = await stored.overview()
    except ScaffoldError as error:
        return [DoctorCheck("login", "fail", error.what, error.fix)]
    if seen is None:
        return []
    if seen.problem:
        return [DoctorCheck("login", "warn", f"account {seen.account}: {seen.problem}", seen.fix)]
    return [DoctorCheck("login", "ok", " ".join(overview_lines(seen)))]
