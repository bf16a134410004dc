"""The same rescale done in three ways in the simulator, side by side: by restart, by moving state cold, by learners."""
