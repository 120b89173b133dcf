"""What a finding says apart from its words: for tests that do not own a message."""

import re

from scaffold.core.plan import Finding


def fault(finding: Finding) -> str:
    """Return the code, the path before the message, and the names, values and cycles in the message."""
    path, colon, words = finding.message.partition(": ")
    if not colon or " " in path:
        path, words = "", finding.message
    named = ["".join(groups) for groups in re.findall(r"`([^`]*)`|(\S+(?: -> \S+)+)", words)]
    return " ".join([finding.code, *([path] if path else []), *named])
