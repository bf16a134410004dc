"""``surescale job``: what a user allows for a job, as records with who and when. Carries nothing out itself."""
