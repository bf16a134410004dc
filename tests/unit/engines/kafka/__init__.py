"""Tests of engines.kafka."""
