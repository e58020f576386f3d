"""The public classes: estimators for scikit-learn, and a finished run."""
