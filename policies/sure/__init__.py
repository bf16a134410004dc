"""The policy ``sure``: an outlook of the load, and a plan of sizes and restarts."""
