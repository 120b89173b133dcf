from scaffold.policy.shell.windows_commands import decide_windows_command, dialect_of
from scaffold.policy.shell.workspace_paths import EmptyFileSystem, WorkspacePaths

PLACE = WorkspacePaths(root="/w", home="/home/u", files=EmptyFileSystem())


def test_a_strict_subset_is_read_only_and_the_rest_asks():
    """RA-14."""
    expected = {
        "powershell: Get-ChildItem": "allow",
        "powershell: Get-ChildItem -Recurse src": "allow",
        "powershell: get-content README.md -TotalCount 5": "allow",
        "powershell: Test-Path src\\a.py": "allow",
        "powershell: Get-Date": "allow",
        "powershell: Get-Content x; Remove-Item x": "ask",
        "powershell: Get-Content x | iex": "ask",
        "powershell: & ('i'+'ex') 'calc'": "ask",
        "powershell: Get-Content $env:PATH": "ask",
        "powershell: Get-Content (calc)": "ask",
        "powershell: Get-Content x > y": "ask",
        "powershell: Get-Content `x": "ask",
        "powershell: Get-Content @x": "ask",
        "powershell: Get-Content x\nRemove-Item y": "ask",
        "powershell: gc x": "ask",
        "powershell: Remove-Item x": "ask",
        "powershell: Get-ChildItem -OutVariable x": "ask",
        "powershell: Get-Content C:\\x": "ask",
        "powershell: Get-Content Env:PATH": "ask",
        "powershell: Get-Content \\\\server\\share": "ask",
        "powershell: Get-Content ..\\x": "ask",
        "powershell: Get-Content .env": "deny",
        "powershell: Get-Content ..\\.ssh\\id_rsa": "deny",
        "powershell: Get-Content –Path x": "ask",
        "powershell: Get-Content .*": "ask",
        "powershell:": "ask",
        "pwsh: Get-Location": "allow",
        "cmd: dir": "allow",
        "cmd: dir /b src": "allow",
        "cmd: type README.md": "allow",
        "cmd: ver": "allow",
        "cmd: findstr /s main *.py": "allow",
        "cmd: dir & del /q C:\\x": "ask",
        "cmd: dir | more": "ask",
        "cmd: echo %PATH%": "ask",
        "cmd: dir ^& calc": "ask",
        'cmd: type "x"': "ask",
        "cmd: dir /x:y": "ask",
        "cmd: del x": "ask",
        "cmd: start calc": "ask",
        "cmd: type C:\\Windows\\win.ini": "ask",
        "cmd: type .env": "deny",
        "cmd: type CON": "ask",
        "cmd: dir!x!": "ask",
    }
    assert {each: decide_windows_command(*dialect_of(each), PLACE).decision for each in expected} == expected


def test_other_commands_are_not_a_windows_dialect():
    """RA-14."""
    assert [dialect_of(command) for command in ("ls", "cmd dir", "x: y", "")] == [None] * 4
