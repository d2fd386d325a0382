"""Verbs for secrets: crypt encrypt, crypt decrypt, crypt rekey. Neither key nor plaintext is ever an argument."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..errors import SchemaOlder, StoreMissing, UsageError
from ..model import Dataset, check_id
from .app import App, table
from .common import Whole, confirm, verb

if TYPE_CHECKING:
    from ..secrets import Key


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose secret is meant: the password of a dataset, of the store, or of every dataset; or somebody's address.

    And where the dataset is, if that was said.
    """

    dataset: str | None
    for_store: bool
    target: str | None
    for_lineage: bool
    everything: bool
    hostname: str | None
    port: int | None
    database: str | None
    username: str | None
    url: str | None

    def __post_init__(self) -> None:
        if (self.dataset is not None) + self.for_store + (self.target is not None) + self.for_lineage > 1:
            raise UsageError("--for, --for-store, --for-notify and --for-lineage exclude each other")
        if self.target is not None:
            check_id("notify", self.target)
        if self.dataset is not None:
            check_id("dataset", self.dataset)

    @property
    def is_in_file(self) -> bool:
        """Whether it is neither a dataset's nor the store's: only dataflow.toml has it."""
        return self.target is not None or self.for_lineage

    def said(self) -> Dataset | None:
        """The dataset at the address that the options name; None when they name none."""
        texts, options = (self.hostname, self.database, self.username), {"port": self.port, "url": self.url}
        if self.dataset is None or all(value is None for value in (*texts, *options.values())):
            return None
        hostname, database, username = (text or "" for text in texts)
        given = {name: value for name, value in options.items() if value is not None}
        return Dataset(self.dataset, hostname=hostname, database=database, username=username, options=given)


def _owner(app: App, whose: Owner, *, must_be_known: bool) -> Dataset | None:
    """The dataset whose password is meant, with its address; None is the store."""
    from ..model.definitions.address import address_of

    if whose.dataset is None:
        if not whose.for_store:
            raise UsageError(
                "whose secret is it?", hint="Say --for DATASET, --for-store, --for-notify NAME or --for-lineage."
            )
        return None
    name, said = whose.dataset, whose.said()
    known = next((dataset for dataset in app.project.datasets if dataset.datasetid == name), None) or _stored(app, name)
    if known is not None and said is not None and address_of(known) != address_of(said):
        raise UsageError(
            f"dataset {name} is at {address_of(known)}, not at {address_of(said)}",
            hint="Leave out the options: its address is known. Or correct it first, in the project file or in the store.",
        )
    found = known or said
    if found is None and must_be_known:
        raise UsageError(
            f"a password is bound to where it is sent, and the address of dataset {name} is not known",
            hint=f"Declare the dataset in dataflow.toml or store it first, and then encrypt. Or say where it will be: "
            f"odf crypt encrypt --for {name} --hostname HOST --database NAME --username USER",
        )
    return found or Dataset(name)


def _stored(app: App, name: str) -> Dataset | None:
    """The dataset as the store has it, if there is a store."""
    try:
        return app.open_store(create=False).catalogue().datasets.get(name)
    except (StoreMissing, SchemaOlder):
        return None


@verb("crypt")
@click.option("--for", "dataset", metavar="DATASET", help="The password of this dataset (its encryptedpass).")
@click.option("--for-store", is_flag=True, help="The password of the store itself (store.encrypted in dataflow.toml).")
@click.option("--for-notify", "target", metavar="NAME", help="The address of [notify.NAME] in dataflow.toml.")
@click.option("--for-lineage", is_flag=True, help="The key of the server that [lineage] in dataflow.toml names.")
@click.option("--all", "everything", is_flag=True, help="With rekey: every dataset's password.")
@click.option("--hostname", metavar="HOST", help="Where the dataset will be, if nothing says so yet: its hostname,")
@click.option("--port", type=Whole(1, 65535), metavar="N", help="its port,")
@click.option("--database", metavar="NAME", help="its database,")
@click.option("--username", metavar="USER", help="its user,")
@click.option("--url", metavar="URL", help="and for JDBC its url.")
@click.option("--same-key", is_flag=True, help="With rekey: renew the tokens under the key that they have.")
@click.option("--yes", "-y", is_flag=True, help="With rekey: do not ask.")
@click.option("--stdin", "from_input", is_flag=True, help="Read the value from the input even on a terminal.")
@click.option("--yes-print", is_flag=True, help="With decrypt: print the plaintext even where it is not a terminal.")
@click.option("--dry-run", is_flag=True, help="With rekey: show what would change, and change nothing.")
@click.argument("action", type=click.Choice(["encrypt", "decrypt", "rekey"]))
@click.argument("token", required=False)
def crypt_verb(app: App, action: str, token: str | None, from_input: bool, yes_print: bool, **more: Any) -> int:
    """Encrypt, decrypt or re-encrypt passwords.

    The key comes from PASSKEY, PASSKEY_FILE or PASSKEY_COMMAND, the value from a hidden prompt or the input. A token is
    bound to its dataset and to where that is, by hostname, port, database, username and url: it cannot be read for another
    dataset, nor when one of these changes. They come from the project file, else from the store, else from the options.
    decrypt and rekey also read older tokens and the Java tool's values; rekey binds them to where the dataset is now.

    \b
      odf crypt encrypt --for orders_pg
      odf crypt encrypt --for orders_pg --hostname db.example --database shop --username etl
      odf crypt encrypt --for-store < password.txt
      odf crypt encrypt --for-notify oncall
      odf crypt encrypt --for-lineage
      odf crypt decrypt --for orders_pg odf2:…
      NEW_PASSKEY_FILE=new.key odf crypt rekey --all --dry-run
      NEW_PASSKEY_FILE=new.key odf crypt rekey --for orders_pg
      odf crypt rekey --for orders_pg --same-key
    """
    plan = _Rekey(*(more.pop(name) for name in ("same_key", "dry_run", "yes")))
    whose = Owner(**more)
    if action == "rekey":
        return _rekey(app, whose, plan)
    if action == "encrypt":
        if token is not None:
            raise UsageError(
                "the value cannot be an argument: every user of the machine could see it with ps",
                hint="Leave it out and type it when asked, or pipe it in.",
            )
        return _encrypt(app, whose, from_input)
    return _decrypt(app, whose, token, from_input, yes_print)


class _Rekey(NamedTuple):
    """How a rekey is meant."""

    same_key: bool
    dry_run: bool
    yes: bool


def _context(app: App, whose: Owner, dataset: Dataset | None) -> str:
    from .. import secrets

    if whose.target is not None:
        return secrets.notify_context(whose.target)
    if whose.for_lineage:
        return secrets.lineage_context(app.project.lineage.address)
    return secrets.STORE_CONTEXT if dataset is None else secrets.dataset_context(dataset)


def _encrypt(app: App, whose: Owner, from_input: bool) -> int:
    from .. import secrets
    from ..model.definitions.address import address_of

    app.with_placeholders, app.says_unapplied = True, False
    key = app.taken.require_key("encrypt")
    dataset = _owner(app, whose, must_be_known=True) if not whose.is_in_file else None
    value = _read("value", from_input, confirm=True)
    if not value:
        raise UsageError("there is nothing to encrypt", hint="Type the value when asked, or pipe it in.")
    context = _context(app, whose, dataset)
    sealed = secrets.encrypt(value, key, context)
    where = str(address_of(dataset)) if dataset is not None else ""
    app.show({"token": sealed, "context": context.partition("\n")[0], "address": where}, lambda: [sealed])
    if whose.target is not None:
        app.say(f"this token is for [notify.{whose.target}] in dataflow.toml, as encrypted, and for nothing else")
    if dataset is not None:
        app.say(f"this token is for dataset {dataset.datasetid} at {where}, and for nothing else")
    return 0


def _decrypt(app: App, whose: Owner, token: str | None, from_input: bool, yes_print: bool) -> int:
    from .. import secrets

    if not yes_print and (app.as_json or not sys.stdout.isatty()):
        raise UsageError(
            "the plaintext is shown only on a terminal", hint="Say --yes-print if it is really meant to go elsewhere."
        )
    key = app.taken.require_key("decrypt")
    sealed = token if token is not None else _read("token", from_input, confirm=False)
    dataset = _owner(app, whose, must_be_known=False) if not whose.is_in_file else None
    context = _context(app, whose, dataset)
    value = secrets.decrypt(sealed, key, context)
    app.show({"plaintext": value, "context": context.partition("\n")[0]}, lambda: [value], raw=True)
    if secrets.is_java(sealed):
        app.say(
            "this is the Java tool's form, which is bound to no dataset and quick to guess; to renew it: "
            "odf crypt rekey --same-key"
        )
    return 0


def _read(what: str, from_input: bool, *, confirm: bool) -> str:
    if not from_input and sys.stdin.isatty():
        return str(click.prompt(what, hide_input=True, confirmation_prompt=confirm, err=True))
    raw = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    return raw.removesuffix("\n").removesuffix("\r") if raw.endswith("\n") else raw


def _rekey(app: App, whose: Owner, plan: _Rekey) -> int:
    from ..insight import secrets_of

    if not (whose.dataset or whose.for_store or whose.is_in_file or whose.everything):
        hint = "Say --for DATASET, --for-store, --for-notify NAME, --for-lineage or --all."
        raise UsageError("which passwords?", hint=hint)
    old, new = secrets_of.keys(app.taken, same=plan.same_key)
    if whose.target is not None:
        return _rekey_target(app, whose.target, old, new)
    if whose.for_lineage:
        return _rekey_lineage(app, old, new)
    if whose.for_store:
        return _rekey_store(app, old, new)
    names = [whose.dataset] if whose.dataset else []
    catalogue = app.store.catalogue()
    renewed = secrets_of.rekeyed(app.project, catalogue, names, old, new)
    old_tokens = {name: dataset.encryptedpass for name, dataset in catalogue.datasets.items()}
    # A token that was bound to no address would be bound to one that only the store names: a person has to say so.
    doubtful = [secret for secret in renewed if not secret.is_vouched]
    if not plan.dry_run:
        for secret in doubtful:
            app.say(f"only the store says that dataset {secret.datasetid} is at {secret.address}")
        if doubtful:
            confirm(app, "bind the passwords to these addresses?", plan.yes)
        app.store.register([secret.dataset for secret in renewed])
    data = [
        {
            "dataset": secret.datasetid,
            "was": secret.was,
            "address": secret.address,
            "before": old_tokens[secret.datasetid],
            "token": secret.dataset.encryptedpass,
        }
        for secret in renewed
    ]
    now = f"{'would be' if plan.dry_run else 'is'} under the {'same' if plan.same_key else 'new'} key"
    rows = [(secret.datasetid, secret.was, now, secret.address) for secret in renewed]
    app.show(
        {"rekeyed": data, "dry_run": plan.dry_run},
        lambda: (
            table(["dataset", "was", "now", "bound to"], rows) if rows else ["no dataset has an encrypted password"]
        ),
    )
    declared = [
        dataset.datasetid
        for dataset in app.project.datasets
        if dataset.encryptedpass and dataset.datasetid in {one.datasetid for one in renewed}
    ]
    if declared and not plan.dry_run:
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


def _rekey_target(app: App, name: str, old: Key, new: Key) -> int:
    from .. import secrets

    notify = app.project.notify
    target = notify.targets.get(name) if notify is not None else None
    if target is None or not target.encrypted:
        raise UsageError(f"[notify.{name}] has no encrypted address", hint="Its address is declared in dataflow.toml.")
    context = secrets.notify_context(name)
    renewed = secrets.rekey(target.encrypted, old, new, context)
    app.show({"token": renewed, "context": context}, lambda: [renewed])
    app.say(f"nothing was changed: put this into dataflow.toml as encrypted of [notify.{name}]")
    return 0


def _rekey_lineage(app: App, old: Key, new: Key) -> int:
    from .. import secrets

    lineage = app.project.lineage
    if not lineage.encrypted:
        raise UsageError("[lineage] has no encrypted key", hint="It is declared in dataflow.toml: encrypted.")
    renewed = secrets.rekey(lineage.encrypted, old, new, secrets.lineage_context(lineage.address))
    app.show({"token": renewed, "context": "lineage/key"}, lambda: [renewed])
    app.say("nothing was changed: put this into dataflow.toml as encrypted of [lineage]")
    return 0
