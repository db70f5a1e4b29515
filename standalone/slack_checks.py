"""Checks a bridge to Slack's stand-in. Usage: slack_checks.py FOLDER [OPTIONS], see slack.sh."""

import bridge_run
import slack_alone
from slack_own import again, changes, correct, edits, names, revoked, sockets, threads, waits
from slack_stage import Stage

parts = (sockets, again, edits, threads, changes, names, waits, revoked, correct)
bridge_run.main(Stage, parts=parts, alone=slack_alone.everything)
