"""How many examples a property is tried with: all in the slow lane, a fifth when somebody waits for the answer."""

import os

THOROUGH = "SCAFFOLD_THOROUGH" in os.environ


def up_to(examples: int) -> int:
    """Return how many of `examples` to try now, and never fewer than twenty."""
    return examples if THOROUGH else max(20, examples // 5)
