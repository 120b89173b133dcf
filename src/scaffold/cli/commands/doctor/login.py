"""The user's login with a subscription."""

from scaffold.agent.model_access import connect_login
from scaffold.cli.commands.doctor.checks import DoctorCheck
from scaffold.cli.commands.login.login import overview_lines
from scaffold.core.errors import ScaffoldError
from scaffold.host.user_dirs import user_dirs
from scaffold.store.user_store import user_database


async def check_login() -> list[DoctorCheck]:
    """Return a check of the login; empty if there is none. Asks no server."""
    if not user_database(user_dirs().data).exists():
        return []
    try:
        async with connect_login() as stored:
            seen = await stored.overview()
    except ScaffoldError as error:
        return [DoctorCheck("login", "fail", error.what, error.fix)]
    if seen is None:
        return []
    if seen.problem:
        return [DoctorCheck("login", "warn", f"account {seen.account}: {seen.problem}", seen.fix)]
    return [DoctorCheck("login", "ok", " ".join(overview_lines(seen)))]
