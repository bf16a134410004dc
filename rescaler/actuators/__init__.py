"""Who carries commands out: one port, one module per kind of engine, and a fake that fails on demand."""
