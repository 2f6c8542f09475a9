#!/bin/sh
# From three raw dumps to a model whose loss falls, as a user would do it. Everything lands in ./demo.
set -eu
cd "$(dirname "$0")/.."

raw=tests/data # 62 captioned pictures, 60 text lines of 19 books, 60 web documents; see its SOURCE.md
out=demo
rm -rf "$out"

# Show a command before it runs.
run() {
    printf '\n$ shardkit %s\n' "$*"
    shardkit "$@"
}

echo '== 1. Raw files to hashed shards. Every row ends as kept or excluded, with a reason.'
run ingest caption $raw/captions/00000.tar $raw/captions/pairs.csv -o $out/captions --source alttext --licence MIT
run ingest ocr $raw/ocr -o $out/lines --source dta --licence 'public domain' --group-by '@path:([^/]+)_[0-9]+_[0-9]+'
run ingest obelics $raw/obelics/obelics.parquet --images $raw/obelics --url-map $raw/obelics/url_map.jsonl \
    -o $out/pages --source pages --licence 'MIT, Apache-2.0'

echo
echo '== 2. Duplicates go, across the three.'
run dedup $out/captions $out/lines $out/pages -o $out/clean

echo
echo '== 3. Train, val and test that share no picture, no text, no book. The audit derives that again from the shards.'
run split $out/clean -o $out/split --ratios train=0.8,val=0.1,test=0.1
run audit $out/split

echo
echo '== 4. Sequences for a small vision model, and what an epoch of them will be.'
run tokenize $out/split -o $out/tokens --tokenizer $raw/tokenizer --recipe vlm --set image_size=56 --max-tokens 256
run plan $out/tokens --max-tokens 256 --global-batch 6

echo
echo '== 5. Training. The run is killed on the way; --resume goes on with the batches that would have come.'
train="train --task vlm-align --data $out/tokens --max-tokens 256 --global-batch 6 --lr 3e-3 --warmup 10 --steps 60"
train="$train --checkpoint-every 10 --out $out/run"
printf '\n$ shardkit %s &\n' "$train"
shardkit $train &
waited=0
until ls $out/run/checkpoints/step-00000020-*.pt > /dev/null 2>&1 || [ $waited -eq 600 ]; do
    sleep 0.2
    waited=$((waited + 1))
done
printf '\n$ kill -9 %s\n' $!
kill -9 $!
wait $! || true
run $train --resume --eval-permuted

echo
echo '== 6. Every byte, through all inputs.'
run verify $out/tokens --deep

echo
echo '== Loss by objective: mean of the first and of the last steps that have it'
python - $out/run/log.jsonl <<'END'
import json
import sys

losses = {}
for line in open(sys.argv[1]):
    for name, loss in json.loads(line)["loss_by_objective"].items():
        losses.setdefault(name, []).append(loss)
for name, values in sorted(losses.items()):
    print(f"{name:10} {sum(values[:5]) / len(values[:5]):7.3f} -> {sum(values[-5:]) / len(values[-5:]):7.3f}")
END

echo
echo '== Where things lie'
for name in captions lines pages clean split tokens run; do
    printf '%-10s %s\n' $name "$PWD/$out/$name"
done
