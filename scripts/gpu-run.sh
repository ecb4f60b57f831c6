#!/bin/sh
# Runs gpu:check or gpu:bench from the folder that gpu:pack wrote:
#   run.sh check [OPTIONS]     results in $OUT/gpu-check.json
#   run.sh bench [OPTIONS]     results in $OUT/gpu-bench/
# OUT: folder of the results (default: the current one). KVLAB_WORK: folder for the unpacked Node (default: /tmp/kvlab-gpu).
set -eu
# unpack FILE.xz FILE: fails where neither Python has lzma nor xz is installed.
unpack() {
  if python3 -c 'import lzma' 2> /dev/null; then
    python3 -c 'import lzma, shutil, sys; shutil.copyfileobj(lzma.open(sys.argv[1]), open(sys.argv[2], "wb"))' "$1" "$2"
  else
    xz -dc "$1" > "$2" 2> /dev/null
  fi
}

here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-.}
node=node
if [ -f "$here/node.xz" ]; then
  work=${KVLAB_WORK:-/tmp/kvlab-gpu}
  node=$work/node
  if [ ! -x "$node" ]; then
    mkdir -p "$work"
    if unpack "$here/node.xz" "$node.$$"; then
      chmod +x "$node.$$"
      mv "$node.$$" "$node"
    else
      rm -f "$node.$$"
      node=node
    fi
  fi
fi
if ! command -v "$node" > /dev/null; then
  echo "run.sh: no Node: install Python 3 with lzma, or xz, which unpack the packed one, or Node 20 or later in PATH" >&2
  exit 2
fi
# cuBLAS and NVRTC may be in Python packages.
libraries=$(python3 -c 'import glob, importlib.util as u
spec = u.find_spec("nvidia")
print(":".join(d for p in (spec.submodule_search_locations if spec else []) for d in sorted(glob.glob(p + "/*/lib"))))' || true)
export LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
KVLAB_COMMIT=$(cat "$here/commit")
export KVLAB_COMMIT
program=${1:-}
[ $# -gt 0 ] && shift
case $program in
check)
  exec "$node" "$here/program/check.js" --expected "$here/expected" --out "$out/gpu-check.json" "$@"
  ;;
bench)
  [ -f "$here/trace.jsonl" ] && set -- --trace "$here/trace.jsonl" "$@"
  exec "$node" "$here/program/bench.js" --out "$out/gpu-bench" "$@"
  ;;
*)
  echo "run.sh: expected check or bench" >&2
  exit 2
  ;;
esac
