"""Questions by rule, without a model: about a topic, and about what one sentence of a passage names."""
