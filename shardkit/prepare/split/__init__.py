"""train, val and test that share nothing.

rows.py        the rows that are split, and the ones that only tie: removed duplicates, rows of --like and --parents
ties.py        what a worker reads of each: keys, values that tie, sizes, languages, times, parents
declared.py    the key that a source gives: --group-by
times.py       --split-by-time
earlier.py     what the stages before know: duplicates, components, boilerplate
near.py        near texts, pictures and vectors: as dedup found them, else compared
groups.py      components, and what is too frequent to join them; evidence.py says in words what does
ledger.py      which key went where
assign.py      a split for each component: by the ledger, by time, by hash, or greedily
order.py       the order of each split, cut into units
write.py       a unit's shards
report.py      rows and groups by split, source and language
"""
