#!/bin/sh
# Runs gpu:check or gpu:bench from the folder that gpu:pack wrote:
#   run.sh check [OPTIONS]     results in $OUT/gpu-check.json
#   run.sh bench [OPTIONS]     results in $OUT/gpu-bench/
# OUT: folder of the results (default: the current one). KVLAB_WORK: folder for the unpacked Node (default: /tmp/kvlab-gpu).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-.}
node=node
if [ -f "$here/node.xz" ]; then
  work=${KVLAB_WORK:-/tmp/kvlab-gpu}
  node=$work/node
  if [ ! -x "$node" ]; then
    mkdir -p "$work"
    python3 -c 'import lzma, shutil, sys; shutil.copyfileobj(lzma.open(sys.argv[1]), open(sys.argv[2], "wb"))' \
      "$here/node.xz" "$node.$$"
    chmod +x "$node.$$"
    mv "$node.$$" "$node"
  fi
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
