from scaffold.policy.shell.parsed_command import Word
from scaffold.policy.shell.reading.readonly_arguments import ReadAccess
from scaffold.policy.shell.reading.readonly_git import ConfiguredProgram, analyze_git, any_program_setting


def read(command: str, *settings: str) -> ReadAccess | ConfiguredProgram | str:
    return analyze_git(tuple(map(Word, command.split())), settings)


def test_a_setting_that_names_a_program_counts_if_git_runs_it():
    """RA-14."""
    rows = [
        ("core.fsmonitor", "status", "branch"),
        ("core.fsmonitor", "show :a", ""),
        ("core.hookspath", "status", "log"),
        ("hook.post-index-change", "status", "log"),
        ("core.worktree", "diff", "log"),
        ("filter.x.clean", "blame f", "rev-parse HEAD"),
        ("filter.x.process", "diff", "branch"),
        ("filter.a.b.smudge", "status", "branch"),
        ("diff.external", "diff", "status"),
        ("diff.x.textconv", "show HEAD", "status"),
        ("diff.x.command", "log -p", "status"),
        ("log.showsignature", "log", "status"),
        ("gpg.program", "log", "status"),
        ("gpg.ssh.program", "tag", "ls-files"),
        ("pretty.mine", "show --format=mine", "diff"),
        ("format.pretty", "log", "status"),
        ("tag.sort", "tag", "diff"),
        ("alias.whatchanged", "whatchanged", "log"),
        ("embedded.vendor/lib", "status", "log"),
        ("core.pager", "log", ""),
        ("pager.log", "log", ""),
        ("extensions.partialclone", "cat-file -p HEAD", ""),
        ("remote.origin.promisor", "show HEAD", ""),
    ]
    for setting, runs, runs_not in rows:
        assert read(runs, setting) == ConfiguredProgram(setting), setting
        assert isinstance(read(runs), ReadAccess), setting
        if runs_not:
            assert isinstance(read(runs_not, setting), ReadAccess), setting


def test_other_settings_run_nothing():
    """RA-14."""
    settings = ("user.name", "core.bare", "remote.origin.url", "hook.pre-commit", "branch.main.merge", "tag.gpgsign")
    assert isinstance(read("status", *settings), ReadAccess)
    assert any_program_setting(settings) is None


def test_an_allow_rule_does_not_cover_a_program_named_in_a_setting():
    """RA-14."""
    assert any_program_setting(("user.name", "Filter.lfs.clean")) == "Filter.lfs.clean"
    assert any_program_setting(("merge.x.driver",)) == "merge.x.driver"


def test_more_settings_that_name_programs():
    """RA-13, RA-14: what a push, a commit or a page of help would run."""
    settings = [
        *("credential.helper", "credential.https://a.example.helper", "trailer.sign.command", "pager.log"),
        *("protocol.ext.allow", "url.ext::sh.insteadof", "gpg.ssh.defaultkeycommand", "lfs.extension.x.clean"),
        *("core.pager", "browser.x.cmd", "init.templatedir", "interactive.diffFilter", "sendemail.smtpCmd"),
    ]
    assert [setting for setting in settings if any_program_setting(("user.name", setting)) != setting] == []


def test_an_alias_counts_for_the_command_of_its_name():
    """RA-13, RA-14."""
    assert any_program_setting(("alias.Up",), "up") == "alias.Up"
    assert any_program_setting(("alias.up",), "commit") is None


def test_a_format_that_checks_signatures_does_more_than_read():
    """RA-13, RA-14: git runs gpg for it, or the program that `gpg.program` names."""
    commands = [
        *(
            "log --format=%G?",
            "log --pretty=format:%h%GS",
            "show --format=%+G?",
            "log --format=%-GK",
            "stash list --format=%G?",
        ),
        *("branch --format=%(signature)", "tag -l --format %(*signature:grade)", "for-each-ref --sort=-signature:key"),
        *("tag --sort=signature", "rev-list --pretty=%G? HEAD", "reflog --format=%G?"),
    ]
    assert [command for command in commands if "checks signatures" not in str(read(command))] == []


def test_other_formats_and_keys_only_read():
    """RA-14."""
    commands = (
        "log --format=%h%x09%an",
        "branch --sort=-committerdate",
        "tag -l --sort=v:refname",
        "log -- signature.py",
    )
    assert all(isinstance(read(command), ReadAccess) for command in commands)


def test_a_file_in_a_revision_is_a_path_too():
    """RA-14: `HEAD:.env` is read like `.env`."""
    assert read("show HEAD:.env") == ReadAccess((Word("HEAD:.env"), Word(".env")))


def test_a_value_is_never_a_flag_in_disguise():
    """RA-14: `-M` takes no value from the next word."""
    assert isinstance(read("diff -M --output=x"), str)
    assert isinstance(read("log -n --output=x"), str)
    assert isinstance(read("diff -U --output=x"), str)
