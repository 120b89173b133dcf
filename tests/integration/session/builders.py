"""Sessions whose model is a cassette."""

from contextlib import asynccontextmanager

import yaml

from scaffold.cli.render.reporters import TextReporter
from scaffold.host.process_identity import own_identity
from scaffold.policy.rule.ruleset import RuleSet
from scaffold.session.agent_session import open_session
from scaffold.session.open_conversation import open_conversation
from scaffold.session.options import SessionOptions


def session_options(cwd, **fields):
    given = {"rules": RuleSet(), "max_turns": 9, "budget_usd": None, "stream": True, "system_prompt": None}
    return SessionOptions(cwd=cwd, home=cwd, **(given | fields))


def cassette(path, *replies):
    """Write a cassette of these replies, and return its model."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump({"version": 1, "replies": replies}))
    return f"cassette:{path}"


@asynccontextmanager
async def opened_session(store, options, model, stored=None, **how):
    """Yield a session in a new conversation, or in a stored one."""
    options.cwd.mkdir(exist_ok=True)
    opened = {"cwd": str(options.cwd), "model": model, "title": "t", "me": own_identity()}
    with open_conversation(store, stored, **opened) as seat:
        async with open_session(options, seat, TextReporter(live=False), **how) as session:
            yield session
