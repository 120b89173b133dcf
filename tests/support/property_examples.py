"""The number of examples of property tests: all of them in CI, a fifth otherwise."""

import os

THOROUGH = "SCAFFOLD_THOROUGH" in os.environ


def up_to(examples: int) -> int:
    """Return how many of `examples` to try now, and at least twenty."""
    return examples if THOROUGH else max(20, examples // 5)
