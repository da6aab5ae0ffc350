#!/usr/bin/env bash
# Makes sure that a Docker engine answers: the one of DOCKER_HOST, else the machine's own.
#
#   bash scripts/setup_engine.sh
#
# Where none does: as root on Debian or Ubuntu, installs and starts one; elsewhere says what is needed and fails.
set -euo pipefail

default_host=unix:///var/run/docker.sock
host=${DOCKER_HOST:-$default_host}

say() { printf 'setup_engine: %s\n' "$*" >&2; }

# The command line knows contexts and TLS; curl works where there is no command line, or one that is too new.
answers() {
    docker version --format '{{.Server.Version}}' >/dev/null 2>&1 && return
    [[ -z ${DOCKER_CONTEXT:-} ]] || return 1
    case $host in
        unix://*) curl -fsS --max-time 10 --unix-socket "${host#unix://}" http://engine/_ping >/dev/null 2>&1 ;;
        tcp://*) curl -fsS --max-time 10 "http://${host#tcp://}/_ping" >/dev/null 2>&1 ;;
        *) return 1 ;;
    esac
}

# Prints why no engine can be started here, and what to do about it; nothing if one can.
obstacle() {
    if [[ $host != "$default_host" || -n ${DOCKER_CONTEXT:-} ]]; then
        echo "no engine answers at ${DOCKER_CONTEXT:+the context $DOCKER_CONTEXT}${DOCKER_HOST:-}."
        echo "Start that one, or unset DOCKER_HOST and DOCKER_CONTEXT to use this machine's own."
    elif [[ $(uname -s) != Linux ]]; then
        echo "no Docker engine answers. Start Docker Desktop, or: brew install docker colima && colima start"
        echo "colima's socket must be known: docker context use colima"
    elif [[ -S ${host#unix://} && ! -w ${host#unix://} ]]; then
        echo "there is an engine, but $(id -un) may not use ${host#unix://}."
        echo "Run: sudo usermod -aG docker $(id -un), then log in again."
    elif [[ $EUID -ne 0 ]]; then
        echo "no Docker engine answers, and starting one needs root. Either: sudo bash scripts/setup_engine.sh"
        echo "or a rootless one: https://docs.docker.com/engine/security/rootless/"
        echo "(then: export DOCKER_HOST=unix://\$XDG_RUNTIME_DIR/docker.sock)"
    elif ! command -v dockerd >/dev/null && ! command -v apt-get >/dev/null; then
        echo "no Docker engine is installed, and this is neither Debian nor Ubuntu."
        echo "Install one: https://docs.docker.com/engine/install/"
    fi
}

# Shows what a command prints only if it fails.
quietly() {
    local output
    output=$("$@" 2>&1) || {
        printf '%s\n' "$output" >&2
        return 1
    }
}

install_engine() {
    say "installing the engine (docker.io)"
    export DEBIAN_FRONTEND=noninteractive
    local packages=(docker.io iptables)
    quietly apt-get update
    # Debian 13 has the command line in a package of its own.
    if apt-cache show docker-cli 2>/dev/null | grep -q '^Package: docker-cli$'; then packages+=(docker-cli); fi
    quietly apt-get install -y --no-install-recommends "${packages[@]}"
}

# True if an overlay can be mounted below the folder; it cannot where that is an overlay itself (in a container).
overlay_works() {
    local probe works=1
    mkdir -p "$1"
    probe=$(mktemp -d "$1/overlay-probe.XXXXXX")
    mkdir "$probe/lower" "$probe/upper" "$probe/work" "$probe/merged"
    if mount -t overlay overlay "$probe/merged" \
        -o "lowerdir=$probe/lower,upperdir=$probe/upper,workdir=$probe/work" 2>/dev/null; then
        umount "$probe/merged"
        works=0
    fi
    rm -rf "$probe"
    return $works
}

start_by_hand() {
    local log=/var/log/dockerd.log arguments=() other pid
    [[ -w /var/log ]] || log=${TMPDIR:-/tmp}/dockerd.log
    other=${TMPDIR:-/tmp}/docker-data
    # Without overlays the engine would copy every image whole for each container.
    if [[ ! -e /etc/docker/daemon.json ]] && ! overlay_works /var/lib/docker && overlay_works "$other"; then
        arguments=(--data-root "$other")
    fi
    say "starting dockerd${arguments[*]:+ ${arguments[*]}} (log: $log)"
    setsid nohup dockerd ${arguments[@]+"${arguments[@]}"} >"$log" 2>&1 </dev/null &
    pid=$!
    wait_for_engine "$pid" || failed "$(tail -n 20 "$log")"
}

start_by_systemd() {
    say "starting the docker service"
    systemctl start docker || true
    wait_for_engine || failed "$(journalctl -u docker -n 20 --no-pager 2>&1)"
}

# Waits up to a minute; not for a process that has ended, unless another engine is starting (Debian's own script).
wait_for_engine() {
    local pid=${1:-}
    for _ in {1..120}; do
        answers && return
        [[ -z $pid ]] || is_alive "$pid" || is_alive "$(cat /var/run/docker.pid 2>/dev/null)" || return 1
        sleep 0.5
    done
    return 1
}

is_alive() { [[ -n $1 ]] && kill -0 "$1" 2>/dev/null; }

failed() {
    say "the engine did not start. The end of its log:"
    printf '%s\n' "$1" >&2
    exit 1
}

answers && exit
problem=$(obstacle)
if [[ -n $problem ]]; then
    while read -r line; do say "$line"; done <<<"$problem"
    exit 1
fi
# The client alone is often there, so it is the daemon that counts.
command -v dockerd >/dev/null || install_engine
answers && exit
if [[ -d /run/systemd/system ]]; then start_by_systemd; else start_by_hand; fi
