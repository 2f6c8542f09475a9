"""train, val and test that share nothing.

rows.py        the rows that are split, and the ones that only tie: removed duplicates, the rows of --like
declared.py    the key that a source gives: --group-by
assign.py      a split for each component: by the ledger, else by hash, or greedily in small sets
order.py       the order of each split, cut into units
write.py       a unit's shards
"""
