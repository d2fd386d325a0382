"""The usual RunJob, without click: its words are read by hand where nothing about them is in doubt.

Everything else, and whatever is wrong, goes to click, which knows all options, helps, and says what is not understood.
"""

from __future__ import annotations

import os
from typing import Any

from ..secrets import ProcessKey

# The options of odf run by the names of its parameters: those that stand alone, and those that a word follows.
FLAGS = {
    "--debug": "debug",
    "--json": "as_json",
    "--force": "force",
    "--dry-run": "dry_run",
    "--fail-if-none": "fail_if_none",
    "--quiet": "quiet",
    "--quiet-no": "quiet_no",
}
VALUES = {"--store": "store_url", "--env": "env", "--dataid": "dataid", "--master": "master", "--item": "items"}


def run_plainly(arguments: list[str], taken: ProcessKey) -> int | None:
    """Do what `odf run` with these words does, and return its exit code; None where they are for click."""
    if arguments[:1] != ["run"] or "_ODF_COMPLETE" in os.environ or (words := parse(arguments[1:])) is None:
        return None
    from .app import App, answer
    from .running import RunOptions, run_target

    common = {name: words.pop(name) for name in ("store_url", "env", "as_json", "debug")}
    target, following = words.pop("target"), words.pop("arguments")
    app = App(**common, taken=taken, with_code=False)
    code: int = answer(app, lambda: run_target(app, target, (), following, RunOptions(**words)))
    return code


def parse(words: list[str]) -> dict[str, Any] | None:
    """The parameters that click would find, by name; None where it must look itself."""
    from .words import is_script

    found: dict[str, Any] = dict.fromkeys(FLAGS.values(), False) | dict.fromkeys(VALUES.values()) | {"items": ()}
    rest = list(words)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in FLAGS:
            found[FLAGS[option]] = True
        elif option in VALUES and rest and not rest[0].startswith("-"):
            name, value = VALUES[option], rest.pop(0)
            found[name] = (*found[name], value) if name == "items" else value
        else:
            return None
    if not rest:
        return None
    target, following = rest[0], rest[1:]
    if following and not is_script(target):
        return None  # options of ours may stand among them
    if following[:1] == ["--"]:
        following = following[1:]
    elif any(word.partition("=")[0] in (*FLAGS, *VALUES, "--help") for word in following):
        return None  # for whom they are is asked
    return found | {"target": target, "arguments": tuple(following)}
