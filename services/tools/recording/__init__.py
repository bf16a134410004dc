"""Recordings of a pipeline's topics, and replays of them.

A replay shows whether the same policy decides the same, and what another one would have decided. It changes nothing in the
pipeline that it reads. ``surescale recording replay`` itself is in `services.local_stack`, because it may start processes.
"""
