"""Checks a bridge to the stand-in for Discord. Usage: discord_bridge.py FOLDER [OPTIONS], see discord.sh."""

import bridge_run
from discord_breaks import held_up, lost_answers, resumed
from discord_names import names, people, roles, threads, webhooks
from discord_stage import Stage

bridge_run.main(Stage, parts=(names, webhooks, threads, roles, people, resumed, held_up, lost_answers))
