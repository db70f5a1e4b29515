"""Checks a bridge to the stand-in for Telegram. Usage: telegram_checks.py FOLDER [OPTIONS], see telegram.sh."""

import bridge_run
from telegram_groups import conflict, gone, moved, privacy, topics, two_bots
from telegram_stage import Stage

bridge_run.main(Stage, parts=(privacy, topics, gone, conflict, moved, two_bots))
