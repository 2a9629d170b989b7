"""A Slurm cluster of two hosts, n1 and n2, on this machine: real munged, slurmctld and slurmd, in namespaces of their own,
so that they meet no other Slurm, need no free port and are all gone when the test is."""

import contextlib
import os
import pathlib
import subprocess
import time

CPUS = 8  # that each host claims to have

class SlurmCluster:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self._daemons = []

    def __enter__(self):
        for folder in "state", "run":
            (self.folder / folder).mkdir()
        hosts = self.folder / "hosts"
        hosts.write_text("127.0.0.1 localhost\n10.9.9.1 head\n10.9.9.11 n1\n10.9.9.12 n2\n", encoding="utf-8")
        addresses = [f"ip address add 10.9.9.{number}/24 dev near" for number in (1, 11, 12)]
        # Not on lo: where there are only loopback addresses, Slurm finds no address family.
        for command in ("ip link set lo up", "ip link add near type veth peer far", *addresses, "ip link set near up",
                        "ip link set far up", f"mount --bind {hosts} /etc/hosts", "hostname head"):
            subprocess.run(command.split(), check=True)
        self.folder.chmod(0o755)  # munge demands it
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(64))
        key.chmod(0o600)
        configuration = self.folder / "slurm.conf"
        configuration.write_text(self._configuration(), encoding="utf-8")
        os.environ["SLURM_CONF"] = str(configuration)
        at = f"{self.folder}/munge"
        self._start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={at}.sock",
                    f"--pid-file={at}.pid", f"--log-file={at}.log", f"--seed-file={at}.seed")
        self.wait_until(lambda: (self.folder / "munge.sock").exists(), "munged")
        self._start("slurmctld", "-D", "-i")
        for name in "n1", "n2":
            self._start("slurmd", "-D", "-N", name)
        self.wait_until(lambda: self._output("sinfo", "-h", "-o", "%t %D").split() == ["idle", "2"], "two idle hosts")
        return self

    def __exit__(self, *_):
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(5)

    def submit(self, *arguments, environment=None):
        """The number of the job."""
        done = subprocess.run(["sbatch", "--parsable", *map(str, arguments)], capture_output=True, text=True, check=False,
                              timeout=20, env=os.environ | (environment or {}), cwd=self.folder)
        if done.returncode:
            raise RuntimeError(f"sbatch: {done.stderr}")
        return int(done.stdout)

    def cancel(self, *arguments):
        subprocess.run(["scancel", *map(str, arguments)], check=True, timeout=20)

    def await_end(self, job, timeout_s):
        """(state, exit code) of the job once it has ended."""
        def state():
            shown = self._output("scontrol", "show", "job", str(job))
            return dict(word.split("=", 1) for word in shown.split() if "=" in word)
        self.wait_until(lambda: state().get("JobState") not in ("PENDING", "RUNNING", "COMPLETING"), f"the end of job {job}",
                    timeout_s)
        ended = state()
        return ended["JobState"], int(ended["ExitCode"].split(":")[0])

    def log(self):
        """What daemons and jobs said, for a test that failed."""
        return "\n".join(f"== {path.name}\n{path.read_text(errors='replace')[-2000:]}"
                         for path in sorted([*self.folder.glob("*.out"), *self.folder.glob("*.log")]))

    def _start(self, *command):
        out = (self.folder / f"{'-'.join([command[0], command[-1].strip('-')]).replace('/', '_')}"[-40:]).with_suffix(".out")
        with open(self.folder / out.name, "wb") as file:
            self._daemons.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file))

    @staticmethod
    def _output(*command):
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout

    def wait_until(self, condition, what, timeout_s=30):
        end = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > end:
                raise RuntimeError(f"no {what} in {timeout_s} s\n{self.log()}")
            time.sleep(0.1)

    def _configuration(self):
        return f"""ClusterName=troupe
SlurmctldHost=head
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge.sock
SlurmctldPort=27817
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool.%n
SlurmctldPidFile={self.folder}/run/slurmctld.pid
SlurmdPidFile={self.folder}/run/slurmd.%n.pid
SlurmctldLogFile={self.folder}/slurmctld.log
SlurmdLogFile={self.folder}/slurmd.%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
NodeName=n1 NodeHostname=head NodeAddr=n1 Port=27818 CPUs={CPUS} State=UNKNOWN
NodeName=n2 NodeHostname=head NodeAddr=n2 Port=27819 CPUs={CPUS} State=UNKNOWN
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""
