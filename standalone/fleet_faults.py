"""Carries out the faults of a plan on a fleet, and waits after each until every gateway serves again."""

import collections
import threading
import time

from checking import until
from fleet_clients import ANSWERED, PATIENCE, Client, up
from fleet_facts import rows
from fleet_plan import BY_SSH, say
from fleet_processes import gone
from fleet_stage import FAR

# After a fault, each gateway has to take a message again within this time, in seconds.
RECOVERY = 45
# The time after which a person looks at a gateway that is not there, in seconds.
LATE = 8
# The time for which a gateway stays away at most until others have taken over all that it had, in seconds.
AWAY = 30
# The time within which a gateway uses some sandbox again, in seconds.
USED = 20
# The agents of the gateway with an address, and those that nobody has.
LEFT = """SELECT lease.subject FROM flock.lease LEFT JOIN flock.gateway USING (epoch)
    WHERE lease.kind = 'agent' AND (epoch IS NULL OR gateway.address = '127.0.0.1:{port}')"""
# The turns that the gateway of an address runs, by its agents.
RUNNING = """SELECT turn.id FROM flock.turn JOIN flock.lease ON lease.kind = 'agent' AND lease.subject = split_part(session, ':', 2)
    JOIN flock.gateway USING (epoch) WHERE gateway.address = '127.0.0.1:{port}' AND turn.state = 'running'"""
# The turns of a run that nobody has ended yet, and the conversations that are to go on.
UNDER_WAY = """SELECT id FROM flock.turn WHERE state = 'running' AND id IN (SELECT after->>'id' FROM fleet.trace
        WHERE subject = 'turn' AND change = 'INSERT' AND epoch = {epoch})
    UNION ALL SELECT id FROM flock.inbox WHERE kind = 'resume' AND turn IS NULL"""
# The agents that have a turn under way.
BUSY = "SELECT DISTINCT split_part(session, ':', 2) AS agent FROM flock.turn WHERE state = 'running'"
EPOCH = "SELECT epoch FROM flock.gateway WHERE address = '127.0.0.1:{port}' AND ended_at IS NULL"


class Faults:
    def __init__(self, fleet, history):
        self.fleet, self.history = fleet, history
        # Somebody who only looks if gateways serve.
        self.prober = Client(998, fleet.gateways, history, 0)
        # Those who have a command run on an engine while it or the way to it breaks, one for each agent there.
        self.askers = {agent: Client(980 + number, fleet.gateways, history, 0) for number, agent in enumerate([*FAR, *fleet.pods])}
        for asker in self.askers.values():
            asker.slow = 1.0
        # Which of two programs each gateway had, from the beginning and after each update.
        self.mixtures = [fleet.mixture()]
        self.done, self.slowest = collections.Counter(), collections.defaultdict(float)

    def strike(self, fault):
        """One fault, from its beginning until the fleet works again."""
        time.sleep(fault.wait)
        self.history.add(what="fault", fault=say(fault), at=up())
        getattr(self, f"{fault.kind}_{fault.target}")(fault)
        ended = up()
        recovered = self.recovered()
        self.history.add(what="over", fault=say(fault), at=ended, recovered=recovered)
        name = f"{fault.kind} {fault.target}"
        self.done[name] += 1
        self.slowest[name] = max(self.slowest[name], recovered if recovered is not None else RECOVERY)
        return recovered

    def recovered(self):
        """The seconds until each gateway serves a client, or `None` if that takes too long."""
        begun, waiting, looked = time.monotonic(), list(self.fleet.gateways), 0.0
        while time.monotonic() - begun < RECOVERY:
            waiting = [gateway for gateway in waiting if not self.serves(gateway)]
            waited = time.monotonic() - begun
            if not waiting:
                return round(waited, 2)
            for gateway in waiting:
                # Without a supervisor, nobody starts it; and one that crashed five times within two minutes waits for a person.
                if gateway.pid_of("supervisor") is None or (gateway.pid_of("gateway") is None and waited - looked > LATE):
                    looked = waited
                    gateway.start(limit=30)
            time.sleep(0.1)
        return None

    def serves(self, gateway):
        """Whether a client can post by this gateway."""
        return self.prober.apart(lambda: self.prober.once(self.prober.note, gateway=gateway)) is True

    def last(self, fault):
        time.sleep(fault.seconds)

    def ask(self, query, **what):
        """The rows of a query; `None` if the database does not answer."""
        try:
            return rows(self.fleet.cluster.primary, query.format(**what))
        except (RuntimeError, OSError):
            return None

    # A gateway that others have to replace.

    def away(self, gateway, leave, come_back):
        """Has a gateway leave in the middle of its work, and come back once others have all that it had."""
        self.busy(gateway)
        epochs = [row["epoch"] for row in self.ask(EPOCH, port=gateway.port) or []]
        at = up()
        leave()
        end = time.monotonic() + AWAY
        while self.ask(LEFT, port=gateway.port) != [] and time.monotonic() < end:
            time.sleep(0.1)
        while any(self.ask(UNDER_WAY, epoch=epoch) != [] for epoch in epochs) and time.monotonic() < end:
            time.sleep(0.1)
        # A conversation goes on a moment after it was taken.
        time.sleep(0.5)
        for epoch in epochs:
            self.history.add(what="away", epoch=epoch, at=at, until=up())
        come_back()

    def busy(self, gateway):
        """Asks all agents something, and waits a little until a turn of this gateway runs."""
        other = next(one for one in self.fleet.gateways if one is not gateway)

        def ask():
            for channel in ANSWERED:
                self.prober.once(self.prober.linger, channel, gateway=other)

        self.prober.apart(ask)
        end = time.monotonic() + 3
        while not self.ask(RUNNING, port=gateway.port) and time.monotonic() < end:
            time.sleep(0.05)

    def under_way(self, gateway, agents, fail):
        """Has something fail while these agents run commands, asked for by a gateway."""
        asking = [threading.Thread(target=asker.apart, args=(lambda asker=asker, agent=agent: asker.once(
            asker.command, agent, gateway),)) for agent, asker in self.askers.items() if agent in agents]
        for one in asking:
            one.start()

        def all_run():
            running = {row["agent"] for row in self.ask(BUSY) or []}
            return running >= set(agents)

        until(3, all_run)
        # The command begins a moment after the turn.
        time.sleep(0.3)
        fail()
        for one in asking:
            one.join(PATIENCE)

    # What ends.

    def kill_gateway(self, fault):
        for gateway in self.fleet.gateways:
            if gateway.number == fault.gateway or fault.how == "with all others":
                gateway.kill()

    def kill_double(self, fault):
        """A second kill before the first one is over. Nobody has to continue the work within the usual time."""
        gateway = self.fleet.gateways[fault.gateway]
        self.busy(gateway)
        first = gateway.pid_of("gateway")
        if fault.how == "in its recovery":
            gateway.kill()
            until(USED, lambda: gateway.pid_of("gateway") not in (None, first))
            gateway.kill()
        else:
            other = self.fleet.gateways[(fault.gateway + 1) % len(self.fleet.gateways)]
            gateway.crash()
            until(AWAY, lambda: self.ask(EPOCH, port=gateway.port) == [])
            other.kill()
            gateway.start()

    def kill_machine(self, fault):
        gateway = self.fleet.gateways[fault.gateway]
        self.away(gateway, gateway.crash, gateway.start)

    def kill_supervisor(self, fault):
        gateway = self.fleet.gateways[fault.gateway]
        pid = gateway.pid_of("gateway")
        gateway.kill("supervisor")
        if pid and fault.how == "until its gateway has ended":
            gone([pid])
        gateway.start()

    def kill_sandbox(self, fault):
        if found := self.sandbox(fault):
            engine, container = found
            engine.docker("kill", container)

    def kill_helper(self, fault):
        if found := self.sandbox(fault):
            engine, container = found
            engine.kill_helper(container)

    def sandbox(self, fault):
        """A sandbox that runs at a gateway, once there is one, and its engine: the planned one if that has any."""
        gateway, engines = self.fleet.gateways[fault.gateway], self.fleet.engines

        def running():
            for engine in (*engines[fault.engine:], *engines[:fault.engine]):
                if found := engine.sandboxes(gateway.home):
                    return engine, found[0]
            return None

        found = until(USED, running)
        if not found:
            print(f"      gateway {gateway.number} has no sandbox that runs")
        return found

    def kill_dockerd(self, fault):
        self.fleet.engines[fault.engine].kill()

    def kill_sshd(self, fault):
        """The way of all gateways to an engine ends, and the engine lives."""
        def kill():
            self.fleet.engines[fault.engine].kill_sessions()
            self.history.add(what="broken", at=up())

        self.under_way(self.fleet.gateways[fault.gateway], FAR, kill)

    def kill_podman(self, fault):
        """Its sandboxes end with their connections, so a command in one may be cut off, but never runs again."""
        engine = self.fleet.engines[fault.engine]
        self.under_way(self.fleet.gateways[fault.gateway], self.fleet.pods, engine.kill)

    def kill_containerd(self, fault):
        self.fleet.engines[fault.engine].kill_containerd()

    def kill_postgres(self, fault):
        self.fleet.cluster.primary.kill()
        self.fleet.cluster.primary.start()

    def kill_backend(self, fault):
        self.fleet.cluster.primary.crash()

    # What stands still.

    def pause_gateway(self, fault):
        gateway = self.fleet.gateways[fault.gateway]
        stopped = gateway.pause(whole=fault.how != "alone")
        self.last(fault)
        gateway.go_on(stopped)

    def pause_postgres(self, fault):
        self.fleet.cluster.primary.pause()
        self.last(fault)
        self.fleet.cluster.primary.go_on()

    def pause_replica(self, fault):
        self.fleet.cluster.replica.pause()
        self.last(fault)
        self.fleet.cluster.replica.go_on()

    def pause_dockerd(self, fault):
        self.fleet.engines[fault.engine].pause()
        self.last(fault)
        self.fleet.engines[fault.engine].go_on()

    # What is cut off.

    def cut_database(self, fault):
        machine = self.fleet.gateways[fault.gateway].machine
        machine.cut(fault.how)
        self.last(fault)
        machine.heal()

    def cut_engine(self, fault):
        gateway = self.fleet.gateways[fault.gateway]
        line = gateway.lines[fault.engine]

        def cut():
            line.say(fault.how)
            self.last(fault)
            line.say("go")

        if fault.engine == BY_SSH:
            self.under_way(gateway, FAR, cut)
        else:
            cut()

    def cut_peer(self, fault):
        """A gateway and the next one lose each other. Both still have the database."""
        one, other = (self.fleet.machines[(fault.gateway + step) % len(self.fleet.machines)] for step in (0, 1))
        one.cut_from(other, fault.how)
        self.last(fault)
        one.heal_from(other)

    def cut_replica(self, fault):
        self.fleet.cluster.cut(fault.how)
        self.last(fault)
        self.fleet.cluster.heal()

    # What goes on elsewhere.

    def restart_gateway(self, fault):
        """Ends in order, and gives up what it has at once."""
        gateway = self.fleet.gateways[fault.gateway]
        gateway.flock("stop")
        gateway.start()

    def update_gateway(self, fault):
        """Ends in order, and the other program goes on with its home. The busy gateway leaves the other ones something to read."""
        gateway = self.fleet.gateways[fault.gateway]
        self.busy(gateway)
        gateway.flock("stop")
        gateway.program = self.fleet.other(gateway.program)
        gateway.start()
        self.mixtures.append(self.fleet.mixture())

    def restart_postgres(self, fault):
        self.fleet.cluster.primary.stop()
        self.fleet.cluster.primary.start()

    def failover_postgres(self, fault):
        self.fleet.cluster.followed()
        if fault.how == "crash":
            self.fleet.cluster.primary.kill()
        else:
            self.fleet.cluster.primary.stop()
        self.fleet.cluster.fail_over()

    def replace_gateway(self, fault):
        """Others take over from a gateway that still runs. It comes back afterwards, and must not do anything more."""
        gateway, stopped = self.fleet.gateways[fault.gateway], []

        def leave():
            if fault.how == "cut":
                gateway.machine.cut("both")
            else:
                stopped.extend(gateway.pause(whole=fault.how != "pause"))

        def come_back():
            gateway.machine.heal()
            gateway.go_on(stopped)

        self.away(gateway, leave, come_back)

    def skew_clock(self, fault):
        """The clock of a machine jumps, and goes on wrong until its next jump or the end."""
        whose, offset = fault.how.split()
        cluster = self.fleet.cluster
        names = {"gateway": str(fault.gateway), "primary": cluster.primary.name, "replica": cluster.replica.name}
        self.fleet.clocks[names[whose]].set(int(offset))
