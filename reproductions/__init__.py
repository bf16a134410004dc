"""Two papers, run again: their claims, tables and figures with ours next to them. Nothing in the product imports this room."""
