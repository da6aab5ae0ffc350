#!/usr/bin/env bash
# Makes sure that the base images of the examples and tests are in the engine.
#
#   bash scripts/setup_images.sh [python:3.11-slim ...]      debian:bookworm-slim, and those that are named
#
# What is missing is pulled. Where no registry answers, it is made here from Debian's packages, which needs root
# on Debian or Ubuntu; a Python other than Debian's (3.11) is copied from this machine. Nothing is kept outside
# the engine.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/find_python.sh"

debian=debian:bookworm-slim
debians_python=python:3.11-slim
pull_limit=180 # seconds
scratch=
# If debootstrap is stopped half-way, the host's /proc may still be mounted below.
remove_scratch() { [[ -z $scratch ]] || rm -rf --one-file-system "$scratch"; }
trap remove_scratch EXIT

say() { printf 'setup_images: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

# A client that is too new refuses an old engine; the one that came with the engine does not.
find_client() {
    for client in docker /usr/bin/docker; do
        "$client" version --format '{{.Server.Version}}' >/dev/null 2>&1 && return
    done
    return 1
}

install_client() {
    [[ $EUID -eq 0 ]] && command -v apt-get >/dev/null || return 1
    say "installing the docker command line"
    # Debian 12 and Ubuntu have it in the engine's package.
    quietly apt-get update && { install_packages docker-cli 2>/dev/null || install_packages docker.io; }
}

install_packages() { DEBIAN_FRONTEND=noninteractive quietly apt-get install -y --no-install-recommends "$@"; }

# Shows what a command prints only if it fails.
quietly() {
    local output
    output=$("$@" 2>&1) || {
        printf '%s\n' "$output" >&2
        return 1
    }
}

is_here() { "$client" image inspect "$1" >/dev/null 2>&1; }

pull() {
    local limit=()
    if command -v timeout >/dev/null; then limit=(timeout "$pull_limit"); fi # macOS has none
    say "pulling $1"
    # Only the last line: the cause.
    ${limit[@]+"${limit[@]}"} "$client" pull --quiet "$1" 2>&1 >/dev/null | tail -n 1 >&2
}

make_debian() {
    if [[ $EUID -ne 0 ]] || ! command -v apt-get >/dev/null; then
        die "cannot make $debian here: that needs root on Debian or Ubuntu. Bring it with: docker load"
    fi
    command -v debootstrap >/dev/null || {
        quietly apt-get update
        install_packages debootstrap debian-archive-keyring
    }
    say "making $debian from Debian's packages"
    scratch=$(mktemp -d)
    local root=$scratch/root
    bootstrap "$root"
    # As in the published image: no package lists, no downloaded packages.
    rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/* "$root"/var/log/*.log
    tar -C "$root" --numeric-owner -c . | "$client" import --change 'CMD ["bash"]' \
        --message "made with debootstrap" - "$debian" >/dev/null
    remove_scratch
}

# Debian's own server first, then the mirrors that this machine's apt uses.
bootstrap() {
    local root=$1 mirror
    export_proxy
    while read -r mirror; do
        has_bookworm "$mirror" || continue
        rm -rf "$root"
        debootstrap --variant=minbase bookworm "$root" "$mirror" >"$scratch/log" 2>&1 && return
        say "debootstrap from $mirror failed:"
        tail -n 5 "$scratch/log" >&2
    done < <({ echo http://deb.debian.org/debian; apt_mirrors; } | awk '!seen[$0]++')
    die "no mirror of Debian bookworm could be used"
}

# The addresses in /etc/apt, in both of its formats: "deb [options] ADDRESS suite ..." and "URIs: ADDRESS ...".
apt_mirrors() {
    find /etc/apt/sources.list /etc/apt/sources.list.d -type f 2>/dev/null | sort | while read -r file; do
        sed -nE -e 's/^deb[[:space:]]+(\[[^]]*\][[:space:]]+)?([^[:space:]]+).*/\2/p' \
            -e 's/^URIs:[[:space:]]*//p' "$file"
    done | tr -s '[:space:]' '\n' | sed -e 's|/$||' -e '/^$/d'
}

has_bookworm() {
    case $1 in
        http*) wget -q --tries=1 --timeout=15 -O /dev/null "$1/dists/bookworm/Release" ;;
        file:*) [[ -e ${1#file:}/dists/bookworm/Release ]] ;;
        *) return 1 ;;
    esac
}

# apt may know a proxy that wget is not told of.
export_proxy() {
    local proxy=
    eval "$(apt-config shell proxy Acquire::http::Proxy)"
    if [[ -n $proxy && $proxy != DIRECT && -z ${http_proxy:-} ]]; then export http_proxy=$proxy; fi
}

make_python() {
    ensure "$debian"
    if [[ $1 == "$debians_python" ]]; then
        say "making $1 from Debian's packages"
        build "$1" - <<DOCKERFILE
FROM $debian
ENV PIP_BREAK_SYSTEM_PACKAGES=1
RUN apt-get update -qq \\
    && apt-get install -y -qq --no-install-recommends python3 python3-pip ca-certificates \\
    && ln -s python3 /usr/bin/python \\
    && rm -rf /var/lib/apt/lists/*
CMD ["python3"]
DOCKERFILE
    else
        copy_python "$1"
    fi
}

# A Python of this machine in /usr/local, as the published image has it, without what was installed into it.
copy_python() {
    local minor=${1#python:3.} python prefix libraries
    minor=${minor%-slim}
    python=$(find_python "sys.version_info[:2] == (3, $minor) and sys.prefix == sys.base_prefix" ensurepip) ||
        die "cannot make $1 here: this machine has no Python 3.$minor, nor did a registry answer"
    prefix=$("$python" -c 'import sys; print(sys.base_prefix)')
    [[ $prefix != /usr ]] || die "cannot make $1 here: $python belongs to this machine's system"
    say "making $1 from $prefix"
    scratch=$(mktemp -d)
    libraries=$(cd "$prefix" && find lib -maxdepth 1 -name "libpython3*.so*")
    tar -C "$prefix" --exclude='site-packages/*' --exclude='__pycache__' --exclude="lib/python3.$minor/test" \
        -cf "$scratch/python.tar" "lib/python3.$minor" "bin/python3.$minor" $libraries # one word each
    cat >"$scratch/Dockerfile" <<DOCKERFILE
FROM $debian
RUN apt-get update -qq \\
    && apt-get install -y -qq --no-install-recommends ca-certificates libbz2-1.0 libffi8 liblzma5 libncursesw6 \\
        libreadline8 libsqlite3-0 libssl3 libuuid1 zlib1g \\
    && rm -rf /var/lib/apt/lists/*
ADD python.tar /usr/local/
RUN ldconfig \\
    && for name in python3 python; do ln -s python3.$minor /usr/local/bin/\$name; done \\
    && python3 -m ensurepip \\
    && ln -s pip3 /usr/local/bin/pip \\
    && python3 -c 'import bz2, ctypes, lzma, sqlite3, ssl, zlib'
CMD ["python3"]
DOCKERFILE
    build "$1" "$scratch"
    remove_scratch
}

# Builds what standard input or a folder says, with the host's network, since an engine may have no other.
build() {
    local output
    output=$("$client" build --network host --tag "$1" "$2" 2>&1) ||
        die "the build failed:"$'\n'"$(tail -n 20 <<<"$output")"
}

ensure() {
    is_here "$1" && return
    pull "$1" && return
    case $1 in
        "$debian") make_debian ;;
        *) make_python "$1" ;;
    esac
}

for image in "$@"; do
    [[ $image == "$debian" || $image =~ ^python:3\.[0-9]+-slim$ ]] ||
        die "unknown image $image: known are $debian and python:3.N-slim, such as $debians_python"
done
find_client || { install_client && find_client; } ||
    die "the docker command line is missing, or no engine answers: see scripts/setup_engine.sh"
ensure "$debian"
for image in "$@"; do ensure "$image"; done
