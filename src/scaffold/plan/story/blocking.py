"""Which stories a failure blocks, and which of them can go on."""

from collections.abc import Mapping, Sequence

from scaffold.core.ids import ActionId
from scaffold.plan.graph.readiness import ActionNode, blocked_by_failure
from scaffold.plan.source.dag import done_assertion
from scaffold.plan.source.prd import assignable
from scaffold.plan.source.task import SourceTask
from scaffold.plan.story.record import StoryRecord, StoryStatus
from scaffold.plan.story.transitions import BlockStory, UnblockStory, story_after

_NODE_STATUS: Mapping[StoryStatus, str] = {
    "unclaimed": "pending",
    "in_progress": "running",
    "completed": "completed",
    "failed": "failed",
    "blocked": "blocked",
}
_ENDED = frozenset({"completed", "failed", "blocked"})


def reevaluated(stories: Sequence[StoryRecord]) -> tuple[StoryRecord, ...]:
    """Return all stories with `blocked` as it follows from the others.

    An unclaimed story is blocked as soon as one that it depends on, directly or not, has failed. A blocked one becomes
    unclaimed once all that it depends on directly are completed.
    """
    completed = {story.story_id for story in stories if story.status == "completed"}
    # In this order: what was just unblocked has only completed stories before it, and is not blocked again.
    freed = [
        story_after(story, UnblockStory())
        if story.status == "blocked" and completed.issuperset(story.depends_on)
        else story
        for story in stories
    ]
    reasons = blocked_by_failure([_node(story) for story in freed], frozenset(map(done_assertion, completed)))
    return tuple(story_after(story, BlockStory()) if ActionId(story.story_id) in reasons else story for story in freed)


def blocking_failures(stories: Sequence[StoryRecord]) -> Mapping[str, str]:
    """Return, for each story that a failure keeps from being claimed, the nearest story that failed."""
    completed = frozenset(done_assertion(story.story_id) for story in stories if story.status == "completed")
    nodes = [_node(story, blocked="pending") for story in stories]
    reasons = blocked_by_failure(nodes, completed)
    return {str(story): reason.partition(":")[2] for story, reason in reasons.items()}


def claimable(given: Sequence[SourceTask], stories: Sequence[StoryRecord]) -> tuple[SourceTask, ...]:
    """Return the stories of the PRD that can be claimed now, the one to take first in front.

    `stories` are the records of all of them, after `reevaluated`.
    """
    taken = {story.story_id for story in stories if story.status not in {"unclaimed", "completed"}}
    completed = {story.story_id for story in stories if story.status == "completed"}
    return assignable(given, claimed=taken, completed=completed)


def all_ended(stories: Sequence[StoryRecord]) -> bool:
    """Return whether the loop is over: every story is completed, failed or blocked."""
    return all(story.status in _ENDED for story in stories)


def _node(story: StoryRecord, blocked: str = "blocked") -> ActionNode:
    return ActionNode(
        id=ActionId(story.story_id),
        parent_id=None,
        preconditions=tuple(map(done_assertion, story.depends_on)),
        effects=(done_assertion(story.story_id),),
        status=blocked if story.status == "blocked" else _NODE_STATUS[story.status],
        kind="primitive",
    )
