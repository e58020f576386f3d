"""Branch coverage of some modules, and how many of their mutants tests kill.

python -m tests.mutants --share=0                 # coverage alone
python -m tests.mutants --out=mutants.json        # 600 mutants and more
python -m tests.mutants --modules=store --share=1
python -m tests.mutants --out=mutants.json --document=docs/reliability.md

A module is tried by the fast tests of its room: a mutant by those that execute
the changed line. It is killed when one of them fails.
"""

import argparse
import collections
import dataclasses
import json
import math
import os
import random
import tempfile
import tomllib

from tests.mutants import mutations, trials

# Modules of a room, and the tests for them.
ROOMS = (
    (("utils/files.py",), ("utils/files_test.py", "utils/folders_test.py")),
    (
        ("data/metrics.py",),
        ("data/metrics_test.py", "data/calibration_test.py"),
    ),
    (("data/splits.py",), ("data/splits_test.py", "data/warnings_test.py")),
    (
        (
            "data/columns.py",
            "data/delimited.py",
            "data/file_formats.py",
            "data/table_files.py",
        ),
        (
            "data/columns_test.py",
            "data/delimited_test.py",
            "data/file_formats_test.py",
            "data/messy_tables_test.py",
            "data/odd_files_test.py",
            "data/table_files_test.py",
        ),
    ),
    (
        ("feature_cache/store.py",),
        (
            "feature_cache/store_test.py",
            "feature_cache/store_damage_test.py",
            "feature_cache/store_room_test.py",
        ),
    ),
    (
        ("feature_cache/feature_cache.py",),
        (
            "feature_cache/attach_test.py",
            "feature_cache/attach_limits_test.py",
        ),
    ),
    (
        ("models/freezing.py",),
        ("freeze_blocks_test.py", "models/freezing_test.py"),
    ),
    (
        ("training/progress.py",),
        ("training/progress_test.py", "training/stopping_test.py"),
    ),
    (("training/checkpoint.py",), ("training/checkpoint_test.py",)),
    (
        ("training/optimizer.py",),
        ("training/optimizer_groups_test.py", "training/optimizer_test.py"),
    ),
    (
        ("training/records.py", "training/results.py", "training/run_paths.py"),
        (
            "training/records_extension_test.py",
            "training/records_lock_test.py",
            "training/records_test.py",
            "training/results_test.py",
            "training/run_paths_test.py",
        ),
    ),
    (
        ("freezing/operating.py",),
        ("reports/freezing_tables_test.py", "reports/operating_test.py"),
    ),
    (
        ("reports/estimates.py",),
        (
            "reports/contrast_measures_test.py",
            "reports/estimates_test.py",
            "reports/finished_runs_test.py",
            "reports/verdicts_test.py",
        ),
    ),
    (
        ("reports/contrast.py", "reports/verdicts.py"),
        (
            "reports/contrast_measures_test.py",
            "reports/contrast_runs_test.py",
            "reports/contrast_test.py",
            "reports/verdicts_test.py",
        ),
    ),
)
REASONS = os.path.join(os.path.dirname(__file__), "reasons.toml")


def read_reasons():
    """Dict from module and mutant to why no test can kill it."""
    with open(REASONS, "rb") as file:
        return {
            (row["module"], mutant): row["reason"]
            for row in tomllib.load(file)["equivalent"]
            for mutant in row["mutants"]
        }


def draw_mutants(module, share, seed):
    """A share of the mutants of a module; the same, whatever else is tried."""
    source = (trials.PACKAGE / module).read_text(encoding="utf-8")
    mutants = mutations.list_mutants(source)
    count = math.ceil(share * len(mutants))
    return random.Random(f"{module} {seed}").sample(mutants, count)


def try_mutants(room, module, mutants, reasons):
    """The row of a module.

    Raises:
        SystemExit: the tests fail without a change.
    """
    # Both ways of changing a module, with all tests and with those of a line.
    unchanged = [mutations.Mutant("", None, "", frozenset())]
    unchanged += [
        dataclasses.replace(mutant, number=None) for mutant in mutants[:1]
    ]
    if len(room.find_survivors(module, unchanged)) < len(unchanged):
        raise SystemExit(f"{module}: {room.read_output()}")
    survivors = room.find_survivors(module, mutants)
    unknown = [s for s in survivors if (module, s.name) not in reasons]
    for mutant in unknown:
        print(f"{module}:{min(mutant.lines)} {mutant.name}", flush=True)
    summary = room.reports[module]["summary"]
    return {
        "statements": summary["num_statements"],
        "branches": summary["num_branches"],
        "covered": summary["covered_lines"] + summary["covered_branches"],
        "mutants": len(mutants),
        "killed": len(mutants) - len(survivors),
        "equivalent": len(survivors) - len(unknown),
        "survived": len(unknown),
    }


def as_text(rows, reasons):
    """The rows as a Markdown table with their sum, and the reasons.

    They are in the order of the rooms, whichever was tried last.
    """
    order = [module for modules, _ in ROOMS for module in modules]
    rows = {module: rows[module] for module in order if module in rows}
    total = collections.Counter()
    for row in rows.values():
        total.update(row)
    table = []
    for module, row in [*rows.items(), ("all", total)]:
        parts = row["statements"] + row["branches"]
        shares = {
            "covered": f"{100 * row['covered'] / parts:.1f} %",
            "killed": f"{row['killed']} "
            f"({100 * row['killed'] / max(row['mutants'], 1):.0f} %)",
        }
        row = {"module": module, **row, **shares}
        if not table:
            table = [[*row], ["---", *["---:"] * (len(row) - 1)]]
        table.append([*map(str, row.values())])
    lines = [f"| {' | '.join(row)} |" for row in table]
    lines += ["", "Equivalent mutants, by module:", ""]
    for module in rows:
        by_reason = collections.Counter(
            reason for (name, _), reason in reasons.items() if name == module
        )
        lines += [
            f"- `{module}`: {count} of them. {reason}"
            for reason, count in by_reason.items()
        ]
    return "\n".join(lines)


def main():
    """Prints the table, or writes it into a document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modules", default="", help="part of their paths")
    parser.add_argument("--share", type=float, default=0.18)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", help="file of the rows, which adds up")
    parser.add_argument("--document", help="where the rows of --out go")
    args = parser.parse_args()
    # As the workers of pytest have it; read when a library is imported.
    for name in ("TF_NUM_INTRAOP", "OMP_NUM", "OPENBLAS_NUM"):
        os.environ.setdefault(f"{name}_THREADS", "1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    reasons, rows = read_reasons(), {}
    if args.out and os.path.exists(args.out):
        with open(args.out, encoding="utf-8") as file:
            rows = json.load(file)
    if args.document:
        from benchmarks import documents  # imports the package

        documents.fill(args.document, "mutants", as_text(rows, reasons))
        return
    for modules, tests in ROOMS:
        chosen = [module for module in modules if args.modules in module]
        if not chosen:
            continue
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join("tests", test) for test in tests]
            room = trials.Room(modules, paths, folder)
            for module in chosen:
                report = room.reports[module]
                print(
                    f"{module}: not executed are lines "
                    f"{report['missing_lines']} and branches "
                    f"{report['missing_branches']}."
                )
                drawn = draw_mutants(module, args.share, args.seed)
                rows[module] = try_mutants(room, module, drawn, reasons)
        if args.out:
            with open(args.out, "w", encoding="utf-8") as file:
                json.dump(rows, file, indent=1)
    print(as_text(rows, reasons))


if __name__ == "__main__":
    main()
