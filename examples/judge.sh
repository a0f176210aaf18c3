#!/bin/sh
# A judge that believes no words: a goal is met when a command of yours succeeds in the workspace.
#
#   [assignees.agent]
#   judge = ["/srv/agents/judge.sh", "make", "test"]

if [ $# -eq 0 ]; then    # no verdict
    echo 'which check? judge = ["/srv/agents/judge.sh", "make", "test"]' >&2
    exit 2
fi
cat >/dev/null    # what is asked, for a judge that reads it: {"task", "goal", "reply", "turn", "max_turns"}
said=$("$@" 2>&1)
code=$?
case $code in
0)
    echo '{"verdict": "done", "reason": "the check succeeds"}'
    ;;
126 | 127)    # it could not be run: that says nothing of the goal, and no turn of an agent mends it
    printf '%s\nthe check cannot be run: %s\n' "$said" "$*" >&2
    exit 2
    ;;
*)
    why=$(printf '%s' "$said" | tail -n 1 | tr -cd '[:alnum:] .:/_-')    # what a JSON text holds as it is
    printf '{"verdict": "continue", "reason": "the check fails: %s"}\n' "$why"
    ;;
esac
