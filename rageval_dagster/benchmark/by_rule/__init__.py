"""Questions by rule, without a model: about a topic, and about what a sentence is about."""
