"""``surescale job``: what a user allows for a job, recorded with who and when. Carries nothing out itself."""
