"""The speed of matrix products is measured until they are computed."""

import tensorflow as tf

from benchmarks import peak


def test_each_product_is_timed_until_the_device_has_it(monkeypatch):
    calls = []
    multiply = tf.matmul
    monkeypatch.setattr(
        tf, "matmul", lambda *args: calls.append("matmul") or multiply(*args)
    )
    monkeypatch.setattr(
        tf.test.experimental, "sync_devices", lambda: calls.append("sync")
    )
    peak.measure_peak("float32", repetitions=3)
    assert calls == ["matmul", "sync"] * 3 * len(peak.SHAPES)
