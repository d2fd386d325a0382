"""What every verb shares: its common options, and an app that they make."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from ..model.definitions.ids import check_id
from ..secrets import take
from .app import App, answer

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_COMMON = (
    click.option("--debug", is_flag=True, help="Show where an error came from."),
    click.option("--json", "as_json", is_flag=True, help="Answer as JSON."),
    click.option("--env", metavar="NAME", help="The environment (or ODF_ENV)."),
    click.option("--store", "store_url", metavar="URL", help="The store (or ODF_STORE)."),
)

item_option = click.option(
    "--item",
    "items",
    metavar="NAME",
    multiple=True,
    help="Give this item of the job under its own name too, beside item_NAME. May be repeated.",
)


class Within(click.FloatRange):
    """A number between two others; nan, which is neither less nor more than anything, is not."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or a refusal."""
        if math.isnan(number := super().convert(value, param, ctx)):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return number


class Whole(click.IntRange):
    """A whole number between two others."""

    name = "whole number"


class StoreName(click.types.StringParamType):
    """A text that names something in the store, for the completion of a shell."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names that go on from what is typed."""
        from .completion import complete

        return complete(self.kind, ctx, incomplete)


class Verb(click.Command):
    """A command of ours; while a shell completes the value of an option, the words before it are known."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_open = ctx.resilient_parsing and args and args[-1].startswith("-")
        return super().parse_args(ctx, args[:-1] if is_open else args)


# What a parameter of this name is completed with.
_COMPLETED = {
    **dict.fromkeys(("job", "jobid", "jobids", "run_or_job"), "job"),
    **dict.fromkeys(("dataset", "datasets"), "dataset"),
    **dict.fromkeys(("dataid", "dataids"), "dataid"),
    "target": "target",
    "env": "env",
}


def verb(
    name: str | None = None, *, creates: bool = False, **settings: Any
) -> Callable[[Callable[..., Any]], click.Command]:
    """A command with the common options; the function gets an App first. One that creates makes a missing store."""

    def decorate(function: Callable[..., Any]) -> click.Command:
        def call(store_url: str | None, env: str | None, as_json: bool, debug: bool, **arguments: Any) -> Any:
            app = App(store_url, env, as_json, debug, creates, click.get_current_context().obj or take(os.environ))

            def work() -> Any:
                if arguments.get("why") and not arguments.get("dry_run"):
                    app.hide(_words(arguments), run=str(arguments.get("run", arguments.get("run_or_job", ""))))
                return function(app, **arguments)

            return answer(app, work)

        call.__doc__ = function.__doc__
        if hasattr(function, "__click_params__"):
            call.__click_params__ = function.__click_params__  # type: ignore[attr-defined]
        made: Any = call
        for option in _COMMON:
            made = option(made)
        decorated: Any = click.command(name or function.__name__.removesuffix("_verb"), **({"cls": Verb} | settings))
        command: click.Command = decorated(made)
        for param in command.params:
            if param.type is click.STRING and param.name in _COMPLETED:
                param.type = StoreName(_COMPLETED[param.name])
        return command

    return decorate


def _words(arguments: dict[str, Any]) -> list[str]:
    """Every text on a command line, but its reason."""
    given = [value for name, value in arguments.items() if name != "why"]
    listed = [word for value in given for word in (value if isinstance(value, tuple) else (value,))]
    return [word for word in listed if isinstance(word, str)]


def job_named(app: App, word: str) -> str:
    """The job of this name, or the one that produces the dataset of this name, which is said."""
    jobid = check_id("job", word)
    catalogue = app.store.catalogue()
    say_if_both(app, word, "job")
    if jobid in catalogue.jobs or ("job", jobid) in catalogue.broken or jobid not in catalogue.datasets:
        return jobid
    producer = catalogue.producer_id(jobid)
    if producer is None:
        return jobid
    app.say(f"{word} is a dataset; job {producer} produces it: taken for {producer}")
    return producer


def dataset_named(app: App, word: str) -> str:
    """The dataset of this name, or the only one that the job of this name produces, which is said."""
    datasetid = check_id("dataset", word)
    catalogue = app.store.catalogue()
    say_if_both(app, word, "dataset")
    job = catalogue.jobs.get(datasetid)
    if job is None or datasetid in catalogue.datasets or len(job.outputs) != 1:
        return datasetid
    app.say(f"{word} is a job; it produces dataset {job.outputs[0]}: taken for {job.outputs[0]}")
    return job.outputs[0]


def say_if_both(app: App, word: str, taken_for: str) -> None:
    """Say which of the two a name is taken for that a dataset and a job have, where the job does not produce the dataset."""
    catalogue = app.store.catalogue()
    job = catalogue.jobs.get(word)
    if job is not None and word in catalogue.datasets and word not in job.outputs:
        app.say(
            f"{word} is a dataset and also a job, which produces {', '.join(job.outputs)}: taken for the {taken_for}"
        )


def confirm(app: App, question: str, yes: bool) -> None:
    """Ask before something that touches many chunks; --yes answers."""
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(
                "nothing was changed: there is nobody to ask",
                hint="Say --yes, or look first with --dry-run.",
            )
        click.confirm(question, abort=True, err=True)
