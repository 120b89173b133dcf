"""`open`: the report of a run as a page, written from the store at any time."""

import os
import stat
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec import structs

from builders import a_turn, begin, fail, git, land, make_run, submit
from scaffold.cli.execution.report_writer import write_end_report
from scaffold.host.browser import open_in_browser
from scaffold.host.process.async_runner import run_async
from scaffold.orchestrator.owner.run_end import finish_run
from scaffold.pages.components import MAX_TEXT
from scaffold.run.failures.attempt_end import AttemptEnd, end_attempt
from scaffold.run.projections import report_name
from scaffold.views.run_history import read_history
from scaffold.views.run_view import read_run_view
from scaffold.views.store_reader import find_report
from support.html_page import Page
from support.report_views import spans_of


@pytest.fixture
def run(context, plan):
    """A run that was paused after one landing and one failure."""
    begun = begin(context, make_run(context, plan, attempts=2))
    land(context, begun, "store", {"store.py": "x = 1\n"})
    fail(context, begun, "api", {"api.py": "y = 2\n"}, error="make test: 1 failed")
    finish_run(context.store, begun, "paused")
    return context.store.runs.get(begun.id)


def place_of(context, run):
    return context.repository.root / ".scaffold" / "reports" / f"{run.id}.html"


@pytest.mark.slow
def test_the_page_is_written_and_its_path_printed(context, run, scaffold):
    """BX-1, BX-9: evidence with command, exit code and commit; nothing but the ignored folder is written, and anew."""
    written = scaffold("open")
    assert (written.code, written.out, written.err) == (0, f"{place_of(context, run)}\n", "")
    text = Page(place_of(context, run).read_text()).text
    landed = git(context.repository.root, "rev-parse", run.session_branch)
    assert f" exit 0 at {landed[:8]}" in text
    assert "make test: 1 failed" in text
    assert f"scaffold resume {run.id}" in text
    assert git(context.repository.root, "status", "--porcelain") == ""
    assert scaffold("open", run.id[:4], "--json").json == {"run": run.id, "path": str(place_of(context, run))}
    assert scaffold("open", "zzz").code == 64
    place_of(context, run).write_text("old")
    scaffold("open")
    assert place_of(context, run).read_text().startswith("<!doctype html>")
    assert [each.name for each in place_of(context, run).parent.iterdir()] == [f"{run.id}.html"]


def test_status_and_report_name_the_page_once_it_is_there(context, run, scaffold):
    """SC-19: with the path relative to where the user is; JSON is as it was."""
    keys = scaffold("status", "--json").json["run"].keys()
    assert "scaffold open" not in scaffold("status").out
    scaffold("open")
    hint = f"scaffold open {run.id} the report as a page: .scaffold/reports/{run.id}.html"
    assert scaffold("status").out.splitlines()[-1].split() == hint.split()
    assert scaffold("status", "--json").json["run"].keys() == keys
    assert scaffold("attach", run.id).out.splitlines()[-3].split() == hint.split()


def test_where_the_checkout_cannot_be_written_the_page_is_next_to_the_store(context, run, scaffold):
    """BX-9: the report is not lost, and `status` finds it there."""
    reports = place_of(context, run).parent
    reports.parent.mkdir(exist_ok=True)
    reports.write_text("a file in the way")
    other = context.repository.common_dir / "scaffold" / "reports" / f"{run.id}.html"
    assert scaffold("open").out == f"{other}\n"
    assert f"scaffold open {run.id}" in scaffold("status").out
    assert find_report(context.repository.root, run.id) == other


def test_a_run_ends_as_it_does_where_no_report_can_be_written(context, run, scaffold, capfdbinary):
    """SC-16: a note says why; the command that was asked for the report fails."""
    for place in (top.path / report_name(run.id) for top in context.projection_places):
        place.parent.parent.mkdir(exist_ok=True)
        place.parent.write_text("in the way")
    assert run_async(write_end_report(context, run.id)) is None
    note = capfdbinary.readouterr().err.decode()
    assert note.startswith("note: ")
    assert run.id in note
    assert scaffold("open").code == 1


class NoEnvironment(dict):
    """An environment that cannot be read."""

    def items(self):
        raise ValueError("unreadable")


def test_no_fault_at_all_changes_the_end_of_a_run(context, run, capfd):
    """SC-16: not only those that are expected."""
    assert run_async(write_end_report(structs.replace(context, environ=NoEnvironment()), run.id)) is None
    assert "(unreadable)" in capfd.readouterr().err


def test_secrets_are_not_in_the_page(context, plan, scaffold, monkeypatch):
    """BX-9: although an agent may have printed one, also if another one is a word of ours."""
    monkeypatch.setenv("DEPLOY_TOKEN", "hunter2-hunter2-hunter2")
    monkeypatch.setenv("OTHER_PASSWORD", "contract_failed")
    begun = begin(context, make_run(context, plan))
    assert run_async(write_end_report(context, begun.id)) is None
    assert not place_of(context, begun).exists(), "the run goes on"
    fail(context, begun, "store", {}, error="refused hunter2-hunter2-hunter2")
    finish_run(context.store, begun, "stopped")
    page = Path(scaffold("open").out.strip()).read_text()
    assert "hunter2" not in page
    assert "refused [redacted:DEPLOY_TOKEN]" in page


def test_no_half_of_a_secret_stays_where_a_text_is_cut(context, plan, scaffold, monkeypatch):
    """BX-9: redacted first, cut then, also if another secret is a word of ours."""
    monkeypatch.setenv("DEPLOY_TOKEN", "hunter2-hunter2-hunter2")
    monkeypatch.setenv("OTHER_PASSWORD", "contract_failed")
    begun = begin(context, make_run(context, plan))
    half = "x" * (MAX_TEXT * 2 // 3 - 12)
    fail(context, begun, "store", {}, error=f"first\n{half}hunter2-hunter2-hunter2{'y' * MAX_TEXT}")
    finish_run(context.store, begun, "stopped")
    assert "hunter2" not in Path(scaffold("open").out.strip()).read_text()


def browser_that_writes(folder, monkeypatch):
    """Make a browser that writes the address it is given, and return where."""
    seen, program = folder / "seen", folder / "browser"
    program.write_text(f"#!/bin/sh\necho \"$1\" > '{seen}'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("BROWSER", str(program))
    return seen


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS always has a browser")
def test_a_browser_is_opened_where_there_is_one(tmp_path, monkeypatch):
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    page = tmp_path / "a b.html"
    assert not open_in_browser(page, os.environ)
    seen = browser_that_writes(tmp_path, monkeypatch)
    assert open_in_browser(page, os.environ)
    assert seen.read_text() == f"{page.as_uri()}\n"


def test_the_history_has_each_attempts_phases_and_all_turns(context, plan):
    """SC-19: from the events, without gaps; what is open ends at the last change."""
    begun = begin(context, make_run(context, plan))
    first = submit(context, begun, "store", {"store.py": "x = 1\n"})
    with context.store.transaction():
        context.store.turns.begin(a_turn(begun))
    view = read_run_view(context, begun)
    history = read_history(context, view)
    assert [phase for phase, _ in spans_of(history, first.id)] == ["queued", "workspace", "executing", "candidate"]
    spans = history.spans[first.id]
    assert all(before.end == after.start for before, after in pairwise(spans))
    assert sum(seconds for _, seconds in spans_of(history, first.id)) == pytest.approx(
        (spans[-1].end - first.queued_at).total_seconds()
    )
    assert history.seconds_in(first, "executing") > 0
    assert [each.id for each in history.turns] == ["turn-1"]
    end_attempt(context.store, begun, first.id, AttemptEnd("cancelled", "no"))
    ended = context.store.attempts.get(first.id)
    assert read_history(context, read_run_view(context, begun)).spans[first.id][-1].end == ended.ended_at
