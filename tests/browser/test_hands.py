"""Acting from the page: with a token for it, by forms of this very page, and never without."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.sites import Site, Visits

SEND = """async ([path, fields]) => {
  const answer = await fetch(path, {method: "POST", body: new URLSearchParams(fields), headers: {accept: "text/html"}});
  return [answer.status, await answer.text()];
}"""


def sent(page: Page, path: str, **fields: str) -> tuple[int, str]:
    """What the server answers to a form that *page* sends."""
    status, text = page.evaluate(SEND, [path, fields])
    return int(status), str(text)


def test_a_card_is_unblocked_with_a_reason(visit: Visits, site: Site) -> None:
    """It goes on, the page says so and the log says who did it."""
    page = visit(site, site.card("silent"), role="write")
    page.get_by_label("Reason").first.fill("The prompt says now how it ends")
    page.get_by_role("button", name="Unblock").click()
    expect(page.locator("#said")).to_have_text("Done.")
    expect(page).to_have_url(re.compile(r"/card/\w+$"))
    expect(page.locator(".card-head .status")).to_have_text("ready")
    expect(page.locator(".story li").nth(1)).to_contain_text("The prompt says now how it ends")
    last = list(site.board.events(site.named["silent"]))[-1]
    assert (last.kind, last.actor_kind, last.actor_name) == ("unblocked", "operator", "dana")


def test_a_form_that_is_sent_twice_acts_once(visit: Visits, site: Site) -> None:
    """A double click is one comment."""
    page = visit(site, site.card("silent"), role="write")
    page.locator("summary", has_text="Comment").click()
    page.get_by_label("What you have to say").fill("Once is enough.")
    fields = page.locator('form[action="/act/comment"]').evaluate("(form) => Object.fromEntries(new FormData(form))")
    assert sent(page, "/act/comment", **fields)[0] == sent(page, "/act/comment", **fields)[0] == 200
    said = [event for event in site.board.events(site.named["silent"]) if event.kind == "commented"]
    assert [event.words["body"] for event in said] == ["Once is enough."]


def test_a_card_is_handed_over_blocked_stopped_and_put_away(visit: Visits, site: Site) -> None:
    """Each act has its form, and each leads back to the card."""
    page = visit(site, site.card("Rotate the signing keys"), role="write")
    page.locator("summary", has_text="Assign").click()
    page.get_by_label("Assignee").fill("tester")
    page.get_by_role("button", name="Assign").click()
    expect(page.locator(".card-head .worker")).to_have_text("tester")
    page.locator("summary", has_text=re.compile("^Block$")).click()
    page.locator('form[action="/act/block"]').get_by_label("Reason").fill("not this week")
    page.get_by_role("button", name=re.compile("^Block$")).click()
    expect(page.locator(".card-head .status")).to_have_text("blocked")
    page.locator("summary", has_text="Archive").click()
    page.get_by_role("button", name="Archive").click()
    expect(page.locator(".card-head .status")).to_have_text("archived")
    page.goto(site.card("rounding"))
    page.locator("summary", has_text="Stop the run").click()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".story")).to_contain_text("run 3 was asked to stop")


def test_the_board_is_paused_and_resumed(visit: Visits, site: Site) -> None:
    """From the board's own page."""
    page = visit(site, role="write")
    page.get_by_text("Pause…").click()
    page.get_by_role("button", name="Pause the board").click()
    expect(page.locator(".notice.paused")).to_contain_text("the whole board")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".notice.paused")).to_have_count(0)


def test_what_a_rule_refuses_is_said_as_a_page(visit: Visits, site: Site) -> None:
    """With the ledger's own words and what to do instead."""
    page, card = visit(site, site.card("rounding"), role="write"), site.named["rounding"]
    csrf = page.locator('input[name="csrf"]').first.get_attribute("value") or ""
    status, text = sent(page, "/act/archive", csrf=csrf, task=card)
    assert status == 409
    assert "That cannot be done" in text
    visit.wrong.clear()  # the browser notes the refusal


def test_a_token_for_looking_offers_nothing_and_can_do_nothing(visit: Visits, site: Site) -> None:
    """No form is shown, and one that is made up is refused."""
    page = visit(site, site.card("silent"))
    expect(page.locator('form[method="post"]')).to_have_count(0)
    status, text = sent(page, "/act/unblock", task=site.named["silent"])
    assert status == 403
    assert "for reading" in text
    assert site.board.show(site.named["silent"])["task"]["status"] == "blocked"
    visit.wrong.clear()  # the browser notes the refusal


def test_a_form_of_another_page_is_refused(visit: Visits, site: Site) -> None:
    """A token for acting is not enough: the form must be of this server's making."""
    page = visit(site, site.card("silent"), role="write")
    assert sent(page, "/act/unblock", task=site.named["silent"], csrf="0" * 64)[0] == 403
    assert site.board.show(site.named["silent"])["task"]["status"] == "blocked"
    visit.wrong.clear()  # the browser notes the refusal


def test_whoever_has_no_token_is_told_how_to_get_one(visit: Visits, site: Site) -> None:
    """The page that says no is a page, and shows nothing of the board."""
    page = visit(site, "/")
    page.context.clear_cookies()
    page.goto("/")
    expect(page.get_by_role("heading")).to_have_text("A token is needed")
    expect(page.get_by_role("main")).to_contain_text("ledger serve")
    visit.wrong.clear()  # the browser notes the refusal, and that its page asked in vain
