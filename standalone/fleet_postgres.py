"""PostgreSQL with a synchronous replica, as processes that can be killed, stopped, restarted and failed over."""

import os
import random
import re
import secrets
import shutil
import signal
import subprocess
import time

from checking import free_port, until
from fleet_net import run
from fleet_processes import gone, kill_tree, pid_in, tell, tree

ROLE = "flock_home"
RAW = ["iptables", "-w", "-t", "raw"]


def programs():
    """The folder of the newest PostgreSQL's programs."""
    root = "/usr/lib/postgresql"
    versions = sorted(os.listdir(root), key=lambda name: [int(part) for part in re.findall(r"\d+", name)])
    return f"{root}/{versions[-1]}/bin"


class Server:
    """One server. `clock` names the file from which its processes take their clock's offset, if there is one."""

    def __init__(self, folder, name, addresses, environment):
        self.folder, self.name, self.data = folder, name, f"{folder}/{name}"
        self.addresses, self.environment = addresses, environment
        self.port = free_port()
        self.bin = programs()

    def run(self, program, *arguments, may_fail=False):
        done = subprocess.run([f"{self.bin}/{program}", *arguments], capture_output=True, text=True, check=False,
                              user="postgres", group="postgres", extra_groups=[], cwd=self.folder,
                              env={"PATH": os.environ["PATH"], "LC_ALL": "C", **self.environment})
        if done.returncode != 0 and not may_fail:
            log = open(f"{self.data}.log", errors="replace").read()[-2000:] if os.path.exists(f"{self.data}.log") else ""
            raise RuntimeError(f"{program} {' '.join(arguments)}: {done.stderr.strip()}\n{log}")
        return done

    def start(self):
        options = [f"-p {self.port}", f"-c listen_addresses={','.join(self.addresses)}",
                   f"-c unix_socket_directories={self.folder}", "-c max_connections=100",
                   # Processes end here and never the machine, so what the kernel was given is as safe as on a disk.
                   "-c fsync=off", "-c wal_keep_size=256MB", "-c hot_standby=on", "-c wal_retrieve_retry_interval=200",
                   # A replica that is cut off is given up soon, and comes back as soon as it can.
                   "-c wal_sender_timeout=5s", "-c wal_receiver_timeout=5s"]
        self.run("pg_ctl", "start", "-D", self.data, "-l", f"{self.data}.log", "-w", "-s", "-o", " ".join(options))

    def pid(self):
        return pid_in(f"{self.data}/postmaster.pid")

    def kill(self):
        if pid := self.pid():
            kill_tree(pid)
            # A zombie that nobody waits for would be taken for a server that runs.
            for path in (f"{self.data}/postmaster.pid", f"{self.folder}/.s.PGSQL.{self.port}.lock"):
                if os.path.exists(path):
                    os.remove(path)

    def crash(self):
        """Kills one of its processes, whereupon it ends all others and recovers by itself."""
        server, *others = tree(self.pid())
        # Its logger, if there is one, and processes that were started a moment ago make no difference.
        tell(others[:1], signal.SIGKILL)
        gone(others[:1])
        until(60, self.answers)

    def answers(self):
        try:
            return self.ask("SELECT 1") == "1\n"
        except (RuntimeError, subprocess.TimeoutExpired):
            return False

    def stop(self, mode="fast"):
        if (pid := self.pid()) is None:
            return
        self.run("pg_ctl", "stop", "-D", self.data, "-m", mode, "-w", "-s", may_fail=True)
        gone([pid])

    def pause(self):
        if pid := self.pid():
            tell(tree(pid), signal.SIGSTOP)

    def go_on(self):
        if pid := self.pid():
            tell(tree(pid), signal.SIGCONT)

    def ask(self, sql, limit=30):
        """The answer to a query as text, one row a line."""
        done = subprocess.run([f"{self.bin}/psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p",
                               str(self.port), "-U", "flock", "-d", "postgres"], input=sql, capture_output=True, text=True,
                              timeout=limit, check=False, env={"PATH": os.environ["PATH"], "PGCONNECT_TIMEOUT": "10"})
        if done.returncode != 0:
            raise RuntimeError(f"{sql[:200]}: {done.stderr.strip()}")
        return done.stdout

    def set(self, **settings):
        """Changes settings for good; the server may be down."""
        with open(f"{self.data}/fleet.conf", "w") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        shutil.chown(f"{self.data}/fleet.conf", "postgres", "postgres")
        if self.pid():
            self.run("pg_ctl", "reload", "-D", self.data, "-s", may_fail=True)


class Cluster:
    """A primary and its replica. `machines` are those that may sign in, with the addresses of their lines."""

    def __init__(self, folder, network, machines, environments):
        self.folder, self.network, self.machines = folder, network, machines
        choose = random.SystemRandom()
        # Only what goes between the two servers has this address, so that it can be lost alone.
        self.link = f"127.{choose.randrange(64, 250)}.{choose.randrange(250)}.1"
        addresses = ["127.0.0.1", self.link, *(machine.host for machine in machines)]
        self.primary, self.replica = (Server(folder, name, addresses, environment)
                                      for name, environment in zip(("one", "two"), environments))
        self.password = secrets.token_hex(16)

    def make(self):
        os.makedirs(self.folder, exist_ok=True)
        shutil.chown(self.folder, "postgres", "postgres")
        first = self.primary
        first.run("initdb", "-D", first.data, "-U", "flock", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        with open(f"{first.data}/pg_hba.conf") as file:
            known = file.read()
        with open(f"{first.data}/pg_hba.conf", "w") as file:
            # Only this role comes over lines, and is asked for a password.
            file.write(f"host all {ROLE} {self.network}.0.0/16 scram-sha-256\n"
                       f"host replication flock 127.0.0.1/32 trust\n{known}")
        with open(f"{first.data}/postgresql.conf", "a") as file:
            file.write("include_if_exists = 'fleet.conf'\n")
        first.start()
        first.ask(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{self.password}'; GRANT CREATE ON DATABASE postgres TO {ROLE}")
        self.attach()

    def attach(self):
        """Gives the primary a new replica, for which commits wait that ask for it."""
        shutil.rmtree(self.replica.data, ignore_errors=True)
        self.primary.run("pg_basebackup", "-D", self.replica.data, "-R", "--checkpoint=fast", "--no-sync", "-d",
                         f"host={self.link} port={self.primary.port} user=flock application_name=replica tcp_user_timeout=3000")
        self.replica.set()
        self.replica.start()
        self.primary.set(synchronous_standby_names="replica")
        self.followed()

    def followed(self):
        """Waits until the replica follows the primary: who fails over to one that does not loses all since it did."""
        end = time.monotonic() + 60
        while "sync" not in self.primary.ask("SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'").split():
            if time.monotonic() > end:
                raise RuntimeError("the replica does not follow")
            time.sleep(0.05)

    def address(self, machine):
        """The address of both servers for a machine: whichever takes changes. Every change waits for the replica."""
        places = ",".join(f"{machine.host}:{server.port}" for server in self.servers())
        return (f"postgres://{ROLE}@{places}/postgres?sslmode=disable"
                "&target_session_attrs=read-write&options=-c%20synchronous_commit%3Don")

    def servers(self):
        return sorted((self.primary, self.replica), key=lambda server: server.name)

    def fail_over(self):
        """Makes the replica the primary once the old one has ended, and gives it that one as its replica."""
        # Nobody follows the new one yet.
        self.replica.set(synchronous_standby_names="")
        self.replica.run("pg_ctl", "promote", "-D", self.replica.data, "-w", "-s")
        self.primary, self.replica = self.replica, self.primary
        self.attach()

    def cut(self, how):
        """Loses the packets between the servers: those to the primary, those from it, or both."""
        for side, word in (("-d", "in"), ("-s", "out")):
            if how in (word, "both"):
                run(*RAW, "-A", "PREROUTING", "-i", "lo", side, self.link, "-j", "DROP")

    def heal(self):
        for side in ("-d", "-s"):
            while run(*RAW, "-D", "PREROUTING", "-i", "lo", side, self.link, "-j", "DROP", may_fail=True):
                pass

    def end(self):
        self.heal()
        for server in self.servers():
            server.go_on()
            server.kill()
