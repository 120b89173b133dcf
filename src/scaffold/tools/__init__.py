"""The built-in tools of an agent: files, search, commands, web pages, questions, memories, todos.

Enters: a call that passed the policy, with arguments that fit the tool's schema. Leaves: text for a model, and changes
inside one workspace. Nothing here decides what is allowed: `policy` does, and a sandbox holds commands. Start with
`workspace.py` and `catalog.py`; `content/` has what the file tools share.
"""
