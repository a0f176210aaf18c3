"""Time travel: the slider over the whole log, playing it, and what changed between two positions."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.sites import Site, Visits


def to(page: Page, position: int) -> None:
    """Draw the slider to *position*."""
    page.locator("#at").fill(str(position))


def shown_at(page: Page) -> str:
    """The position that the board on the page is of; empty: now."""
    return page.locator("#main").get_attribute("data-at") or ""


def test_the_slider_shows_the_board_as_it_stood(visit: Visits, shown: Site) -> None:
    """At its position, in the address too, with a banner that says so, and without anything to act by."""
    page = visit(shown, role="write")
    expect(page.get_by_text("Pause…")).to_be_visible()
    to(page, 20)
    expect(page.locator("#past")).to_contain_text("how it stood at position 20")
    expect(page).to_have_url(re.compile(r"\?at=20$"))
    expect(page.locator("#live")).to_have_text("the past")
    expect(page.get_by_text("Pause…")).to_have_count(0)
    expect(page.locator(".tile").first).to_be_visible()


def test_no_act_is_offered_in_the_past(visit: Visits, shown: Site) -> None:
    """Not on the board and not on a card: what is seen there cannot be changed any more."""
    page = visit(shown, "/?at=300", role="write")
    expect(page.locator("#past")).to_be_visible()
    expect(page.locator('form[method="post"]')).to_have_count(0)
    page.goto(f"{shown.card('silent')}?at=520")
    expect(page.locator("#past")).to_be_visible()
    expect(page.locator('form[method="post"]')).to_have_count(0)


def test_a_position_can_be_passed_on_and_kept_on_every_page(visit: Visits, shown: Site) -> None:
    """A link to the past leads to a card of the past and back to the board of that position."""
    page = visit(shown, "/?at=530&q=swiss")
    page.locator(".tile .title").click()
    expect(page).to_have_url(re.compile(r"/card/t_\w+\?at=530$"))
    expect(page.locator("#past")).to_contain_text("position 530")
    page.locator("#up").click()
    expect(page).to_have_url(re.compile(r"/\?at=530$"))
    page.get_by_role("link", name="Pictures").click()
    expect(page.locator("#past")).to_contain_text("position 530")


def test_the_way_back_to_now(visit: Visits, shown: Site) -> None:
    """By the button, by the key n, and by the end of the slider."""
    page = visit(shown, "/?at=100")
    page.locator("#now").click()
    expect(page.locator("#past")).to_have_count(0)
    expect(page).to_have_url(re.compile(r"/$"))
    page.keyboard.press("[")
    expect(page.locator("#past")).to_be_visible()
    page.keyboard.press("n")
    expect(page.locator("#past")).to_have_count(0)
    to(page, 100)
    expect(page.locator("#past")).to_be_visible()
    page.locator("#at").press("End")
    expect(page.locator("#past")).to_have_count(0)


def test_one_event_back_and_forth_by_keys(visit: Visits, shown: Site) -> None:
    """[ and ] step through the log."""
    page = visit(shown, "/?at=200")
    page.keyboard.press("]")
    expect(page.locator("#past")).to_contain_text("position 201")
    page.keyboard.press("[")
    page.keyboard.press("[")
    expect(page.locator("#past")).to_contain_text("position 199")


def test_playing_goes_on_until_it_is_stopped(visit: Visits, shown: Site) -> None:
    """The board moves by itself through the log; the same button stops it."""
    page = visit(shown, "/?at=100")
    play = page.locator("#play")
    play.click()
    expect(play).to_have_attribute("aria-pressed", "true")
    page.wait_for_function("() => Number(document.getElementById('main').dataset.at) > 120")
    play.click()
    expect(play).to_have_attribute("aria-pressed", "false")
    to(page, 50)
    expect(page.locator("#past")).to_contain_text("position 50")
    page.wait_for_timeout(800)  # two steps of a play that had not been stopped
    assert shown_at(page) == "50"


def test_playing_ends_at_now(visit: Visits, shown: Site) -> None:
    """And lets the page be live again."""
    page = visit(shown, "/?at=533")
    page.locator("#play").click()
    expect(page.locator("#past")).to_have_count(0)
    expect(page.locator("#play")).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#live")).to_have_text("live")


def test_the_past_stands_still_while_the_log_grows(visit: Visits, site: Site) -> None:
    """What happens now makes the slider longer and moves no card of the past."""
    page = visit(site, "/?at=300")
    expect(page.locator("#live")).to_have_attribute("data-state", "past")
    before = page.locator("#view").inner_text()
    position = site.board.create("Not in the past", priority=9).position
    expect(page.locator("#at")).to_have_attribute("max", str(position))
    assert page.locator("#view").inner_text() == before
    expect(page.locator("#at")).to_have_value("300")


def test_what_changed_between_two_positions(visit: Visits, shown: Site) -> None:
    """Each card that moved, what is another, and the events that made it so; it says so when nothing did."""
    page = visit(shown, "/changes?from=480&to=500")
    row = page.locator("tr", has_text="Explain the retry policy")
    expect(row).to_contain_text("blocked")
    expect(row).to_contain_text("violation budget, 3 of 3")
    page.get_by_label("After position").fill("500")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", name="Nothing changed")).to_be_visible()
    page.goto("/?at=480")
    page.get_by_role("link", name="What changed since").click()
    expect(page.get_by_label("After position")).to_have_value("480")


def test_without_scripts_the_past_can_be_looked_at_all_the_same(visit: Visits, shown: Site) -> None:
    """The slider is a form, and so are the filters."""
    page = visit(shown, java_script_enabled=False)
    to(page, 40)
    page.get_by_role("button", name="Go").click()
    expect(page.locator("#past")).to_contain_text("position 40")
    page.locator("#status").select_option("done")
    page.get_by_role("button", name="Filter").click()
    expect(page).to_have_url(re.compile(r"status=done.*at=40"))


def test_filters_and_position_keep_each_other(visit: Visits, shown: Site) -> None:
    """To look for something in the past is to stay there, and to travel is not to forget what one looks for."""
    page = visit(shown, "/?at=300")
    page.locator("#status").select_option("done")
    expect(page).to_have_url(re.compile(r"\?status=done&at=300$"))
    expect(page.locator("#past")).to_be_visible()
    to(page, 200)
    expect(page).to_have_url(re.compile(r"\?status=done&at=200$"))
    expect(page.locator(".column")).to_have_count(1)
