"""Judges policies in closed loops: protocol, calibration of rules, oracle, report. ``surescale policy evaluate`` runs it."""
