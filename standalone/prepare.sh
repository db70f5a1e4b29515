#!/usr/bin/env bash
# Brings what flock needs on a Debian or Ubuntu machine: a Docker engine that answers, and debootstrap, with
# which `flock init` makes its images where no registry can be reached. Says what it does; does nothing that
# is not needed. Run it as root, or as a user who may use sudo.
set -euo pipefail

say() { printf 'prepare: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

engine_answers() { docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

packages=()
command -v dockerd >/dev/null || engine_answers || packages+=(docker.io)
command -v docker >/dev/null || [ " ${packages[*]-} " = " docker.io " ] || packages+=(docker.io)
command -v debootstrap >/dev/null || [ -x /usr/sbin/debootstrap ] || packages+=(debootstrap)
command -v cc >/dev/null || packages+=(gcc libc6-dev)
for package in "$@"; do packages+=("$package"); done

if [ "${#packages[@]}" -gt 0 ]; then
    command -v apt-get >/dev/null || fail "needs ${packages[*]}; install them and run this again"
    say "installing ${packages[*]} with apt-get"
    export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
    # -E keeps a proxy that the machine may need.
    if [ "$(id -u)" = 0 ]; then apt=(apt-get); else apt=(sudo -E apt-get); fi
    log=$(mktemp)
    "${apt[@]}" update -qq >"$log" 2>&1 || say "apt-get update failed; trying with the lists that are there"
    if ! "${apt[@]}" install -y -qq --no-install-recommends "${packages[@]}" >>"$log" 2>&1 </dev/null; then
        tail -n 30 "$log" >&2
        fail "apt-get could not install ${packages[*]}: see above"
    fi
    rm -f "$log"
fi

if ! engine_answers; then
    if [ -d /run/systemd/system ]; then
        say "starting the Docker engine with systemctl"
        as_root systemctl start docker >&2
    else
        say "starting dockerd; its log is /var/log/flock-dockerd.log"
        as_root sh -c 'setsid dockerd >/var/log/flock-dockerd.log 2>&1 </dev/null &'
    fi
    for _ in $(seq 600); do
        engine_answers && break
        sleep 0.1
    done
fi
if ! engine_answers; then
    if [ "$(id -u)" != 0 ] && sudo -n docker version >/dev/null 2>&1; then
        fail "the Docker engine runs, but $(id -un) may not use it: sudo usermod -aG docker $(id -un), then log in again"
    fi
    tail -n 20 /var/log/flock-dockerd.log >&2 2>/dev/null || true
    fail "no Docker engine answers: see above, or run 'docker version'"
fi
say "Docker engine $(docker version --format '{{.Server.Version}}') answers"
