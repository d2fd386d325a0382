"""Where there is no reaper, the process group of a script is ended as one."""

from __future__ import annotations

import signal
import subprocess
import time
from typing import Any

from opendataflow.run.process.process_group import ProcessGroup


def test_a_group_is_asked_how_it_is_and_ended_as_one() -> None:
    def begin(**streams: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["sh", "-c", "sleep 100 & sleep 100"], bufsize=0, start_new_session=True, **streams)

    group = ProcessGroup(begin)
    try:
        group.poll()
        assert (group.status, group.is_gone(), [process.pid for process in group.living()]) == (
            None,
            False,
            [group.pid],
        )
        deadline = time.monotonic() + 240
        while not group.is_gone():
            assert time.monotonic() < deadline
            group.terminate()
            time.sleep(0.01)
            group.poll()
        assert group.status == -signal.SIGTERM
    finally:
        group.close()
