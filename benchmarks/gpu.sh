#!/usr/bin/env bash
# What runs on a device, held and measured: benchmarks/gpu.sh [WORK]
#
# On a GPU, in under 8 minutes: the tests that need one (equality with the CPU, kernels, no wait for the device), times beside a
# device copy, the rate at which a loader feeds it. Without one: the same correctness through Triton's interpreter and on the
# CPU (the rest of it is in `make test`); times are left out. Store what it prints on a GPU, with machine and versions, under benchmarks/results/.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python}
work=${1:-$(mktemp -d)}
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}

device=$("$python" -c 'import torch; print("cuda" if torch.cuda.is_available() else "cpu")')
echo "== device: $device"
"$python" - <<'PY'
import platform, torch
print("python", platform.python_version(), "torch", torch.__version__)
if torch.cuda.is_available():
    print(torch.cuda.get_device_name(), "driver", torch.version.cuda)
PY

echo "== the kernel in the interpreter"
"$python" -m tests.loader.kernel_check

if [ "$device" = cuda ]; then
    echo "== tests that need a GPU"
    "$python" -m pytest -q -p no:cacheprovider -m gpu tests/loader tests/trainer
    echo "== times"
    "$python" benchmarks/bench_device.py --device cuda --tokens 32768 --images 61 --side 448 --rounds 20
else
    echo "== the device build on the CPU"
    "$python" benchmarks/bench_device.py --device cpu --check
fi
echo "== a loader feeds the device"
"$python" -m shardkit ingest caption tests/data/captions -o "$work/captions" --quiet
"$python" -m shardkit tokenize "$work/captions" -o "$work/tokens" --tokenizer tests/data/tokenizer --recipe vlm --quiet
"$python" benchmarks/feed.py "$work/tokens" --device "$device" --steps 200
echo "== the same, JPEGs decoded on the device"
[ "$device" = cuda ] && jpegs=torchcodec.decoders || jpegs=simplejpeg
if "$python" -c "import $jpegs" 2>/dev/null; then
    "$python" benchmarks/feed.py "$work/tokens" --device "$device" --decoder device --steps 20
else
    echo "$jpegs is not there: pip install 'shardkit[device]' for a GPU, 'shardkit[turbo]' for a CPU"
fi
echo "== done"
