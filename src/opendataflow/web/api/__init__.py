"""The API of the console: the facts and verbs of the command line, for programs."""

from __future__ import annotations

from fastapi import APIRouter

from . import chunks, description, glance, happening, verbs

router = APIRouter(prefix=description.PREFIX)
for part in (description.router, glance.router, chunks.router, happening.router, verbs.router):
    router.include_router(part)
