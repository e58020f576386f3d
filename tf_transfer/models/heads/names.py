"""Which of the heads of `models.stacks` fits which task.

Apart from the heads themselves, so that settings are checked and runs are named
without TensorFlow.
"""

from tf_transfer.utils.errors import UserError

# By task and name, as in `--task` and `--head`. `dense` is that of the
# finetune-only strategy.
HEADS = {
    "ner": ("dense", "bilstm"),
    "text": ("dense", "densenet", "highway"),
    "pairs": ("dense", "bimpm", "bimpm_without_context", "sim_transformer"),
}


def check(task, head):
    """Raises `UserError` where a head does not fit a task, or there is none.

    Args:
        task: `ner`, `text` or `pairs`.
    """
    if head in HEADS[task]:
        return
    fits = [f"--task={other}" for other in HEADS if head in HEADS[other]]
    reason = f"fits {' and '.join(fits)}" if fits else "is no head"
    raise UserError(
        f"--head={head}: {reason}. With --task={task}, give one of "
        f"{', '.join(HEADS[task])}."
    )
