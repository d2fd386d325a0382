"""A script: asks the API for the rates of its day, and writes what it answers where it is told to."""

import os
import sys
import urllib.request
from pathlib import Path

api = (Path(__file__).parent.parent / "api.url").read_text()
try:
    answer = urllib.request.urlopen(f"{api}/{os.environ['dataid']}/{os.environ['SYMBOL']}", timeout=10).read()
except OSError as error:
    sys.exit(f"the API does not answer: {error}")  # anything but 0 is a failure
target = Path(os.environ["rates_location"])
target.parent.mkdir(parents=True, exist_ok=True)
target.write_bytes(answer)
