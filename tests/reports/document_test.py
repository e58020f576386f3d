"""A report on a screen: the same parts, without marks."""

from tf_transfer.reports import document

PARTS = [
    document.Heading(2, "Scores"),
    document.Text("All of `runs`."),
    document.Table("t", "In points", ("task", "n"), (("rte", "5"),)),
    document.Items(("**holds**", "no")),
    document.Figure("f", "A picture", dict),
]


def test_plain_text_is_aligned_and_has_no_marks():
    assert document.to_text(PARTS) == (
        "Scores\n------\n\n"
        "All of runs.\n\n"
        "In points\n\ntask  n\nrte   5\n\n"
        "- holds\n- no\n"
    )
