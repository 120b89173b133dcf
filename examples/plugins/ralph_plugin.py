"""A kit for plugins of `ralph` in Python: copy it next to your plugin, and leave it not executable.

    plugin = Plugin("weather", version="1.0")

    @plugin.hook
    def context_enhance(params):
        return {"context": "It rains."}

    @plugin.tool("Look up the weather.", {"city": {"type": "string"}}, required=["city"])
    def look_up(city):
        return f"It rains in {city}."

    plugin.run()

A hook gets the params of docs/plugins.md, and returns its answer; None changes nothing. A tool gets its arguments, and
returns text; an exception is a failed call. What your code prints goes to standard error, so it breaks nothing.
"""

import json
import os
import sys


class Plugin:
    """A plugin: its name, hooks and tools."""

    def __init__(self, name, version="", priority=500):
        """Describe it; the lower the priority, the earlier its hooks run."""
        self._manifest = {"name": name, "version": version, "priority": priority, "hooks": [], "tools": []}
        self._methods = {"initialize": lambda params: self._manifest, "shutdown": lambda params: {}}
        self._tools = {}

    def hook(self, function):
        """Subscribe a function to the hook it is named like."""
        self._manifest["hooks"].append(function.__name__)
        self._methods[f"hook/{function.__name__}"] = lambda params: function(params) or {"action": "continue"}
        return function

    def tool(self, description, properties=None, required=()):
        """Offer a function as a tool of its name; `properties` are those of a JSON schema."""

        def offer(function):
            schema = {"type": "object", "properties": properties or {}, "required": list(required)}
            self._manifest["tools"].append({"name": function.__name__, "description": description, "schema": schema})
            self._tools[function.__name__] = function
            self._methods["tool/execute"] = self._execute
            return function

        return offer

    def run(self):
        """Answer requests until `shutdown`, or until there are no more."""
        answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        for line in sys.stdin.buffer:
            request = json.loads(line)
            answers.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **self._answer(request)}) + "\n")
            answers.flush()
            if request["method"] == "shutdown":
                return

    def _answer(self, request):
        method = self._methods.get(request["method"])
        if method is None:
            return {"error": {"code": -32601, "message": f"there is no method {request['method']}"}}
        try:
            return {"result": method(request.get("params", {}))}
        except Exception as error:  # a mistake in one hook should not end the others
            return {"error": {"code": -32000, "message": f"{type(error).__name__}: {error}"}}

    def _execute(self, params):
        try:
            return {"success": True, "result": str(self._tools[params["name"]](**params["arguments"]))}
        except Exception as error:  # the model is told, and may do it better
            return {"success": False, "result": f"{type(error).__name__}: {error}"}
