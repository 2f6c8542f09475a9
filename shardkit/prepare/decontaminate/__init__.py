"""Benchmarks kept out of training data.

bench.py     benchmarks read: datasets, or tables with image, question and answer (fields.py)
passages.py  what of a benchmark's texts is looked for
index.py     their n-grams as sorted hashes; only these are held, rows stream
find.py      what workers find in rows: first how often everything occurs, then what it means
common.py    what so many documents hold that it tells nothing
images.py    pictures of a benchmark among those of the inputs, from tables/assets
view.py      the output: rows of the inputs' shards, evidence, exclusions
plants.py    --self-test: known items put before the same workers
"""
