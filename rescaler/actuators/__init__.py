"""Carries commands out: one port to engines, one module per kind of engine, and a fake that fails on demand."""
