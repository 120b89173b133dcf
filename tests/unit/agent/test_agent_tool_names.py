from scaffold.agent.toolbox import meant_tool

TOOLS = ("read_file", "write_file", "edit", "shell", "search_files", "glob")


def test_a_name_of_other_agents_or_a_similar_one_leads_to_the_tool():
    """RA-4: only to a tool that the agent has."""
    table = {
        "readFile": "read_file",
        "Read": "read_file",
        "read-file": "read_file",
        "bash": "shell",
        "Bash": "shell",
        "run_terminal_cmd": "shell",
        "str_replace_editor": "edit",
        "grep": "search_files",
        "serch_files": "search_files",
        "todo_write": "",
        "frobnicate": "",
        "": "",
    }
    assert {name: meant_tool(name, TOOLS) for name in table} == table
