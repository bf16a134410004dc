"""A real Flink on this machine: the distribution, a session cluster, and a job to scale.

    distribution   fetches Flink once, by package name, checked against a lock
    cluster        a session cluster: one JobManager and some TaskManagers
    job            the job's settings; submits it
    compiled       compiles Java sources at first use

The demo:
    watch          what one job does, seen from outside
    peer           Flink's own autoscaler, with a job of its own
    pipeline           all of it with the jobs that are compared, as one object
    demo_command   ``surescale flink-demo``

`java/` has the sources of the job and of the loop around upstream's autoscaler, `locks/` the hashes of each version of Flink.
"""
