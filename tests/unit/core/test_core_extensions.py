from scaffold.core.extension_set import Extensions, Hook


def hook(*scripts):
    return Hook(
        event="Stop", matcher="", command="x", timeout_s=60, source=".claude/settings.json", own=False, scripts=scripts
    )


def test_the_scripts_of_a_project_are_those_that_its_hooks_name_below_it():
    """RA-16: each once, in the order of the hooks; absolute ones are none of the project's."""
    extensions = Extensions(hooks=(hook("a.sh", "/usr/bin/b"), hook("c.sh", "a.sh"), hook()))
    assert extensions.scripts == ("a.sh", "c.sh")
