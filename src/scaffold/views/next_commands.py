"""The commands that fit a run's state."""

from collections.abc import Mapping
from shlex import quote

from scaffold.core.states import Completed, Paused
from scaffold.views.action_notes import failed_actions
from scaffold.views.run_view import RunView


def next_commands(view: RunView, *, lasting: bool = False) -> Mapping[str, str]:
    """Return commands that fit the run's state, each with its purpose.

    `lasting` ones always name the run: they may be read when it is not the latest any more.
    """
    named, of = (f" {view.run.id}", f" --run {view.run.id}") if lasting else ("", "")
    run, failed = view.run, failed_actions(view)
    hints = {f"scaffold logs {quote(action.key)}{of}": "what its agents said and did" for action in failed[:2]}
    if view.summary.waiting:
        hints = {"scaffold inbox": "what is waiting for you, in full"} | hints
    hints |= {f"scaffold contract {quote(action.key)}{of}": "its checks and their results" for action in failed[:1]}
    aside = [goal for goal in view.goals if isinstance(goal.state, Paused) and goal.state != run.state]
    hints |= {f"scaffold resume {quote(goal.name)}": "resume this goal" for goal in aside[:2]}
    match view.status:
        case _ if view.summary.is_live:
            return hints | {
                f"scaffold status{named} --watch": "watch it",
                f"scaffold stop {run.id}": "stop it; `resume` continues",
            }
        case "completed":
            return {
                f"scaffold review{named}": "its commits, their evidence, the diff by intent",
                f"scaffold tasks{of}": "every action with its evidence",
                f"scaffold diff {run.id}": "everything that landed",
                **_taking_command(view, named),
            }
        case "failed":
            again = {f"scaffold retry{named}": f"try again, then `scaffold resume{named}`"}
            has_landed = any(isinstance(action.state, Completed) for action in view.actions)
            return hints | again | ({f"scaffold diff {run.id}": "what landed before it failed"} if has_landed else {})
        case "saved":
            return {f"scaffold resume {run.id}": "start it", f"scaffold cancel {run.id}": "give it up"}
        case "cancelled":
            return {f"scaffold diff {run.id}": "what landed before", 'scaffold run "TASK"': "start a new run"}
        case _:
            use = view.summary.budget
            more = {f"scaffold cost {run.id}": "what it was spent on"} if use.reached else {}
            go_on = f"scaffold resume {run.id} {use.more}" if use.reached else f"scaffold resume {run.id}"
            return hints | {go_on: "continue", **more, f"scaffold diff {run.id}": "what has landed so far"}


def _taking_command(view: RunView, named: str) -> Mapping[str, str]:
    """Return the command that takes the work; none if the base branch has it."""
    run, order = view.run, view.summary.taken.order
    if view.is_taken:
        return {}
    again = {f"scaffold resume {run.id}": f"do what --{order} asks for"} if order else {}
    if run.base_branch is None:
        return again | {f"git merge --ff-only {run.session_branch}": "take it"}
    return again | {f"scaffold land{named}": f"take it to {run.base_branch}"}
