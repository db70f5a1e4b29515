# To be sourced by scripts that make homes.
# shellcheck shell=bash

# Takes what a home has left on the engine away: containers by their label, and those of OpenClaw by their name, the
# store, and the home's names of the images. The last name of an image stays, so that the next home need not make it.
clear_engine() {
    local home=$1 mark image id
    mark=$(printf %s "$home" | sha256sum | cut -c1-8)
    {
        docker ps -aq --filter "label=flock.home=$home"
        docker ps -aq --filter "name=^flock-oc-$mark-"
    } 2>/dev/null | sort -u | xargs -r docker rm -f >/dev/null 2>&1 || true
    docker volume ls -q --filter "label=flock.home=$home" 2>/dev/null | xargs -r docker volume rm >/dev/null 2>&1 || true
    for image in $(docker images --format '{{.Repository}}:{{.Tag}}' 2>/dev/null | grep -- "^flock-.*-$mark\$"); do
        id=$(docker images --no-trunc --format '{{.ID}}' "$image")
        [ "$(docker images --no-trunc --format '{{.ID}}' | grep -c "$id")" -le 1 ] || docker rmi "$image" >/dev/null 2>&1 || true
    done
}
