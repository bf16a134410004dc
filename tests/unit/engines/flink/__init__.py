"""Tests of ``engines.flink``."""
