"""forget: a dataset without an asset, a source or a licence, and without all that derives from it; proved."""
