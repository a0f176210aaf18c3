#!/bin/sh
# A judge that believes no words: a goal is met when a command of yours succeeds in the workspace.
#
#   [assignees.agent]
#   judge = ["/srv/agents/judge.sh", "make", "test"]

cat >/dev/null    # what is asked, for a judge that reads it: {"task", "goal", "reply", "turn", "max_turns"}
if said=$("$@" 2>&1); then
    echo '{"verdict": "done", "reason": "the check succeeds"}'
else
    why=$(printf '%s' "$said" | tail -n 1 | tr -cd '[:alnum:] .:/_-')    # what a JSON text holds as it is
    printf '{"verdict": "continue", "reason": "the check fails: %s"}\n' "$why"
fi
