"""Text from outside, made fit for databases, prompts, wires and screens."""


def legible(text: str) -> str:
    r"""Return `text` with what UTF-8 cannot carry (odd bytes of file names, halves of pairs) written as `\udcNN`."""
    return text.encode(errors="backslashreplace").decode()
