"""Is fine-tuning worth it on a small, simple task?

Jack Hart, "Task-Specific Training: The Benefits of Fine-Tuning BERT": 7,613
tweets, about a disaster or not. Logistic regression on three sparse
representations, in ten-fold cross-validation, against BERT frozen, wholly
trained, and with two blocks trained, ten times each on one held-out set. Its
finding: no significant difference between frozen and fine-tuned.

    python -m tf_transfer.tweets --data=train.csv --features=tfidf
    python -m tf_transfer.tweets --data=train.csv --trainable_layers=2

Any CSV or TSV of texts and labels replaces it (`--text_column`,
`--label_column`), with any number of labels. With sparse features no TensorFlow
is loaded.

Defaults are the paper's and its author's code's: the cased encoder, 128 tokens,
batch 32, three epochs, BERT's own Adam at 5e-5 (decay 0.01, no bias
correction, clipping at 1.0), rising over a tenth of the steps and falling to 0,
the last state tested, no validation. Sparse: NLTK's tokens, Porter stems, no
punctuation, no stop words; ten folds drawn with seed 57.

Our choices, where the paper is silent or contradicts itself:

- `--trainable_layers=0` also freezes the pooler ("completely frozen"), and
  trains a dense layer on its output. RoBERTa's pooler is new, so it trains.
- The paper has both "the first two encoders" (`--blocks=1-2`) and "the last two
  layers" (`--trainable_layers=2`). The last two are the default reading. Their
  pooler trains.
- The author's code as committed freezes nothing, but loads fewer blocks
  (`--load_blocks`).
- The output is the code's softmax of two units, not the text's logistic unit
  (`--loss_head=sigmoid`); frozen blocks have dropout, as in the code, and are
  not the text's "static input" (`--frozen_prefix=cached`).
- A seed decides head, order and dropout.
- `--test_ids` gives the author's held-out set. Without it a tenth is held out,
  drawn by `--split_seed`.
- Line breaks separate words. The author's code drops them.
"""

import dataclasses
import time
from typing import ClassVar, TYPE_CHECKING

from tf_transfer import experiment
from tf_transfer.baselines import sparse
from tf_transfer.config import fields
from tf_transfer.config.fields import (
    baseline_setting,
    Reader,
    Setting,
    setting,
)
from tf_transfer.data.task import Examples
from tf_transfer.models import freezing, loading
from tf_transfer.own import held_out, task_file
from tf_transfer.own.task_file import SplitOrigin
from tf_transfer.runs import task_settings
from tf_transfer.runs.runners import Runner
from tf_transfer.runs.warm import WarmState
from tf_transfer.training.records import RunDirectory
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

if TYPE_CHECKING:
    from tf_transfer.models.encoder import Encoder

LR = 5e-5
RECIPE: dict[str, Setting] = {
    "task": "tweets",
    "data": "",
    "text_column": "text",
    "label_column": "target",
    "model": "bert_base_en",
    "loss_head": "softmax",
    "batch_size": 32,
    "max_epochs": 3,
    "schedule": "linear",
    "warmup_fraction": 0.1,
    "patience": 0,
    "validation_fraction": 0.0,
    "select": "last",
}
HELP = {
    "task": "What folders and tables call the task; or a task file of your "
    "own.",
    "data": "The CSV or TSV file with a text and a label per row; its first "
    "line names the columns.",
    "text_column": "The column of the texts.",
    "label_column": "The column of the labels.",
    "encoding": "Encoding of the file. Unset: detected.",
    "skip_bad_rows": "Leave out rows that cannot be used.",
    "ignore_labels": "Labels, with commas between, that stand for none, such "
    "as -1,unknown. Their rows are left out.",
    "group_column": "The column of the author or topic of a text. Its rows "
    "stay in one split and fold, and intervals resample it.",
    "duplicates": "`group` keeps texts that are the same, apart from case and "
    "space, in one split; in the paper they may be in both.",
    "test_fraction": "Fraction that is tested, stratified, drawn by "
    "--split_seed.",
    "features": "`bert`, an encoder that trains, with a head; `frozen`, the "
    "probe: a regression on states of the frozen encoder "
    "(docs/guides/probe.md); or sparse ones for a logistic regression in "
    "--folds.",
    "model": "The encoder: a keras-nlp preset name, a folder, `minilm` or "
    "`tiny`; see README.md.",
    "loss_head": "The output for two classes: the softmax of two units, as in "
    "the author's code, or the sigmoid of one.",
    "lr": f"Learning rate. Unset: {LR:g}; the method's own for others than "
    "`full`.",
}
# The table is always read by these flags, and its identity is not all of it.
COLUMN: fields.Changes = {"hashed": True, "needs": {}}
CHANGES: dict[str, fields.Changes] = {
    "text_column": COLUMN,
    "label_column": COLUMN,
    "encoding": {"needs": {}},
    "skip_bad_rows": {"needs": {}},
    "ignore_labels": {"needs": {}},
    "group_column": {"needs": {}},
    "duplicates": {"hashed": True, "needs": {}},
    "test_fraction": {
        "hashed": True,
        "needs": {"test_ids": "", "has_folds": False},
    },
    "validation_fraction": {"read_by": Reader.ENCODER},
    "features": {"choices": ("bert", "frozen", *sparse.FEATURES)},
}


@dataclasses.dataclass(frozen=True)
class Settings(
    experiment.TaskSettings,
    defaults=RECIPE,
    help=HELP,
    changes=CHANGES,
    rates=task_settings.Rates(LR, LR, LR),
):
    """The shared settings with Hart's defaults, and the table's own."""

    # === The table ===
    id_column: str = baseline_setting(
        None,
        "The column of the ids in --test_ids and --row_order. Unset: `id`, "
        "where there is one, else the numbers of the lines.",
        hashed=False,  # which rows it chooses is
    )
    keyword_column: str = baseline_setting(
        "",
        "A column to put before each text, such as `keyword`.",
        needs={"own_data": "table"},
    )
    clean: str = baseline_setting(
        "none",
        "`basic` resolves HTML entities and replaces links by `http` and "
        "mentions by `@user`.",
        choices=("none", "basic"),
        needs={"own_data": "table"},
    )
    test_ids: str = baseline_setting(
        "",
        "File with the ids of the tested rows, one per line. Unset: a "
        "--test_fraction.",
        hashed=False,  # its content is
    )

    # === Sparse features ===
    preprocessing: str = baseline_setting(
        "hart",
        "Preparation of sparse features: `hart`, the paper's stems; or `none`.",
        choices=sparse.PREPROCESSING,
        needs={"is_sparse": True},
    )
    folds: int = baseline_setting(
        10,
        "Folds of the cross-validation of sparse features. 0 tests on the "
        "held-out set, as runs of the encoder do.",
        at_least=0,
        needs={"is_sparse": True},
    )
    fold_seed: int = baseline_setting(
        57,
        "Seed of the folds.",
        at_least=0,
        needs={"has_folds": True},
    )
    row_order: str = baseline_setting(
        "",
        "File with all ids, one per line, in the order that the folds are "
        "drawn on. Unset: the table's.",
        hashed=False,  # its content is
    )

    # === The encoder ===
    load_blocks: str = setting(
        "all",
        "The weights that come from the pretrained encoder: `all`; `none`; or "
        "a range of blocks, such as 11-12. Everything else of it begins at "
        "random, as BERT's own training does, drawn from --seed.",
        pattern=f"all|none|{fields.RANGE}",
        advice="give `all`, `none` or a range such as 7-8.",
        unnamed="all",
        read_by=fields.Reader.ENCODER,
    )
    pooler: str = setting(
        None,
        "`trained`, by --method, or `frozen`. Unset: frozen where no "
        "block trains.",
        choices=("trained", "frozen"),
        needs={"pooling": "cls"},
    )
    drop_last: bool = setting(
        True,
        "Leave out the last batch of an epoch if it is short, as the author's "
        "code does.",
        unnamed=False,
    )

    @property
    def short_batches(self) -> str:
        """`dropped` with --drop_last."""
        return "dropped" if self.drop_last else "mean"

    @property
    def has_folds(self) -> bool:
        """Whether sparse features are tested in folds."""
        return self.is_sparse and self.folds > 0

    @property
    def own_data(self) -> str:
        """The user's own texts: `task_file`, or `table`, such as Hart's."""
        return super().own_data or "table"

    @property
    def own_task(self) -> task_file.TaskFile:
        """The description of a task of the user's own."""
        if self.own_data == "task_file":
            return super().own_task
        return held_out.HeldOutTable(
            self.data,
            self.task,
            (self.text_column,),
            (self.label_column,),
            SplitOrigin((self.data,)),
            test=SplitOrigin(fraction=self.test_fraction, ids=self.test_ids),
            encoding=self.encoding,
            skip_bad_rows=self.skip_bad_rows,
            ignore_labels=task_file.split_labels(self.ignore_labels),
            group=self.group_column,
            duplicates=self.duplicates,
            id=self.id_column,
            keyword=self.keyword_column,
            is_cleaned=self.clean == "basic",
            folds=self.folds if self.is_sparse else 0,
            fold_seed=self.fold_seed,
            row_order=self.row_order,
        )

    @property
    def title(self) -> str:
        """The readable beginning of the name of its folder."""
        if not self.is_sparse:
            return super().title
        if not self.folds:
            return "held_out"
        return f"folds={self.folds},fold_seed={self.fold_seed}"

    def defaults(self) -> dict[str, Setting]:
        """Learning rate, and whether the pooler trains."""
        values = super().defaults()
        if self.pooler is None:
            trains = (
                self.blocks
                or self.trainable_layers not in ("0", "head")
                # A new one, such as RoBERTa's, would be a random projection.
                or self._has_new_pooler()
            )
            values["pooler"] = "trained" if trains else "frozen"
        return values

    def _has_new_pooler(self) -> bool:
        return not self.is_sparse and loading.has_new_pooler(self.model)

    def check_settings(self) -> None:
        """Raises `UserError`, naming the flag, for an invalid value."""
        super().check_settings()
        self.refuse_empty("task", "text_column", "label_column")
        if self.kind != "classes" or self.metric:
            raise UserError(
                "--kind and --metric: a table is read as the paper's, whose "
                "labels are classes. Give a task file as --task, or "
                "tf_transfer.train."
            )
        if not self.data and self.own_data == "table":
            raise UserError(
                "--data: give the CSV or TSV file with your texts and labels, "
                "or a task file as --task."
            )
        is_frozen = self.pooler == "frozen"
        if is_frozen and self.trainable_layers == "all" and not self.blocks:
            raise UserError(
                "--pooler=frozen: --trainable_layers=all trains everything. "
                "Give a number of blocks."
            )
        if is_frozen and self.pooling == "cls" and self._has_new_pooler():
            raise UserError(
                "--pooler=frozen: this encoder comes without a pooler; a new "
                "one has to be trained. Leave --pooler out, or give "
                "--pooling=mean."
            )
        if self.is_sparse and self.own_data == "task_file":
            raise UserError(
                f"--features={self.features}: reads a table, given as --data. "
                "tf_transfer.train --features=tfidf reads a task file."
            )
        if self.is_sparse and self.describe:
            raise UserError(
                f"--describe: --features={self.features} has no components "
                "that could train. Leave it out."
            )


class SparseRunner(Runner[Settings]):
    """Fits a regression on sparse features in every fold."""

    def run(self, directory: RunDirectory) -> Record:
        """Fits and scores every fold, or the held-out set.

        Raises:
            UserError: The folds cannot be made, or nothing can be learned from
                the training texts of one.
        """
        from tf_transfer.baselines import baseline_runs  # takes seconds

        settings, data = self.experiment.settings, self.experiment.data
        if settings.folds and settings.test_ids:
            print(
                f"--test_ids is not used with --folds={settings.folds}; "
                "--folds=0 tests on it."
            )
        source = data.source
        assert isinstance(source, held_out.HeldOutSource)
        examples = source.read_all("train")
        assert isinstance(examples, Examples)
        data.report(data.task, {"train": examples})
        rows = source.folds()
        began = time.monotonic()
        if settings.preprocessing == "hart":
            examples = sparse.stem(examples)
        stem_seconds = time.monotonic() - began
        folds = sparse.take_folds(
            data.task,
            examples,
            rows,
            settings.max_train_examples,
            settings.split_seed,
        )
        return baseline_runs.run(
            settings,
            directory,
            data.task,
            sparse.Baseline(settings.features, settings.data),
            map(baseline_runs.of_texts, folds),
            settings.fold_seed,
            input_seconds=stem_seconds,
        )


class Tweets(experiment.Experiment[Settings]):
    """A table of texts and labels: an encoder, or a sparse baseline."""

    name = "tweets"
    Settings = Settings
    runners: ClassVar = {
        **experiment.Experiment.runners,
        **dict.fromkeys(sparse.FEATURES, SparseRunner),
    }

    def load_encoder(self, warm: WarmState | None = None) -> "Encoder":
        """The encoder, whose weights outside of `--load_blocks` are random.

        Raises:
            UserError: The encoder has no such blocks, or too few positions.
        """
        settings = self.settings
        if settings.load_blocks == "all":
            return super().load_encoder(warm)
        # An encoder of its own: the one that a process shares stays pretrained.
        encoder = super().load_encoder(WarmState())
        loaded: list[int] = []
        if settings.load_blocks != "none":
            first, last = map(int, settings.load_blocks.split("-"))
            loaded = list(range(first, last + 1))
            if not loaded or last > len(encoder.blocks):
                raise UserError(
                    f"--load_blocks={settings.load_blocks}: this encoder has "
                    f"blocks 1 to {len(encoder.blocks)}."
                )
        loading.forget_weights(encoder, loaded, settings.seed)
        return encoder

    def trainable(self, blocks: int, phase: str = "") -> freezing.Trainable:
        """The weights that train; `--pooler` decides on the pooler."""
        return dataclasses.replace(
            super().trainable(blocks, phase),
            pooler=self.settings.pooler == "trained",
        )


EXPERIMENT = Tweets
run = Tweets.run
