"""Carries out the faults of a plan on a fleet, and waits after each until somebody is served again."""

import collections
import signal
import threading
import time

from fleet_clients import Client
from fleet_plan import say
from fleet_processes import tell

# After a fault, the fleet has to take a message again within this time, in seconds.
RECOVERY = 90


class Faults:
    def __init__(self, fleet, history):
        self.fleet, self.history = fleet, history
        self.prober = Client(998, fleet.where, history, 0)
        self.done, self.slowest = collections.Counter(), collections.defaultdict(float)

    def strike(self, fault):
        """One fault, from its beginning until the fleet works again."""
        time.sleep(fault.wait)
        begun = time.time()
        self.history.add(what="fault", fault=say(fault), at=begun)
        target, _, number = fault.target.partition(" ")
        getattr(self, f"{fault.kind}_{target}")(fault, int(number or 0))
        ended = time.time()
        recovered = self.recovered()
        self.history.add(what="over", fault=say(fault), at=ended, recovered=recovered)
        name = f"{fault.kind} {target}"
        self.done[name] += 1
        self.slowest[name] = max(self.slowest[name], recovered if recovered is not None else RECOVERY)
        return recovered

    def kill_primary(self):
        """Kills the database. Its last commits may not be on the disk."""
        at = time.time()
        self.fleet.cluster.primary.kill()
        self.history.add(what="loss", at=at, until=time.time())

    def recovered(self):
        """The seconds until a client is served, or `None` if that takes too long."""
        begun = time.monotonic()
        while time.monotonic() - begun < RECOVERY:
            if self.serves():
                return round(time.monotonic() - begun, 2)
            if self.fleet.active.pid_of("supervisor") is None:
                self.fleet.active.start(limit=30)
            time.sleep(0.1)
        return None

    def serves(self):
        """Whether a client can post."""
        told = []
        # In a thread of its own, because a client is on the gateway's machine from its first request on.
        self.prober.machine = None
        thread = threading.Thread(target=lambda: told.append(self.prober.once(self.prober.note)))
        thread.start()
        thread.join()
        return told == [True]

    def last(self, fault):
        time.sleep(fault.seconds)

    # What ends.

    def kill_gateway(self, fault, number):
        self.fleet.active.kill()

    def kill_machine(self, fault, number):
        self.fleet.active.crash()
        self.fleet.active.start()

    def kill_dockerd(self, fault, number):
        self.fleet.engines[number].kill()

    def kill_containerd(self, fault, number):
        self.fleet.engines[number].kill_containerd()

    def kill_postgres(self, fault, number):
        self.kill_primary()
        self.fleet.cluster.primary.start()

    # What stands still.

    def pause_gateway(self, fault, number):
        stopped = self.fleet.active.pause()
        self.last(fault)
        tell(stopped, signal.SIGCONT)

    def pause_postgres(self, fault, number):
        self.fleet.cluster.primary.pause()
        self.last(fault)
        self.fleet.cluster.primary.go_on()

    def pause_replica(self, fault, number):
        self.fleet.cluster.replica.pause()
        self.last(fault)
        self.fleet.cluster.replica.go_on()

    def pause_dockerd(self, fault, number):
        self.fleet.engines[number].pause()
        self.last(fault)
        self.fleet.engines[number].go_on()

    # What is cut off.

    def cut_database(self, fault, number):
        machine = self.fleet.active.machine
        machine.cut(fault.how)
        self.last(fault)
        machine.heal()

    def cut_engine(self, fault, number):
        self.fleet.engines[number].cut(fault.how)
        self.last(fault)
        self.fleet.engines[number].heal()

    # What goes on elsewhere.

    def restart_postgres(self, fault, number):
        self.fleet.cluster.primary.stop()
        self.fleet.cluster.primary.start()

    def failover_postgres(self, fault, number):
        self.fleet.cluster.followed()
        if fault.how == "crash":
            self.kill_primary()
        else:
            self.fleet.cluster.primary.stop()
        self.fleet.cluster.fail_over()

    def replace_gateway(self, fault, number):
        """Another machine takes over. The old one comes back while the new one works, and must not do anything more."""
        fleet, old, stopped = self.fleet, self.fleet.active, []
        if fault.how == "kill":
            old.crash()
        else:
            old.machine.cut("both")
            if fault.how == "pause":
                stopped = old.pause(whole=True)
        fleet.active = fleet.spare
        fleet.active.start()
        old.machine.heal()
        tell(stopped, signal.SIGCONT)
        if fault.how != "kill":
            # It finds that it was replaced, and that its place is taken.
            time.sleep(2)
        old.crash()

    def skew_clock(self, fault, number):
        """The clock of a machine jumps, and goes on wrong until its next jump or the end."""
        whose, offset = fault.how.split()
        cluster = self.fleet.cluster
        names = {"gateway": str(self.fleet.active.number), "primary": cluster.primary.name, "replica": cluster.replica.name}
        self.fleet.clocks[names[whose]].set(int(offset))
