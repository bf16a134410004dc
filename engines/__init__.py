"""Engines: what watches their jobs for the monitor, and what scales them for the rescaler. One folder each.

    registry    which there are, found by entry points
    settings    what every engine has; a folder's ``__init__`` has its own, and the record of what it offers
    options     the same on the command line
    ports       what a source and an actuator are
    kafka       how far topics have grown, asked of their broker

Decides nothing and knows no topic.
"""
