"""Items that a worker's agent files for what it finds outside of its task."""

from collections.abc import Sequence

from scaffold.core.printable_text import one_line, printable, utf8_safe
from scaffold.core.tool import ToolOutput
from scaffold.core.work_item import WorkItem
from scaffold.host.random_ids import new_id
from scaffold.run.item_changes import add_item
from scaffold.worker.attempt_records import AttemptRecords

MOST = 20
"""Items of one attempt: an agent that finds more has read something other than its task."""


class FiledItems:
    """Files items for one attempt; people decide what becomes of them."""

    def __init__(self, records: AttemptRecords) -> None:
        self._records = records

    def file(self, title: str, description: str, labels: Sequence[str]) -> ToolOutput:
        """Store an item without its secrets, and return what became of it."""
        run_context, task = self._records.run_context, self._records.task
        if run_context.store.work_items.count_of_attempt(task.attempt.id) >= MOST:
            why = f"this attempt has filed {MOST} already. Name the rest in your final message"
            return ToolOutput(f"Not filed: {why}.", failed=True)
        clean, now = run_context.redactor.clean, run_context.clock.now()
        item = WorkItem(
            id=new_id(6),
            title=one_line(clean(utf8_safe(title))),
            description=printable(clean(utf8_safe(description))),
            labels=tuple(dict.fromkeys(one_line(clean(utf8_safe(each))).removeprefix("#") for each in labels)),
            run=task.run.id,
            action=task.action.key,
            by_agent=True,
            created_at=now,
            updated_at=now,
        )
        stored = add_item(run_context.store, item, attempt=task.attempt)
        if isinstance(stored, str):
            return ToolOutput(f"Not filed: {stored}.", failed=True)
        if stored.id != item.id:
            return ToolOutput(f"Item {stored.id} says that already. Go on with your task.")
        self._records.inform(f"{task.action.key} filed item {stored.id}: {stored.title}")
        return ToolOutput(f"Filed as item {stored.id}. Go on with your task, and leave this as it is.")
