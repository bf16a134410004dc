"""Sends events to a webhook: which record makes which event, its form, its way there. A thread beside the projector."""
