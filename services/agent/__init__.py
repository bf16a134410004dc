"""The Faust agent: windows in, ``policies`` asked, one decision per job and span out.

Holds no decision logic and no state: what it decides is a function of the window, the policy, the job's settings and the seed.
"""
