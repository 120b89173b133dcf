"""`completion`: print what makes a shell complete the commands."""

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
PROGRAMS = ("scaffold", "ralph")


@click.command()
@click.argument("shell", metavar="bash|zsh|fish", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script for your shell: it completes commands, options, runs, goals, actions, settings and values.

    For bash and zsh, add `eval "$(scaffold completion bash)"` to ~/.bashrc or ~/.zshrc, with your shell's name; for
    fish, `scaffold completion fish | source` to ~/.config/fish/config.fish.
    """
    found = get_completion_class(shell)
    if found is None:
        raise LookupError(shell)
    context = click.get_current_context()
    for program in PROGRAMS:
        script = found(context.find_root().command, {}, program, f"_{program.upper()}_COMPLETE")
        click.echo(found.source_template % script.source_vars())
