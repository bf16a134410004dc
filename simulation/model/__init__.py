"""The queueing model that engine and loops share: how records flow, what a change costs, and the reward."""
