"""Faults on a fleet under load: what was acknowledged is compared with what there is, and who owned what when."""

import argparse
import collections
import hashlib
import json
import os
import random
import signal
import sys
import threading
import time

from checking import FLOCK, HOME, check, finish, until
from fleet_checker import IN_FORCE, RESET, RULES, judge, origins, setting_steps, takeovers, unanswered, under_way
from fleet_clients import AGENTS, SILENT, Client, History, Watcher, up
from fleet_doctored import missed, self_test
from fleet_facts import QUERIES, gather, rows
from fleet_faults import Faults
from fleet_plan import ALWAYS, KINDS, STEPS, UPDATE, plan, say
from fleet_stage import GATEWAYS, Fleet

UNSETTLED = {
    "turns": "SELECT id, session FROM flock.turn WHERE state = 'running'",
    "deliveries": "SELECT agent, channel, delivered_seq, inflight_seq FROM flock.delivery WHERE inflight_turn IS NOT NULL",
    "items": "SELECT id, session, kind FROM flock.inbox",
    "requests": "SELECT id, state FROM flock.request WHERE state IN ('triage', 'approved', 'running')",
    "unseen": """SELECT member, channel.id, coalesce(delivered_seq, 0) AS delivered, last_seq FROM flock.channel
        JOIN flock.member ON member.channel = channel.id AND member.member NOT LIKE 'human:%'
        LEFT JOIN flock.delivery ON delivery.channel = channel.id AND agent = member.member
        WHERE channel.state <> 'archived' AND coalesce(delivered_seq, 0) < (SELECT max(seq) FROM flock.message
            WHERE message.channel = channel.id AND wake > 0 AND author <> member.member)""",
    "tasks": "SELECT id, state FROM flock.task WHERE state IN ('submitted', 'working')",
}


def options():
    parser = argparse.ArgumentParser(prog="fleet.sh")
    parser.add_argument("--faults", type=int, default=25, help="number of faults")
    parser.add_argument("--long", action="store_true", help="faults that last take up to a minute")
    parser.add_argument("--minute", action="store_true", help="in one of the faults, a gateway stands still for a minute")
    parser.add_argument("--scenario", action="store_true", help="has the team of the scenario work before the faults")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--people", type=int, default=6)
    parser.add_argument("--update", type=os.path.abspath, metavar="PROGRAM",
                        help="has gateways change to this flock, the next version, and back")
    parser.add_argument("--without", action="append", default=[], metavar="KIND", help="leaves a kind of faults out")
    parser.add_argument("--self-test", action="store_true", help="tries the judge on doctored histories, and nothing else")
    wanted = parser.parse_args()
    if wanted.update and not os.access(wanted.update, os.X_OK):
        parser.error(f"no program at {wanted.update}")
    if wanted.update and os.path.samefile(wanted.update, FLOCK):
        parser.error(f"{wanted.update} is the program that the gateways have already")
    return wanted


def settle(server):
    left = {}

    def nothing_is_left():
        left.clear()
        try:
            left.update((name, found) for name, query in UNSETTLED.items() if (found := rows(server, query)))
        except RuntimeError as error:
            left["database"] = [str(error)]
        return not left

    until(120, nothing_is_left)
    check("the database answers", "database" not in left, left)
    for name in UNSETTLED:
        check(f"after the faults no {name} are left open", name not in left, left.get(name))


def works_again(fleet, history):
    """Each agent, on each engine, runs a command and says so."""
    for agent in AGENTS:
        seen = []

        def ran(agent=agent, seen=seen):
            client = Client(900 + len(seen), fleet.gateways, history, agent)
            seen.append(client.apart(lambda: client.once(client.command, agent)))
            return seen[-1]

        check(f"{agent} works again", until(60, ran), seen)


def see_settings(fleet, history):
    """Writes down which settings each gateway uses, until all use those of the database or it takes much too long."""
    client = Client(996, fleet.gateways, history, 0)
    history.add(what="healed", at=up())

    def same():
        wanted, seen = rows(fleet.cluster.primary, QUERIES["settings"])[0]["limits"] or {}, []
        for gateway in fleet.gateways:
            limits = client.settings(gateway)
            seen.append(limits)
            if limits is not None:
                history.add(what="seen", at=up(), gateway=gateway.number, limits=limits)
        return all(limits == wanted for limits in seen)

    client.apart(lambda: until(2 * IN_FORCE, same))


def scenario(fleet):
    begun = time.monotonic()
    code, out, err = fleet.play()
    seconds = time.monotonic() - begun
    check(f"the team of the scenario has done its work ({seconds:.0f} s)", code == 0, (code, out[-2000:], err[-900:]))


def hear_all(fleet, history, watchers):
    """Each gateway takes a last message, of which all who watch are told: then everything before it has come, too."""
    client = Client(997, fleet.gateways, history, 0)
    for gateway in fleet.gateways:
        asked, posted = up(), client.apart(lambda gateway=gateway: client.post(gateway, SILENT, "the last message"))
        if not check(f"gateway {gateway.number} takes a last message", posted and posted[1] == "accepted", posted):
            continue
        name = f"{SILENT} {posted[0]}"

        def heard(watcher, asked=asked, name=name):
            return any(at >= asked and (of == name or event == RESET) for at, event, of in list(watcher.told))

        check("all who watch are told of it", until(60, lambda: all(heard(watcher) for watcher in watchers)))


class Pace(threading.Thread):
    """Notes now and then how long this machine takes for the same piece of work, which tells how busy it is with other things."""

    def __init__(self, history):
        super().__init__(daemon=True)
        self.history, self.ended = history, threading.Event()

    def run(self):
        text = bytes(8 << 20)
        while not self.ended.wait(1.0):
            begun = up()
            hashlib.sha256(text)
            self.history.add(what="pace", at=begun, seconds=up() - begun)


def campaign(fleet, history, wanted):
    faults, pace = Faults(fleet, history), Pace(history)
    pace.start()
    clients = [Client(number, fleet.gateways, history, wanted.seed) for number in range(wanted.people)]
    for client in clients:
        client.start()
    chosen = plan(wanted.seed, wanted.faults, long=wanted.long, minute=wanted.minute, update=bool(wanted.update),
                  without=wanted.without, engines=len(fleet.engines))
    late, mistaken = [], []
    for number, fault in enumerate(chosen, 1):
        begun = time.monotonic()
        recovered = faults.strike(fault)
        said = f"all served again after {recovered} s" if recovered is not None else "NOT SERVED AGAIN"
        print(f"      {number}/{len(chosen)} {say(fault)} ({time.monotonic() - begun:.1f} s): {said}", flush=True)
        if recovered is None:
            late.append(say(fault))
            fleet.heal()
            for gateway in fleet.gateways:
                gateway.start()
        mistaken += [(say(fault), gateway.number) for gateway in fleet.gateways if not gateway.runs_program()]
    for client in clients:
        client.ended.set()
    for client in clients:
        client.join(120)
    pace.ended.set()
    check("everybody who used the fleet came to an end", not any(client.is_alive() for client in clients))
    check("after each fault every gateway served again", not late, late)
    check("each gateway had the program that it was started with", not mistaken, mistaken)
    if wanted.update:
        seen = [" and ".join(map(str, others)) or "none" for others in faults.mixtures]
        print(f"      gateways with {wanted.update}: {', then '.join(seen)}")
    print("      the longest until every gateway served again, in seconds: "
          + ", ".join(f"{name} {seconds:g}" for name, seconds in sorted(faults.slowest.items())))


def mixed():
    """Whether plans with updates have each mixture of two programs, and the most important kinds besides, and others no update."""
    def updates(faults):
        return [fault.gateway for fault in faults if (fault.kind, fault.target) == UPDATE]

    for seed in range(99):
        faults, mixture, seen = plan(seed, len(STEPS) + len(ALWAYS) + 2, update=True), frozenset(), {frozenset()}
        for gateway in updates(faults):
            mixture ^= {gateway}
            seen.add(mixture)
        kinds = {(fault.kind, fault.target) for fault in faults}
        if len(seen) < 1 << GATEWAYS or not kinds > set(ALWAYS) or updates(plan(seed, 99)):
            return False
    return True


def say_what_happened(facts):
    counts = collections.Counter((op["what"], op["accepted"]) for op in facts["ops"])
    print("      accepted of all: " + ", ".join(
        f"{kind} {counts[kind, True]} of {counts[kind, True] + counts[kind, False]}" for kind in sorted({kind for kind, _ in counts})))
    took = collections.Counter(op["gateway"] for op in facts["ops"] if op["accepted"])
    numbers, ran, versions = {}, collections.Counter(), {}
    for row in facts["trace"]:
        if row["subject"] == "gateway" and row["after"]:
            versions[row["after"]["epoch"]] = row["after"]["version"]
            numbers[row["after"]["epoch"]] = facts["gateways"].get(row["after"]["address"], {}).get("number")
        if row["subject"] == "turn" and row["change"] == "INSERT":
            ran[numbers.get(row["epoch"])] += 1
    turns = origins(facts)
    passed = collections.Counter(op["gateway"] for op in facts["ops"] if op["what"] == "command" and op["accepted"]
                                 and numbers.get(turns.get(op["turn"], (None, None))[0]) != op["gateway"])
    every = [one["number"] for one in facts["gateways"].values()]
    check("every gateway took requests, passed some on and ran turns",
          all(took[number] and passed[number] and ran[number] for number in every), (took, passed, ran))
    shares = [f"{number} took {took[number]}, passed {passed[number]} commands on and ran {ran[number]} turns" for number in every]
    print(f"      by gateways: {', '.join(shares)}; there were {len(numbers)} runs of gateways: "
          + ", ".join(f"{count} of {version}" for version, count in sorted(collections.Counter(versions.values()).items())))
    told = [name for told in facts["told"].values() for _, name, _ in told]
    print(f"      watchers were told of {len(told) - told.count(RESET)} events, and {told.count(RESET)} times to look anew")
    print(f"      settings were changed {len(list(setting_steps(facts)))} times; {len(list(under_way(facts)))} commands ran while only "
          "the way to their engine broke")
    changes = collections.Counter(row["subject"] for row in facts["trace"])
    print(f"      judged: {len(facts['messages'])} messages, {len(facts['tasks'])} tasks, {len(facts['audit'])} rows of the audit, "
          f"{sum(map(len, facts['marks'].values()))} commands, {len(facts['lines'])} lines of a vault, "
          f"{len(facts['requests'])} requests, of which {len(facts['ran'])} ran on the host, "
          + ", ".join(f"{count} changes of {name}s" for name, count in sorted(changes.items())))
    moved = [max((s for s in found.values() if s is not None), default=0) for _, found in takeovers(facts)]
    if moved:
        print(f"      gateways that others replaced: {len(moved)}; their work went on within {max(moved):.1f} s at most, "
              f"{sorted(moved)[len(moved) // 2]:.1f} s in the median")
    paces = [seconds for _, seconds in facts["paces"]]
    print(f"      the machine was {sum(paces) / len(paces) / min(paces):.1f} times as slow as at its best; "
          f"questions without an answer: {len(unanswered(facts))}")


def verdict(fleet, history_path, watchers):
    facts = gather(fleet.cluster.primary, fleet, history_path, watchers)
    with open(f"{fleet.work}/facts.json", "w") as file:
        json.dump(facts, file)
    say_what_happened(facts)
    for name, found in judge(facts).items():
        check(f"{name}", not found, f"{len(found)}: {found[:20]}")
    unfound = missed(facts)
    check("the judge finds what is wrong in doctored copies of this history", not unfound, unfound)


def main():
    wanted = options()
    wrong = self_test()
    check(f"the judge finds each thing that was made wrong, by {len(RULES)} rules", not wrong, wrong)
    check("each kind of faults can be carried out", all(hasattr(Faults, "_".join(key)) for key in KINDS))
    few = [{(fault.kind, fault.target) for fault in plan(seed, len(ALWAYS) + 2)} for seed in range(99)]
    check("runs with few faults have the most important kinds, and not always the same others",
          all(kinds > set(ALWAYS) for kinds in few) and set().union(*few) == {*KINDS} - {UPDATE}, few[0])
    check("without an update no gateway changes its program, and with one they do it in each mixture", mixed())
    if wanted.self_test:
        return finish()
    more = "".join([*(f" --without {kind}" for kind in wanted.without),
                    *(f" --{name}" for name in ("long", "minute", "scenario") if getattr(wanted, name)),
                    *([f" --update {wanted.update}"] if wanted.update else [])])
    print(f"seed {wanted.seed}: the same again with --seed {wanted.seed} --faults {wanted.faults}{more}")
    # The end by a signal clears away too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    work = os.path.dirname(HOME)
    history_path = f"{work}/history.jsonl"
    history, fleet = History(history_path), Fleet(work, wanted.people, scenario=wanted.scenario, update=wanted.update)
    begun = time.monotonic()
    try:
        fleet.make()
        print(f"      the fleet is there after {time.monotonic() - begun:.0f} s", flush=True)
        watchers = [Watcher(gateway) for gateway in fleet.gateways]
        for watcher in watchers:
            watcher.start()
        check("all who watch are there", all(watcher.listens.wait(60) for watcher in watchers))
        if wanted.scenario:
            scenario(fleet)
        campaign(fleet, history, wanted)
        fleet.heal()
        for gateway in fleet.gateways:
            check(f"gateway {gateway.number} is up", gateway.start())
        see_settings(fleet, history)
        works_again(fleet, history)
        hear_all(fleet, history, watchers)
        for watcher in watchers:
            watcher.ended.set()
        settle(fleet.cluster.primary)
        verdict(fleet, history_path, watchers)
        print(f"      {time.monotonic() - begun:.0f} s")
    finally:
        fleet.end()
    return finish()


main()
