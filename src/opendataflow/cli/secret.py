"""Verbs for secrets: crypt encrypt, crypt decrypt, crypt rekey. Neither key nor plaintext is ever an argument."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from ..model import check_id
from .common import App, table, verb

if TYPE_CHECKING:
    from ..secrets import Key


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose password is meant: that of a dataset, of the store, or of every dataset."""

    dataset: str | None
    for_store: bool
    everything: bool

    def __post_init__(self) -> None:
        if self.dataset is not None and self.for_store:
            raise UsageError("--for and --for-store exclude each other")
        if self.dataset is not None:
            check_id("dataset", self.dataset)

    def context(self) -> str:
        """What the one password that is meant is bound to."""
        from ..secrets import STORE_CONTEXT, dataset_context

        if self.dataset is not None:
            return dataset_context(self.dataset)
        if self.for_store:
            return STORE_CONTEXT
        raise UsageError("whose password is it?", hint="Say --for DATASET or --for-store.")


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
    app: App, action: str, token: str | None, from_input: bool, yes_print: bool, dry_run: bool, **owner: Any
) -> int:
    """Encrypt, decrypt or re-encrypt passwords.

    The key comes from PASSKEY, PASSKEY_FILE or PASSKEY_COMMAND, the value from a hidden prompt or the input. A token is
    bound to its dataset: it cannot be read for another one. decrypt and rekey read the Java tool's values too.

    \b
      odf crypt encrypt --for orders_pg
      odf crypt encrypt --for-store < password.txt
      odf crypt decrypt --for orders_pg odf1:…
      NEW_PASSKEY_FILE=new.key odf crypt rekey --all --dry-run
      NEW_PASSKEY_FILE=new.key odf crypt rekey --for orders_pg
    """
    whose = Owner(**owner)
    if action == "rekey":
        return _rekey(app, whose, dry_run)
    context = whose.context()
    if action == "encrypt":
        if token is not None:
            raise UsageError(
                "the value cannot be an argument: everybody could see it with ps",
                hint="Leave it out and type it when asked, or pipe it in.",
            )
        return _encrypt(app, context, from_input)
    return _decrypt(app, context, token, from_input, yes_print)


def _encrypt(app: App, context: str, from_input: bool) -> int:
    from .. import secrets

    key = secrets.require_key(os.environ, "encrypt")
    value = _read("value", from_input, confirm=True)
    if not value:
        raise UsageError("there is nothing to encrypt", hint="Type the value when asked, or pipe it in.")
    sealed = secrets.encrypt(value, key, context)
    app.show({"token": sealed, "context": context}, lambda: [sealed])
    return 0


def _decrypt(app: App, context: str, token: str | None, from_input: bool, yes_print: bool) -> int:
    from .. import secrets

    if not yes_print and (app.as_json or not sys.stdout.isatty()):
        raise UsageError(
            "the plaintext is shown only on a terminal", hint="Say --yes-print if it is really meant to go elsewhere."
        )
    key = secrets.require_key(os.environ, "decrypt")
    sealed = token if token is not None else _read("token", from_input, confirm=False)
    value = secrets.decrypt(sealed, key, context)
    app.show({"plaintext": value, "context": context}, lambda: [value], raw=True)
    if secrets.is_java(sealed):
        app.say(
            "this is the Java tool's form, which is bound to no dataset and quick to guess; to renew it: odf crypt rekey"
        )
    return 0


def _read(what: str, from_input: bool, *, confirm: bool) -> str:
    if not from_input and sys.stdin.isatty():
        return str(click.prompt(what, hide_input=True, confirmation_prompt=confirm, err=True))
    raw = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    return raw.removesuffix("\n").removesuffix("\r") if raw.endswith("\n") else raw


def _rekey(app: App, whose: Owner, dry_run: bool) -> int:
    from ..insight import secrets_of

    if not (whose.dataset or whose.for_store or whose.everything):
        raise UsageError("which passwords?", hint="Say --for DATASET, --for-store or --all.")
    old, new = secrets_of.keys(os.environ)
    if whose.for_store:
        return _rekey_store(app, old, new)
    renewed = secrets_of.rekeyed(app.store.catalogue(), [whose.dataset] if whose.dataset else [], old, new)
    if not dry_run:
        app.store.register([secret.dataset for secret in renewed])
    data = [
        {"dataset": secret.datasetid, "was": secret.was, "token": secret.dataset.encryptedpass} for secret in renewed
    ]
    would = "would be" if dry_run else "is"
    rows = [(secret.datasetid, secret.was, f"{would} under the new key") for secret in renewed]
    app.show(
        {"rekeyed": data, "dry_run": dry_run},
        lambda: table(["dataset", "was", "now"], rows) if rows else ["no dataset has an encrypted password"],
    )
    declared = [
        dataset.datasetid
        for dataset in app.project.datasets
        if dataset.encryptedpass and dataset.datasetid in {one.datasetid for one in renewed}
    ]
    if declared and not dry_run:
        app.say(
            f"dataflow.toml still has the old values of {', '.join(declared)}: "
            "put the new ones there before the next odf apply (--json shows them)"
        )
    return 0


def _rekey_store(app: App, old: Key, new: Key) -> int:
    from .. import secrets

    sealed = app.project.environment.store_encrypted
    if not sealed:
        raise UsageError(
            f"environment {app.project.environment.name} has no encrypted store password",
            hint="Declare it in dataflow.toml: store.encrypted.",
        )
    renewed = secrets.rekey(sealed, old, new, secrets.STORE_CONTEXT)
    app.show({"token": renewed, "context": secrets.STORE_CONTEXT}, lambda: [renewed])
    app.say("nothing was changed: put this into dataflow.toml as store.encrypted")
    return 0
