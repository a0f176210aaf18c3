"""The pages as text: what stands in them, where their links lead, and what they say when there is nothing to show."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

from dashboard import pages
from ledger.standing import head
from tests.dashboard.conftest import ADDRESS, Site
from tests.engines import once

HTML = {"accept": "text/html"}


def text_of(site: Site, path: str, *, code: int = 200, acting: bool = False) -> str:
    """The page at *path*, with its space made small."""
    answer = (site.writer if acting else site.reader).get(path, headers=HTML)
    assert answer.status_code == code, answer.text
    return re.sub(r"\s+", " ", answer.text)


def last(site: Site) -> int:
    """The end of the log."""
    with site.board.look() as desk:
        return head(desk.tx, site.board.name).position


def test_a_board_without_cards_says_how_to_make_one(site: Site) -> None:
    """No empty page."""
    page = text_of(site, "/")
    assert "No card yet" in page
    assert "ledger create" in page


def test_filters_that_nothing_passes_say_so_and_lead_back(site: Site) -> None:
    """To every card, at the same position."""
    site.create("A card")
    page = text_of(site, f"/?q=penguin&at={last(site)}")
    assert "No card matches" in page
    assert f'<a href="/?at={last(site)}">Show every card</a>' in page


def test_a_card_stands_in_the_column_of_its_status_with_its_link(site: Site) -> None:
    """Its id is escaped in the link, whatever it holds."""
    card = site.create("Mend the parser", assignee="builder", labels=["api"], priority=4)
    page = text_of(site, "/")
    column = page.split('<ol class="tiles" data-status="ready"')[1].split("</ol>")[0]
    assert f'href="/card/{quote(card)}"' in column
    assert "Mend the parser" in column
    assert "builder" in column
    assert "priority 4" in column
    assert "<li>api</li>" in column


def test_a_waiting_card_names_what_it_waits_for(site: Site) -> None:
    """With a link to it; with many of them the first three and how many more."""
    parents = [site.create(f"Parent {number}") for number in range(5)]
    site.create("Child", parents=parents)
    waits = text_of(site, "/").split("waits on ")[1].split("</p>")[0]
    assert waits.count("<a href=") == 3
    assert waits.endswith("and 2 more")


def test_a_redacted_title_says_that_it_is_gone(site: Site) -> None:
    """On the board and on the page of the card."""
    card = site.create("A secret")
    site.board.redact(last(site), thoroughly=False)
    for path in ("/", f"/card/{card}"):
        assert "(redacted)" in text_of(site, path)
        assert "A secret" not in text_of(site, path)


def test_links_keep_the_position_that_is_looked_at(site: Site) -> None:
    """From the board of the past one comes to cards of the past."""
    card = site.create("Then")
    at = last(site)
    site.board.edit(card, title="Now")
    page = text_of(site, f"/?at={at}")
    assert f'href="/card/{card}?at={at}">Then</a>' in page
    assert "Now</a>" not in page.split("</main>")[0].split('id="main"')[1]
    assert "Then" in text_of(site, f"/card/{card}?at={at}")


@pytest.mark.parametrize("path", ["/?at=x", "/?at=-1", "/?at=9e9", "/pictures?at=x", "/changes?from=x"])
@once
def test_what_is_no_position_is_said_as_a_page(site: Site, path: str) -> None:
    """With what to do instead, and 422."""
    page = text_of(site, path, code=422)
    assert "That cannot be understood" in page
    assert "is no position of the log" in page


@once
def test_an_unknown_card_is_named_with_what_to_do(site: Site) -> None:
    """404, as a page."""
    page = text_of(site, "/card/t_gone", code=404)
    assert "There is no such card" in page
    assert "t_gone" in page
    assert "ledger list" in page


@once
def test_a_log_that_is_not_here_is_named(site: Site) -> None:
    """A run that was claimed by hand writes no log on this host."""
    card = site.create("By hand", assignee="builder")
    site.board.claim(card)
    assert "no log on this host" in text_of(site, f"/card/{card}/log/1", code=404)
    assert "This host has no log of it" in text_of(site, f"/card/{card}")


def test_a_run_that_there_is_not_is_named(site: Site) -> None:
    """Whatever its number; and ids that no store can hold are refused as such."""
    card = site.create("A card")
    assert "run 7" in text_of(site, f"/card/{card}/log/7", code=404)
    assert text_of(site, f"/card/{card}/log/{10**30}", code=422)
    assert "cannot be stored" in text_of(site, "/fragments/tiles?id=%00", code=422)


@once
def test_a_visitor_without_a_token_learns_how_to_get_one(site: Site) -> None:
    """The page loads nothing, since nothing is served; a link leads back to where the visitor wanted to go."""
    answer = site.nobody.get("/card/t_1?at=3", headers=HTML)
    assert answer.status_code == 401
    assert "ledger serve" in answer.text
    assert '<a href="/card/t_1?at=3">open it again</a>' in answer.text
    assert "/static/" not in answer.text


def test_acts_are_offered_where_they_can_be_done(site: Site) -> None:
    """By status: a blocked card can be unblocked, an open one blocked, a closed one neither; always a comment."""
    card = site.create("Parked")
    assert offered(site, card) == {"comment", "assign", "block", "archive"}
    site.board.block(card, reason="not now")
    assert offered(site, card) == {"unblock", "comment", "assign", "block", "archive"}
    site.board.complete(card)
    assert offered(site, card) == {"comment", "archive"}
    site.board.archive(card)
    assert offered(site, card) == {"comment"}
    assert "/act/" not in text_of(site, f"/card/{card}")
    assert "/act/" not in text_of(site, "/")
    assert 'action="/act/pause"' in text_of(site, "/", acting=True)


def test_a_running_card_can_be_stopped_and_not_assigned(site: Site) -> None:
    """What would be refused is not offered."""
    card = site.create("Busy", assignee="builder")
    site.board.claim(card)
    assert offered(site, card) == {"comment", "stop"}


def offered(site: Site, card: str) -> set[str]:
    """The acts that the page of a card has forms for."""
    return set(re.findall(r'action="/act/(\w+)"', text_of(site, f"/card/{card}", acting=True)))


def test_a_parent_is_put_away_with_a_choice_for_its_children(site: Site) -> None:
    """Keep, unlink or cascade."""
    parent = site.create("Parent")
    assert 'name="children"' not in text_of(site, f"/card/{parent}", acting=True)
    site.create("Child", parents=[parent])
    assert 'name="children"' in text_of(site, f"/card/{parent}", acting=True)


def test_tiles_are_given_out_by_id_as_far_as_they_pass_the_filters(site: Site) -> None:
    """With a filter also how many pass it; ids that there are not are left out."""
    mine, other = site.create("Mine", assignee="builder"), site.create("Other", assignee="coder")
    asked = f"/fragments/tiles?id={mine}&id={other}&id=t_gone"
    assert tile_ids(text_of(site, asked)) == [mine, other]
    assert "data-count" not in text_of(site, asked)
    narrowed = text_of(site, f"{asked}&assignee=builder")
    assert tile_ids(narrowed) == [mine]
    assert '<data data-count="ready" value="1">' in narrowed


@pytest.mark.parametrize("query", ["status=ready", "assignee=builder", "label=api", "tenant=acme", "q=PARSER", "q=t_"])
def test_a_tile_passes_the_filters_that_the_board_lets_it_pass(site: Site, query: str) -> None:
    """The board and its fragments agree on what is wanted."""
    cards = [
        site.create("Mend the parser", assignee="builder", labels=["api"], tenant="acme"),
        site.create("Something else", assignee="coder", labels=["web"]),
        site.create("Nobody's"),
    ]
    site.board.block(cards[1], reason="no")
    fragment = text_of(site, f"/fragments/tiles?{query}&{'&'.join(f'id={card}' for card in cards)}")
    assert set(tile_ids(fragment)) == set(tile_ids(text_of(site, f"/?{query}")))


def tile_ids(page: str) -> list[str]:
    """The cards that have tiles in *page*."""
    return re.findall(r'<li class="tile" data-card="([^"]+)"', page)


def test_nobodys_cards_can_be_asked_for(site: Site) -> None:
    """By the word none, on the board as in its fragments."""
    nobodys, builders = site.create("Nobody's"), site.create("Builder's", assignee="builder")
    assert tile_ids(text_of(site, "/?assignee=none")) == [nobodys]
    assert tile_ids(text_of(site, f"/fragments/tiles?assignee=none&id={nobodys}&id={builders}")) == [nobodys]


def test_lanes_are_in_order_and_nobodys_is_the_last(site: Site) -> None:
    """A lane for each worker, and in each the columns that have cards."""
    for assignee in ("zoe", None, "ada"):
        site.create("A card", assignee=assignee)
    page = text_of(site, "/?lanes=1")
    assert re.findall(r'data-lane="([^"]*)"', page) == ["ada", "zoe", ""]
    assert set(re.findall(r'<ol class="tiles" data-status="(\w+)"', page)) == {"ready"}


def test_the_next_page_of_a_column_begins_behind_the_last(site: Site) -> None:
    """A link leads on, and none from the last page."""
    ids = [site.create(f"Card {number:02}") for number in range(53)]
    first = text_of(site, "/?status=ready")
    more = re.search(r'<a class="more" href="([^"]+)"', first)
    assert more is not None
    second = text_of(site, more[1].replace("&amp;", "&"))
    assert sorted(tile_ids(first) + tile_ids(second)) == sorted(ids)
    assert 'class="more"' not in second


def test_a_refusal_never_leads_to_another_site(site: Site) -> None:
    """An address that begins with two slashes is a path here."""
    answer = site.nobody.get(f"{ADDRESS}//evil.example/x", headers=HTML)
    assert answer.status_code == 401
    assert '<a href="/evil.example/x">' in answer.text


def test_the_story_is_told_newest_first_and_marks_its_proof(site: Site) -> None:
    """The events that prove why the card is held are marked, and no others."""
    card = site.create("Mend the parser")
    site.board.comment(card, "careful with <b>dates</b>")
    site.board.block(card, reason="the spec is missing")
    story = text_of(site, f"/card/{card}").split('<ol class="story">')[1].split("</ol>")[0]
    assert [*re.findall(r'<span class="tell">([^<]+)', story)] == [
        "blocked: an operator wants it",
        "commented",
        "created for nobody",
    ]
    assert "careful with &lt;b&gt;dates&lt;/b&gt;" in story
    assert len(re.findall('class="proof"', story)) == 1


def test_what_changed_names_fields_and_events(site: Site) -> None:
    """From and to, and by what."""
    card = site.create("Mend the parser", assignee="builder")
    before = last(site)
    site.board.assign(card, "coder")
    site.board.block(card, reason="no")
    page = text_of(site, f"/changes?from={before}")
    assert 'assignee</span> <span class="soft">builder</span><span class="arrow">→</span><b>coder</b>' in page
    assert 'status</span> <span class="soft">ready</span><span class="arrow">→</span><b>blocked</b>' in page
    assert "its assignee is now coder, before builder" in page
    assert "Nothing changed" in text_of(site, f"/changes?from={last(site)}")
    assert "ends before it begins" in text_of(site, f"/changes?from={last(site)}&to=1", code=422)


def test_too_wide_a_stretch_is_not_compared(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """All its events would be held at once; the page says how many there are, and offers no such link."""
    monkeypatch.setattr(pages, "WIDEST", 1)
    site.create("A card")
    page = text_of(site, "/changes?from=0", code=422)
    assert f"{last(site):,} events stand between them" in page
    assert "an hour" not in text_of(site, f"/changes?from={last(site)}")


def test_what_moved_last_is_told_first(site: Site) -> None:
    """Whatever its id, or the order in which cards were made."""
    cards = [site.create(f"Card {number}") for number in range(3)]
    for card in (cards[1], cards[2], cards[0]):
        site.board.comment(card, "moved")
    page = text_of(site, "/changes?from=0")
    assert re.findall(r'<span class="id faint">(t_[^<]+)', page) == [cards[0], cards[2], cards[1]]


def test_pictures_of_a_board_on_which_nothing_happened_yet(site: Site) -> None:
    """Before its first event there is nothing to draw."""
    assert "Nothing has happened yet" in text_of(site, "/pictures?at=0")


def test_pictures_have_their_numbers_as_tables(site: Site) -> None:
    """Each that is drawn; and cost says how it is told where nobody told it."""
    card = site.create("Mend the parser", assignee="builder")
    claimed = site.board.claim(card)
    site.board.complete(card, lock=claimed.lock)
    page = text_of(site, "/pictures?since=all")
    assert page.count('<svg class="picture') == page.count("<summary>The numbers</summary>") == 4
    assert "No run said what it cost" in page
    assert "Since &#39;ever&#39; is unknown" in text_of(site, "/pictures?since=ever", code=422)


def test_pictures_reach_as_far_back_as_can_be_drawn_at_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """30 days unless so much has happened; whoever asks for more gets it."""
    current = re.compile(r'aria-current="true">([^<]+)<')
    site.create("A card")
    assert current.findall(text_of(site, "/pictures")) == ["30 days"]
    monkeypatch.setattr(pages, "MOST_EVENTS", 1)
    assert current.findall(text_of(site, "/pictures")) == ["a day"]
    assert current.findall(text_of(site, "/pictures?since=all")) == ["everything"]


def test_a_paused_board_says_so_and_offers_its_end(site: Site) -> None:
    """To whoever may act; at the time when it was paused to nobody."""
    site.board.pause(scope="assignee", name="builder", reason="a deploy")
    assert "assignee builder" in text_of(site, "/")
    page = text_of(site, "/", acting=True)
    assert 'action="/act/resume"' in page
    assert 'action="/act/resume"' not in text_of(site, f"/?at={last(site)}", acting=True)


def test_what_came_of_an_act_is_said_once(site: Site) -> None:
    """And does not stay in the links of the page."""
    page = text_of(site, "/?said=changed", acting=True)
    assert "Done." in page
    assert "said=" not in page
    assert "penguin" not in text_of(site, "/?said=penguin")
