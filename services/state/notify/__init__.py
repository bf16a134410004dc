"""Tells a webhook what happens: which record makes which event, its form, its way there. A thread beside the projector."""
