"""Checks a bridge to a real Synapse. Usage: matrix_checks.py FOLDER [OPTIONS], see matrix.sh."""

import bridge_run
import matrix_synapse
from matrix_rooms import forms, joined, quoted
from matrix_stage import Stage

bridge_run.main(Stage, parts=(joined, quoted, forms), alone=matrix_synapse.everything)
