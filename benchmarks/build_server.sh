#!/usr/bin/env bash
# Build llama-server from the source inside llama-cpp-python's sdist: the same llama.cpp that agentloop runs on.
#
#     bash benchmarks/build_server.sh [FOLDER]     (default: ~/.cache/agentloop/llama-server)
#
# Needs python with pip, cmake, a C++ compiler, and ninja or make. Takes about 10 minutes on two cores.
set -euo pipefail

folder="${1:-${XDG_CACHE_HOME:-$HOME/.cache}/agentloop/llama-server}"
python="${PYTHON:-python3}"
version="$("$python" -c 'from importlib.metadata import version; print(version("llama-cpp-python"))')"
mkdir -p "$folder"
folder="$(cd "$folder" && pwd)"

if [ ! -d "$folder/llama_cpp_python-$version" ]; then
    "$python" -m pip download --no-deps --no-build-isolation --no-binary :all: --dest "$folder" \
        "llama-cpp-python==$version"
    tar -xzf "$folder"/llama_cpp_python-"$version".tar.gz -C "$folder"
fi

generator=()
command -v ninja >/dev/null && generator=(-G Ninja)
cmake -S "$folder/llama_cpp_python-$version/vendor/llama.cpp" -B "$folder/build" "${generator[@]}" \
    -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
    -DLLAMA_BUILD_SERVER=ON -DLLAMA_BUILD_UI=OFF -DGGML_NATIVE=ON
cmake --build "$folder/build" --target llama-server --parallel "$(getconf _NPROCESSORS_ONLN)"

ln -sfn "$folder/build/bin" "$folder/bin"
"$folder/bin/llama-server" --version
echo "export AGENTLOOP_LLAMA_SERVER=$folder/bin/llama-server"
