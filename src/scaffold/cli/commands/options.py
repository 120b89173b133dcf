"""Options of several commands."""

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


run_option = click.option("--run", "run_name", metavar="RUN", help="The run; default: the latest.")
