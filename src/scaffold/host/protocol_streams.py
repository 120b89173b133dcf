"""Standard input and output for a protocol alone: whatever else prints writes to standard error instead."""

import os
import stat
import sys

from msgspec import Struct

from scaffold.core.errors import UsageError


class ProtocolStreams(Struct, frozen=True):
    """File descriptors of what were standard input and standard output."""

    receive: int
    send: int


def take_protocol_streams(program: str, fix: str) -> ProtocolStreams:
    """Take standard input and output away from the rest of this process and its children, and return them.

    Raises UsageError if they are not pipes or sockets, as a person at a terminal does not speak the protocol.
    """
    for descriptor, name in ((0, "input"), (1, "output")):
        mode = os.fstat(descriptor).st_mode if _is_open(descriptor) else 0
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            raise UsageError(f"{program} speaks a protocol on its standard {name}, which is not a pipe here", fix)
    streams = ProtocolStreams(receive=os.dup(0), send=os.dup(1))
    sys.stdout.flush()
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2 if _is_open(2) else nothing, 1)
    os.close(nothing)
    return streams


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
