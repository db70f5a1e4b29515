#!/bin/sh
# The compiler with clippy's lints, each of which is an error: cargo runs it in the compiler's place for flock's own crates if
# RUSTC_WORKSPACE_WRAPPER names it. What is built anyway is not read a second time for the lints.
exec clippy-driver "$@" -D warnings
