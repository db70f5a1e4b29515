# What the scripts share that run flock with a platform. To be sourced in the project's folder.
# shellcheck shell=bash
. standalone/python.sh

# A home in `work` for the platform NAME, which is cleared away in the end. With --alone among the arguments after it no
# flock is needed. Installed packages go to KEPT, or to `work` where that is empty.
#
#   stage NAME KEPT "$@"
stage() {
    name=$1 kept=$2
    shift 2
    is_alone=
    [[ " $* " != *" --alone "* ]] || is_alone=1
    binary=$(realpath -m "${FLOCK_BINARY:-${CARGO_TARGET_DIR:-target}/release/flock}")
    if [ -z "$is_alone" ] && [ ! -x "$binary" ]; then
        echo "no binary at $binary: cargo build --release" >&2
        exit 1
    fi
    work=$(mktemp -d "/var/tmp/flock-$name-XXXXXXXX")
    kept=${kept:-$work/kept}
    mkdir -p "$kept"
    export FLOCK_BINARY=$binary FLOCK_HOME=$work/home FLOCK_NO_PROGRESS=1
    # Servers and clients start several times, and compile their packages only the first time. Nothing goes to the checkout.
    export PYTHONPYCACHEPREFIX=$work/pycache
    # No proxy of this machine is to see loopback. Packages may have to come through one.
    loopback=(env --unset={http,https,all}_proxy --unset={HTTP,HTTPS,ALL}_PROXY "HOME=$work")
    trap leave EXIT
}

leave() {
    [ ! -x "$binary" ] || [ ! -d "$FLOCK_HOME" ] || "$binary" stop >/dev/null 2>&1 || true
    # The checks end what they started. Only a run that was killed leaves a server.
    local file
    while read -r file; do kill -KILL "$(cat "$file")" 2>/dev/null || true; done < <(find "$work" -maxdepth 3 -name pid)
    if [ -n "${FLOCK_KEEP:-}" ]; then echo "kept: $work"; else rm -rf "$work"; fi
}

named() { sha256sum <<<"$*" | cut -c-12; }

# Of two runs that install at once, the second finds the folder there and uses it.
keep() { mv -T "$1" "$2" 2>/dev/null || [ -d "$2" ]; }

# Gives `python`, which has these packages of PyPI. Wheels only: nothing is compiled.
with_python() {
    local folder
    folder=$kept/python-$(named "$@")
    if [ ! -d "$folder" ]; then
        # A venv works where it was moved to, except for the scripts in its bin folder.
        new_venv "$work/python" "$@"
        keep "$work/python" "$folder"
        echo "$* from PyPI (${SECONDS} s)"
    fi
    python=$folder/bin/python
}

# Succeeds if the node here has at least this major version.
has_node() {
    node -e 'process.exit(Number(process.versions.node.split(".")[0]) >= Number(process.argv[1]) ? 0 : 1)' "$1" 2>/dev/null
}

# A folder `node` in `work` with this module of standalone/, and these packages of npm beside it: a module's imports are
# looked for there. Where node is older than the packages need, its own is to be among them.
with_node() {
    local module=$1 folder
    shift
    folder=$kept/node-$(named "$@")
    if [ ! -d "$folder" ]; then
        mkdir "$work/modules"
        (cd "$work/modules" && npm init --yes >/dev/null && npm install --silent --no-audit --no-fund "$@")
        keep "$work/modules" "$folder"
        echo "$* from npm (${SECONDS} s)"
    fi
    mkdir "$work/node"
    ln -s "$folder/node_modules" "$work/node/node_modules"
    cp "standalone/$module" "$work/node/"
    export PATH=$folder/node_modules/node/bin:$PATH
}
