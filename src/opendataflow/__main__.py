"""python -m opendataflow is odf."""

from opendataflow.cli import main

main()
