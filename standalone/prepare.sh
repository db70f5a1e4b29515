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

# As root, or where the engine's group lets this user in.
engine_answers() { docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

# A zombie does not run. Without pgrep, which a small system may not have.
dockerd_runs() {
    local file line
    for file in /proc/[0-9]*/stat; do
        read -r line 2>/dev/null <"$file" || continue
        case "$line" in
        *"(dockerd) Z"* | *"(dockerd) X"*) ;;
        *"(dockerd) "*) return 0 ;;
        esac
    done
    return 1
}

packages=()
command -v dockerd >/dev/null || engine_answers || packages+=(docker.io)
command -v docker >/dev/null || [ " ${packages[*]-} " = " docker.io " ] || packages+=(docker.io)
command -v debootstrap >/dev/null || [ -x /usr/sbin/debootstrap ] || packages+=(debootstrap)
command -v cc >/dev/null || packages+=(gcc libc6-dev)
# Tests register these with an engine of their own.
if [ "$(id -u)" = 0 ] && command -v apt-cache >/dev/null; then
    for runtime in crun runsc; do
        command -v "$runtime" >/dev/null || ! apt-cache show "$runtime" >/dev/null 2>&1 || packages+=("$runtime")
    done
    # Tests run one of their own, by which they reach an engine.
    [ -x /usr/sbin/sshd ] || packages+=(openssh-server openssh-client)
fi
for package in "$@"; do packages+=("$package"); done
# Newer releases have the client in a package of its own.
if [ " ${packages[*]-} " = " docker.io " ] || [[ " ${packages[*]-} " == *" docker.io "* ]]; then
    apt-cache show docker-cli >/dev/null 2>&1 && packages+=(docker-cli)
fi
# The password is asked for now, not in the middle of a long step.
if [ "$(id -u)" != 0 ] && [ "${#packages[@]}" -gt 0 ]; then
    command -v sudo >/dev/null || fail "run this as root, or install sudo"
    sudo -v
fi

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
        # What a killed engine left behind: its number may be another process's by now.
        if ! dockerd_runs; then
            as_root rm -f /var/run/docker.pid /var/run/docker/containerd/containerd.pid
        fi
        as_root sh -c 'setsid dockerd >/var/log/flock-dockerd.log 2>&1 </dev/null &'
    fi
    for _ in $(seq 600); do
        engine_answers && break
        # It runs, and this user may not use it: no waiting helps.
        [ "$(id -u)" = 0 ] || ! sudo -n docker version >/dev/null 2>&1 || break
        sleep 0.1
    done
fi
if ! engine_answers; then
    if [ "$(id -u)" != 0 ] && sudo -n docker version >/dev/null 2>&1; then
        say "adding $(id -un) to the group docker, which may use the engine"
        sudo usermod -aG docker "$(id -un)"
        # Exit code 9: a new login, or `sg docker`, has the group.
        say "the group counts from the next login on"
        exit 9
    fi
    tail -n 20 /var/log/flock-dockerd.log >&2 2>/dev/null || true
    fail "no Docker engine answers: see above, or run 'docker version'"
fi
say "Docker engine $(docker version --format '{{.Server.Version}}') answers"
