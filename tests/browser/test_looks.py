"""What the eye sees: filters and links, keys, dark and light, small screens, and what those need who see less."""

from __future__ import annotations

import re
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser import sites
from tests.browser.sites import Site, Visits

PAGES = ("board", "lanes", "one column", "past", "card", "log", "pictures", "changes", "nothing")


def path_of(name: str, site: Site) -> str:
    """Where a page of each kind is."""
    return {
        "board": "/",
        "lanes": "/?lanes=1",
        "one column": "/?status=done",
        "past": "/?at=300",
        "card": site.card("rounding"),
        "log": f"{site.card('rounding')}/log/1",
        "pictures": "/pictures",
        "changes": "/changes",
        "nothing": "/?q=penguin",
    }[name]


def test_the_board_shows_what_matters_of_a_card(visit: Visits, shown: Site) -> None:
    """Its worker, run and age, its counters beside their limits, why it is held, what it waits for."""
    page = visit(shown)
    running = page.locator(f'[data-card="{shown.named["rounding"]}"]')
    expect(running).to_contain_text(re.compile(r"builder\s*run 3\s*14m"))
    expect(running.get_by_role("img", name="failures: 1 of 2")).to_be_visible()
    held = page.locator(f'.column[data-status="blocked"] [data-card="{shown.named["silent"]}"]')
    expect(held).to_contain_text("violation budget 3 of 3")
    waiting = page.locator(f'[data-card="{shown.named["migrate"]}"]')
    expect(waiting.get_by_role("link", name="Round Swiss invoices once, at the line")).to_be_visible()


def test_the_page_of_a_card_tells_its_story_and_marks_what_proves_why(visit: Visits, shown: Site) -> None:
    """The events that prove why it is held stand out in the story; a reason leads to its event."""
    page = visit(shown, shown.card("silent"))
    expect(page.locator(".story .proof")).to_have_count(4)
    expect(page.locator(".story .proof").first).to_contain_text("blocked: violation budget, 3 of 3")
    page.locator(".reasons a").first.click()
    expect(page).to_have_url(re.compile(r"#e\d+$"))
    expect(page.locator(".story li:target")).to_contain_text("blocked")
    page.locator("#log summary").click()
    expect(page.locator("pre.log")).to_contain_text("65 passed")


def test_a_card_leads_to_those_that_it_waits_for_and_that_wait_for_it(visit: Visits, shown: Site) -> None:
    """The graph is made of links, two generations each way."""
    page = visit(shown, shown.card("rounding"))
    expect(page.locator(".kin .node")).to_have_count(5)
    page.locator(f'.kin [data-card="{shown.named["migrate"]}"]').click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Move old invoices to the new tables")


def test_filters_act_at_once_and_stand_in_the_address(visit: Visits, shown: Site) -> None:
    """What is seen can be passed on, and gone back from."""
    page = visit(shown)
    page.locator("#assignee").select_option("scribe")
    expect(page).to_have_url(re.compile(r"\?assignee=scribe$"))
    expect(page.locator('.column[data-status="running"] .tile')).to_have_count(1)
    page.locator("#q").fill("runbook")
    expect(page).to_have_url(re.compile(r"q=runbook"))
    expect(page.locator(".tile")).to_have_count(1)
    page.go_back()
    expect(page.locator("#q")).to_have_value("")
    page.go_back()
    expect(page.locator("#assignee")).to_have_value("")
    expect(page.locator('.column[data-status="running"] .tile')).to_have_count(5)
    page.goto("/?label=billing&lanes=1")
    expect(page.locator("#label")).to_have_value("billing")
    expect(page.locator(".lane").first).to_be_visible()


def test_a_long_column_goes_on_page_by_page(visit: Visits, shown: Site) -> None:
    """No column shows more than fifty cards at once."""
    page = visit(shown)
    done = page.locator('.column[data-status="done"]')
    expect(done.locator(".tile")).to_have_count(50)
    done.locator(".more").click()
    expect(page.locator(".tile").first).to_be_visible()
    assert page.locator(".tile").count() < 50


def test_everything_can_be_done_by_keyboard(visit: Visits, shown: Site) -> None:
    """j k h l and arrows walk, Enter opens, / searches, ? helps, u leads up."""
    page = visit(shown)
    for key, status in (("j", "triage"), ("l", "ready"), ("ArrowRight", "running"), ("h", "ready")):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.closest('.tile').dataset.status") == status
    first = page.evaluate("document.activeElement.textContent")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.textContent") != first
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement.textContent") == first
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(first)
    page.wait_for_load_state()  # its keys are bound
    page.keyboard.press("u")
    expect(page.locator(".board")).to_be_visible()
    page.wait_for_load_state()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).not_to_be_visible()
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("jt?")
    expect(page.locator("#q")).to_have_value("jt?")


def test_the_look_follows_the_system_until_somebody_chooses(visit: Visits, shown: Site) -> None:
    """The choice is kept for the next page."""
    page = visit(shown, color_scheme="dark")
    assert brightness(page) < 60
    page.locator("#theme").click()
    assert brightness(page) > 200
    page.goto("/pictures")
    assert brightness(page) > 200
    page.keyboard.press("t")
    assert brightness(page) < 60
    assert brightness(visit(shown, color_scheme="light")) > 200


def brightness(page: Page) -> int:
    """How bright the ground of the page is, from 0 to 255."""
    colour = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    return sum(map(int, re.findall(r"\d+", colour)[:3])) // 3


def test_nothing_moves_for_those_who_want_it_still(visit: Visits, shown: Site) -> None:
    """`prefers-reduced-motion` is kept to."""
    page = visit(shown, reduced_motion="reduce")
    page.locator(".tile").first.evaluate("(tile) => tile.classList.add('changed')")
    assert page.locator(".tile.changed").evaluate("(tile) => getComputedStyle(tile).animationName") == "none"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_small_phone(visit: Visits, shown: Site, name: str) -> None:
    """At 360 pixels nothing makes the page itself scroll sideways, and no script complains."""
    page = visit(shown, path_of(name, shown), viewport={"width": 360, "height": 740})
    expect(page.locator("#main")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_serious(visit: Visits, shown: Site, name: str, scheme: str) -> None:
    """Names, landmarks, contrast: by axe-core, in both looks, as somebody who may act sees it."""
    options: dict[str, Any] = {"color_scheme": scheme, "bypass_csp": True}  # axe is put into the page
    page = visit(shown, path_of(name, shown), role="write", **options)
    expect(page.locator("#main")).to_be_visible()
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    found = Axe().run(page).response["violations"]
    grave = [each for each in found if each["impact"] in {"serious", "critical"}]
    assert [(each["id"], [node["html"][:200] for node in each["nodes"]]) for each in grave] == []


def test_without_a_browser_one_line_says_how_to_get_one() -> None:
    """These tests are not skipped where there is none."""
    with pytest.raises(sites.NoBrowser, match="apt-get install -y --no-install-recommends chromium"):
        sites.browser_path(lambda _: None)
