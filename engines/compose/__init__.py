"""Services of a Docker Compose project, by the API of the container engine that runs them.

client        the requests that are made, and no other
requirement   what the engine is asked for of a whole job: the containers that it is to run
replica       a further container of a service: a copy of one that runs; and why a service cannot have one
reconcile     ends what drains and starts what waits for room, whoever began it
hindrance     why fewer run than are asked for
"""
