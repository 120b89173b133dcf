"""The environment of the commands of a session."""

import os
from collections.abc import Callable

from scaffold.host.child_environment import agent_variables
from scaffold.host.user_dirs import user_dirs
from scaffold.policy.secret.command_environment import TOLD_VARIABLES, command_environment, left_out_notice
from scaffold.session.options import SessionOptions


def command_variables(options: SessionOptions, subagent: str) -> dict[str, str]:
    """Return the environment of commands; those of a `subagent`, named by its conversation, are marked as such."""
    return command_environment(os.environ, agent_variables(subagent) if subagent else {}, names=options.environment)


def tell_what_is_left_out(options: SessionOptions, tell: Callable[[str], object]) -> None:
    """Tell the user which of their variables commands do not get, unless they know."""
    if notice := left_out_notice(os.environ, options.environment, told=user_dirs().cache / TOLD_VARIABLES):
        tell(notice)
