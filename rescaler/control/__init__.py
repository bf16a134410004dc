"""The pure core of the rescaler: what becomes of each decision, and when. Values in, values out.

`controller` routes every input to a `job.turn.Turn` at one job: `job.job` says what may happen, `job.rescale` carries it out,
`units` chooses parallel units. `hosts` moves units when hosts come and go.
"""
