"""Amounts of money, as people read them."""


def dollars(usd: float) -> str:
    """Return an amount in US dollars: cents, and below a dime as many digits as show the first two that count."""
    exponent = int(f"{usd:e}".rpartition("e")[2])
    digits = max(2, 1 - exponent)
    return f"${usd:,.{digits}f}"
