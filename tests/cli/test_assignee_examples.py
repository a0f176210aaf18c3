"""The assignees that people copy: each is a whole configuration, and says of real output what its comments say."""

import re
from pathlib import Path

import pytest

from kanban.config import load

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples" / "assignees").glob("*.toml"))
SAID = {
    "claude": {
        "retry": ["API Error: Repeated 529 Overloaded errors", "API Error: 500 Internal server error"],
        "quota": ["You've hit your limit · resets 1pm (Europe/Lisbon)", "API Error: Rate limit reached"],
        "neither": ["I have mended the parser; it no longer says API Error: 500.", "Not logged in · Please run /login"],
    },
    "codex": {
        "retry": ["ERROR: stream disconnected before completion: error sending request"],
        "quota": ["ERROR: You've hit your usage limit. To get more access now, try again at 12:16 PM."],
        "neither": ["I added a rate limit to the API.", "Not inside a trusted directory"],
    },
    "hermes": {
        "retry": ["Error: HTTP 529: Overloaded"],
        "quota": ["You've hit your session limit · resets 12pm"],
        "neither": ["All tests pass.", "Invalid API key"],
    },
}


def assignee(path):
    """The agent that the file is about, through the loader that the program uses."""
    loaded = load(path, {}, path.parent, path.parent)
    assert loaded.assignee_files == (path,)
    (agent,) = (each for each in loaded.config.assignees.values() if not each.human)
    return agent


def test_there_is_one_for_each_agent():
    """And each is tried here."""
    assert [path.stem for path in EXAMPLES] == ["claude-code", "codex", "hermes"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_a_whole_section(path):
    """Command and resume with a prompt, patterns, and what exit 0 means; a reviewer is somebody in the same file."""
    agent = assignee(path)
    assert agent.command[-1] == agent.resume[-1] == "{prompt}"
    assert agent.command[0] == agent.resume[0]
    assert agent.on_success != "violation"
    assert agent.reviewer in {None, *load(path, {}, path.parent, path.parent).config.assignees}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_its_patterns_tell_a_failure_that_may_pass_from_a_wall(path):
    """A line is one or the other, and the agent's own words are neither."""
    agent = assignee(path)
    for kind, lines in SAID[agent.name].items():
        for line in lines:
            matched = {
                name for name in ("retry", "quota") if any(re.search(pattern, line) for pattern in getattr(agent, name))
            }
            assert matched == ({kind} if kind != "neither" else set()), line
