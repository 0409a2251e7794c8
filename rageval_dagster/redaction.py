"""Taking personal data out of texts before anything is stored or sent to a model."""
