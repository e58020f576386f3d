"""The names of the experiments, and the modules of their commands."""

# The packages of the papers and of our own study; `train` is a module.
FOLDERS = (
    "freezing",
    "glue",
    "methods",
    "multitask",
    "stacking",
    "tweets",
)
# The commands of the experiments by name. A user's own module needs no row.
EXPERIMENTS = {name: f"tf_transfer.{name}" for name in (*FOLDERS, "train")}
