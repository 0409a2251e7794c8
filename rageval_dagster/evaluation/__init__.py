"""Running a benchmark through a RAG system: retrieval, answers, scores, and what they add up to."""
