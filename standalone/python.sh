# Packages of PyPI for the scripts that try flock with programs in Python. To be sourced. uv installs them: it
# takes a tenth of pip's processor time, and keeps what several scripts need.
# shellcheck shell=bash
uv_version=uv==0.13.9

# Gives `uv`. It is made once for all scripts of the checkout, and those that come at the same time each make their own.
get_uv() {
    local folder made index
    # As pip does. A mirror that pip is told about is used too.
    export UV_SYSTEM_CERTS=1 UV_NO_CONFIG=1 UV_PYTHON_DOWNLOADS=never
    if index=${PIP_INDEX_URL:-$(python3 -m pip config get global.index-url 2>/dev/null)}; then
        export UV_DEFAULT_INDEX=$index
    fi
    folder=$(realpath -m "${CARGO_TARGET_DIR:-$(dirname "${BASH_SOURCE[0]}")/../target}")/$uv_version
    uv=$folder/bin/uv
    [ ! -x "$uv" ] || return 0
    mkdir -p "$(dirname "$folder")"
    made=$(mktemp -d "$folder-XXXXXXXX")
    python3 -m venv "$made"
    "$made/bin/pip" install --quiet --disable-pip-version-check --no-compile --only-binary :all: "$uv_version"
    mv -T "$made" "$folder" 2>/dev/null || rm -r "$made"
    [ -x "$uv" ]
}

# Makes a virtual environment with these packages. Wheels only: nothing is compiled, and nothing of a package runs.
new_venv() {
    local folder=$1
    shift
    get_uv
    "$uv" --quiet venv --python "$(command -v python3)" "$folder"
    "$uv" --quiet pip install --python "$folder/bin/python" --only-binary :all: "$@"
}
