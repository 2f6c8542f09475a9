"""The proofs of `bench_train.py`: each takes real data the whole road and says what it found against what.

sets.py        raw files -> ingest -> split -> tokenize
words.py       the generated set: pictures of words, and a text that only the picture tells
held_back.py   losses on held-back groups, of the model and of a unigram
proofs.py      lm, sft, dpo, pictures: what is trained, and what is claimed of it
packing.py     packed against unpacked, and whether anything crosses a document's border
feeding.py     how long a run waits for data, how fast the loader is alone, what a mixture delivered
"""
