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
ledger complete "$(tail -n 1 answer.md)" >/dev/null
