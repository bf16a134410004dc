"""Tests of the room ``spark_streaming``."""
