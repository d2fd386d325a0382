"""Name a plan by a digest, with which a confirmation says which preview it confirms."""

from __future__ import annotations

from hashlib import sha256

from ..errors import BadTransition


def plan_digest(plan: object) -> str:
    """A digest of what a verb would change."""
    return sha256(repr(plan).encode()).hexdigest()[:16]


def refuse_changed_plan(plan: object, seen: str) -> None:
    """BadTransition if a plan differs from the preview with this digest; without a digest, nothing is compared."""
    if seen and plan_digest(plan) != seen:
        raise BadTransition(
            "something changed since the preview",
            hint="Look at what would change now, and confirm it if it is still wanted.",
        )
