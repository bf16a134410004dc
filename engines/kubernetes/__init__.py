"""Workloads of a Kubernetes cluster: how many pods are wanted, which run, and who else decides that.

target       what a task is scaled by: an object with a scale subresource
connect      the address of the API server and what proves who we are, inside a pod and outside
client       the few requests that are made, over the project's own HTTP connections
answers      the fields that are read
errors       what can come in place of an answer, in one line each
rights       what an account must be allowed for all this
owners       who else sets the number of pods; pure
hindrance    why fewer pods are ready than wanted, in words; pure
requirement  what is wanted of a whole job, with its name and its epoch
"""
