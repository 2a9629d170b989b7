"""A Ray cluster on this machine: a head without processors, and three raylets of two. Prints its address; then each line of
the standard input is the beginning of a raylet's id, which is killed, and whose id is printed once it is gone. Ends with the
input. Runs in the Python environment of Ray; its argument is a folder for Ray's own files."""

import sys

from ray.cluster_utils import Cluster

# The head looks after its raylets more often than every few seconds: one that is dead is known after 2.5 s, and one that has
# no processor for 10 s is not taken for dead.
HEALTH = {"health_check_initial_delay_ms": 3000, "health_check_period_ms": 500, "health_check_timeout_ms": 2000,
          "health_check_failure_threshold": 5}

cluster = Cluster(initialize_head=True, connect=False,
                  head_node_args={"num_cpus": 0, "include_dashboard": False, "temp_dir": sys.argv[1], "_system_config": HEALTH})
raylets = [cluster.add_node(num_cpus=2, wait=False) for _ in range(3)]
cluster.wait_for_nodes(60)
print(cluster.address, flush=True)
for line in sys.stdin:
    (raylet,) = [raylet for raylet in raylets if raylet.node_id.startswith(line.strip())]
    cluster.remove_node(raylet, allow_graceful=False)  # waits: one that is not reaped keeps what it has started
    raylets.remove(raylet)
    print(raylet.node_id, flush=True)
cluster.shutdown()
