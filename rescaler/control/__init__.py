"""The pure core of the rescaler: what becomes of each decision, and when. Values in, values out.

`controller` gives every input for a job a `job.context.JobContext`: `job.job` says what may happen, `job.rescale` carries it out,
`units` chooses parallel units. `hosts` moves units when hosts come and go.
"""
