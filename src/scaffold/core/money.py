"""Formatting of money."""


def format_usd(usd: float) -> str:
    """Return an amount in US dollars with two decimals; below $0.10, with two significant digits."""
    exponent = int(f"{usd:e}".rpartition("e")[2])
    digits = max(2, 1 - exponent)
    return f"${usd:,.{digits}f}"
