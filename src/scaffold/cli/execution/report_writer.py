"""Write the report of a run as an HTML page."""

from pathlib import Path

from scaffold.cli.render.terminal.style import print_note
from scaffold.core.ids import RunId
from scaffold.core.model import Run
from scaffold.git.refs import resolve
from scaffold.host.startup import importing
from scaffold.orchestrator.owner.run_lease import require_run
from scaffold.run.context import RunContext
from scaffold.run.projections import report_name
from scaffold.views.changes.review_view import read_review
from scaffold.views.changes.reviewed_change import cleaned_change
from scaffold.views.changes.taken_work import with_taken
from scaffold.views.run_view import read_run_view
from scaffold.views.store_reader import is_executed
from scaffold.worker.contract.checkout_files import ignore_projections


async def write_end_report(context: RunContext, run_id: RunId) -> Path | None:
    """Write the report of a run that this process no longer executes, and return its path.

    Return None if another process executes the run and will write the report, or if writing fails. A failure is printed
    as a note and does not change how the run ended. `scaffold open` writes a report at any time.
    """
    try:
        run = require_run(context.store, run_id)
        return None if is_executed(run) else await write_report(context, run)
    # A boundary: the run has ended, and neither a full disk nor a bug in the page may change its exit code.
    except Exception as error:  # noqa: BLE001
        why = getattr(error, "strerror", None) or error
        print_note(f"the report of run {run_id} was not written ({why}); try `scaffold open {run_id}`")
        return None


async def write_report(context: RunContext, run: Run) -> Path:
    """Write the report of a run as it is now, in place of an earlier one, and return its path; OSError if it cannot."""
    view = await with_taken(context.git, context.store, read_run_view(context, run))
    redactor = context.redactor
    with importing():  # needed only at the end of a run
        from scaffold.pages.page import read_content, report_page
        from scaffold.pages.review_section import PageReview
    review = None
    head = await resolve(context.git, run.session_ref)
    if head is not None and head != run.base_sha:
        found = await read_review(context.git, context.store, view, head)
        change = cleaned_change(found.change, redactor.clean)
        review = PageReview(change=change, comments=found.comments, rest=f"scaffold review {run.id}")
    content = read_content(context, view, redactor)
    page = report_page(content, review, root=context.repository.root, clean=redactor.clean)
    preferred, other = (top / report_name(run.id) for top in context.projection_places)
    try:
        ignore_projections(context)
        preferred.write(page.encode())
    except OSError:
        # A folder that may not be written, or one that a sandboxed command has put a socket in place of.
        other.write(page.encode())
        return other.path
    return preferred.path
