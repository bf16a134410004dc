"""Judges policies in closed loops: protocol, calibration of rules, oracle, report. ``surescale evaluate`` runs it."""
