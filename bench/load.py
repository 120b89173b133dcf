"""How fast the provider answers: `python load.py PORT REQUESTS` prints seconds for one request, as JSON.

Nothing here takes time but the kernel: ready-made requests go out on many sockets, answers are thrown away.
"""

import json
import selectors
import socket
import sys
import time

SOCKETS = 50
BODY = json.dumps({"model": "bench-1-0", "stream": True, "messages": ["x" * 4000]}).encode()
ASKED = b"POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
END = b"\r\n0\r\n\r\n"


def main(port: int, requests: int) -> None:
    """Ask on all sockets at once, again on each that was answered."""
    chosen = selectors.DefaultSelector()
    for _ in range(min(SOCKETS, requests)):
        chosen.register(socket.create_connection(("127.0.0.1", port)), selectors.EVENT_READ)
    start, asked, open_ = time.monotonic(), 0, 0
    ready = [key.fileobj for key in chosen.get_map().values()]
    while ready or open_:
        for each in ready[: requests - asked]:
            assert isinstance(each, socket.socket)
            each.sendall(ASKED)
            asked, open_ = asked + 1, open_ + 1
        if not open_:
            break
        heard = [key.fileobj for key, _ in chosen.select()]
        ready = [each for each in heard if isinstance(each, socket.socket) and each.recv(65536).endswith(END)]
        open_ -= len(ready)
    json.dump((time.monotonic() - start) / requests, sys.stdout)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
