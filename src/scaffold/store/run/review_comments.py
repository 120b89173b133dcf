"""The comments of humans on changes."""

from scaffold.core.errors import IllegalTransition
from scaffold.core.ids import ActionId, RunId
from scaffold.core.review_comment import ReviewComment
from scaffold.store.driver.columns import read_struct, struct_columns
from scaffold.store.driver.gateway import TableGateway

ADD = """
INSERT INTO review_comment (id, run_id, action_id, attempt_id, number, base_sha, commit_sha, fingerprint, path,
                            first_line, last_line, before, quoted, text, author, sent_as, created_at, sent_at)
VALUES (:id, :run_id, :action_id, :attempt_id,
        (SELECT COALESCE(MAX(number), 0) + 1 FROM review_comment WHERE action_id = :action_id), :base_sha, :commit_sha,
        :fingerprint, :path, :first_line, :last_line, :before, :quoted, :text, :author, '', :created_at, NULL)
RETURNING *
"""
OF_ACTION = "SELECT * FROM review_comment WHERE action_id = :action_id ORDER BY number"
OF_RUN = "SELECT * FROM review_comment WHERE run_id = :run_id ORDER BY created_at, action_id, number"
MARK_SENT = """
UPDATE review_comment SET sent_as = :sent_as, sent_at = :now WHERE id = :id AND sent_as = '' RETURNING id
"""


class ReviewComments(TableGateway):
    """The comments on each action's changes; none is ever deleted."""

    def add(self, comment: ReviewComment) -> ReviewComment:
        """Store a draft and return it with its number."""
        (row,) = self._connection.write_returning(ADD, **struct_columns(comment))
        return read_struct(ReviewComment, row)

    def for_action(self, action_id: ActionId) -> tuple[ReviewComment, ...]:
        """Return the comments on an action's changes by number, drafts and discarded ones, too."""
        return tuple(read_struct(ReviewComment, row) for row in self._connection.rows(OF_ACTION, action_id=action_id))

    def for_run(self, run_id: RunId) -> tuple[ReviewComment, ...]:
        """Return the comments on all changes of a run, oldest first."""
        return tuple(read_struct(ReviewComment, row) for row in self._connection.rows(OF_RUN, run_id=run_id))

    def drafts(self, action_id: ActionId) -> tuple[ReviewComment, ...]:
        """Return the comments that wait to be sent, by number."""
        return tuple(each for each in self.for_action(action_id) if not each.sent_as)

    def mark_sent(self, comment: ReviewComment, sent_as: str) -> None:
        """Store how a draft was sent; raises IllegalTransition if it is none any more."""
        if not self._connection.write_returning(MARK_SENT, id=comment.id, sent_as=sent_as, now=self._now_text()):
            raise IllegalTransition(
                f"comment {comment.number} is no draft any more", "`scaffold review ACTION` shows what became of it."
            )
