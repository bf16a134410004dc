"""Judges policies in the closed loop: protocol, calibration of rules, the oracle, the report. ``surescale evaluate`` runs it."""
