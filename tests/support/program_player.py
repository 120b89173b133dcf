"""A program that plays a recorded stream on its standard streams: `program_player.py STREAM [ARGUMENT ...]`.

A stream has one step in a line, of which the first character says what it is:

    # a comment
    > {"type": "user"}      wait for a line with these values, whatever else it has
    < {"type": "result"}    write this line
    <~ not a message        write this text
    ! exit 3                end, with this exit code
    ! kill                  end, as if the system had killed it
    ! hang                  write nothing more, until its input or it is ended
    ! write PATH            create a file, if that is allowed
    ! child                 start a process in a session of its own; its id is in `child.pid`
"""

import json
import os
import signal
import sys
from pathlib import Path


def main() -> None:
    """Play the stream to its end."""
    for step in Path(sys.argv[1]).read_text().splitlines():
        kind, _, rest = step.partition(" ")
        if kind == ">":
            _await_line(json.loads(rest))
        elif kind in {"<", "<~"}:
            print(rest, flush=True)
        elif kind == "!":
            _act(*rest.split(" ", 1))


def _await_line(expected: object) -> None:
    for line in sys.stdin:
        if _contains(json.loads(line), expected):
            return
    sys.exit(0)


def _contains(value: object, expected: object) -> bool:
    if isinstance(expected, dict):
        return isinstance(value, dict) and all(_contains(value.get(key), part) for key, part in expected.items())
    if isinstance(expected, list):
        return isinstance(value, list) and len(value) == len(expected) and all(map(_contains, value, expected))
    return value == expected


def _act(what: str, argument: str = "") -> None:
    match what:
        case "exit":
            sys.exit(int(argument))
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            sys.stdin.read()
        case "write":
            try:
                Path(argument).write_text("written\n")
            except OSError as error:
                print(error, file=sys.stderr)
        case "child":
            _start_child()
        case _:
            sys.exit(f"no such step: {what}")


def _start_child() -> None:
    if child := os.fork():
        Path("child.pid").write_text(f"{child}\n")
        return
    os.setsid()
    os.close(1)
    signal.pause()


if __name__ == "__main__":
    main()
