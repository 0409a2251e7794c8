"""The gate: each evaluation against its baseline, what it decides and why, and the incidents that come of it."""
