"""The float32 measurements of `tf_transfer.benchmark`, as a Markdown table.

    python experiments/prefix_cache/speed.py runs/benchmark

Reads the JSON files of a folder. Ratios are of medians: how many times longer
the other takes than ours, cached where there is a cache, else live.
"""

import glob
import json
import os
import sys

from tf_transfer import benchmark

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


def cells(result):
    """One row of the table."""
    settings, middle = result["settings"], result["median_seconds"]
    cache, peak = result["cache"], result["matmul_peak"]
    live = middle[benchmark.LIVE]
    ours = middle.get(benchmark.CACHED, live)

    def ratio(name, of=ours, times=1.0):
        return f"{times * middle[name] / of:.2f} x" if name in middle else "-"

    ten = (cache["build_seconds"] if cache else 0) / 10 + ours
    equal = peak.get("PyTorch", 0) / peak["TensorFlow"]
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
        ratio(benchmark.HUGGING_FACE),
        ratio(benchmark.HUGGING_FACE, ten) if cache else "-",
        ratio(benchmark.HUGGING_FACE, times=equal),
        f"{cache['build_seconds']:.1f}" if cache else "-",
        f"{pays:.1f}" if pays else "-",
        " / ".join(shares),
    )


def table(folder):
    """The measurements of a folder, as Markdown."""
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
    rows = [COLUMNS, ["---"] * len(COLUMNS), *map(cells, results)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    print(table(sys.argv[1] if len(sys.argv) > 1 else "runs/benchmark"))
