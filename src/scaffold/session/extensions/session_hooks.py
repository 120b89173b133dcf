"""The hooks of a session."""

from collections.abc import Callable

from scaffold.agent.context.conversation_window import Conversation
from scaffold.agent.extensions.hook_access import AgentHooks, HookSetup, hook_mode, open_hooks
from scaffold.git.checkouts.worktree_metadata import find_checkout
from scaffold.host.startup import lazy_import
from scaffold.host.user_dirs import user_dirs
from scaffold.session.options import SessionOptions
from scaffold.session.tool_setup import ToolSetup

TRANSCRIPT = "scaffold.session.extensions.hook_transcript:write_transcript"
"""Takes a path and a conversation; imported if hooks want to know what the agent did."""


def session_hooks(
    setup: ToolSetup,
    options: SessionOptions,
    conversation: Callable[[], Conversation],
    *,
    subagent: bool,
    tell: Callable[[str], object],
) -> AgentHooks:
    """Return the hooks of a session, which from now on see the calls that its gate decides.

    `conversation` returns what it has said so far.
    """
    transcript = user_dirs().cache / "outputs" / setup.conversation / "transcript.jsonl"

    def write() -> None:
        lazy_import(TRANSCRIPT)(transcript, conversation(), cwd=str(setup.cwd), clean=setup.redactor.clean)

    hooks = open_hooks(
        HookSetup(
            extensions=options.extensions,
            cwd=setup.cwd,
            project=find_checkout(setup.cwd) or setup.cwd,
            environ=setup.environ,
            sandbox=setup.sandbox,
            session=setup.conversation,
            transcript=str(transcript),
            write_transcript=write,
            subagent=subagent,
            mode=lambda: hook_mode(setup.modes.current, yolo=setup.gate.rules.yolo),
            redactor=setup.redactor,
            tell=tell,
        )
    )
    setup.gate.hooks = hooks
    return hooks
