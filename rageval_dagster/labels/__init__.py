"""What people say of answers: which to ask about, and what their labels make of a judge's scores."""
