"""Is fine-tuning worth it on a small, simple task? And your own texts.

Jack Hart, "Task-Specific Training: The Benefits of Fine-Tuning BERT": 7,613
tweets, about a disaster or not. Logistic regression on three sparse
representations, in ten-fold cross-validation, against BERT frozen, wholly
trained, and with two blocks trained, ten times each on one held-out set. Its
finding: no significant difference between frozen and fine-tuned.

    python -m tf_transfer.tweets --data=train.csv --features=tfidf
    python -m tf_transfer.tweets --data=train.csv --trainable_layers=2

Any CSV or TSV of texts and labels goes in its place (`--text_column`,
`--label_column`), with any number of labels. With sparse features no TensorFlow
is loaded.

Defaults are the paper's and its author's code's: the cased encoder, 128 tokens,
batch 32, three epochs, BERT's own Adam at 5e-5 (decay 0.01, no bias
correction, clipping at 1.0), rising over a tenth of the steps and falling to 0,
the last state tested, no validation. Sparse: NLTK's tokens, Porter stems, no
punctuation, no stop words; ten folds drawn with seed 57.

Where the paper is silent or says two things, ours: `--trainable_layers=0`
freezes the pooler, too ("completely frozen"), and trains a dense layer on its
output (RoBERTa's pooler is new, so it trains); "the first two encoders" and
"the last two layers" are both there, `--blocks=1-2` and `--trainable_layers=2`,
the default reading being the last; one unit with a logistic activation (the
code has two with a softmax); a seed draws the head, the order and the dropout;
the held-out set is the author's with `--test_ids`, else a tenth, drawn by
`--split_seed`; line breaks separate words (his code drops them).
"""

import dataclasses

import numpy as np

from tf_transfer import text_task
from tf_transfer.baselines import sparse
from tf_transfer.config import command_line
from tf_transfer.config import settings as settings_lib
from tf_transfer.config.settings import setting
from tf_transfer.data import table_source
from tf_transfer.data import tables
from tf_transfer.utils.errors import UserError

LR = 5e-5
# What can change a number of a sparse run; the rest is the encoder's.
SPARSE_KEY = (
    "task",
    "features",
    "preprocessing",
    "text_column",
    "label_column",
    "keyword_column",
    "clean",
    "duplicates",
    "folds",
    "max_train_examples",
    "split_seed",
)
SPARSE_ONLY = ("features", "preprocessing", "folds", "fold_seed")


@dataclasses.dataclass(frozen=True)
class TweetsSettings(text_task.TaskSettings):
    """The shared settings with Hart's defaults, and the table's own."""

    module = "tweets"

    # === The table ===
    task: str = setting("tweets", "What folders and tables call the task.")
    data: str = setting(
        "",
        "The CSV or TSV file with a text and a label a row; its first line "
        "names the columns.",
        hashed=False,  # its identity is
    )
    text_column: str = setting("text", "The column of the texts.")
    label_column: str = setting("target", "The column of the labels.")
    id_column: str = setting(
        None,
        "The column that --test_ids and --row_order speak of. Unset: `id`, "
        "where there is one, else the numbers of the lines.",
        hashed=False,  # which rows it chooses is
    )
    keyword_column: str = setting(
        "", "A column that is put before each text, such as `keyword`."
    )
    encoding: str = setting("utf-8", "Of the file.", hashed=False)
    clean: str = setting(
        "none",
        "`basic` resolves HTML entities and replaces links by `http` and "
        "mentions by `@user`.",
        choices=("none", "basic"),
    )
    duplicates: str = setting(
        "keep",
        "`group` keeps texts that are the same, but for case and space, on "
        "one side of a split; the paper let them stand on both.",
        choices=("keep", "group"),
    )
    test_ids: str = setting(
        "",
        "File with the ids that are tested, one a line. Unset: a "
        "--test_fraction.",
        hashed=False,  # its content is
    )
    test_fraction: float = setting(
        0.1, "Part that is tested, stratified, drawn by --split_seed."
    )

    # === Sparse features ===
    features: str = setting(
        "bert",
        "`bert`, the encoder's; or sparse ones for a logistic regression in "
        "--folds.",
        choices=("bert", *sparse.FEATURES),
    )
    preprocessing: str = setting(
        "hart",
        "Of sparse features: `hart`, the paper's stems; or `none`.",
        choices=sparse.PREPROCESSING,
    )
    folds: int = setting(
        10,
        "Folds of the cross-validation. 0 tests on the held-out set, as runs "
        "of the encoder do.",
    )
    fold_seed: int = setting(57, "Seed of the folds.")
    row_order: str = setting(
        "",
        "File with all ids, one a line, in the order that the folds are drawn "
        "on. Unset: the table's.",
        hashed=False,  # its content is
    )

    # === The encoder ===
    model: str = setting(
        "bert_base_en",
        "The encoder: a keras-nlp preset name, a folder, `minilm` or `tiny`; "
        "see tf_transfer.glue.",
        hashed=False,
    )
    encoder_output: str = setting(
        "pooled",
        "What the dense layer reads: `pooled`, [CLS] through the pooler; or "
        "`last4`, [CLS] above the last four blocks, as --pooling=last4.",
        choices=("pooled", "last4"),
        hashed=False,  # --pooling is
    )
    pooler: str = setting(
        None,
        "`trained` or `frozen`. Unset: frozen where no block trains.",
    )
    lr: float = setting(None, f"Learning rate. Unset: {LR:g}.")
    batch_size: int = setting(32, "Examples a step, over all replicas.")
    max_epochs: int = setting(3, "Epochs.")
    schedule: str = setting(
        "linear",
        "The learning rate over time; `linear` falls to 0 at --max_epochs.",
        choices=("constant", "linear"),
    )
    warmup_fraction: float = setting(
        0.1, "Part of all steps over which the rate rises from 0."
    )
    patience: int = setting(
        0, "Stop when validation has not risen for so many epochs (0: never)."
    )
    validation_fraction: float = setting(
        0.0, "Part of the training set that validates, stratified."
    )
    select: str = setting(
        "last",
        "Which epoch is the result: the best on validation, or the last.",
        choices=("best", "last"),
    )

    # === Several trials ===
    trials: int = setting(
        1, "Runs of seeds --seed, --seed + 1, and so on.", hashed=False
    )
    jobs: int = setting(1, "Runs side by side.", hashed=False)
    retry_failed: bool = setting(
        False, "Try again what has failed before.", hashed=False
    )

    @property
    def is_sparse(self):
        """Whether there is no encoder."""
        return self.features != "bert"

    @property
    def approach(self):
        """`tfidf`, ...; or what is trained of the encoder."""
        return self.features if self.is_sparse else super().approach

    @property
    def title(self):
        """What tells a run from its neighbours at a glance."""
        if self.is_sparse:
            if not self.folds:
                return "held_out"
            return f"folds={self.folds},fold_seed={self.fold_seed}"
        return super().title

    def hashed(self):
        """The settings that can change a number, by name."""
        values = super().hashed()
        if self.is_sparse:
            names = list(SPARSE_KEY)
            if self.folds:
                names.append("fold_seed")
            elif not self.test_ids:
                names.append("test_fraction")
            return {name: values[name] for name in names}
        unread = list(SPARSE_ONLY)
        if self.test_ids:
            unread.append("test_fraction")
        if self.pooling != "cls":
            unread.append("pooler")
        return {n: v for n, v in values.items() if n not in unread}

    def resolve(self):
        """Settings with every default filled in. Checks them all first."""
        settings = self
        if settings.lr is None:
            settings = dataclasses.replace(settings, lr=LR)
        if settings.encoder_output == "last4":
            if settings.pooling == "mean":
                raise UserError(
                    "--encoder_output=last4 and --pooling=mean both say what "
                    "the head reads: give one."
                )
            settings = dataclasses.replace(settings, pooling="last4")
        if settings.pooler is None:
            trains = settings.blocks or settings.trainable_layers != "0"
            # RoBERTa's is new: frozen, it would be a random projection.
            trains = trains or _has_new_pooler(settings)
            settings = dataclasses.replace(
                settings, pooler="trained" if trains else "frozen"
            )
        settings_lib.check(settings)
        _check(settings)
        return settings

    def trainable(self, count):
        """What trains of an encoder of so many blocks."""
        return dataclasses.replace(
            super().trainable(count), pooler=self.pooler == "trained"
        )

    def source(self):
        """The table, as a source of `train` and `test`."""
        return table_source.TableSource(self)

    @property
    def row(self):
        """The task that the table is."""
        return self.source().task


def _has_new_pooler(settings):
    if settings.is_sparse:
        return False
    from tf_transfer.models import loading

    return loading.is_roberta(settings.model)


def _check(settings):
    if not settings.data:
        raise UserError(
            "--data: give the CSV or TSV file with your texts and labels."
        )
    if settings.pooler not in ("trained", "frozen"):
        raise UserError(
            f"--pooler={settings.pooler}: pick one of trained, frozen."
        )
    if (
        settings.pooler == "frozen"
        and settings.trainable_layers == "all"
        and not settings.blocks
    ):
        raise UserError(
            "--pooler=frozen: --trainable_layers=all trains everything. Give "
            "a number of blocks."
        )
    if (
        settings.pooler == "frozen"
        and settings.pooling == "cls"
        and _has_new_pooler(settings)
    ):
        raise UserError(
            "--pooler=frozen: this encoder comes without a pooler; a new one "
            "has to be trained. Leave --pooler out, or give --pooling=mean."
        )
    if settings.is_sparse and settings.describe:
        raise UserError(
            f"--describe: --features={settings.features} has no parts. Leave "
            "it out."
        )
    if settings.trials > 1 and settings.rerun:
        raise UserError(
            "--rerun is for one run: leave --trials out and give --seed."
        )
    if not 0 < settings.test_fraction < 1:
        raise UserError(
            f"--test_fraction={settings.test_fraction:g}: give a part between "
            "0 and 1, such as 0.1."
        )
    for name in ("trials", "jobs"):
        if getattr(settings, name) < 1:
            raise UserError(
                f"--{name}={getattr(settings, name)}: give 1 or more."
            )


# === Runs ===

# What a sweep asks of a module.
SETTINGS = TweetsSettings
build = text_task.build


def locate(settings, replicas):
    """The run directory of resolved settings; nothing is loaded."""
    if not settings.is_sparse:
        return text_task.locate(settings, replicas)
    from tf_transfer.training import records

    return records.locate(
        settings,
        settings.module,
        [settings.task, settings.approach],
        {"data_identity": settings.source().identity},
        1,
    )


def run(settings):
    """Trains and evaluates. Returns what `result.json` says."""
    settings = settings.resolve()
    tell_duplicates(settings)
    if not settings.is_sparse:
        return text_task.run(settings)
    from tf_transfer.baselines import cross_validation

    if settings.folds and settings.test_ids:
        print(
            f"--test_ids is not used with --folds={settings.folds}; --folds=0 "
            "tests on it."
        )
    source = settings.source()
    return cross_validation.run(
        settings, locate(settings, 1), source.task, source.table, source.folds()
    )


def tell_duplicates(settings):
    """Says how many texts stand there twice, and how many contradict."""
    table = settings.source().table
    found = tables.count_duplicates(tables.groups(table.texts), table.labels)
    if found.rows:
        kept = (
            "kept on one side of the split"
            if settings.duplicates == "group"
            else "kept; --duplicates=group keeps them on one side of a split"
        )
        print(
            f"{settings.data}: {found.rows:,} of {len(table):,} rows repeat a "
            f"text, {found.conflicting:,} texts have several labels; {kept}."
        )


def run_trials(settings):
    """Runs of several seeds, as a sweep."""
    from tf_transfer.sweeps import all_of
    from tf_transfer.sweeps import grid

    seeds = list(range(settings.seed, settings.seed + settings.trials))
    given = settings_lib.given(
        settings, ("out", "cache_dir", "seed", "trials", "jobs", "rerun")
    )
    runs = grid.expand(
        "tweets",
        {"module": "tweets", "flags": given, "axes": {"seed": seeds}},
        settings.out,
        settings.cache_dir,
    )
    results = all_of.finish(runs, settings)
    scores = np.array([result["test"]["accuracy"] for result in results])
    print(
        f"{settings.task} {settings.approach}: test accuracy "
        f"{scores.mean():.4f} +- {scores.std(ddof=1):.4f} of {len(scores)} "
        f"trials.\nSide by side: python -m tf_transfer.report {settings.out}"
    )


def main():
    """Reads the flags, and runs."""
    settings = command_line.from_flags(TweetsSettings).resolve()
    if settings.is_sparse:
        run(settings)
    elif settings.trials > 1 and not settings.describe:
        run_trials(settings)
    else:
        text_task.start(settings, run)


if __name__ == "__main__":
    command_line.start(main, TweetsSettings)
