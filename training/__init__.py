"""How the embedded model is made, from nothing: data, tokenizer, network, training, export. See docs/training.md."""
