"""A real Flink on this machine: the distribution, a session cluster, and a job to scale.

    distribution   fetches Flink once, by package name, checked against a lock
    cluster        a session cluster: one JobManager and some TaskManagers
    scaled_job     the job's settings; submits it

The demo:
    flink_pipeline all of it with the jobs that are compared, as one object

`java/` has the job's source, `locks/` the hashes of each version of Flink.
"""
