"""What one run of a package's graph may take unless somebody says otherwise, for settings that are read without numpy."""

SECONDS = 10.0
MEMORY_MB = 1_024
"""Of address space, beyond what the runtime takes before it opens a graph."""
