"""Every test here runs on both stores."""

from tests.support.stores import open_again, store, store_url

__all__ = ["open_again", "store", "store_url"]
