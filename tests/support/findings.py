"""What a finding says apart from its words: for tests that do not own a message."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from scaffold.core.errors import PlanInvalid
from scaffold.core.plan import Finding


def fault(finding: Finding) -> str:
    """Return the code, the path before the message, and the names, values and cycles in the message."""
    path, colon, words = finding.message.partition(": ")
    if not colon or " " in path:
        path, words = "", finding.message
    named = ["".join(groups) for groups in re.findall(r"`([^`]*)`|(\S+(?: -> \S+)+)", words)]
    return " ".join([finding.code, *([path] if path else []), *named])


def refused_at(read: Callable[..., Any], *given: Any) -> tuple[str, tuple[int | None, int | None]]:
    """Return the code, the line and the column of the first finding for which `read(*given)` refuses a text."""
    with pytest.raises(PlanInvalid) as refused:
        read(*given)
    first = refused.value.findings[0]
    return first.code, (first.line, first.column)
