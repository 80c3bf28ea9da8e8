// What the helper of torch_meeting runs in the user's Python. It reads one command a line from
// stdin: join, finish, leave; its stdin closes when the launcher is gone, and it goes too.
#pragma once

namespace lockstep {

inline constexpr const char* kTorchMeetingScript = R"PYTHON(
import datetime, json, os, socket, sys, threading, time

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # whatever torch prints is for people


def tell(**message):
    answers.write(json.dumps(message) + "\n")
    answers.flush()


try:
    import torch.distributed.elastic.rendezvous.registry as registry
    from torch.distributed.elastic.agent.server.api import WorkerSpec
    from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.rendezvous import RendezvousParameters
    from torch.distributed.launcher.api import _get_addr_and_port

    wanted = json.loads(sys.argv[1])
    parameters = RendezvousParameters(backend=wanted["backend"], endpoint=wanted["endpoint"], run_id=wanted["run_id"], min_nodes=wanted["min_nodes"],
                                      max_nodes=wanted["max_nodes"], local_addr=wanted["local_addr"] or None, **wanted["conf"])
    master_addr, master_port = _get_addr_and_port(parameters)
    handler = registry.get_rendezvous_handler(parameters)
    spec = WorkerSpec(role=wanted["role"], local_world_size=wanted["ranks"], entrypoint="true", args=(), rdzv_handler=handler,
                      max_restarts=wanted["max_restarts"], monitor_interval=1, master_addr=master_addr, master_port=master_port,
                      local_addr=wanted["local_addr"] or None)
    agent = LocalElasticAgent(spec=spec, logs_specs=DefaultLogsSpecs(log_dir=os.devnull), start_method="spawn")
except Exception as problem:
    tell(event="problem", words=f"{type(problem).__name__}: {problem}")
    os._exit(1)



def own_master(group):
    """Where rank 0 shall host a fresh store: only among lockstep machines. torchrun's share the rendezvous's store, which keeps a failed
    attempt's keys. The machine of rank 0 finds out and decides for all."""
    if wanted["backend"] != "c10d" or os.environ.get("TORCH_DISABLE_SHARE_RDZV_TCP_STORE") == "1":
        return None
    store, ours = agent._store, lambda number: f"lockstep/{number}"
    store.set(ours(group.group_rank), "1")
    try:
        if group.group_rank != 0:
            store.wait([ours(0)], datetime.timedelta(seconds=3))
            decided = store.get("lockstep/master").decode()
            return decided or None
        try:
            store.wait([ours(number) for number in range(group.group_world_size)], datetime.timedelta(seconds=3))
            with socket.socket() as one:
                one.bind(("", 0))
                decided = str(one.getsockname()[1])
        except Exception:
            decided = ""  # somebody runs torchrun
        store.set("lockstep/master", decided)
        return decided or None
    except Exception:
        return None


joined = threading.Event()


def watch_membership():
    while True:
        joined.wait()
        try:
            if handler.num_nodes_waiting() > 0:
                joined.clear()
                tell(event="membership")
        except Exception as problem:
            joined.clear()
            tell(event="problem", words=f"{type(problem).__name__}: {problem}")
        time.sleep(1)


threading.Thread(target=watch_membership, daemon=True).start()
for line in sys.stdin:
    command = line.strip()
    joined.clear()
    try:
        if command == "join":
            agent._rendezvous(agent._worker_group)
            group = agent._worker_group
            first = group.workers[0]
            own_port = own_master(group)
            tell(event="joined", node=group.group_rank, nodes=group.group_world_size, first_rank=first.global_rank, world=first.world_size,
                 master_addr=group.master_addr, master_port=int(own_port or group.master_port), agent_store=bool(handler.use_agent_store) and not own_port, run_id=handler.get_run_id())
            joined.set()
        elif command == "finish":
            agent._exit_barrier()
            handler.shutdown()
            tell(event="finished")
        elif command == "leave":
            handler.shutdown()
            tell(event="finished")
    except Exception as problem:
        tell(event="problem", words=f"{type(problem).__name__}: {problem}")
os._exit(0)
)PYTHON";

}  // namespace lockstep
