"""How much of what a session sends its provider has read before, as the provider would count it."""

from collections.abc import Iterator

from loopback import run_program
from ralph_start import ask, ralph_setup
from row import Row, row

WIRES = ("anthropic", "openai", "openai-chat")
CALLS = 5
REQUESTS = 5
UNCACHED = 0.15


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield, for each wire: the tokens no cache had, against all tokens, of a session over several calls of `ralph`.

    Each call goes on with the conversation: 25 requests, of which each fifth ends a call.
    """
    calls, wires = (2, WIRES[:1]) if quick else (CALLS, WIRES)
    for wire in wires:
        with ralph_setup() as setup:
            for number in range(calls):
                flags = ["-c"] if number else []
                argv = ask(f"{wire}:bench-{REQUESTS - 1}-0-cached", *flags, task=f"Go on with part {number} of it.")
                run_program(argv, cwd=setup.cwd, env=setup.env)
            result = setup.provider.received()
        if result.requests != calls * REQUESTS:
            raise AssertionError(result)
        fresh = result.input_tokens - result.cached_tokens
        yield row(f"ralph-uncached-{wire}", fresh, result.input_tokens, unit="tokens", goal=UNCACHED)
