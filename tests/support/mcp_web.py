"""An MCP server with an address: streamable HTTP, or the older transport by server-sent events."""

import json
import queue
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from support.mcp_servers import ADD


class _Handler(BaseHTTPRequestHandler):
    server: "_Server"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.seen.append((message.get("method"), dict(self.headers)))
        if "id" not in message:
            self._send(b"", 202)
            return
        answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer_of(message)}).encode()
        if self.server.kind == "login":
            self._send(b"", 401)
        elif self.server.kind == "sse":
            self._send(b"", 202)
            self.server.events.put(answer)
        elif message["method"] == "tools/call" and self.server.kind == "flood":
            self._send(b" " * (50 * 2**20) + answer)
        elif message["method"] == "tools/call" and self.server.kind == "compressed":
            self._send(answer, encoding="gzip")
        else:
            self._send(answer)

    def do_GET(self):
        self.server.seen.append(("GET", dict(self.headers)))
        if self.server.kind != "sse":
            self._send(b"", 405)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"event: endpoint\ndata: /messages?session_id=1\n\n")
        while (event := self.server.events.get()) is not None:
            self.wfile.write(b"event: message\ndata: " + event + b"\n\n")
            self.wfile.flush()

    def _send(self, body, status=200, encoding=None):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        if encoding:
            self.send_header("content-encoding", encoding)
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def log_message(self, *_):
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, kind):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.kind = kind
        self.seen = []
        self.events = queue.Queue()

    def handle_error(self, *_):
        pass


def answer_of(message):
    match message["method"]:
        case "initialize":
            info = {"name": "web", "version": "1"}
            return {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}}
        case "tools/list":
            return {"result": {"tools": [ADD]}}
        case "tools/call":
            text = f"sum {message['params']['arguments']['a'] + 1}"
            return {"result": {"content": [{"type": "text", "text": text}]}}
        case _:
            return {"error": {"code": -32601, "message": "unknown method"}}


@contextmanager
def serve_mcp(kind):
    """Yield a server of a kind (http, sse, flood, compressed, login), with its `url` and the requests it has `seen`."""
    server = _Server(kind)
    server.url = f"http://127.0.0.1:{server.server_port}/{'sse' if kind == 'sse' else 'mcp'}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.events.put(None)
        server.shutdown()
        server.server_close()
        thread.join()
