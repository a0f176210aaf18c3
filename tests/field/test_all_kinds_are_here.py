"""Every kind of fault that was reported from the field has a test, or a reason why it has none."""

import ast
import re
from pathlib import Path

LAST = 68
LEFT_OUT = {
    13: "messages are not part of this product yet: nothing is sent, so nothing can be lost on its way",
    14: "as 13: there are no subscriptions",
    38: "RULES §11: a breaker for a bad environment is a later step; each card's budgets hold meanwhile",
    58: "a database whose readers see late commits: SQLite has one writer and none",
    59: "as 58: positions have no holes",
    67: "budgets of money and of runs an hour are not among the RULES; usage that is not known is shown as null",
}


HERE = Path(__file__).parent
FILES = [*sorted(HERE.glob("test_*.py")), HERE.parent / "dashboard" / "test_field_reports.py"]


def told():
    """(number, name, docstring) of each test here."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                said = ast.get_docstring(node) or ""
                kind = re.match(r"B(\d\d): ", said)
                yield (int(kind[1]) if kind else None), node.name, said


def test_every_kind_has_a_test_or_a_reason():
    """All numbers up to the last are there, and none is both tested and left out."""
    tested = {number for number, _, _ in told()} - {None}
    assert tested | set(LEFT_OUT) == set(range(1, LAST + 1))
    assert not tested & set(LEFT_OUT)


def test_every_test_here_names_its_kind():
    """So that a report can be followed to what shows it, and back."""
    unnamed = {name for number, name, _ in told() if number is None}
    assert unnamed == {"test_every_kind_has_a_test_or_a_reason", "test_every_test_here_names_its_kind"}
