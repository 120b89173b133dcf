"""Spending limits on the command line: checked like the settings, with an example in each error."""

from typing import Any

import click

from scaffold.config.schema.parsers import Parser, dollars, tokens
from scaffold.core.errors import UsageError


class LimitType(click.ParamType[int | float]):
    """A number that the parser of a setting accepts."""

    def __init__(self, name: str, number: type[int | float], parse: Parser, example: str) -> None:
        self.name = name
        self._number = number
        self._parse = parse
        self._example = example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ARG002 - click's signature
        """Return the number; UsageError if it is not a valid limit."""
        return self.checked(param.opts[0] if param is not None else self.name, value)

    def checked(self, flag: str, value: Any) -> Any:
        """Return the number that a flag was given; UsageError if it is not a valid limit."""
        fix = f"Write it like `{flag} {self._example}`; without the flag, the usual limits hold."
        try:
            number = self._number(value)
        except (ValueError, OverflowError) as error:
            raise UsageError(f"{flag} must be {self.name}, not `{value}`", fix) from error
        try:
            return self._parse(number)
        except ValueError as error:
            raise UsageError(f"{flag} must be {error}, not `{value}`", fix) from error


DOLLARS = LimitType("an amount in dollars", float, dollars, "2.50")


def require_dollars(flag: str, value: float) -> None:
    """Raise UsageError unless the value of a flag is a limit in dollars."""
    DOLLARS.checked(flag, value)


budget_usd_option = click.option(
    "--budget-usd", type=DOLLARS, metavar="X", help="Spending limit, in dollars; replaces the tier's limit in tokens."
)
budget_tokens_option = click.option(
    "--budget-tokens",
    type=LimitType("a whole number of tokens", int, tokens, "300000"),
    metavar="N",
    help="Limit in tokens: input that no cache has, and output.",
)
