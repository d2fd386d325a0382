import pytest

from opendataflow.errors import BadDefinition
from opendataflow.model.duration import seconds


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        ("90s", 90),
        ("15m", 900),
        ("36h", 129600),
        ("7d", 604800),
        ("2w", 1209600),
        ("1.5h", 5400),
        ("2 h", 7200),
        (30, 30),
    ],
)
def test_how_long_a_duration_lasts(duration, expected):
    assert seconds(duration) == expected


@pytest.mark.parametrize(
    "duration", ["", "h", "2", "-2h", "2 hours", "0h", "2h\n", "٣h", 0, -1, True, None, float("inf")]
)
def test_what_is_no_duration_is_refused_with_its_key(duration):
    with pytest.raises(BadDefinition) as problem:
        seconds(duration, "job.report.timeout")
    assert problem.value.message.startswith("job.report.timeout: ")
