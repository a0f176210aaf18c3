#!/bin/sh
# A worker in shell, for any program that reads a prompt on stdin and ends with 0 when it is done:
#
#   [assignees.agent]
#   command = ["/srv/agents/agent.sh", "my-model", "--print"]

ledger progress "began" >/dev/null || exit 1
"$@" <"$LEDGER_PROMPT" >answer.md
code=$?
cat answer.md
[ "$code" -eq 0 ] || exit "$code"            # 75: come back later; 78: broken configuration; others: a crash
ledger claim --check >/dev/null || exit 1    # the card was taken away meanwhile: its next worker answers

utf8() {    # drops what no board can store: a NUL, and bytes that are not UTF-8 (without iconv: all that is not ASCII)
    if command -v iconv >/dev/null; then iconv -c -f utf-8 -t utf-8 2>/dev/null; else LC_ALL=C tr -cd '\11\40-\176'; fi
}
# The last line that says something, within what fits into an argument.
said=$(LC_ALL=C sed -n '/[^[:space:]]/p' answer.md | tail -n 1 | head -c 4000 | LC_ALL=C tr -d '\000' | utf8)
ledger complete -- "$LEDGER_TASK" "${said:-it ended well and said nothing}" >/dev/null    # with --, "- did it" is no option
