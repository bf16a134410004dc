"""surescale keeps streaming jobs at the right size while they run.

The rooms of this package are links to the folders of the same names at the root of the repository.
"""
