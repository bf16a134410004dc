"""Trains and exports models. The only room that imports torch; nothing here is needed at run time."""
