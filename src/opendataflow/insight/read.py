"""Read: published chunks as rows, for a notebook. What is not published, or not what was published, is not given."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadConfig, DataNotReady, InvalidPath, MissingDependency, NotValidated, UsageError, install_command
from ..gate import place_of_input, validity_of_input
from ..model import READY, DataLook, Dataset, InputChunk
from ..model.selector import Selector
from ..project import Project, check_places, find, load, roots_of, without_file
from ..project.trust import require
from ..run.context import Vault
from ..secrets import STORE_CONTEXT, ProcessKey, decrypt, take
from ..store import Store, open_store
from .selection import select

if TYPE_CHECKING:
    from ..spark.types import SparkSession

SPARK, ARROW, PANDAS = "spark", "arrow", "pandas"
_BY_ARROW = ("parquet", "orc")  # their files say what types they hold


def read(
    datasetid: str,
    dataids: str | Sequence[str] = (),
    *,
    spark: SparkSession | None = None,
    as_: str = SPARK,
    env: str | None = None,
    folder: str | os.PathLike[str] = ".",
) -> Any:
    """The published rows of these chunks of a dataset, or of all that are READY: a DataFrame of Spark, or of pandas
    (as_="pandas"), or a table of Arrow (as_="arrow"); the last two need no Spark for parquet and orc.

    A chunk that was named, also by a range "FROM..TO", and is not READY is refused: DataNotReady. So is one that is no
    longer what was published, or lies outside the roots, or whose definition the project does not vouch for.
    """
    if as_ not in (SPARK, ARROW, PANDAS):
        raise UsageError(f"as_ cannot be {as_!r}", hint=f"Use {SPARK!r}, {ARROW!r} or {PANDAS!r}.")
    taken = take(dict(os.environ))  # a copy: what runs in the notebook may still need its variables
    file = find(Path(folder).resolve())
    named = taken.store_url or None
    project = load(file, env or os.environ.get("ODF_ENV") or None) if file else without_file(Path(folder), named)
    store = _open(project, taken)
    try:
        dataset, chunks = readable(store, project, datasetid, [dataids] if isinstance(dataids, str) else list(dataids))
        vault = Vault(project, taken.key if dataset.encryptedpass else None, taken.hidden)
        if as_ != SPARK and spark is None:
            table = _arrow(dataset, chunks)
            return table if as_ == ARROW else table.to_pandas()
        frame = _frame(project, dataset, chunks, vault, spark)
    finally:
        store.close()
    return frame if as_ == SPARK else frame.toArrow() if as_ == ARROW else frame.toPandas()


def readable(store: Store, project: Project, datasetid: str, words: Sequence[str]) -> tuple[Dataset, list[InputChunk]]:
    """The chunks that are meant, all of them READY, where they belong and as they were published."""
    dataset = store.catalogue().dataset(datasetid)
    require(project, dataset, store.applied)
    chunks = _published(store, dataset, words)
    _check(project, dataset, chunks)
    return dataset, chunks


def _open(project: Project, taken: ProcessKey) -> Store:
    environment = project.environment
    url = taken.store_url or environment.store_url
    password = taken.store_password
    if environment.store_encrypted and url == environment.store_url:
        password = decrypt(environment.store_encrypted, taken.require_key("the store's password"), STORE_CONTEXT)
    store = open_store(url, password=password)
    store.roots = lambda: roots_of(project, url)
    return store


def _published(store: Store, dataset: Dataset, words: Sequence[str]) -> list[InputChunk]:
    name = dataset.datasetid
    ready = {chunk.dataid: chunk for chunk in store.views.all_chunks(name, status=READY)}
    wanted = list(ready)
    if words:
        wanted = [
            each for some in select(store, Selector((name,), tuple(words)), new_ones=True) for each in some.dataids
        ]
    missing = [dataid for dataid in wanted if dataid not in ready]
    if missing or not wanted:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        which = f"{', '.join(missing[:3])}{more}" if missing else "no chunk"
        raise DataNotReady(f"dataset {name}: not READY: {which}", hint=f"See what is there: odf status {name}")
    manifests = {published.dataid: published.manifest for published in store.views.all_published(name)}
    return [
        InputChunk(name, dataid, ready[dataid].version, manifests.get(dataid), _bounds(ready[dataid]))
        for dataid in wanted
    ]


def _bounds(chunk: Any) -> tuple[str | None, str | None] | None:
    return None if chunk.lower is None and chunk.upper is None else (chunk.lower, chunk.upper)


def _check(project: Project, dataset: Dataset, chunks: Sequence[InputChunk]) -> None:
    """Questions 3 and 4, as a run would ask them."""
    check_places(project.environment, dataset, chunks, always=True)
    for chunk in chunks:
        place, validity = place_of_input(project.environment, dataset, chunk), validity_of_input(dataset, chunk)
        for seen, no in ((place, InvalidPath), (validity, NotValidated)):
            if isinstance(seen, DataLook) and seen.problem:
                raise no(seen.problem, hint=f"See: odf explain {chunk.datasetid} {chunk.dataid}")


def _frame(
    project: Project, dataset: Dataset, chunks: Sequence[InputChunk], vault: Vault, spark: SparkSession | None
) -> Any:
    try:
        from ..spark.reading import read_chunks
        from ..spark.session import session
    except ImportError as problem:
        raise MissingDependency(
            f"{problem.name} is not installed", hint=f"Install it: {install_command('spark')}"
        ) from None
    spark = spark or session(project.spark, app_name=f"odf {project.name}", redact=vault.redact)
    return read_chunks(spark, project, dataset, chunks, vault.password)


@contextmanager
def format_errors(dataset: Dataset, chunk: InputChunk) -> Iterator[None]:
    """Turn what Arrow says of files that do not have the format of their dataset into a BadConfig."""
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError) as error:
        form = dataset.format or _BY_ARROW[0]
        raise BadConfig(
            f"{dataset.datasetid} {chunk.dataid} cannot be read as {form}: {str(error).splitlines()[0][:200]}",
            hint=f'If it has another format, declare it in dataflow.toml: [dataset.{dataset.datasetid}] format = "csv".',
        ) from None


def _arrow(dataset: Dataset, chunks: Sequence[InputChunk]) -> Any:
    form = dataset.format or _BY_ARROW[0]
    locations = [chunk.manifest.location if chunk.manifest else "" for chunk in chunks]
    is_on_disk = all(place.startswith("/") for place in locations)
    has_folders = any("=" in file.path for chunk in chunks if chunk.manifest for file in chunk.manifest.files)
    if dataset.kind != "file" or form not in _BY_ARROW or not is_on_disk or has_folders:
        raise BadConfig(
            f"dataset {dataset.datasetid}: only {' and '.join(_BY_ARROW)} on a disk, without partitionBy, can be read "
            "without Spark",
            hint='Pass a session: opendataflow.read(…, spark=spark, as_="pandas")',
        )
    try:
        import pyarrow as pa
        from pyarrow import dataset as files
    except ImportError:
        raise MissingDependency("pyarrow is not installed", hint="Install it: pip install pyarrow") from None
    tables = []
    for chunk, location in zip(chunks, locations, strict=True):
        assert chunk.manifest is not None
        paths = [os.path.join(location, file.path) for file in chunk.manifest.files]
        with format_errors(dataset, chunk):
            tables.append(files.dataset(paths if os.path.isdir(location) else [location], format=form).to_table())
    return pa.concat_tables(tables, promote_options="permissive")
