"""Measure how fast the product is and what it costs: ``surescale dev bench NAME``. Nothing in the product imports this room.

One benchmark, one file: ``assign``, ``gate``, ``reschedule``, ``simulator``, ``step``, ``placement_scale``,
``rescale_three_ways/`` and those of running roles in ``pipeline/``. They share ``machine`` (the conditions of a figure),
``report``, ``markdown`` and ``charts``.
"""
