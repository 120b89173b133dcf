"""A login with a subscription, as text."""

from scaffold.host.clock import SystemClock
from scaffold.login.state import LoginOverview
from scaffold.views.text_format import local_time


def overview_lines(seen: LoginOverview) -> tuple[str, ...]:
    """Return a login as sentences."""
    if seen.problem:
        return (f"account {seen.account}: {seen.problem}", seen.fix)
    now = SystemClock().now()
    valid = "is valid for an unknown time, and renewed when it is refused"
    if seen.expires_at is not None:
        until = local_time(seen.expires_at, now)
        valid = (
            f"is valid until {until}, and renewed before" if seen.expires_at > now else "is renewed by the next request"
        )
    return (
        f"{who(seen.email, seen.plan)}, account {seen.account}.",
        f"The access token was issued at {local_time(seen.renewed_at, now)}; it {valid}.",
        f"The key of the encrypted tokens: {seen.key}.",
    )


def who(email: str, plan: str) -> str:
    """Return who pays, without the account."""
    return f"{email or 'no e-mail address'} ({f'plan {plan}' if plan else 'plan unknown'})"
