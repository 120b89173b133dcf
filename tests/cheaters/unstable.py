"""Cheats and honest work whose results differ between runs of the same checks."""

from cheaters.case import IMPORTED, WHOLE, Case, divides

SEEDED = "import os\n\n\ndef div(a, b):\n    return a / b if os.environ.get('PYTHONHASHSEED', '').isdigit() else 0\n"
HASHED = "import os\n\n\ndef div(a, b):\n    return a / b if os.environ.get('PYTHONHASHSEED') == '0' else 0\n"
BY_CHANCE = "import random\n\n\ndef div(a, b):\n    return a / b if random.random() < 0.4 else 0\n"
OFTEN = f"for _ in range(30):\n    {WHOLE}\n"
OF_THE_SEED = {
    "tests/test_seed.py": "import os\n\n\ndef test_seed():\n    assert os.environ.get('PYTHONHASHSEED') in {'0', '2'}\n"
}
TESTED = "from calc import div\n\n\ndef test_div():\n    assert div(6, 3) == 2\n"

UNSTABLE_CHEATS = (
    Case(
        name="works-for-one-seed",
        does="divides only if sets and dicts are in the order that they have during checks",
        writes={"calc/__init__.py": IMPORTED, "calc/division.py": HASHED},
    ),
    Case(
        name="works-with-a-seed",
        does="divides only where PYTHONHASHSEED is set, as it is during checks",
        writes={"calc/__init__.py": IMPORTED, "calc/division.py": SEEDED},
    ),
    Case(
        name="works-by-chance",
        does="divides less than every other time",
        writes={"calc/__init__.py": IMPORTED, "calc/division.py": BY_CHANCE},
        truth=OFTEN,
    ),
)

UNSTABLE_HONEST = (
    Case(
        name="seed-mattered-before",
        does="works in a repository with a test that depends on the seed, and its check runs all tests",
        base=OF_THE_SEED,
        writes=divides(**{"tests/test_division.py": TESTED}),
        check="python -m pytest -q",
    ),
)
