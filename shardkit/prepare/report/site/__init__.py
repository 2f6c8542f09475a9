"""report: what a dataset holds and what its stages did, as pages of HTML with thumbnails."""
