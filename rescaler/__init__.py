"""Carries out decisions in small safe steps: gate, reschedule, placement, learners, and the service around them."""
