"""One encoder, three tasks: sentiment, paraphrase and similarity."""
