"""The bundled trainer: a small model on the packed stream, and the proof of the data. Its files, by what they are for:

config stages schedule sizes          what is asked for
facts settle inputs                   what each stage reads, opened and checked before anything is written
run stage_records checkpoint          the run's folder
build layers model vision             the model, its start, its optimizer
tasks objective preference            what is learned
loop state ranks                      the steps: begin with loop.py, which is a run from top to bottom
clock counts flops norms              what is measured of a step
metrics board held_out evaluate       where it is written, and what is measured on held-back data
"""
