"""Questions by rule, without a model: about a topic, about what a passage mentions (known items), and clozes."""
