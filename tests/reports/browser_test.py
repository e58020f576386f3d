"""The page in a real browser; skipped where there is none."""

import os
import shutil

import pytest

from tests.searches import fake_runs
from tests.support import commands
from tf_transfer import report
from tf_transfer.reports import page as page_lib, summary as summary_lib
from tf_transfer.searches import controller

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium"),
]
WIDTHS = (400, 800, 1300)
EXPERIMENTS = os.path.join(commands.ROOT, "experiments")
TOO_WIDE = """() => [...document.querySelectorAll("body *")]
  .filter((e) => !e.closest(".scroll") || e.matches(".scroll"))
  .filter((e) => e.getBoundingClientRect().right > innerWidth + 1)
  .map((e) => e.outerHTML.slice(0, 200))"""


OPEN_ALL = "document.querySelectorAll('details').forEach((e) => e.open = true)"


def boxes(locator):
    return [
        locator.nth(n).bounding_box() for n in range(min(9, locator.count()))
    ]


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module", params=["freezing", "tweets"])
def path(request, tmp_path_factory):
    """The page on committed records."""
    summary = summary_lib.read_summary(
        f"{EXPERIMENTS}/{request.param}/summary.json"
    )
    page = report.compose(summary, EXPERIMENTS)
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page_lib.to_html(page))
    return path


@pytest.fixture
def opened(browser, path):
    """The page, and every address that it asks for."""
    page = browser.new_page()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"file://{path}", timeout=0)  # a loaded machine is slow
    yield page, asked
    page.close()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_page(opened, width, scheme):
    page, _ = opened
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    assert page.evaluate(TOO_WIDE) == []
    page.evaluate(OPEN_ALL)
    assert page.evaluate(TOO_WIDE) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_phone_shows_charts_and_runs_at_a_size_to_read(opened):
    page, _ = opened
    page.set_viewport_size({"width": 400, "height": 900})
    page.evaluate(OPEN_ALL)
    scales = page.evaluate(
        "[...document.querySelectorAll('figure img')]"
        ".map((e) => e.getBoundingClientRect().width / e.naturalWidth)"
    )
    assert scales and min(scales) > 0.85  # of text in 10 points
    rows = page.locator("td.run")
    assert rows.count() and max(box["width"] for box in boxes(rows)) < 120
    path = rows.first.get_attribute("title")
    assert path == rows.first.text_content() and "/" in path


def test_no_request_leaves_the_file(opened, path):
    page, asked = opened
    page.wait_for_load_state("networkidle")
    assert [url for url in asked if not url.startswith("data:")] == [
        f"file://{path}"
    ]


def test_what_is_folded_unfolds(opened):
    page, _ = opened
    runs = page.locator("#runs")
    assert not runs.is_visible()
    page.locator("details:has(#runs) > summary").click()
    assert runs.is_visible()


def cells(table, number):
    return table.locator(f"tbody tr:visible td:nth-child({number})")


def test_a_table_is_sorted_by_number_and_back(opened):
    page, _ = opened
    table = page.locator(".table[id$='_approaches']").first
    header = table.get_by_role("button", name="test", exact=True)
    column = 1 + page.evaluate(
        "(b) => b.closest('th').cellIndex", header.element_handle()
    )
    header.click()

    def values():
        texts = cells(table, column).all_text_contents()
        return [float(text.split()[0]) for text in texts]

    rising = values()
    assert rising == sorted(rising) and len(set(rising)) > 2
    header.click()
    assert values() == sorted(rising, reverse=True)
    heads = table.locator("th[aria-sort]")
    assert heads.get_attribute("aria-sort") == "descending"


def test_a_search_leaves_the_rows_that_have_its_words(opened):
    page, _ = opened
    table = page.locator(".table[id$='_approaches']").first
    rows = table.locator("tbody tr")
    count = rows.count()
    table.get_by_role("searchbox").fill("LAST")
    shown = table.locator("tbody tr:visible")
    assert 0 < shown.count() < count
    assert all("last" in t for t in shown.all_text_contents())
    table.get_by_role("searchbox").fill("")
    assert shown.count() == count


def test_a_table_is_saved_as_csv(opened):
    page, _ = opened
    table = page.locator(".table[id$='_approaches']").first
    with page.expect_download() as download:
        table.get_by_role("button", name="CSV", exact=True).click()
    lines = open(download.value.path()).read().splitlines()
    assert len(lines) == 1 + table.locator("tbody tr").count()
    assert lines[0].startswith('"task","approach",')
    assert download.value.suggested_filename.endswith("_approaches.csv")


def test_a_print_has_what_is_folded(opened):
    page, _ = opened
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#runs").is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not page.locator("#runs").is_visible()


# === The page of a search ===


@pytest.fixture(scope="module")
def search_path(tmp_path_factory):
    """The page of a search on long words."""
    folder = tmp_path_factory.mktemp("search")
    task = fake_runs.write_task(folder, ending=f" {'long' * 40}")
    with pytest.MonkeyPatch.context() as patch:
        fake_runs.put_in(patch, fake_runs.World())
        settings = fake_runs.settings_of(task, folder / "out")
        controller.Search(settings, 0.0).run()
    return folder / "out" / "search.html"


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_of_a_search_fits(browser, search_path, width):
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(f"file://{search_path}", timeout=0)
    page.evaluate(OPEN_ALL)
    assert page.evaluate(TOO_WIDE) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_a_command_is_copied_with_and_without_a_script(browser, search_path):
    page = browser.new_page()
    page.goto(f"file://{search_path}", timeout=0)
    command = page.locator(".command").first
    assert command.inner_text().startswith("python -m tf_transfer.predict ")
    selected = "getSelection().toString()"
    command.click()
    assert page.evaluate(selected) == command.inner_text()
    page.evaluate("getSelection().removeAllRanges()")
    button = page.locator("[data-copy]").first
    button.click()
    assert button.inner_text() == "Copied"
    assert page.evaluate(selected) == command.inner_text()
    page.close()
