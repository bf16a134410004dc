"""The Faust agent: reads windows, asks a policy, and writes one decision per job and span.

It holds no decision logic and no state: a decision is a function of the window, the policy, the job's settings and the seed.
"""
