"""A time zone is found by its name, or refused in one way everywhere."""

from __future__ import annotations

from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

from opendataflow.errors import BadDefinition
from opendataflow.model.timezone import time_zone


def test_a_time_zone_is_found_by_its_name() -> None:
    assert time_zone("UTC") is UTC
    assert time_zone("Europe/Paris") == ZoneInfo("Europe/Paris")


@pytest.mark.parametrize("name", ["Mars/Base", "Europe", "../../etc/passwd", "/etc/localtime", "", "no' where", "a\0b"])
def test_a_name_that_is_none_is_refused_with_a_hint(name: str) -> None:
    with pytest.raises(BadDefinition) as caught:
        time_zone(name)
    assert caught.value.hint
    with pytest.raises(BadDefinition, match=r"^pool etl: "):
        time_zone(name, "pool etl")
