"""Verbs for secrets: crypt encrypt, crypt decrypt, crypt rekey. Neither key nor plaintext is ever an argument."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from ..errors import UsageError
from ..model import check_id
from .common import App, table, verb

if TYPE_CHECKING:
    from ..secrets import Key


@verb("crypt")
@click.option("--for", "dataset", metavar="DATASET", help="The password of this dataset (its encryptedpass).")
@click.option("--for-store", is_flag=True, help="The password of the store itself (store.encrypted in dataflow.toml).")
@click.option("--all", "everything", is_flag=True, help="With rekey: every dataset's password.")
@click.option("--stdin", "from_input", is_flag=True, help="Read the value from the input even on a terminal.")
@click.option("--yes-print", is_flag=True, help="With decrypt: print the plaintext even where it is not a terminal.")
@click.option("--dry-run", is_flag=True, help="With rekey: show what would change, and change nothing.")
@click.argument("action", type=click.Choice(["encrypt", "decrypt", "rekey"]))
@click.argument("token", required=False)
def crypt_verb(
    app: App,
    action: str,
    token: str | None,
    dataset: str | None,
    for_store: bool,
    everything: bool,
    from_input: bool,
    yes_print: bool,
    dry_run: bool,
) -> int:
    """Encrypt, decrypt or re-encrypt passwords.

    The key comes from PASSKEY, PASSKEY_FILE or PASSKEY_COMMAND, the value from a hidden prompt or the input. A token is
    bound to its dataset: under another one it cannot be read. decrypt and rekey read the Java tool's values too.

    \b
      odf crypt encrypt --for orders_pg
      odf crypt encrypt --for-store < password.txt
      odf crypt decrypt --for orders_pg odf1:…
      NEW_PASSKEY_FILE=new.key odf crypt rekey --all --dry-run
      NEW_PASSKEY_FILE=new.key odf crypt rekey --for orders_pg
    """
    if dataset is not None and for_store:
        raise UsageError("--for and --for-store cannot both be meant")
    if dataset is not None:
        check_id("dataset", dataset)
    if action == "rekey":
        return _rekey(app, dataset, for_store, everything, dry_run)
    from ..insight.secrets_of import STORE_CONTEXT, dataset_context

    if dataset is None and not for_store:
        raise UsageError("a secret belongs somewhere", hint="say --for DATASET or --for-store")
    context = dataset_context(dataset) if dataset is not None else STORE_CONTEXT
    if action == "encrypt":
        if token is not None:
            raise UsageError(
                "the value is never an argument: everybody could see it with ps",
                hint="leave it out and type it when asked, or pipe it in",
            )
        return _encrypt(app, context, from_input)
    return _decrypt(app, context, token, from_input, yes_print)


def _encrypt(app: App, context: str, from_input: bool) -> int:
    from .. import secrets

    key = secrets.require_key(os.environ, "encrypt")
    value = _read("value", from_input, confirm=True)
    if not value:
        raise UsageError("there is nothing to encrypt", hint="type the value when asked, or pipe it in")
    sealed = secrets.encrypt(value, key, context)
    app.show({"token": sealed, "context": context}, lambda: [sealed])
    return 0


def _decrypt(app: App, context: str, token: str | None, from_input: bool, yes_print: bool) -> int:
    from .. import secrets

    if not yes_print and (app.as_json or not sys.stdout.isatty()):
        raise UsageError(
            "the plaintext is shown only on a terminal", hint="say --yes-print if it is really meant to go elsewhere"
        )
    key = secrets.require_key(os.environ, "decrypt")
    sealed = token if token is not None else _read("token", from_input, confirm=False)
    value = secrets.decrypt(sealed, key, context)
    app.show({"plaintext": value, "context": context}, lambda: [value], raw=True)
    if secrets.is_java(sealed):
        app.say(
            "this is the Java tool's form: it is bound to nothing, and quick to guess. To renew it: odf crypt rekey"
        )
    return 0


def _read(what: str, from_input: bool, *, confirm: bool) -> str:
    if not from_input and sys.stdin.isatty():
        return str(click.prompt(what, hide_input=True, confirmation_prompt=confirm, err=True))
    raw = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    return raw.removesuffix("\n").removesuffix("\r") if raw.endswith("\n") else raw


def _rekey(app: App, dataset: str | None, for_store: bool, everything: bool, dry_run: bool) -> int:
    from ..insight import secrets_of

    if not (dataset or for_store or everything):
        raise UsageError("which secrets?", hint="say --for DATASET, --for-store or --all")
    old, new = secrets_of.keys(os.environ)
    if for_store:
        return _rekey_store(app, old, new)
    found = secrets_of.rekeyed(app.store.catalogue(), [dataset] if dataset else [], old, new)
    if not dry_run:
        app.store.register([each.dataset for each in found])
    data = [{"dataset": each.datasetid, "was": each.was, "token": each.dataset.encryptedpass} for each in found]
    would = "would be" if dry_run else "is"
    rows = [(each.datasetid, each.was, f"{would} under the new key") for each in found]
    app.show(
        {"rekeyed": data, "dry_run": dry_run},
        lambda: table(["dataset", "was", "now"], rows) if rows else ["no dataset has an encrypted password"],
    )
    declared = [
        each.datasetid
        for each in app.project.datasets
        if each.encryptedpass and each.datasetid in {one.datasetid for one in found}
    ]
    if declared and not dry_run:
        app.say(
            f"dataflow.toml still has the old values of {', '.join(declared)}: "
            "put the new ones there before the next odf apply (--json shows them)"
        )
    return 0


def _rekey_store(app: App, old: Key, new: Key) -> int:
    from .. import secrets
    from ..insight.secrets_of import STORE_CONTEXT

    sealed = app.project.environment.store_encrypted
    if not sealed:
        raise UsageError(
            f"environment {app.project.environment.name} has no encrypted store password",
            hint="see store.encrypted in dataflow.toml",
        )
    renewed = secrets.rekey(sealed, old, new, STORE_CONTEXT)
    app.show({"token": renewed, "context": STORE_CONTEXT}, lambda: [renewed])
    app.say("nothing was changed: put this into dataflow.toml as store.encrypted")
    return 0
