#include "messages/known_messages.hpp"

#include <array>

namespace lockstep {
namespace {

constexpr std::string_view kJobWasFull =
    "the job's memory was full, and the kernel ended one of its processes";
constexpr std::string_view kRoomForAJob =
    "sbatch --mem with more; fewer loader workers; load checkpoints with mmap=True";
constexpr std::string_view kKilled =
    "a rank was killed (SIGKILL), as the kernel does where the machine's or the container's memory "
    "is full, and as a scheduler or a launcher does at its own time";
constexpr std::string_view kWhoKilled =
    "sudo dmesg | grep -i oom; fewer loader workers, smaller caches, or more memory for the job";

constexpr std::string_view kCrashed =
    "a rank crashed in native code (SIGSEGV): a library, not a line of Python";
constexpr std::string_view kWhereItCrashed =
    "python -X faulthandler train.py shows where (gdb, where the program is not Python); usual are "
    "libraries that do not fit each other (torch, CUDA, NCCL, flash-attn built for another "
    "version)";
constexpr std::string_view kPeerGone =
    "the rank at the other end ended first, or the network broke: the rank that says this is not "
    "the one that failed";
constexpr std::string_view kFirstError =
    "look for the first error in the logs of the other ranks, by time; on another host also for "
    "what ended it (scheduler, memory)";
constexpr std::string_view kNotItsOwn =
    "a kernel touched memory that is not its own: an index out of range, or a library's kernel";
constexpr std::string_view kWhichKernel =
    "CUDA_LAUNCH_BLOCKING=1 shows the line of Python; compute-sanitizer python train.py shows the "
    "kernel";

constexpr std::string_view kNoLauncher =
    "the script asks for what a launcher sets, and none started it";
constexpr std::string_view kOneLauncher =
    "torchrun --standalone --nproc_per_node=N train.py; to train in one process, leave out the "
    "script's own option for it (--launcher pytorch, --distributed)";

constexpr std::string_view kBadCommandLine = "the program did not take its command line";
constexpr std::string_view kReadItsHelp =
    "the message names the argument; --help lists those that there are";

constexpr std::string_view kBusError =
    "a rank ended by SIGBUS, as it does where the container's /dev/shm is full";
constexpr std::string_view kMoreSharedMemory =
    "docker run --shm-size=8g (or --ipc=host); else a file that was mapped and became shorter";

// The more special first: the first that matches is taken. Words are those of PyTorch 2.x,
// Transformers and Accelerate.
constexpr std::array kMessages = {
    KnownMessage{
        FindingCode::taking_turns,
        "You can't train a model that has been loaded with `device_map='auto'` in any distributed "
        "mode",
        "the model was split over the GPUs by device_map=\"auto\" and then started with a launcher",
        "drop device_map (the Trainer places the model itself); for 4- and 8-bit models "
        "device_map={\"\": local_rank}. Do not follow the "
        "message's own advice to use plain `python`: then one GPU works at a time"},
    KnownMessage{
        FindingCode::taking_turns,
        "You can't train a model that has been loaded in 8-bit or 4-bit precision on ... device",
        "a quantised model was split over several GPUs, or lies on another than the rank's own",
        "load it with device_map={\"\": int(os.environ[\"LOCAL_RANK\"])}"},
    KnownMessage{FindingCode::taking_turns,
                 "Your model contains `DTensor` parameters, which is incompatible with DDP",
                 "device_map=\"auto\" under a launcher turned the parameters into DTensors",
                 "drop device_map, or give device_map={\"\": local_rank}"},
    KnownMessage{FindingCode::taking_turns, "found no DeviceMesh from dtensor args",
                 "device_map=\"auto\" under a launcher turned the parameters into DTensors",
                 "drop device_map, or give device_map={\"\": local_rank}"},
    KnownMessage{FindingCode::taking_turns, "got mixed torch.Tensor and DTensor",
                 "device_map=\"auto\" under a launcher turned some parameters into DTensors",
                 "drop device_map, or give device_map={\"\": local_rank}"},
    KnownMessage{FindingCode::taking_turns,
                 "You've set device_map=`auto` while triggering a distributed run",
                 "device_map=\"auto\" under a launcher splits the model in each rank",
                 "give device_map={\"\": local_rank}, or none at all"},
    KnownMessage{
        FindingCode::taking_turns, kTwoDevices,
        "parts of the model or the batch lie on different GPUs, as device_map=\"auto\" puts them",
        "drop device_map and start one process per GPU: torchrun --standalone --nproc_per_node=N "
        "train.py; without a device_map, find the tensor that is not moved to the model's device",
        MessageWeight::usual_reason},
    KnownMessage{FindingCode::gpu_held_by_others, kOthersHoldMemory,
                 "another process holds memory of the GPU",
                 "nvidia-smi shows who; end it, or choose another GPU"},
    KnownMessage{
        FindingCode::out_of_memory, kRoomWasLeft,
        "an allocation failed although the message counts more than enough free memory on "
        "that GPU: a limit, the machine's own memory, or the driver",
        "a smaller batch hardly helps: look for torch.cuda.set_per_process_memory_fraction "
        "and for limits of the container (ulimit -l, pinned memory), and at the driver's "
        "words in dmesg",
        MessageWeight::usual_reason, false},
    KnownMessage{
        FindingCode::out_of_memory, kHeldElsewhere,
        "a GPU had no room for the next tensor, and much of its memory is not PyTorch's in "
        "this process: another process holds it, or another library of this one",
        "nvidia-smi shows who holds memory there: end what was left behind, or take another "
        "GPU; else a smaller batch",
        MessageWeight::ends_the_run, false},
    KnownMessage{FindingCode::out_of_memory, kNoBatchYet,
                 "a GPU had no room for the model itself, before any batch",
                 "a smaller batch does not help: half precision, quantisation, adapters, or FSDP "
                 "over more GPUs; nvidia-smi shows who else holds memory there",
                 MessageWeight::ends_the_run, false},
    KnownMessage{FindingCode::out_of_memory, kOutOfMemory, "a GPU had no room for the next tensor",
                 "smaller batch and more accumulation steps; gradient checkpointing; "
                 "torch.no_grad() where nothing is trained; "
                 "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (PyTorch 2.0 and newer) when "
                 "much is reserved and little allocated; see who else is on the GPU: nvidia-smi"},
    KnownMessage{FindingCode::out_of_memory, "torch.OutOfMemoryError",
                 "a GPU had no room for the next tensor",
                 "smaller batch and more accumulation steps; gradient checkpointing"},
    KnownMessage{
        FindingCode::out_of_memory, "RESOURCE_EXHAUSTED: XLA:TPU ... memory",
        "a TPU's memory had no room for the compiled program; the message says how much it "
        "asked for",
        "smaller batch; rematerialisation (jax.checkpoint); more shards"},
    KnownMessage{FindingCode::out_of_memory, "OOM when allocating tensor",
                 "a device had no room for TensorFlow's next tensor; the message says which",
                 "smaller batch; nvidia-smi shows who else holds memory there"},
    KnownMessage{FindingCode::out_of_memory, "HIP_ERROR_OutOfMemory",
                 "a GPU had no room for what the program asked for",
                 "smaller batch; rocm-smi shows who else holds memory there"},
    KnownMessage{FindingCode::out_of_memory, "RESOURCE_EXHAUSTED ... memory",
                 "a GPU had no room for what XLA asked for",
                 "smaller batch; rematerialisation (jax.checkpoint); more shards; "
                 "XLA_PYTHON_CLIENT_MEM_FRACTION where other programs share the GPU"},
    KnownMessage{FindingCode::out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY",
                 "a GPU had no room for what the program asked for",
                 "smaller batch; nvidia-smi shows who else holds memory there"},
    KnownMessage{FindingCode::out_of_memory, "CUDA error: out of memory",
                 "a GPU had no room, or was full before the program began",
                 "nvidia-smi shows who holds memory there; smaller batch; gradient checkpointing"},
    KnownMessage{FindingCode::out_of_memory, "Cuda failure ... 'out of memory'",
                 "a GPU had no room left for NCCL's own buffers",
                 "smaller batch; nvidia-smi shows who else holds memory there"},
    KnownMessage{FindingCode::out_of_memory, "CUBLAS_STATUS_ALLOC_FAILED",
                 "a GPU had no room for cuBLAS's workspace",
                 "smaller batch; free memory of other processes on the GPU"},
    KnownMessage{
        FindingCode::nccl_timeout, "Watchdog caught collective operation timeout",
        "a rank did not come to a collective in time; the ranks that print this are the "
        "ones that waited",
        "find the rank that did not come before raising any timeout: an error of its own, a "
        "collective under `if rank == 0`, fewer batches, a crashed loader, or one that still "
        "saves, loads or prepares data"},
    KnownMessage{FindingCode::ranks_missing, "waiting for clients ... clients joined",
                 "fewer ranks came to the rendezvous than WORLD_SIZE promises",
                 "start all ranks, or start them with one command: torchrun --standalone "
                 "--nproc_per_node=N"},
    KnownMessage{
        FindingCode::rank_conditional_collective, kDesync,
        "the ranks are no longer at the same collective, and PyTorch names who",
        "look at what the named ranks did instead: a condition on the rank, fewer batches, an "
        "error that was caught"},
    KnownMessage{FindingCode::host_memory_full, "ray.exceptions.OutOfMemoryError",
                 "Ray's memory monitor ended a worker: the machine's memory was nearly full",
                 "fewer workers a node, smaller caches, or more memory; RAY_memory_usage_threshold "
                 "moves the limit"},
    KnownMessage{FindingCode::host_memory_full, "RayOutOfMemoryError",
                 "Ray's memory monitor ended a worker: the machine's memory was nearly full",
                 "fewer workers a node, smaller caches, or more memory"},
    KnownMessage{FindingCode::host_memory_full, "Memory on the node ... was running was",
                 "Ray's memory monitor ended a worker: the machine's memory was nearly full",
                 "fewer workers a node, smaller caches, or more memory; RAY_memory_usage_threshold "
                 "moves the limit"},
    KnownMessage{FindingCode::ranks_missing, "A worker died or was killed while executing",
                 "one of Ray's workers ended: killed, crashed, or its node left",
                 "its own log tells why (ray logs, /tmp/ray/session_latest/logs); memory is the "
                 "usual reason: dmesg | grep -i oom",
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::ranks_missing, "Barrier timed out ... Timed out task names",
                 "some processes did not come to JAX's start in time; the lines behind the message "
                 "name them",
                 "start all processes with the same coordinator_address and num_processes, one "
                 "process_id each; look for the first error of those that are named"},
    KnownMessage{FindingCode::ranks_missing, "has failed to shutdown the rendezvous",
                 "the rendezvous was gone already when this node wanted to leave it: another node "
                 "ended first, or two jobs share an endpoint",
                 "what ended the run stands above, or in the log of the node that held the "
                 "rendezvous; give each job its own --rdzv-id and port",
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::ranks_missing, "RendezvousConnectionError",
                 "nobody answers at the rendezvous: its node is not started, ended, or cannot be "
                 "reached",
                 "start the node of --rdzv-endpoint first; nc -vz HOST PORT from the others"},
    KnownMessage{FindingCode::ranks_missing, "RendezvousTimeoutError",
                 "fewer nodes came to the rendezvous than --nnodes asks for",
                 "start all nodes with the same --rdzv-id and --rdzv-endpoint"},
    KnownMessage{FindingCode::ranks_missing, "connect() timed out. Original timeout was",
                 "nobody answers at the rendezvous: the first node's rank is not started, ended, "
                 "or cannot be reached",
                 "start all ranks; nc -vz MASTER_ADDR MASTER_PORT from the others; on one machine "
                 "torchrun --standalone --nproc_per_node=N"},
    KnownMessage{FindingCode::network_path, "No route to host, retrying",
                 "the other host cannot be reached by the address that NCCL or the launcher took",
                 "NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME with the interface that joins the "
                 "hosts (ip -br addr), or a firewall between them",
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::nccl_timeout, "Some NCCL operations have failed or timed out",
                 "a collective failed or timed out; which one stands in the lines above, and why "
                 "in the log of the rank that failed first",
                 "find the first error in the logs of all ranks: lockstep diagnose rank*.log",
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::program_error, "NCCL error ... invalid usage",
                 "NCCL was asked for what it cannot do: mostly two ranks on one GPU, or ranks that "
                 "disagree about the group",
                 "NCCL_DEBUG=WARN says which; one GPU per rank (torch.cuda.set_device(LOCAL_RANK), "
                 "CUDA_VISIBLE_DEVICES of each process)",
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::allocator_thrash, "pytorch allocator cache flushes since last step",
                 "memory is so full that PyTorch gives its cache back and asks the driver anew, in "
                 "each step: that can make steps many times longer",
                 "a smaller micro batch or shorter sequences; gradient checkpointing; "
                 "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; "
                 "get_accelerator().empty_cache() on all ranks at the same moment",
                 MessageWeight::costs},
    KnownMessage{FindingCode::out_of_memory, "THCudaCheck FAIL ... out of memory",
                 "a GPU had no room for the next tensor",
                 "smaller batch and more accumulation steps; gradient checkpointing; see who else "
                 "is on the GPU: nvidia-smi"},
    KnownMessage{FindingCode::ranks_missing, "Timed out waiting ... clients joined",
                 "fewer ranks came to the rendezvous than WORLD_SIZE promises",
                 "start all ranks, or start them with one command: torchrun --standalone "
                 "--nproc_per_node=N"},
    KnownMessage{FindingCode::nccl_timeout, "watchdog got stuck for",
                 "NCCL's own watchdog stood still: a call of CUDA hangs, or another thread holds "
                 "the interpreter's lock",
                 "py-spy dump --native --pid PID of such a rank shows who; the driver's log shows "
                 "a GPU that no longer answers",
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::ranks_missing, "NCCL WARN ... Connection closed by remote peer",
                 "the rank at the other end is gone: it ended first, for a reason of its own",
                 "look for the first error in that host's log; the rank that says this is not the "
                 "one that failed",
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::ranks_missing, "NCCL WARN ... failed : Connection refused",
                 "nobody listens at the other end: that rank ended, or was not started",
                 "look for the first error in that host's log; between hosts also a firewall, or "
                 "NCCL_SOCKET_IFNAME that names another network",
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::nccl_timeout, "ProcessGroupNCCL ... timeout",
                 "a rank did not come to a collective in time",
                 "find the rank that is missing before raising any timeout"},
    KnownMessage{FindingCode::nccl_timeout, "gloo/transport ... Timed out waiting",
                 "a rank did not come to a Gloo collective in time",
                 "find the rank that is missing, crashed first, or still saves: compare what each "
                 "of them printed last"},
    KnownMessage{
        FindingCode::rank_conditional_collective, kStalledOfHorovod,
        "some ranks came to a collective (Horovod's), the others did not",
        "missing are the ranks that the message lists so, or those that it does not list as "
        "ready: look what they printed last, and for a condition that differs from rank "
        "to rank"},
    KnownMessage{FindingCode::rank_given_twice, "has already checked in",
                 "two processes say that they are the same rank",
                 "RANK set by hand on several nodes, two runs that share a port, or one process "
                 "that initialises twice: start all ranks with one launcher, and give each run a "
                 "port of its own"},
    KnownMessage{FindingCode::network_path, "NET/IB ... ompletion ... status=12",
                 "InfiniBand gave up sending: the other end, or the path to it, does not answer",
                 "ibstat and the switch's counters on both hosts; NCCL_IB_HCA names ports that "
                 "reach each other; NCCL_IB_TIMEOUT=22 where the fabric is only slow; look for a "
                 "rank that ended first"},
    KnownMessage{FindingCode::network_path, "NET/IB ... completion ... with error 12",
                 "InfiniBand gave up sending: the other end, or the path to it, does not answer",
                 "ibstat and the switch's counters on both hosts; NCCL_IB_HCA names ports that "
                 "reach each other (devices of two kinds, InfiniBand and RoCE, do not); look for a "
                 "rank that ended first"},
    KnownMessage{FindingCode::network_path, "Call to ibv_modify_qp failed",
                 "an RDMA device cannot reach the other host's",
                 "NCCL_IB_HCA with the ports that are cabled to each other; NCCL_IB_GID_INDEX for "
                 "RoCE; NCCL_IB_DISABLE=1 shows whether plain sockets work"},
    KnownMessage{FindingCode::network_path, "socketStartConnect ... failed",
                 "NCCL's sockets took an address that the other host cannot be reached by",
                 "NCCL_SOCKET_IFNAME with the interface that joins the hosts (ip -br addr); not a "
                 "link-local address (fe80:)"},
    KnownMessage{FindingCode::ranks_missing, "remote process exited or there was a network error",
                 kPeerGone, kFirstError, MessageWeight::usual_reason},
    KnownMessage{FindingCode::ranks_missing, "ncclRemoteError", kPeerGone, kFirstError,
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::ranks_missing, "retrieving ncclUniqueId from ... got error",
                 kPeerGone, kFirstError, MessageWeight::usual_reason},
    KnownMessage{FindingCode::ranks_missing, "gloo ... Connection closed by peer", kPeerGone,
                 kFirstError, MessageWeight::usual_reason},
    KnownMessage{FindingCode::ranks_missing, "gloo ... Connection reset by peer", kPeerGone,
                 kFirstError, MessageWeight::usual_reason},
    KnownMessage{FindingCode::ranks_missing, "gloo ... Connection refused", kPeerGone, kFirstError,
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::network_path, "Gloo connectFullMesh failed",
                 "Gloo's ranks do not reach each other by the addresses that they took",
                 "GLOO_SOCKET_IFNAME with the interface that joins the hosts (ip -br addr); look "
                 "for a rank that ended first",
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::ranks_missing, "RuntimeError: Connection reset by peer", kPeerGone,
                 kFirstError, MessageWeight::usual_reason},
    KnownMessage{FindingCode::ranks_missing, "Did the remote server shutdown or crash?", kPeerGone,
                 kFirstError, MessageWeight::usual_reason},
    KnownMessage{FindingCode::ranks_missing, "Error: failed to recv, got 0 bytes", kPeerGone,
                 kFirstError, MessageWeight::usual_reason},
    KnownMessage{FindingCode::ranks_missing, "ray.exceptions.ActorDiedError",
                 "one of Ray's workers ended: killed, crashed, or its node left",
                 "its own log tells why (ray logs, /tmp/ray/session_latest/logs); memory is the "
                 "usual reason: dmesg | grep -i oom",
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::ranks_missing, "ray.exceptions.ActorUnavailableError",
                 "one of Ray's workers did not answer any more: killed, crashed, or its node left",
                 "its own log tells why (ray logs, /tmp/ray/session_latest/logs); memory is the "
                 "usual reason: dmesg | grep -i oom",
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::ranks_missing,
                 "(raylet) ... worker died or was killed while executing a task",
                 "one of Ray's workers was killed or crashed",
                 "its own log tells why (ray logs, /tmp/ray/session_latest/logs); memory is the "
                 "usual reason: dmesg | grep -i oom"},
    KnownMessage{FindingCode::ranks_missing,
                 "heartbeat timeout. This indicates that the remote task has failed",
                 "a task of the JAX or TensorFlow job ended, was preempted or lost its network: "
                 "the others wait for it",
                 "the message names the task: look for its first error in its own log, and at what "
                 "the scheduler did to its host"},
    KnownMessage{FindingCode::network_path, "ncclInternalError: Internal check failed",
                 "a check within NCCL failed, mostly since another rank ended or a link broke; the "
                 "words behind \"Last error\" tell which",
                 "run it again with NCCL_DEBUG=WARN, and look for the first error in the logs of "
                 "all ranks",
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::network_path, "ibv_create_cq failed ... Cannot allocate memory",
                 "InfiniBand could not pin memory: the limit for locked memory is too low",
                 "ulimit -l unlimited for the job (limits.conf, docker run --ulimit memlock=-1, "
                 "slurmd's LimitMEMLOCK)"},
    KnownMessage{FindingCode::network_path, "NET/IB ... Got completion from peer ... with error",
                 "an InfiniBand transfer failed at one of its ends",
                 "look for the first error in the logs of both hosts; ibstat and the ports' "
                 "counters; versions of NCCL and of its network plugin that fit each other"},
    KnownMessage{FindingCode::network_path, "unhandled system error",
                 "a system call of NCCL's failed: a socket to another host, shared memory or a "
                 "device; which one its own words tell",
                 "run it again with NCCL_DEBUG=WARN and look at the first `NCCL WARN` line; in a "
                 "container /dev/shm may be too small (--shm-size=8g), between hosts "
                 "NCCL_SOCKET_IFNAME names the interface that joins them",
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::network_path, "NCCL WARN ... No route to host",
                 "a firewall, or an interface that does not lead to the other host",
                 "NCCL_SOCKET_IFNAME with the interface that joins the hosts; open the ports "
                 "between them"},
    KnownMessage{FindingCode::network_path, "NCCL WARN ... Network is unreachable",
                 "no way leads from this interface to the other host",
                 "NCCL_SOCKET_IFNAME with the interface that joins the hosts (ip -br addr)"},
    KnownMessage{FindingCode::network_path, "NCCL WARN ... Connection timed out",
                 "the other host does not answer: a firewall, or an interface that does not lead "
                 "to it",
                 "NCCL_SOCKET_IFNAME with the interface that joins the hosts; open the ports "
                 "between them",
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::world_size_not_set,
                 "environment variable WORLD_SIZE expected, but not set",
                 "init_process_group was called in a process that no launcher started",
                 "torchrun --standalone --nproc_per_node=N train.py"},
    KnownMessage{FindingCode::world_size_not_set, "environment variable RANK expected, but not set",
                 "init_process_group was called in a process that no launcher started",
                 "torchrun --standalone --nproc_per_node=N train.py"},
    KnownMessage{FindingCode::world_size_not_set, "KeyError: 'RANK'", kNoLauncher, kOneLauncher},
    KnownMessage{FindingCode::world_size_not_set, "KeyError: 'LOCAL_RANK'", kNoLauncher,
                 kOneLauncher},
    KnownMessage{FindingCode::world_size_not_set, "KeyError: 'WORLD_SIZE'", kNoLauncher,
                 kOneLauncher},
    KnownMessage{FindingCode::world_size_not_set,
                 "environment variable MASTER_ADDR expected, but not set",
                 "init_process_group was called in a process that no launcher started",
                 "torchrun --standalone --nproc_per_node=N train.py"},
    KnownMessage{FindingCode::world_size_not_set, "Default process group has not been initialized",
                 "a distributed call came before init_process_group, usually because no launcher "
                 "started the script",
                 "start it with torchrun, and call init_process_group first"},
    KnownMessage{FindingCode::unknown_training_argument,
                 "TrainingArguments.__init__() got an unexpected keyword argument",
                 "this version of Transformers does not know that argument",
                 "see its name in your version: python -c \"import transformers; "
                 "help(transformers.TrainingArguments)\" "
                 "(evaluation_strategy became eval_strategy in 4.41)"},
    KnownMessage{FindingCode::unknown_training_argument,
                 "__init__() got an unexpected keyword argument",
                 "an argument that this version does not know",
                 "compare the name with the installed version's signature"},
    KnownMessage{FindingCode::unknown_accelerate_field, "The config file at ... had unknown keys",
                 "the Accelerate configuration has keys that this version does not know",
                 "remove them, or write the file anew: accelerate config"},
    KnownMessage{
        FindingCode::port_in_use, "EADDRINUSE",
        "the port is taken: by a run that was not ended, or twice by this one (a store of its own "
        "on the launcher's port)",
        "ss -ltnp shows who holds it: end that, or take another port (--master-port, "
        "MASTER_PORT; torchrun --standalone takes a free one)"},
    KnownMessage{
        FindingCode::port_in_use, "Address already in use",
        "the port is taken: by a run that was not ended, or twice by this one (a store of its own "
        "on the launcher's port)",
        "ss -ltnp shows who holds it: end that, or take another port (--master-port, "
        "MASTER_PORT; torchrun --standalone takes a free one)"},
    KnownMessage{FindingCode::port_in_use,
                 "The server socket has failed to listen on any local network address",
                 "another process holds the rendezvous port",
                 "torchrun --standalone picks a free port"},
    KnownMessage{
        FindingCode::ranks_share_a_gpu, "Duplicate GPU detected", "two ranks use the same GPU",
        "torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"])) before the first CUDA call"},
    KnownMessage{FindingCode::more_ranks_than_gpus, "invalid device ordinal",
                 "the program asks for a GPU that is not there: more ranks than GPUs, RANK where "
                 "LOCAL_RANK is meant, or a number that CUDA_VISIBLE_DEVICES leaves out",
                 "--nproc_per_node=gpu, and cuda:{LOCAL_RANK}; GPUs are numbered from 0 among "
                 "those that CUDA_VISIBLE_DEVICES lists",
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::more_ranks_than_gpus,
                 "MisconfigurationException: You requested gpu: [",
                 "Lightning was asked for GPUs that this process does not see",
                 "devices=\"auto\"; see what CUDA_VISIBLE_DEVICES and the scheduler leave to a "
                 "process: python -c \"import torch; print(torch.cuda.device_count())\""},
    KnownMessage{
        FindingCode::more_ranks_than_gpus, "There are not enough slots available in the system",
        "mpirun was asked for more ranks than the cores or the hostfile allow",
        "a hostfile with slots=N, one per GPU, or mpirun --use-hwthread-cpus; --oversubscribe "
        "only where the GPUs are there"},
    KnownMessage{FindingCode::driver_too_old,
                 "CUDA driver version is insufficient for CUDA runtime version",
                 "the driver is older than this build of CUDA needs, or none is there",
                 "nvidia-smi shows the newest CUDA that the driver knows: install a torch for it "
                 "(pip install torch --index-url https://download.pytorch.org/whl/cu126), or a "
                 "newer driver"},
    KnownMessage{FindingCode::program_error, "no kernel image is available for execution",
                 "this build of the library holds no code for this GPU's architecture",
                 "a torch that is built for it: python -c \"import torch; "
                 "print(torch.cuda.get_arch_list(), torch.cuda.get_device_capability())\"; newer "
                 "GPUs need newer releases, old ones were dropped"},
    KnownMessage{FindingCode::program_error, "hipErrorNoBinaryForGpu",
                 "no code of this build fits the GPU: it is for another architecture, or for "
                 "another XNACK mode; the lines around the message say which",
                 "a build for the GPU's gfx number and XNACK mode (rocminfo names both; HSA_XNACK "
                 "sets the mode)",
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::driver_too_old, "NVML: Driver/library version mismatch",
                 "the driver was updated under a running system: the module in the kernel is the "
                 "old one, the libraries are the new",
                 "reboot, or stop what uses the GPUs and load the module again (rmmod nvidia_uvm "
                 "nvidia_drm nvidia_modeset nvidia; modprobe nvidia); start containers anew"},
    KnownMessage{FindingCode::driver_too_old, "The NVIDIA driver on your system is too old",
                 "the driver is older than this build of torch needs",
                 "a torch for the driver's CUDA (nvidia-smi shows it), or a newer driver"},
    KnownMessage{FindingCode::one_gpu_leads,
                 "There is an imbalance between your GPUs. You may want to exclude GPU",
                 "nn.DataParallel over unequal GPUs: each step takes as long as the slowest",
                 "DistributedDataParallel, one process per GPU, over the GPUs that are alike",
                 MessageWeight::costs},
    KnownMessage{FindingCode::shared_memory_small, "DataLoader worker ... Bus error",
                 "the container's /dev/shm is too small for the loader's batches",
                 "docker run --shm-size=8g (or --ipc=host); in Kubernetes an emptyDir with medium: "
                 "Memory at /dev/shm"},
    KnownMessage{FindingCode::shared_memory_small, "unable to open shared memory object",
                 "the container's /dev/shm is too small or has too many files",
                 "docker run --shm-size=8g (or --ipc=host)"},
    KnownMessage{FindingCode::shared_memory_small,
                 "It is possible that dataloader's workers are out of shared memory",
                 "the container's /dev/shm is too small for the loader's batches",
                 "docker run --shm-size=8g (or --ipc=host)"},
    KnownMessage{FindingCode::shared_memory_small, "unable to allocate shared memory",
                 "the container's /dev/shm is too small",
                 "docker run --shm-size=8g (or --ipc=host)"},
    KnownMessage{FindingCode::shared_memory_small, "insufficient shared memory (shm)",
                 "the container's /dev/shm is too small for the loader's batches",
                 "docker run --shm-size=8g (or --ipc=host)"},
    KnownMessage{FindingCode::shared_memory_small, "Error while creating shared memory segment",
                 "NCCL found no room in /dev/shm", "docker run --shm-size=8g (or --ipc=host)"},
    KnownMessage{FindingCode::shared_memory_small, "/dev/shm ... No space left on device",
                 "the container's /dev/shm is full", "docker run --shm-size=8g (or --ipc=host)"},
    KnownMessage{FindingCode::cpu_oversubscribed,
                 "This DataLoader will create ... worker processes in total. Our suggested max "
                 "number of worker",
                 "more loader workers than the job has cores",
                 "num_workers at most cores divided by ranks", MessageWeight::costs},
    KnownMessage{FindingCode::legacy_launcher, "unrecognized arguments: --local-rank",
                 "the old launcher passes --local-rank, which the script does not take",
                 "torchrun --standalone --nproc_per_node=N train.py, and read LOCAL_RANK from the "
                 "environment"},
    KnownMessage{FindingCode::legacy_launcher, "unrecognized arguments: --local_rank",
                 "the old launcher passes --local_rank, which the script does not take",
                 "torchrun --standalone --nproc_per_node=N train.py, and read LOCAL_RANK from the "
                 "environment"},
    KnownMessage{FindingCode::shared_memory_small, "No space left on device ... shm",
                 "the container's /dev/shm is full", "docker run --shm-size=8g (or --ipc=host)"},
    KnownMessage{FindingCode::host_name_unresolvable, "Name or service not known",
                 "the master's host name cannot be resolved",
                 "use its address: MASTER_ADDR=10.0.0.1, or --standalone on one machine"},
    KnownMessage{FindingCode::shared_memory_small, "unable to write to file </torch_",
                 "the container's /dev/shm is full", "docker run --shm-size=8g (or --ipc=host)"},
    KnownMessage{FindingCode::host_name_unresolvable,
                 "The client socket has failed to connect to any network address of",
                 "the master's name does not lead to it, or it does not listen",
                 "check MASTER_ADDR and MASTER_PORT; on one machine torchrun --standalone"},
    KnownMessage{FindingCode::host_name_unresolvable,
                 "The client socket has timed out after ... while trying to connect to",
                 "the master's name does not lead to it, a firewall is between, or it was not "
                 "started",
                 "nc -vz MASTER_ADDR MASTER_PORT on each node; on one machine torchrun "
                 "--standalone"},
    KnownMessage{FindingCode::ranks_missing, kNobodyAnswers,
                 "nobody answers at the first node's address: nothing was started there, it ended "
                 "before, or a firewall is between",
                 "start the ranks of that node, look for the first error in its log, and try "
                 "nc -vz MASTER_ADDR MASTER_PORT from the others",
                 MessageWeight::ends_the_run, false},
    KnownMessage{FindingCode::host_name_unresolvable, "No address associated with hostname",
                 "the master's host name cannot be resolved",
                 "use its address: MASTER_ADDR=10.0.0.1, or --standalone on one machine"},
    KnownMessage{FindingCode::host_name_unresolvable, "nodename nor servname provided",
                 "the master's host name cannot be resolved",
                 "use its address, or --standalone on one machine"},
    KnownMessage{FindingCode::host_name_unresolvable, "getaddrinfo ... fail",
                 "the master's host name cannot be resolved",
                 "use its address: MASTER_ADDR=10.0.0.1, or --standalone on one machine"},
    KnownMessage{FindingCode::host_name_unresolvable, "Temporary failure in name resolution",
                 "the master's host name cannot be resolved",
                 "use its address: MASTER_ADDR=10.0.0.1, or --standalone on one machine"},
    KnownMessage{FindingCode::host_memory_full, "DataLoader worker ... killed by signal: Killed",
                 "the kernel ended a loader's worker, as it does where the machine's or the "
                 "container's memory is full",
                 "fewer or lighter loader workers (each holds a copy of what the dataset changes), "
                 "or more memory for the job"},
    KnownMessage{FindingCode::host_memory_full, "oom-kill event", kJobWasFull, kRoomForAJob},
    KnownMessage{FindingCode::host_memory_full, "oom_kill event", kJobWasFull, kRoomForAJob},
    KnownMessage{FindingCode::host_memory_full, "Out Of Memory ... cgroup", kJobWasFull,
                 kRoomForAJob},
    KnownMessage{FindingCode::host_memory_full, "Memory cgroup out of memory: Kill",
                 "the container's memory was full, and the kernel ended a process in it",
                 "a higher memory limit; fewer loader workers; smaller caches"},
    KnownMessage{FindingCode::host_memory_full, "Out of memory: Kill",
                 "the machine's memory was full, and the kernel ended a process",
                 "fewer loader workers; smaller caches; see who held it in dmesg"},
    KnownMessage{FindingCode::host_memory_full, "DefaultCPUAllocator: ... allocate memory",
                 "the machine had no memory for a tensor on the CPU",
                 "load checkpoints with mmap=True or on one rank at a time; fewer loader workers"},
    KnownMessage{FindingCode::ended_from_outside, "DUE TO NODE FAILURE",
                 "a node of the job failed, and the scheduler ended all of it",
                 "sbatch --requeue and checkpoints to go on from; sinfo -R tells what is known of "
                 "the node"},
    KnownMessage{FindingCode::ended_from_outside, "DUE TO JOB REQUEUE",
                 "the scheduler put the job back into its queue: it starts anew, often on other "
                 "nodes",
                 "let it go on from its newest checkpoint; scontrol show job JOB tells why"},
    KnownMessage{FindingCode::ended_from_outside, "srun: error: Node failure on",
                 "a node of the job failed",
                 "sbatch --requeue and checkpoints to go on from; sinfo -R tells what is known of "
                 "the node"},
    KnownMessage{FindingCode::ended_from_outside, "DUE TO TIME LIMIT",
                 "the scheduler ended the job at its time limit",
                 "ask for more time (sbatch --time), and save often enough to go on from there"},
    KnownMessage{FindingCode::ended_from_outside, "DUE TO PREEMPTION",
                 "the scheduler gave the nodes to another job",
                 "sbatch --requeue, and save often enough to go on from there"},
    KnownMessage{FindingCode::ended_from_outside, "TERM_RUNLIMIT",
                 "LSF ended the job at its time limit",
                 "ask for more time (bsub -W), and save often enough to go on from there"},
    KnownMessage{FindingCode::ended_from_outside, "TERM_OWNER", "the job's owner ended it (bkill)",
                 "nothing is wrong with the program by this"},
    KnownMessage{FindingCode::host_memory_full, "TERM_MEMLIMIT",
                 "the job was over its memory limit, and LSF ended it",
                 "bsub -R \"rusage[mem=...]\" and -M with more; fewer loader workers"},
    KnownMessage{FindingCode::ended_from_outside, "PBS: job killed: walltime",
                 "PBS ended the job at its time limit",
                 "ask for more time (qsub -l walltime), and save often enough to go on from there"},
    KnownMessage{FindingCode::ended_from_outside, kSlurmCancelled,
                 "the scheduler ended the job: somebody called scancel, or a limit was reached",
                 "sacct -j JOB --format=State,ExitCode,Reason tells which",
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::program_error, "Disk quota exceeded",
                 "a file could not be written: the quota of its disk is used up",
                 "free space (old checkpoints, caches: du -sh ~/.cache), or write elsewhere; quota "
                 "-s shows the limit"},
    KnownMessage{FindingCode::program_error, "No space left on device",
                 "a file could not be written: the disk is full",
                 "df -h shows which; free space, or write elsewhere (TMPDIR, HF_HOME)",
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::ended_from_outside, "KeyboardInterrupt",
                 "somebody pressed Ctrl-C, or a launcher that was told to end passed it on",
                 "nothing is wrong with the program by this; an error of another rank stands above",
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::ended_from_outside,
                 "DataLoader worker ... killed by signal: Terminated",
                 "somebody ended a loader's worker (SIGTERM), mostly with the whole job",
                 "who did stands elsewhere: the scheduler's log, the launcher's, a Ctrl-C"},
    KnownMessage{FindingCode::ended_from_outside, "death signal, shutting down workers",
                 "the launcher was told to end (SIGTERM, SIGINT or SIGHUP)",
                 "who sent it stands elsewhere: the scheduler's log, a session that was closed, a "
                 "Ctrl-C"},
    KnownMessage{FindingCode::ended_from_outside, "Main process received SIG ... exiting",
                 "DeepSpeed's launcher was told to end (SIGINT or SIGTERM)",
                 "who sent it stands elsewhere: a Ctrl-C, the scheduler's log, a session that was "
                 "closed"},
    KnownMessage{FindingCode::ended_from_outside, "SignalException: Process ... got signal",
                 "the launcher was told to end (SIGTERM, SIGINT or SIGHUP)",
                 "who sent it stands elsewhere: the scheduler's log, a session that was closed "
                 "(use tmux, nohup or a job), a Ctrl-C"},
    KnownMessage{FindingCode::crashed, "exits with return code = -11", kCrashed, kWhereItCrashed},
    KnownMessage{FindingCode::crashed, "exitcode ... -11", kCrashed, kWhereItCrashed},
    KnownMessage{FindingCode::crashed, "Signal 11 (SIGSEGV)", kCrashed, kWhereItCrashed},
    KnownMessage{FindingCode::crashed, "exited on signal 11", kCrashed, kWhereItCrashed},
    KnownMessage{FindingCode::crashed, "Segmentation fault (core dumped)", kCrashed,
                 kWhereItCrashed},
    KnownMessage{FindingCode::crashed, "Fatal Python error: Segmentation fault", kCrashed,
                 kWhereItCrashed},
    KnownMessage{FindingCode::crashed, "Caught signal 11 (Segmentation fault", kCrashed,
                 kWhereItCrashed},
    KnownMessage{FindingCode::crashed, "DataLoader worker ... killed by signal: Segmentation fault",
                 "a loader's worker crashed in native code: a decoder or another library",
                 "num_workers=0 shows where; python -X faulthandler train.py"},
    KnownMessage{FindingCode::crashed, "CUDA error: an illegal memory access", kNotItsOwn,
                 kWhichKernel},
    KnownMessage{FindingCode::crashed, "CUDA error: misaligned address", kNotItsOwn, kWhichKernel},
    KnownMessage{FindingCode::crashed, "CUDA error: unspecified launch failure", kNotItsOwn,
                 kWhichKernel},
    KnownMessage{
        FindingCode::crashed, "unhandled cuda error",
        "a call of CUDA within NCCL failed: an earlier error of the program's own kernels, "
        "no memory left on a GPU, or peer access that the machine does not have",
        "NCCL_DEBUG=WARN names the call; CUDA_LAUNCH_BLOCKING=1 shows whether a kernel of "
        "the program failed before; NCCL_P2P_DISABLE=1 where peer access is not supported",
        MessageWeight::usual_reason},
    KnownMessage{
        FindingCode::program_error, kDeviceAssertion,
        "an assertion in a kernel failed: mostly an index out of range (a label beyond the "
        "classes, a token beyond the embedding)",
        "the line `Assertion ... failed` above it says which; CUDA_LAUNCH_BLOCKING=1 shows "
        "the line of Python"},
    KnownMessage{FindingCode::program_error,
                 "error: the following arguments are required:", kBadCommandLine, kReadItsHelp},
    KnownMessage{FindingCode::program_error, "error: unrecognized arguments:", kBadCommandLine,
                 kReadItsHelp},
    KnownMessage{FindingCode::program_error, "`Trainer.fit` stopped: No training batches.",
                 "the training loader is empty: no step was made",
                 "look at the data's path and filters, at drop_last with fewer samples than a "
                 "batch, and at what each rank is given"},
    KnownMessage{FindingCode::shared_memory_small, "exits with return code = -7", kBusError,
                 kMoreSharedMemory, MessageWeight::usual_reason},
    KnownMessage{FindingCode::shared_memory_small, "exitcode ... -7 ", kBusError, kMoreSharedMemory,
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::shared_memory_small, "Signal 7 (SIGBUS)", kBusError,
                 kMoreSharedMemory, MessageWeight::usual_reason},
    KnownMessage{FindingCode::host_memory_full, "exitcode ... -9", kKilled, kWhoKilled,
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::host_memory_full, " Killed    ... python", kKilled, kWhoKilled,
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::host_memory_full, "slurm_script: line ...  Killed   ", kKilled,
                 kWhoKilled, MessageWeight::usual_reason},
    KnownMessage{FindingCode::host_memory_full, kKilledAlone, kKilled, kWhoKilled,
                 MessageWeight::usual_reason, false},
    KnownMessage{FindingCode::host_memory_full, "exits with return code = -9", kKilled, kWhoKilled,
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::find_unused_parameters,
                 "find_unused_parameters=True was specified in DDP constructor, but did not find "
                 "any unused parameters",
                 "DDP walks the graph in every step for nothing",
                 "DistributedDataParallel(..., find_unused_parameters=False); in Transformers "
                 "ddp_find_unused_parameters=False",
                 MessageWeight::costs},
    KnownMessage{
        FindingCode::find_unused_parameters,
        "Expected to have finished reduction in the prior iteration",
        "some parameters got no gradient, and DDP waits for all of them; newer messages end with "
        "which",
        "make every parameter part of the loss, freeze those that are not trained before "
        "DDP is made, or find_unused_parameters=True where that is meant"},
    KnownMessage{FindingCode::find_unused_parameters, "Expected to mark a variable ready only once",
                 "a parameter got its gradient twice in one pass: find_unused_parameters beside "
                 "checkpointed blocks, or a module that is called twice",
                 "find_unused_parameters=False with checkpointing (use_reentrant=False), or "
                 "DistributedDataParallel(..., static_graph=True)"},
    KnownMessage{FindingCode::rank_conditional_collective,
                 "DDP expects same model across all ranks",
                 "the ranks made different models, or one wraps a part that the others do not",
                 "the message names the ranks and their numbers of parameters: look for what is "
                 "frozen, loaded or made under a condition that differs from rank to rank, and for "
                 "parameters that are not materialised yet"},
    KnownMessage{FindingCode::rank_conditional_collective, "Mismatched collective detected",
                 "ranks came to different collectives at the same moment",
                 "look for a collective under a condition that differs from rank to rank"},
    KnownMessage{FindingCode::rank_conditional_collective, kMismatchOfSizes,
                 "ranks came to the same collective with different sizes",
                 "the parameters that get gradients differ from rank to rank, or the tensors that "
                 "are gathered do: compare the models, and pad to one size"},
    KnownMessage{FindingCode::rank_conditional_collective,
                 "Detected mismatch between collectives on ranks",
                 "ranks came to different collectives at the same moment",
                 "the message names both; look for a condition that differs from rank to rank"},
    KnownMessage{FindingCode::rank_conditional_collective, kWatchdogsDiffer,
                 "ranks took different paths and came to different calls",
                 "look for a collective under a condition that differs from rank to rank; "
                 "TORCH_DISTRIBUTED_DEBUG=DETAIL stops at the first mismatch, with both calls"},
    KnownMessage{FindingCode::rank_conditional_collective, "collective mismatch error",
                 "ranks came to a collective with different sizes or types",
                 "pad to one size, or gather sizes first; look for a condition that differs from "
                 "rank to rank"},
    KnownMessage{FindingCode::legacy_launcher, "torch.distributed.launch is deprecated",
                 "the launcher of PyTorch 1.8", "torchrun --standalone --nproc_per_node=N train.py",
                 MessageWeight::told},
    KnownMessage{FindingCode::checkpoint_not_portable, "Missing key(s) in state_dict ... module.",
                 "the checkpoint's names begin with `module.`, which DDP put there",
                 "save model.module.state_dict(), or take the prefix off when loading"},
    KnownMessage{FindingCode::idle_gpus, "`--num_processes` was set to a value of `1`",
                 "accelerate launch was not told how many processes to start and takes one: of "
                 "several GPUs the others stay idle",
                 "accelerate launch --multi_gpu --num_processes N train.py, or once: accelerate "
                 "config",
                 MessageWeight::told},
    KnownMessage{
        FindingCode::checkpoint_not_portable, "Attempting to deserialize object on CUDA device",
        "the checkpoint names a GPU that is not there", "torch.load(path, map_location=\"cpu\")"},
    KnownMessage{FindingCode::gpu_lost, "HW Exception by GPU node ... GPU Hang",
                 "an AMD GPU stopped in the middle of its work",
                 "dmesg | grep amdgpu; reset it (rocm-smi --gpureset -d N) or reboot; where it "
                 "comes again, another version of ROCm or of the kernel that hangs"},
    KnownMessage{FindingCode::ecc_or_xid, "CUDA error: unknown error",
                 "the driver gave up on a GPU without saying why",
                 "dmesg | grep -i xid names the reason; reset the GPU or reboot",
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::gpu_lost, "fallen off the bus", "the GPU stopped answering",
                 "reset or reboot; check power and seating"},
    KnownMessage{FindingCode::gpu_lost, "NVRM: ... RmInitAdapter failed",
                 "the driver cannot start a GPU",
                 "reboot; reseat the card; compare driver and firmware (nvidia-smi -q)"},
    KnownMessage{FindingCode::gpu_lost, "Unable to determine the device handle for GPU",
                 "the driver does not reach a GPU that is there",
                 "dmesg shows an Xid; reset or reboot; check power and seating"},
    KnownMessage{
        FindingCode::ecc_or_xid, kXid,
        "the driver reported an error of a GPU, or of a program on it",
        "what the number says decides: 13, 31, 43 and 45 are mostly the program's own; others need "
        "a reset (nvidia-smi --gpu-reset -i N) or a reboot; lockstep explain H604"},
    KnownMessage{FindingCode::ecc_or_xid, "uncorrectable ECC error encountered",
                 "a GPU's memory failed", "take the GPU out of use and reset it: nvidia-smi -r"},
    KnownMessage{FindingCode::gpu_held_by_others,
                 "CUDA-capable device(s) is/are busy or unavailable",
                 "another process holds the GPU exclusively, or the GPU needs a reset",
                 "nvidia-smi shows who; nvidia-smi -c 0 allows sharing; dmesg | grep -i xid",
                 MessageWeight::usual_reason},
    KnownMessage{FindingCode::gpu_held_by_others,
                 "all CUDA-capable devices are busy or unavailable",
                 "another process holds the GPU exclusively",
                 "nvidia-smi shows who; nvidia-smi -c 0 allows sharing"},
    KnownMessage{
        FindingCode::program_error, kRankEnded,
        "a rank ended with an error of its own, and this text holds the launcher's summary "
        "alone",
        "its traceback stands further up, or in that rank's or the job's own error log; under "
        "torchrun -r 3 --log-dir logs keeps one per rank, and @record around main() puts it into "
        "the summary",
        MessageWeight::usual_reason, false},
    KnownMessage{FindingCode::program_error, kOwnError,
                 "the program itself ended with an exception",
                 "mend that first: the launcher's words behind it (ChildFailedError, exit codes, "
                 "closed connections of other ranks) follow from it",
                 MessageWeight::ends_the_run, false},
};

}  // namespace

std::span<const KnownMessage> known_messages() { return kMessages; }

const KnownMessage& known_message(std::string_view words) {
  for (const KnownMessage& message : kMessages)
    if (message.words == words) return message;
  return kMessages.back();
}

}  // namespace lockstep
