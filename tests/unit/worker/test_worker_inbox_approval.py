"""What a worker may do without asking, depending on its sandbox."""

from scaffold.core.run_settings import PermissionSettings
from scaffold.worker.human.inbox_approval import worker_rules


def test_file_tools_are_free_in_the_worktree_and_commands_in_a_sandbox():
    """RA-13."""
    table = {
        ("file_read", True): "allow",
        ("file_read", False): "allow",
        ("file_write", True): "allow",
        ("file_write", False): "allow",
        ("shell", True): "allow",
        ("shell", False): "ask",
        ("python", True): "allow",
        ("python", False): "ask",
        ("network", True): "ask",
        ("plugin", True): "ask",
    }
    assert {
        (category, confined): worker_rules(PermissionSettings(), confined=confined).decision_for(category)
        for category, confined in table
    } == table


def test_with_yolo_nothing_is_asked():
    """RA-13."""
    assert worker_rules(PermissionSettings(yolo=True), confined=False).yolo


def test_the_users_own_rules_apply_to_workers_too():
    """RA-13: a deny rule of the user cannot be lifted."""
    rules = worker_rules(PermissionSettings(allow=("shell:make test",), deny=("shell:make deploy",)), confined=True)
    assert [str(rule) for rule in (*rules.allow, *rules.deny)] == ["shell:make test", "shell:make deploy"]


def test_the_users_category_settings_only_restrict_a_worker():
    """RA-13: a sandbox lifts no restriction of the user, and a permissive user does not replace a sandbox."""
    table = {
        ("shell", "ask", True): "ask",
        ("shell", "deny", True): "deny",
        ("shell", "deny", False): "deny",
        ("shell", "allow", False): "ask",
        ("shell", "allow", True): "allow",
        ("file_write", "ask", True): "ask",
        ("python", "deny", True): "deny",
        ("network", "allow", True): "ask",
        ("file_read", "ask", True): "ask",
    }
    assert {
        (category, asked, confined): worker_rules(
            PermissionSettings(approvals={category: asked}), confined=confined
        ).decision_for(category)
        for category, asked, confined in table
    } == table
