"""`audit`: the requirements of a specification with what the last audit says of each."""

import os
import sys
from pathlib import Path

import click

from scaffold.cli.commands.options import json_option, pageable
from scaffold.cli.render.audit_text import audit_text
from scaffold.cli.render.status_text import no_run_text
from scaffold.cli.render.terminal.style import print_json
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.core.model import Run
from scaffold.views.compliance import compliance_json, read_compliance
from scaffold.views.store_reader import find_run_if_any, store_reader_if_any

NOT_AUDITED = "is not audited: start one with `scaffold run --spec FILE --until-complied`"


@click.command()
@click.argument("run_name", metavar="[RUN]", required=False)
@json_option
@pageable
def audit(run_name: str | None, *, as_json: bool) -> None:
    """Show each requirement of RUN's specification (default: the latest run): verdict, cited lines, what is missing.

    A verdict is what an agent says. It counts as met only with lines that exist, and it makes no fact.
    """
    with store_reader_if_any(Path.cwd(), os.environ) as reader:
        run: Run | None = find_run_if_any(reader, run_name)
        with_audits = read_compliance(reader.store, run) if reader and run else None
    if as_json:
        print_json({"run": run.id if run else None, "audit": compliance_json(with_audits) if with_audits else None})
    elif run is None:
        print_text(no_run_text())
    elif with_audits is None:
        print_text(f"run {run.id} {NOT_AUDITED}")
    else:
        click.echo(audit_text(with_audits, layout_for(sys.stdout)))
