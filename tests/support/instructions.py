"""Work counted in instructions of the interpreter, so that the speed of the machine does not matter."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def executed_instructions(work: Callable[[], object]) -> int:
    """Return how many instructions `work()` executes; what C code does within one does not count."""
    count, before = 0, sys.gettrace()

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
