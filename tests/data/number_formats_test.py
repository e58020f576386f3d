"""Numbers and dates as Excel shows them."""

import datetime

import pytest

from tf_transfer.data import number_formats


@pytest.mark.parametrize(
    "value, pattern, shown",
    [
        (7, "000", "007"),
        (-7, "000", "-007"),
        (7, "General", "7"),
        (0.1 + 0.2, "General", "0.3"),
        (1e-5, "General", "0.00001"),
        (123456789012, "General", "123456789012"),
        (5, "@", "5"),
        (2.5, "0", "3"),
        (1.005, "0.00", "1.01"),
        (1234567, "#,##0", "1,234,567"),
        (1234567.5, "#,##0.00", "1,234,567.50"),
        (0.5, "#.##", ".5"),
        (2, "0.##", "2."),
        (0, "#", ""),
        (5, "??0", "  5"),
        (0.256, "0.0%", "25.6%"),
        (12345, "0,", "12"),
        (1500000, '0.0,,"M"', "1.5M"),
        (7, '0" stars"', "7 stars"),
        (12, r"\K0", "K12"),
        (3.5, "[$€-407]#,##0.00", "€3.50"),
        (3, "0_);(0)", "3 "),
        (-3, "0_);(0)", "(3)"),
        (-3, "0;[Red]-0", "-3"),
        (1, '"yes";;"no"', "yes"),
        (0, '"yes";;"no"', "no"),
        (5551234, "000-0000", "555-1234"),
        (12345678901, "000-0000", "1234567-8901"),
        (123456.789, "0.00E+00", "1.23E+05"),
        (0.00012, "0.0E-0", "1.2E-4"),
        (0.5, "# ?/?", None),
        (5, "[>=3]0;0.0", None),
    ],
)
def test_a_number_is_shown_as_its_format_says(value, pattern, shown):
    assert number_formats.format_number(value, pattern) == shown


MOMENT = datetime.datetime(2026, 1, 5, 14, 3, 9, 250000)


@pytest.mark.parametrize(
    "moment, pattern, shown",
    [
        (MOMENT, "yyyy-mm-dd", "2026-01-05"),
        (MOMENT.date(), "d-mmm-yy", "5-Jan-26"),
        (MOMENT, "dddd, mmmm d, yyyy", "Monday, January 5, 2026"),
        (MOMENT, "mmmmm ddd dd", "J Mon 05"),
        (MOMENT, "h:mm AM/PM", "2:03 PM"),
        (MOMENT, "h A/P", "2 P"),
        (MOMENT, "dd/mm/yyyy hh:mm:ss", "05/01/2026 14:03:09"),
        (MOMENT, "mm:ss.00", "03:09.25"),
        (MOMENT, 'yyyy"年"m"月"', "2026年1月"),
        (MOMENT, r"[$-409]mmm\ yyyy", "Jan 2026"),
        (MOMENT, "mm-dd-yy", "2026-01-05"),  # the region's
        (MOMENT, "m/d/yy h:mm", "2026-01-05 14:03"),
        (datetime.time(9, 5), "h:mm", "9:05"),
        (datetime.timedelta(hours=30, minutes=5), "[h]:mm:ss", "30:05:00"),
        (datetime.timedelta(minutes=90), "[mm]:ss", "90:00"),
        (MOMENT.date(), "General", "2026-01-05"),
    ],
)
def test_a_date_is_shown_as_its_format_says(moment, pattern, shown):
    assert number_formats.format_moment(moment, pattern) == shown
