"""The learned policy SURE: an outlook of the load, a plan of sizes and restarts, and a network that corrects the plan."""
