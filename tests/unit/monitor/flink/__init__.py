"""Tests of monitor.sources.flink."""
