"""What was found, in words: verdicts, incidents and the messages that people are sent."""
