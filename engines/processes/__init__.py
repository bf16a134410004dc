"""Worker processes on this machine: started, kept running and drained as a requirement says, with nothing to lose.

launch         becomes one worker and holds its lock; whoever holds the lock is the worker
worker_store   the requirement of each job, and which workers live: all that there is to know, in one folder
reconcile      makes what runs what is required, as often as it is called
"""
