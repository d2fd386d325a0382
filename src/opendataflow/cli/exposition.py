"""Exposition: figures in the text format of Prometheus, once or over HTTP."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from ipaddress import ip_address
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from ..errors import BadConfig, MissingDependency, install_command
from ..model.listen_address import ListenAddress

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from ..insight.metrics import Figure

DEFAULT_PORT = 9464
_SLOWEST = 10.0  # seconds that one request may take


def require() -> None:
    """MISSING_DEPENDENCY when the package that writes the format is not installed."""
    try:
        import prometheus_client  # noqa: F401
    except ImportError:
        raise MissingDependency(
            "odf metrics needs prometheus-client; --json does not", hint=f"Install it: {install_command('metrics')}"
        ) from None


class _Collector:
    """What the registry of the client asks for figures."""

    def __init__(self, figures: Callable[[], Iterable[Figure]]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        """The figures as the client's own."""
        return map(_family, self._figures())

    def describe(self) -> Iterable[Metric]:
        """Nothing, so that registering it does not read the store."""
        return ()


def _family(figure: Figure) -> Metric:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    from ..insight.metrics import COUNTER, Spread
    from ..store.views.counts import BUCKETS

    labels = [name for name, _ in next(iter(figure.values), ())]
    if figure.kind == "histogram":
        spreads = HistogramMetricFamily(figure.name, figure.help, labels=labels)
        bounds = [*map(str, BUCKETS), "+Inf"]
        for key, value in figure.values.items():
            if isinstance(value, Spread):
                buckets = [(bound, float(n)) for bound, n in zip(bounds, value.counts, strict=True)]
                spreads.add_metric([text for _, text in key], buckets, value.total)
        return spreads
    make: Any = CounterMetricFamily if figure.kind == COUNTER else GaugeMetricFamily
    family: Metric = make(figure.name, figure.help, labels=labels)
    for key, value in figure.values.items():
        family.add_metric([text for _, text in key], value)  # type: ignore[attr-defined]
    return family


def exposed(figures: Iterable[Figure]) -> str:
    """Figures as text."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(_Collector(lambda: figures))
    return generate_latest(registry).decode()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The client went away: errors are ignored."""


class _Handler(WSGIRequestHandler):
    timeout = _SLOWEST

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a scrape is no news."""


def is_known_host(host: str, names: Iterable[str]) -> bool:
    """Whether a request names this server: by an address, this machine's own name, or one of these.

    A page elsewhere whose name leads here names itself.
    """
    name = host.lower().rpartition(":")[0] if re.search(r":\d+$", host) else host.lower()
    try:
        ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return name in {"localhost", socket.gethostname().lower(), socket.getfqdn().lower(), *map(str.lower, names)}
    return True


def server(address: ListenAddress, figures: Callable[[], Iterable[Figure]], hosts: Sequence[str] = ()) -> WSGIServer:
    """A server, not yet started, that has the figures at /metrics and nothing anywhere else; hosts are further names of it."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import make_wsgi_app

    registry = CollectorRegistry()
    registry.register(_Collector(figures))
    metrics: Any = make_wsgi_app(registry)

    def answer(request: dict[str, Any], start_response: Any) -> Any:
        if not is_known_host(request.get("HTTP_HOST", ""), {address.host, *hosts}):
            start_response("400 Bad Request", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"unknown Host header: use an address, or declare the name: hosts in [web] of dataflow.toml\n"]
        if request["PATH_INFO"] != "/metrics":
            start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"the figures are at /metrics\n"]
        return metrics(request, start_response)

    try:
        [(family, *_, _), *_] = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        made = type("_ServerOfFamily", (_Server,), {"address_family": family})
        return make_server(address.host, address.port, answer, made, _Handler)
    except OSError as problem:
        raise BadConfig(
            f"cannot listen at {address}: {problem.strerror or problem}",
            hint="Choose another address: --listen HOST:PORT",
        ) from None
