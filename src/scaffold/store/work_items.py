"""Work items with their links, labels and logs."""

from collections.abc import Mapping

from scaffold.core.work_item import ItemLog, WorkItem
from scaffold.store.driver.columns import NAMES, parse_time, read_struct, struct_columns
from scaffold.store.driver.gateway import TableGateway

PUT = """
INSERT INTO work_item (id, title, description, kind, status, reason, priority, parent_id, project, labels, run_id,
                       action_key, attempt_id, by_agent, created_at, updated_at)
VALUES (:id, :title, :description, :kind, :status, :reason, :priority, :parent_id, :project, :labels, :run_id,
        :action_key, :attempt_id, :by_agent, :created_at, :at)
ON CONFLICT (id) DO UPDATE SET title = excluded.title, description = excluded.description, kind = excluded.kind,
    status = excluded.status, reason = excluded.reason, priority = excluded.priority, parent_id = excluded.parent_id,
    project = excluded.project, labels = excluded.labels, run_id = excluded.run_id, action_key = excluded.action_key,
    updated_at = excluded.updated_at
"""
UNBLOCK = "DELETE FROM work_item_blocker WHERE item_id = :id"
BLOCK = "INSERT INTO work_item_blocker (item_id, blocked_by) VALUES (:id, :blocked_by) ON CONFLICT DO NOTHING"
ALL = "SELECT * FROM work_item ORDER BY created_at, id"
BLOCKERS = "SELECT item_id, blocked_by FROM work_item_blocker ORDER BY item_id, blocked_by"
COUNT_OF_ATTEMPT = "SELECT COUNT(*) AS items FROM work_item WHERE attempt_id = :attempt_id"
LOG = """
INSERT INTO work_item_log (item_id, position, at, text)
VALUES (:id, (SELECT COALESCE(MAX(position), 0) + 1 FROM work_item_log WHERE item_id = :id), :at, :text)
"""
LOGS = "SELECT at, text FROM work_item_log WHERE item_id = :id ORDER BY position"


class WorkItems(TableGateway):
    """The items of a repository; none is ever deleted."""

    def put(self, item: WorkItem, *, attempt: str = "") -> None:
        """Store an item, or its changes; `attempt` is the one that files it, for a new item."""
        self._connection.write(
            PUT,
            **struct_columns(
                item,
                parent_id=item.parent,
                labels=NAMES.write(item.labels),
                run_id=item.run,
                action_key=item.action,
                attempt_id=attempt,
            ),
            at=self._now_text(),
        )
        self._connection.write(UNBLOCK, id=item.id)
        self._connection.write_each(BLOCK, [{"id": item.id, "blocked_by": each} for each in item.blocked_by])

    def log(self, item_id: str, text: str) -> None:
        """Add an entry to the item's log."""
        self._connection.write(LOG, id=item_id, at=self._now_text(), text=text)

    def logs(self, item_id: str) -> tuple[ItemLog, ...]:
        """Return the item's log, oldest first."""
        return tuple(ItemLog(parse_time(row["at"]), row["text"]) for row in self._connection.rows(LOGS, id=item_id))

    def all(self) -> Mapping[str, WorkItem]:
        """Return all items by id, oldest first."""
        blockers: dict[str, tuple[str, ...]] = {}
        for row in self._connection.rows(BLOCKERS):
            blockers[row["item_id"]] = (*blockers.get(row["item_id"], ()), row["blocked_by"])
        return {
            row["id"]: read_struct(
                WorkItem,
                row,
                parent=row["parent_id"],
                labels=NAMES.read(row["labels"]),
                blocked_by=blockers.get(row["id"], ()),
                run=row["run_id"],
                action=row["action_key"],
            )
            for row in self._connection.rows(ALL)
        }

    def count_of_attempt(self, attempt_id: str) -> int:
        """Return how many items the attempt has filed."""
        return int(self._connection.rows(COUNT_OF_ATTEMPT, attempt_id=attempt_id)[0]["items"])
