"""Coding agents on the command line: they know no verb of ours, and a turn that ended is code 0 (RULES §6)."""

import pytest

from tests.fleets import sh

ANSWER = "The parser is mended.\nAll tests pass."
CLAUDE = f"cat > /dev/null; echo '{ANSWER}'"
LIMIT = 'cat > /dev/null; echo thinking; echo "You\'ve hit your usage limit. Try again at 5 pm."'
QUOTA = ["^You.ve hit your .*limit"]
MIB = 1024 * 1024


def agent(fleet, script, **keys):
    """A card after its first run by an agent that is *script*."""
    fleet.staff({"w": {"command": sh(script), **keys}, "dana": {"human": True}}, log_limit=MIB)
    card = fleet.create()
    fleet.sweep()
    fleet.ended(card)
    return card


def test_on_success_complete_finishes_the_card(fleet):
    """§6: 0 and `complete`: not `exited` but `completed` by the system actor, with the last lines as summary."""
    card = agent(fleet, CLAUDE, on_success="complete")
    assert fleet.kinds(card) == ["created", "claimed", "worker_bound", "completed"]
    completed = fleet.events(card)[-1]
    assert (completed.actor_kind, completed.outcome, completed.run) == ("system", "ok", 1)
    assert completed.words["summary"] == ANSWER
    assert fleet.card(card)["status"] == "done"


def test_on_success_review_asks_the_reviewer(fleet):
    """§6: 0 and `review` in lane work: `review_requested` by the system actor, to the assignee's reviewer."""
    card = agent(fleet, CLAUDE, on_success="review", reviewer="dana")
    assert fleet.kinds(card)[-1] == "review_requested"
    asked = fleet.events(card)[-1]
    assert (asked.actor_kind, asked.facts["reviewer"], asked.words["summary"]) == ("system", "dana", ANSWER)
    assert fleet.card(card)["status"] == "review"
    assert fleet.sweep().held == {"waiting_for_person": [card]}


def test_on_success_review_of_the_review_itself_is_a_clean_exit(fleet):
    """§6: `review` means something in lane work only; a reviewer that says nothing violates the contract."""
    card = agent(fleet, CLAUDE, on_success="review")
    fleet.board.assign(card, "w")
    fleet.sweep()
    assert fleet.ended(card, 2)["outcome"] == "clean"
    assert fleet.card(card)["lane"] == "review"


def test_without_on_success_a_clean_exit_is_a_violation(fleet):
    """§6, §2: 0 → clean, followed by `violation` in the same append."""
    card = agent(fleet, CLAUDE)
    exited, violation = fleet.events(card)[3:5]
    assert (exited.kind, exited.outcome, exited.facts["code"]) == ("exited", "clean", 0)
    assert (violation.kind, violation.facts["streak"], violation.facts["limit"]) == ("violation", 1, 3)
    assert exited.words["last_words"] == ANSWER
    assert fleet.counters(card) == (0, 1, 1, 0)


@pytest.mark.parametrize("on_success", ["complete", "review", "violation"])
@pytest.mark.parametrize("code", [0, 1])
def test_a_limits_text_is_rate_limited(fleet, code, on_success):
    """§6: code 0 or 1 and a quota pattern on the last three lines → rate_limited, before on_success is looked at."""
    card = agent(fleet, f"{LIMIT}; exit {code}", quota=QUOTA, on_success=on_success)
    assert fleet.runs(card)[0]["outcome"] == "rate_limited"
    assert fleet.counters(card) == (0, 0, 0, 1)
    assert fleet.sweep().held == {"cooldown_until": [card]}


@pytest.mark.parametrize(
    ("script", "keys", "outcome"),
    [
        (f"{LIMIT}; exit 1", {}, "crashed"),
        (f"{LIMIT}; exit 2", {"quota": QUOTA}, "crashed"),
        (f"{LIMIT}; printf '1\\n2\\n\\n3\\n'; exit 1", {"quota": QUOTA}, "crashed"),
        (f"{LIMIT}; printf '1\\n\\n2\\n\\n'; exit 1", {"quota": QUOTA}, "rate_limited"),
        (f"{LIMIT}; exit 0", {"on_success": "complete"}, "completed"),
    ],
    ids=["no pattern", "another code", "four lines ago", "three lines ago", "clean, no pattern"],
)
def test_a_limits_text_alone_is_not_enough(fleet, script, keys, outcome):
    """§6: the pattern is the operator's, the codes are 0 and 1, the lines the last three that are not empty."""
    card = agent(fleet, script, **keys)
    ended = fleet.events(card)[3]
    assert outcome in {ended.outcome, ended.kind}


def test_the_reset_that_an_agent_asks_for_is_waited_for(fleet):
    """§4: not before = reset asked, but at least now + cooldown and at most now + reset_cap."""
    at = fleet.clock() // 1_000_000 + 7_200
    card = agent(fleet, f"echo '[kanban-worker-exit] reset={at}'; exit 75")
    exited = fleet.events(card)[3]
    assert exited.facts["not_before"] == exited.facts["reset_asked"] == at * 1_000_000
    fleet.clock.advance(7_100)
    assert fleet.sweep().claimed == []
    fleet.clock.advance(101)
    assert [each["run"] for each in fleet.sweep().claimed] == [2]


def test_an_agent_that_reads_its_input_sees_the_end_of_it(fleet):
    """DESIGN §4: standard input is /dev/null, so nothing hangs on it."""
    card = agent(fleet, 'readlink /proc/self/fd/0; read -r line; echo "read $?"', on_success="complete")
    assert fleet.events(card)[-1].words["summary"] == "/dev/null\nread 1"


def test_endless_output_fills_no_disk(fleet):
    """DESIGN §4: the log keeps the first MiB and the last `log_limit`; its end is whole evidence."""
    card = agent(fleet, "yes 0123456789abcde | head -c 200000000; echo the end; exit 1")
    log = fleet.folder(card) / "log"
    assert log.stat().st_size <= MIB + 2 * MIB + 65_536 + 200
    text = log.read_text()
    assert text.startswith("0123456789abcde\n")
    assert text.endswith("the end\n[kanban-worker-exit] rc=1 run=1\n")
    assert "bytes dropped" in text
    assert fleet.events(card)[3].words["last_words"].endswith("the end")


@pytest.mark.parametrize(
    ("result", "summary"),
    [("last-lines", "said at the end"), ("file:{result_file}", "written to the file"), ("none", None)],
)
def test_the_summary_is_what_the_assignees_result_says(fleet, result, summary):
    """§6, DESIGN §5: `result` is last-lines, file:{result_file} or none; the file's place is filled in."""
    fleet.staff(
        {
            "w": {
                "command": [
                    "sh",
                    "-c",
                    'echo "written to the file" > "$1"; echo said at the end',
                    "sh",
                    "{result_file}",
                ],
                "on_success": "complete",
                "result": result,
            }
        }
    )
    card = fleet.create()
    fleet.sweep()
    fleet.ended(card)
    assert fleet.events(card)[-1].words["summary"] == summary


def test_on_success_complete_before_the_parents_are_done_is_kept_and_blocks(fleet):
    """§6, §8: decided as for the worker's own verb: `Unmet` keeps the result and ends the run as a dependency."""
    fleet.staff({"w": {"command": sh("while [ ! -e go ]; do sleep 0.02; done; echo made"), "on_success": "complete"}})
    card = fleet.create()
    fleet.sweep()
    parent = fleet.create(assignee=None)
    claim = {"LEDGER_TASK": card, "LEDGER_RUN": "1", "LEDGER_LOCK": fleet.lock(card)}
    worker = type(fleet.board).open(environ=fleet.environ | claim, cwd=fleet.home)
    fleet.boards.append(worker)
    worker.link(card, parent)
    (fleet.scratch(card) / "go").touch()
    fleet.sweep_until(lambda: fleet.card(card)["status"] == "todo")
    late, blocked = fleet.events(card)[-2:]
    assert (late.kind, late.words["summary"]) == ("late_result", "made")
    assert (blocked.kind, blocked.facts["block_kind"], blocked.facts["hold"]) == ("blocked", "dependency", False)
    fleet.board.complete(parent)
    fleet.board.accept(card, 1)
    assert fleet.card(card)["status"] == "done"


def test_a_command_that_is_not_there_is_spawn_failed(fleet):
    """§6: 126, 127 → spawn_failed, counted; the log says what was not found."""
    fleet.staff({"w": {"command": ["no-such-agent", "{prompt}"]}})
    card = fleet.create()
    fleet.sweep()
    run = fleet.ended(card)
    assert (run["outcome"], run["code"]) == ("spawn_failed", 127)
    assert "no-such-agent" in run["last_words"]
    assert fleet.counters(card) == (1, 0, 1, 0)


def test_the_places_of_a_command_are_filled_in_and_nothing_else_is(fleet):
    """DESIGN §5: the known places, and no others; what is put in is not looked at again."""
    places = ["{task}", "{title}", "{run}", "{workspace}", "{prompt_file}", "{result_file}", "{other}"]
    say = ["sh", "-c", '{ printf "%s\\n" "$@"; ls -A; } > "$0"', str(fleet.home / "said"), *places]
    fleet.staff({"w": {"command": say, "on_success": "complete"}})
    card = fleet.create("a {task} & $(touch x)")
    fleet.sweep()
    fleet.ended(card)
    folder = fleet.folder(card)
    assert (fleet.home / "said").read_text().splitlines() == [
        card, "a {task} & $(touch x)", "1", str(fleet.scratch(card)), str(folder / "prompt.md"), str(folder / "result"),
        "{other}",  # and then nothing: no file stands in the folder
    ]  # fmt: skip


def test_the_claim_says_how_its_run_is_booked(fleet):
    """§6: on_success and the quota patterns are the claim's, whatever the configuration says when it ends."""
    waits = "while [ ! -e go ]; do sleep 0.02; done; echo made"
    fleet.staff({"w": {"command": sh(waits), "on_success": "complete"}})
    card = fleet.create()
    fleet.sweep()
    fleet.staff({})
    (fleet.scratch(card) / "go").touch()
    fleet.finish(card)
    assert fleet.events(card)[-1].words["summary"] == "made"
