from scaffold.policy.path.protected_files import PROTECTED_FILES, protected_entry


def test_files_that_git_shells_and_agents_execute_or_that_grant_access_are_protected():
    """RA-14."""
    expected = {
        ".git/config": ".git",
        "deps/lib/.git/hooks/post-checkout": ".git",
        ".GIT/config": ".git",
        ".env": ".env*",
        "config/.env.production": ".env*",
        "certs/server.pem": "*.pem",
        "/home/ann/.ssh/authorized_keys": ".ssh",
        "keys/id_ed25519": "id_ed25519*",
        "/home/ann/.aws/credentials": ".aws",
        "/home/ann/.config/gh/hosts.yml": ".config/gh",
        "/home/ann/.docker/config.json": ".docker/config.json",
        "/home/ann/.bashrc": ".bashrc",
        ".scaffold/contracts/a-draft.json": ".scaffold",
        ".scaffold.yaml": ".scaffold.yaml",
        "sub/.mcp.json": ".mcp.json",
        ".claude/settings.local.json": ".claude/settings.local.json",
        "app/.cursor/rules/x.mdc": ".cursor",
        ".vscode/tasks.json": ".vscode/tasks.json",
        r"sub\.git\config": ".git",
    }
    assert {path: protected_entry(path) for path in expected} == expected


def test_names_match_only_whole_segments():
    """RA-14."""
    paths = [
        *("src/environment.py", "docs/git.md", ".gitignore", ".github/workflows/ci.yml", "src/id_map.py"),
        *("pem/readme.md", "my.scaffold/x", ".config/ghost/x", ".docker/other.json", ".claude/notes/a.md", "profile"),
        *("", "."),
    ]
    assert [path for path in paths if protected_entry(path) is not None] == []


def test_each_entry_protects_itself_and_everything_inside():
    """RA-14: every line of the list holds."""
    for entry in PROTECTED_FILES:
        name = entry.replace("*", "x")
        assert protected_entry(name)
        assert protected_entry(f"a/{name.upper()}/b")


def test_env_templates_are_free_and_env_files_are_not():
    """RA-14: a template contains no secret."""
    names = [".env.example", "app/.ENV.Sample", ".env.dist", ".env.production", ".env.example.local"]
    assert [protected_entry(name) for name in names] == [None, None, None, ".env*", ".env*"]
