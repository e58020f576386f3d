"""The version of the package, which nothing else is imported for."""

__version__ = "0.1.0"
