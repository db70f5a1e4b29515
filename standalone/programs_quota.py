"""A quota that is used up: the turn waits without asking, one call is tried at the time that the server named, and the
answer comes then."""

import concurrent.futures
import json
import os
import subprocess
import sys
import time

from checking import check, flock, parsed, posts, until
from programs_agents import WORK, own, requests

PATIENCE = "plugins.entries.flock.config.quota.patienceSeconds"
# Seconds until the quota begins anew: longer than each program takes to end after it was refused.
WINDOW = 25


def parks():
    """The quotas that are used up, or nothing where the gateway did not answer in time."""
    code, out, _ = flock("--json", "status")
    return parsed(out).get("parked", []) if code == 0 else None


def everything(agents):
    flock("config", "set", PATIENCE, "1")
    inside = [agent for agent in agents if not agent.on_host]
    with concurrent.futures.ThreadPoolExecutor(len(inside) + 1) as pool:
        logins = pool.submit(words_of_own_logins, [agent.program for agent in inside])
        for done in [*(pool.submit(parks_and_goes_on, agent) for agent in inside), logins]:
            done.result()
    flock("config", "unset", PATIENCE)


def parks_and_goes_on(agent):
    name, channel, since = f"spent-{agent.name}", f"quota-{agent.name}", len(requests())
    flock("channel", "create", channel, "--topic", "Quotas", f"--member={agent.name}")
    flock("channel", "post", channel, f"@{agent.name} {agent.word}\nspent {name} {WINDOW}\nsay back again")
    ours = lambda: [one for one in agent.asked(since) if name in json.dumps(one["body"])]
    # Five programs begin at once, which takes long on a machine with other work.
    park = until(240, lambda: next((park for park in parks() or [] if agent.name in park["agents"]), None))
    refused = [one for one in ours() if one["status"] == 429]
    agent.check("a quota that is used up parks it", park and refused, (park, [one["status"] for one in ours()]))
    if not park or not refused:
        return
    reset = refused[0]["reset"]
    agent.check("of its own provider and model", f"{agent.provider}/{agent.model}" == park["model"], park)
    agent.check("until the time that was named", park["named"] and abs(park["until"] / 1000 - reset) < 2, (park, reset))
    idle = until(WINDOW, lambda: not agent.processes(agent.program) or time.time() > reset)
    agent.check("its program ends soon and holds no slot", idle and time.time() < reset, agent.processes())
    status, answer = own("POST", "/api/message", agent.body(["say too early"], {}))
    told = answer.get("error", {}) if isinstance(answer, dict) else parsed(answer).get("error", {})
    agent.check("a client is told at once", status == 429 and told.get("code") == "quota_used_up", (status, answer))
    agent.check("nobody asks meanwhile", [one["status"] for one in ours()] == [429], [one["status"] for one in ours()])
    said = lambda: [one["content"] for one in posts(channel) if one["author"] == agent.name]
    back = until(90, lambda: "back again" in said())
    agent.check("it answers when the quota begins anew", back, (said(), parks()))
    asked = [(one["status"], one["at"]) for one in ours()]
    agent.check("after one call that tried it", [status for status, _ in asked] == [429, 200], asked)
    agent.check("and not before", asked[-1][1] >= reset - 1, (asked, reset))
    over = until(30, lambda: parks() == [park for park in parks() or [] if agent.name not in park["agents"]])
    agent.check("and nothing is parked any more", over, parks())


def words_of_own_logins(programs):
    """Programs that ask their makers' servers themselves, in a home and as a user of their own."""
    work = f"{WORK}/accounts"
    os.makedirs(work)
    # Root is another user in a namespace in which Claude Code runs, and reads all files there as their owner.
    other_user = ["unshare", "--user", "--map-user=1000", "--map-group=1000"] if os.getuid() == 0 else []
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs_accounts.py")
    env = {**os.environ, "FLOCK_HOME": f"{work}/home", "FLOCK_WORK": work, "HOME": f"{work}/user", "DOCKER_HOST": f"unix://{work}/none.sock"}
    done = subprocess.run(
        [*other_user, sys.executable, "-u", script, *programs], env=env, capture_output=True, text=True, timeout=600, check=False
    )
    print(done.stdout, flush=True)
    check("programs with logins of their own", done.returncode == 0, done.stdout[-2500:] + done.stderr[-500:])
