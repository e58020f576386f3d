"""The float32 results of `benchmarks.frameworks`, as a Markdown table.

    python -m benchmarks.speed runs/benchmark

Reads the JSON files of a folder. Ratios are of medians: how many times longer
the other library takes than ours, cached where there is a cache, else live.
"""

import glob
import json
import os
import sys
from typing import Any

from benchmarks import CACHED, HUGGING_FACE, LIVE

COLUMNS = (
    "encoder",
    "trains",
    "batch",
    "examples",
    "ours live, s",
    "ours cached, s",
    "keras-nlp, longest",
    "keras-nlp, 128",
    "Hugging Face",
    "Hugging Face, 10 epochs with the build",
    "Hugging Face at equal products",
    "build, s",
    "pays after, epochs",
    "share of peak, live / cached",
)


def format_row(result: dict[str, Any]) -> tuple[str, ...]:
    """Returns one measurement as the cells of a row."""
    settings, median = result["settings"], result["median_seconds"]
    cache, peak = result["cache"], result["matmul_peak"]
    live = median[LIVE]
    ours = median.get(CACHED, live)

    def ratio(name: str, seconds: float = ours, factor: float = 1.0) -> str:
        if name not in median:
            return "-"
        return f"{factor * median[name] / seconds:.2f} x"

    with_build = (cache["build_seconds"] if cache else 0) / 10 + ours
    equal_products = peak.get("PyTorch", 0) / peak["TensorFlow"]
    padded = f"keras-nlp fit, padded to {settings['max_length']}"
    shares = [f"{share:.0%}" for share in result["share_of_peak"].values()]
    pays = cache and cache["pays_after_epochs"]
    layers = settings["trainable_layers"]
    return (
        settings["shape"] or os.path.basename(settings["model"]),
        "all" if layers == "all" else f"last {layers}",
        str(settings["batch_size"]),
        str(result["examples"]),
        f"{live:.2f}",
        f"{ours:.2f}" if cache else "-",
        ratio("keras-nlp fit, padded to longest"),
        ratio(padded),
        ratio(HUGGING_FACE),
        ratio(HUGGING_FACE, with_build) if cache else "-",
        ratio(HUGGING_FACE, factor=equal_products),
        f"{cache['build_seconds']:.1f}" if cache else "-",
        f"{pays:.1f}" if pays else "-",
        " / ".join(shares),
    )


def table(folder: str) -> str:
    """Returns the measurements of a folder as Markdown."""
    results = []
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
        if result["settings"]["precision"] == "float32":
            results.append(result)
    results.sort(
        key=lambda r: (
            r["settings"]["shape"],
            -r["settings"]["batch_size"],
            r["settings"]["trainable_layers"],
        )
    )
    rows = [COLUMNS, ["---"] * len(COLUMNS), *map(format_row, results)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        sys.exit("Give the folder that benchmarks.frameworks has written.")
    print(table(sys.argv[1]))
