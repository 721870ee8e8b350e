#!/usr/bin/env bash
# setup.sh PYTHON VENV REQUIREMENT: make the virtual environment and install into it.
# llama.cpp is compiled here, so a C++ compiler must be there; as root on Debian it is installed, elsewhere this says how.
set -euo pipefail

python=$1 venv=$2 requirement=$3

fail() {
    echo "setup: $*" >&2
    exit 1
}

apt_install() {
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        return 1
    fi
    echo "setup: installing $* with apt-get" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q >&2 && apt-get install -q -y --no-install-recommends "$@" >&2
}

if ! command -v "$python" >/dev/null; then
    apt_install python3 python3-venv || fail "$python not found. Install Python 3.10 or later, or say make PYTHON=/path/to/python."
fi
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    fail "$python is Python $version; agentloop needs 3.10 or later. Say make PYTHON=/path/to/newer/python."
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
    apt_install python3-venv ||
    fail "$python has no venv module. Install it (Debian, Ubuntu: apt-get install python3-venv)."

if ! command -v "${CC:-cc}" >/dev/null || ! command -v "${CXX:-c++}" >/dev/null; then
    apt_install build-essential ||
        fail "no C++ compiler found. Install one (Debian, Ubuntu: apt-get install build-essential; macOS: xcode-select --install)."
fi

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
if ! "$venv/bin/python" -c 'import llama_cpp' 2>/dev/null; then
    echo "setup: installing; the first time llama.cpp is compiled, which takes some minutes" >&2
fi
if [ -z "${CMAKE_BUILD_PARALLEL_LEVEL:-}" ]; then
    CMAKE_BUILD_PARALLEL_LEVEL=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
    export CMAKE_BUILD_PARALLEL_LEVEL
fi
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 10 -e "$requirement" ||
    fail "pip could not install $requirement; its messages are above."
