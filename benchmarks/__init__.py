"""Benchmarks and peers. Not part of the package: run them from a checkout."""

# Names of what `benchmarks.frameworks` measures, in its files and tables.
LIVE = "ours, live"
CACHED = "ours, cached"
HUGGING_FACE = "Hugging Face"
