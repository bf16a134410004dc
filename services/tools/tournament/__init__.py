"""``surescale policy tournament``: once a day, per job, the policy that would have served its last days best."""
