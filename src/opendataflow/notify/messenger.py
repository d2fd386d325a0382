"""Sends one message by apprise, as a process of its own: it can be ended, and no worker pays for its imports.

Reads JSON with url, title, body and kind from its input; prints JSON that says whether it was delivered. An address is
never printed, and neither is what the library says, which may repeat it.
"""

from __future__ import annotations

import json
import re
import signal
import sys

MISSING, NO_ADDRESS, NOT_DELIVERED = "apprise is not installed", "it is no address that apprise knows", "not delivered"

_LONGEST = 25  # seconds; longer than we are waited for


def deliver(url: str, title: str, body: str, kind: str) -> str:
    """Send it; empty when it was delivered, else why not, in words that hold no secret."""
    import logging

    try:
        import apprise
    except ImportError:
        return MISSING
    said: list[str] = []

    class Listen(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    logger = logging.getLogger("apprise")
    logger.handlers, logger.propagate = [Listen()], False
    # Where the address leads is where it goes: no redirect, no file of settings, nothing that is kept on a disk.
    asset = apprise.AppriseAsset(
        app_id="OpenDataFlow", app_desc="OpenDataFlow", async_mode=False, http_redirects=False, allow_templates=False
    )
    messenger = apprise.Apprise(asset=asset)
    if not messenger.add(url):
        return NO_ADDRESS
    if messenger.notify(body=body, title=title, notify_type=kind, body_format=apprise.NotifyFormat.TEXT):
        return ""
    codes = [code for line in said for code in re.findall(r"\berror=(\d{3})\b", line)]
    return f"{NOT_DELIVERED} (error {codes[-1]})" if codes else NOT_DELIVERED


def main() -> int:
    """Send what the input says."""
    signal.alarm(_LONGEST)  # whoever started us may be dead
    asked = json.load(sys.stdin)
    try:
        problem = deliver(asked["url"], asked["title"], asked["body"], asked["kind"])
    except Exception as error:
        problem = f"{NOT_DELIVERED}: {type(error).__name__}"
    print(json.dumps({"problem": problem}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
