"""What people look at: the verdict in a sentence, likely causes, the run's page, and the HTML report."""
