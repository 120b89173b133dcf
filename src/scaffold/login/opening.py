"""Wire the tokens of the user's login to its database, keys and server."""

from collections.abc import Mapping

from scaffold.host.clock import SystemClock
from scaffold.host.user_dirs import user_dirs
from scaffold.llm.transport.live_context import HttpClient
from scaffold.login.device import DeviceAuthorization
from scaffold.login.keys import LoginKeys
from scaffold.login.provider import codex_provider
from scaffold.login.subscription import SubscriptionTokens
from scaffold.login.token_endpoint import TokenEndpoint
from scaffold.store.user_store import UserStore


def open_tokens(user: UserStore, wire: HttpClient, environ: Mapping[str, str]) -> SubscriptionTokens:
    """Return the tokens in the user's database; UsageError if the environment names an unusable server."""
    data, clock = user_dirs().data, SystemClock()
    provider = codex_provider(environ)
    endpoint, device = TokenEndpoint(provider, wire, clock), DeviceAuthorization(provider, wire)
    return SubscriptionTokens(user, LoginKeys(data, environ), endpoint, device, clock=clock, data=data)
