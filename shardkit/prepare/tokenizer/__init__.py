"""Tokenizers: trained on the text of datasets, and measured on it."""
