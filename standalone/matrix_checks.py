"""Checks a bridge to a real Synapse. Usage: matrix_checks.py FOLDER [OPTIONS], see matrix.sh."""

import bridge_run
import matrix_synapse
from matrix_rooms import (
    encrypted_later, forged, forms, joined, pills, powerless, put_out, quoted, renamed, replaced, threads,
)
from matrix_stage import Stage

parts = (joined, quoted, forms, pills, forged, threads, renamed, powerless, replaced, put_out, encrypted_later)
bridge_run.main(Stage, parts=parts, alone=matrix_synapse.everything)
