"""What proves a dataset: verify compares files with the manifest, audit looks for what stands on two sides of a split."""
