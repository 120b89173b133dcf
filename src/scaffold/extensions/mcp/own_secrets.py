"""The secrets that a server is given: it may say them again, in an answer or an error."""

from urllib.parse import parse_qsl, urlsplit

from scaffold.extensions.mcp.server_config import ServerConfig
from scaffold.policy.secret.redaction import Redactor
from scaffold.policy.secret.sources import secret_values


def server_redactor(config: ServerConfig) -> Redactor:
    """Return what removes the secrets in the variables, headers, address and client of an expanded server."""
    # `Bearer TOKEN` is sent, and TOKEN is the secret.
    headers = {name.replace("-", "_"): (value.split() or [""])[-1] for name, value in config.headers.items()}
    client = {"CLIENT_SECRET": config.oauth.client_secret}
    query = dict(parse_qsl(urlsplit(config.url).query))
    return Redactor(*map(secret_values, (config.env, headers, query, {"URL": config.url}, client)))
