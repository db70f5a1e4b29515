#!/usr/bin/env bash
# Makes a release below target/release-files (or the folder given): a tarball and a Debian package with the program, its
# manual pages, completions, the quickstart and the licences of its parts; the list of parts (CycloneDX); SHA256SUMS.
# Installs cargo-about, cargo-deb and cargo-cyclonedx where they are not there yet. FLOCK_BINARY names a release build
# to pack instead of making one.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'release: %s\n' "$*" >&2; }
# Builds a cargo subcommand where it is missing: `tool NAME VERSION PROFILE [OPTION…]`.
tool() {
    cargo "$1" --version >/dev/null 2>&1 || cargo "$1" --help >/dev/null 2>&1 || {
        say "installing cargo-$1, which takes some minutes"
        cargo install --locked --quiet "cargo-$1@$2" --profile "$3" "${@:4}"
    }
}

# cargo-about compares every licence text with all that it knows: unoptimised that takes the better part of an hour.
# The others run for seconds, and would take three times as long to build.
tool about 0.9.3 release --features cli
tool deb 3.8.0 dev
tool cyclonedx 0.5.9 dev

# What is packed names its commit, also where cargo has compiled it for the one before.
if [ -z "${FLOCK_COMMIT:-}" ] && [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$(pwd -P)" ]; then
    FLOCK_COMMIT=$(git rev-parse --short=12 HEAD)
    [ -z "$(git status --porcelain -- src build.rs Cargo.toml Cargo.lock)" ] || FLOCK_COMMIT+=-dirty
    export FLOCK_COMMIT
fi
if [ -z "${FLOCK_BINARY:-}" ]; then
    cargo build --release --locked
    FLOCK_BINARY=${CARGO_TARGET_DIR:-target}/release/flock
fi
binary=$(realpath "$FLOCK_BINARY")
say "packing $("$binary" --version)"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
machine=$(uname -m)
name=flock-$version-$machine-linux
out=$(realpath -m "${1:-${CARGO_TARGET_DIR:-target}/release-files}")
# The files of a release are as old as its commit, so that the same sources make the same archive.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder=$work/$name
mkdir -p "$folder/standalone" "$out"

say "licences of the parts"
cargo about generate --locked --fail -c packaging/about.toml packaging/third_party.hbs -o "$folder/THIRD_PARTY_LICENSES"

say "list of parts"
cargo cyclonedx --format json --spec-version 1.5 --target x86_64-unknown-linux-gnu --override-filename "$name.cdx" >/dev/null
mv "$name.cdx.json" "$out/$name.cdx.json"

say "tarball"
install -m 0755 "$binary" "$folder/flock"
cp -r man completions README.md CHANGELOG.md LICENSE "$folder/"
cp -r standalone/quickstart.sh standalone/prepare.sh standalone/scenario "$folder/standalone/"
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$work" -cf - "$name" |
    gzip -n9 >"$out/$name.tar.gz"

say "Debian package"
# cargo-deb takes what it packs from where Cargo.toml says.
mkdir -p target/packaging
cp "$folder/THIRD_PARTY_LICENSES" target/packaging/
install -m 0755 "$binary" target/packaging/flock
cargo deb --locked --no-build --no-strip --output "$out/" >&2

(cd "$out" && sha256sum -- *.tar.gz *.deb *.cdx.json >SHA256SUMS)
say "made in $out:"
(cd "$out" && ls -l >&2)
