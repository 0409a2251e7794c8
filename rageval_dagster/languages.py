"""What is known of single languages: how to tell them, their stop words, and how people decline in them."""
