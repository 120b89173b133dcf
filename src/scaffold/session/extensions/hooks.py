"""The hooks of a session."""

from collections.abc import Callable

from scaffold.agent.hooks.access import AgentHooks, HookSetup, hook_mode, open_hooks
from scaffold.git.worktree_metadata import find_checkout
from scaffold.session.options import SessionOptions
from scaffold.session.tools import ToolSetup


def session_hooks(
    setup: ToolSetup, options: SessionOptions, *, subagent: bool, tell: Callable[[str], object]
) -> AgentHooks:
    """Return the hooks of a session, which from now on see the calls that its gate decides."""
    hooks = open_hooks(
        HookSetup(
            extensions=options.extensions,
            cwd=setup.cwd,
            project=find_checkout(setup.cwd) or setup.cwd,
            environ=setup.environ,
            sandbox=setup.sandbox,
            session=setup.conversation,
            subagent=subagent,
            mode=lambda: hook_mode(setup.modes.current, yolo=setup.gate.rules.yolo),
            redactor=setup.redactor,
            tell=tell,
        )
    )
    setup.gate.hooks = hooks
    return hooks
