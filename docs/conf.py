"""The site of these pages: `./dev docs`. The whole repository is the source, so that one link works here and in a code browser."""

from __future__ import annotations

from importlib import metadata

import click
from sphinx.application import Sphinx

from opendataflow.cli.door import ALIASES, VERBS
from opendataflow.cli.group import odf

project = "OpenDataFlow"
author = "OpenDataFlow contributors"
release = version = metadata.version("opendataflow")

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

root_doc = "docs/index"
include_patterns = ["*.md", "bench/*.md", "docs/**", "examples/*/README.md", "src/opendataflow/templates/*/README.md"]
links = ["examples/migration/**", "examples/spark-pipeline/**"]  # to templates: these pages are there
exclude_patterns = [".*", "build", "dist", "tests", "spark-warehouse", "**/000-template.md", *links]
suppress_warnings = [
    "misc.highlighting_failure",  # a snippet shows what matters, and leaves the rest out
    "toc.not_included",  # README.md and the examples are reached by links
]

html_theme = "furo"
html_title = "OpenDataFlow"
html_extra_path = ["site"]  # the front door, which leads to docs/index.html
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
pygments_style = "default"
pygments_dark_style = "github-dark"


def options_of_every_verb() -> str:
    """What `odf VERB --help` says, as one page."""
    context = odf.make_context("odf", ["--help"], resilient_parsing=True)
    return "\n".join(_described(name, context) for name in [*VERBS, *ALIASES])


def _described(name: str, context: click.Context) -> str:
    command = odf.get_command(context, name)
    assert command is not None
    inner = click.Context(command, info_name=name, parent=context, max_content_width=86, terminal_width=86)
    return f"\n## {name}\n\n```text\n{command.get_help(inner)}\n```\n"


def _fill(app: Sphinx, docname: str, source: list[str]) -> None:
    if docname == "docs/reference/options":
        source[0] += options_of_every_verb()


def setup(app: Sphinx) -> None:
    app.connect("source-read", _fill)
