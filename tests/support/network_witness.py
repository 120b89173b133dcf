"""Run commands in a network of their own, and write down what each asks for: `network_witness.py FILE`.

FILE has `{"commands": {"NAME": ["WORD", ...]}, "watched": ["FOLDER", ...]}`. The answer on the standard output has, by
name, the exit code, the output, every packet that opens something (names that are looked up, connections to any address
and port) and the new paths. All addresses are this machine here: nothing gets out, and connections are refused at once.
"""

import json
import socket
import struct
import subprocess  # noqa: TID251 - it runs on its own, before anything of ours is there
import sys
import tempfile
import threading
from pathlib import Path

EVERYTHING_IS_HERE = """
ip link set lo up
ip route add local default dev lo
ip -6 route add local default dev lo || echo "this machine has no IPv6"
"""
SHARED = ("/dev/shm", "/var/tmp")  # folders that programs use whatever TMPDIR says: empty ones of this namespace
ALL_PROTOCOLS = 3
IPV4, IPV6 = 0x0800, 0x86DD
TCP, UDP = 6, 17
SYN, ACK = 0x02, 0x10
BUFFER_BYTES = 1 << 23


def packets_of(data: bytes) -> str:
    """Return what a packet opens, as text; empty for one that opens nothing."""
    (kind,) = struct.unpack_from("!H", data, 12)
    if kind == IPV4:
        protocol, inner = data[23], data[14 + 4 * (data[14] & 15) :]
        address = socket.inet_ntop(socket.AF_INET, data[30:34])
    elif kind == IPV6:
        protocol, inner = data[20], data[54:]
        address = socket.inet_ntop(socket.AF_INET6, data[38:54])
    else:
        return ""
    if protocol == TCP and inner[13] & (SYN | ACK) == SYN:
        return f"tcp {address} {struct.unpack_from('!H', inner, 2)[0]}"
    if protocol != UDP:
        return ""
    port = struct.unpack_from("!H", inner, 2)[0]
    return f"lookup {_name_asked(inner[20:])}" if port == 53 else f"udp {address} {port}"


def _name_asked(question: bytes) -> str:
    labels, at = [], 0
    while at < len(question) and question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]].decode(errors="replace"))
        at += 1 + question[at]
    return ".".join(labels)


class Witness:
    """Listens to all packets of this network."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        self._found: list[str] = []
        self._marks = threading.Semaphore(0)
        self._end = b""
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while data := self._socket.recv(65_536):
            if self._end and self._end in data:
                self._marks.release()
            elif (opened := packets_of(data)) and opened not in self._found:
                self._found.append(opened)

    def taken(self) -> list[str]:
        """Return what was opened since the last time: all that was sent before a packet of our own has arrived."""
        self._end = b"the witness has seen all before this"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mark:
            mark.sendto(self._end, ("127.0.0.1", 9))
        self._marks.acquire()
        found, self._found = self._found, []
        return found


def run_witnessed(commands: dict[str, list[str]], watched: list[str]) -> dict[str, object]:
    """Run the commands, one after the other, and return what each did, also which paths are new in these folders."""
    witness, seen, before = Witness(), {}, paths_in(watched)
    for name, words in commands.items():
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        after = paths_in(watched)
        said, made = done.stdout + done.stderr, sorted(after - before)
        seen[name] = {"code": done.returncode, "said": said, "opened": witness.taken(), "made": made}
        before = after
    return seen


def paths_in(folders: list[str]) -> set[str]:
    """Return every file and folder in these folders."""
    return {str(path) for each in folders for path in Path(each).rglob("*")}


def main() -> None:
    """Prepare the network, and run the commands of the file that is named."""
    asked = json.loads(Path(sys.argv[1]).read_text())
    subprocess.run(["sh", "-ec", EVERYTHING_IS_HERE], check=True, capture_output=True)
    with tempfile.NamedTemporaryFile() as resolver:
        resolver.write(b"nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
        resolver.flush()
        subprocess.run(["mount", "--bind", resolver.name, "/etc/resolv.conf"], check=True)
        for folder in SHARED:
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True)
        print(json.dumps(run_witnessed(asked["commands"], [*asked["watched"], *SHARED])))


if __name__ == "__main__":
    main()
