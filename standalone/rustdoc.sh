#!/bin/sh
# Takes rustdoc's place where cargo tries the examples of the documentation (RUSTDOC), and makes the documentation instead,
# of private items too: each warning is an error. It uses what was compiled for the tests. `cargo doc` would check all
# dependencies once more, which takes longer than the documentation itself.
#
#   RUSTDOC=$PWD/standalone/rustdoc.sh cargo test --doc
skip=
for argument do
    shift
    if [ -n "$skip" ]; then
        skip=
        continue
    fi
    case $argument in
    --test | --nocapture | --test-run-directory=* | --test-args=*) continue ;;
    --test-run-directory | --test-args)
        skip=1
        continue
        ;;
    esac
    set -- "$@" "$argument"
done
exec rustdoc "$@" --document-private-items -D warnings -o "${CARGO_TARGET_DIR:-target}/doc-test"
