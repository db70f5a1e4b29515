#!/bin/sh
# The compiler with clippy's lints, each of which is an error: cargo runs it in the compiler's place for flock's own crates if
# RUSTC_WORKSPACE_WRAPPER names it. What is built anyway is not read a second time for the lints. With --all-targets the
# library is compiled twice: the lints read it where its own tests are compiled with it, since that is all of it.
case " $* " in
*" --crate-name flock "*" --crate-type lib "*) exec "$@" -D warnings ;;
*) exec clippy-driver "$@" -D warnings ;;
esac
