"""The group of all verbs, by click: its help, and the way from a command line to the verb that it names."""

from __future__ import annotations

from importlib import import_module

import click

from .. import __version__
from ..errors import Aborted, UsageError
from ..secrets import ProcessKey
from .door import ALIASES, VERBS


class Verbs(click.Group):
    """Commands that are imported only when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in VERBS:
            module, function = VERBS[cmd_name][0], cmd_name
        elif cmd_name in ALIASES:
            module, function = ALIASES[cmd_name]
        else:
            return None
        command: click.Command = getattr(import_module(f".{module}", __package__), function.replace("-", "_") + "_verb")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[:2] in (["crypt", "-e"], ["crypt", "-d"]):  # how the original's utility.sh calls its Cryptor
            args = ["Cryptor", *args[1:]]
        if (
            args
            and not args[0].startswith("-")
            and self.get_command(ctx, args[0]) is None
            and not ctx.resilient_parsing
        ):
            from .habits import no_such_verb

            raise no_such_verb(args, [*VERBS, *ALIASES])
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, text) for name, (_, text) in VERBS.items()])


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="odf")
def odf() -> None:
    """OpenDataFlow: which chunk may I process next?

    Every verb takes --store URL, --env NAME, --json and --debug. See: odf VERB --help
    """


def call(arguments: list[str], taken: ProcessKey) -> int:
    """Run the verb that a command line names, and return its exit code."""
    try:
        result = odf.main(arguments, prog_name="odf", standalone_mode=False, obj=taken)
    except click.exceptions.Exit as done:
        return done.exit_code
    return result if isinstance(result, int) else 0


def named(error: BaseException) -> BaseException:
    """An error of click as one of ours; any other as it is."""
    match error:
        case click.exceptions.Abort():
            interrupted = isinstance(error.__cause__, KeyboardInterrupt)  # in the middle of work, not at a prompt
            return Aborted("interrupted" if interrupted else "nothing was changed")
        case click.UsageError():
            command = error.ctx.command_path if error.ctx else "odf"
            return UsageError(error.format_message(), hint=f"See: {command} --help")
        case click.ClickException():
            return UsageError(error.format_message())
    return error
