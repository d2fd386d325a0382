from ..probe import difference, files, is_writable, light_manifest, links  # noqa
from ..spark.quarantine import has_quarantine, rejected_dataset, rejected_id  # noqa
