"""Observing: figures of a DataFrame, taken in the same pass as its write.

Spark may count twice when tasks are tried again (SPARK-58183), and may never answer when its optimiser removed what
was observed (SPARK-54620): whoever asks waits for a limited time, and compares with what was really written.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

PATIENCE = 10.0

Figures = Mapping[str, Any]


class Observed:
    """A DataFrame that tells its figures once it was written."""

    def __init__(self, df: DataFrame, metrics: Mapping[str, Column]) -> None:
        self._names = list(metrics)
        self._observation = Observation()
        self.df = df.observe(self._observation, *_aliased(metrics))

    def figures(self, patience: float = PATIENCE) -> Figures | None:
        """What was observed; None when Spark does not tell."""
        if not self._is_there(patience):
            return None
        observed = self._observation.get
        if len(observed) != len(self._names):
            return None
        return {name: observed[f"m{index}"] for index, name in enumerate(self._names)}

    def _is_there(self, patience: float) -> bool:
        # Asking a classic session blocks for ever where nothing was observed. Connect answers at once.
        pending: Any = getattr(self._observation, "_jo", None)
        if pending is None:
            return True
        until, pause = time.monotonic() + patience, 0.001
        future = pending.future()
        while not future.isCompleted():
            if time.monotonic() > until:
                return False
            time.sleep(pause)
            pause = min(pause * 2, 0.05)
        return True


def how_many(condition: Column) -> Column:
    """How many rows fulfil a condition; for Spark's count_if an observed row is copied twice."""
    return F.count(F.when(condition, F.lit(1)))


def computed(df: DataFrame, metrics: Mapping[str, Column]) -> Figures:
    """The same figures by a pass of its own."""
    (row,) = df.agg(*_aliased(metrics)).collect()
    return dict(zip(metrics, row, strict=True))


def _aliased(metrics: Mapping[str, Column]) -> list[Column]:
    """Under names that Spark takes, whatever they are called."""
    return [metric.alias(f"m{index}") for index, metric in enumerate(metrics.values())]
