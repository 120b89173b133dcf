"""The MCP server that a program starts: `python -I -S tool_relay.py ADDRESS`. It only passes bytes on, to and from us.

ADDRESS is a Unix socket, or a file with a port of loopback and a token that is sent first. It ends with either side. It
must start fast, as some programs wait for it, so it is a separate script that uses the low-level C modules directly.
"""

import _socket
import _thread
import os
import stat
import sys

CHUNK_BYTES = 65536


def main(address: str) -> None:
    """Connect, pass on what comes, and exit once the other side has ended."""
    if stat.S_ISSOCK(os.stat(address).st_mode):  # noqa: PTH116 - without pathlib
        folder, name = os.path.split(address)
        os.chdir(folder)  # the bare name always fits into a socket address
        peer = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        peer.connect(name)
    else:
        with open(address, "rb") as file:  # noqa: PTH123 - likewise
            port, token = file.read().split()
        peer = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        peer.connect(("127.0.0.1", int(port)))
        peer.sendall(token)
    _thread.start_new_thread(_send_input, (peer,))
    while piece := peer.recv(CHUNK_BYTES):
        while piece:
            piece = piece[os.write(1, piece) :]
    # Even if there is more input: nobody would answer it.
    os._exit(0)


def _send_input(peer: _socket.socket) -> None:
    try:
        while piece := os.read(0, CHUNK_BYTES):
            peer.sendall(piece)
        peer.shutdown(_socket.SHUT_WR)
    except OSError:  # the owner has gone, which the other thread sees, too
        return


if __name__ == "__main__":
    main(sys.argv[1])
