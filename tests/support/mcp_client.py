"""A client of MCP servers on standard streams: for programs of tests, which import nothing of ours."""

import json
import subprocess  # noqa: TID251 - it runs alone, in a sandbox
import sys


class McpClient:
    """Starts a server, and talks to it one request at a time."""

    def __init__(self, command, env=None):
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        self._number = 0
        client = {"name": "test", "version": "1"}
        self.request("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        self.send(method="notifications/initialized")

    def send(self, **message):
        """Send a message as it is."""
        self._server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._server.stdin.flush()

    def request(self, method, **params):
        """Return the result of a request; EOFError once the server has ended."""
        self._number += 1
        self.send(id=self._number, method=method, params=params)
        while line := self._server.stdout.readline():
            answer = json.loads(line)
            if answer.get("id") == self._number:
                return answer["result"]
        raise EOFError

    def call(self, name, args):
        """Return the text of a call's result, and whether it failed."""
        result = self.request("tools/call", name=name, arguments=args)
        return "".join(each["text"] for each in result["content"]), result["isError"]

    def close(self):
        """End the server by the end of its input; return its exit code."""
        self._server.stdin.close()
        return self._server.wait()


if __name__ == "__main__":
    client = McpClient(json.loads(sys.argv[1]))
    names = [tool["name"] for tool in client.request("tools/list")["tools"]]
    answers = [client.call(name, args) for name, args in json.loads(sys.argv[2])]
    print(json.dumps({"tools": names, "answers": answers, "code": client.close()}))
