#!/usr/bin/env bash
# shellcheck disable=SC2034,SC2154  # what the recipes read, and what they and common.sh set
#
# Where trainings run: on the CPU or on GPUs, by how many processes, on how many nodes. Sourced by
# common.sh. A recipe that trains by a `training_command` ends that with `add_launcher`.
#
# Of one node fairseq-train starts the processes itself. Of several each runs `torchrun`, which
# counts the processes of each node and tells them where node 0 is.

device=''   # cpu or gpu
gpus=0      # of this node
processes=1 # of this node, on a CPU
nodes=1
node_rank=''
master='' # node 0, HOST:PORT
default_port=29500
# Node 0 prepares the data while the others wait, but somebody may have forgotten to start it.
hours_to_wait=12

launch_usage() {
  echo '  --cpu | --gpus N   train on the CPU, or on N GPUs (default: one GPU if there is one)'
  if ! trains_itself; then return; fi
  cat <<HELP
  --workers N        with --cpu: number of training processes (default: 1)
  --nodes M          train on M nodes (default: 1); run the recipe on each node with its own
  --node-rank R      rank: node 0 runs all stages, nodes 1 to M - 1 only train, and with
  --master HOST[:PORT]   the address of node 0 (default port: $default_port)
With --nodes, --gpus and --workers count those of one node. All nodes need the same folder WORK, on
a shared file system. Nodes 1 to M - 1 wait at most $hours_to_wait hours until node 0 has prepared the data
(own_text.sh does not wait: let node 0 prepare it first, with --stop-stage). An
interrupted training may be resumed on another number of nodes, GPUs or workers, if that number
times --update-freq stays the same.
HELP
}

# Whether the recipe runs a single training, which several nodes can share.
trains_itself() { declare -F training_command >/dev/null; }

launch_option() { # NAME VALUE
  case $1 in
    --gpus) device=gpu gpus=$2 ;;
    --workers) processes=$2 ;;
    --nodes) nodes=$2 ;;
    --node-rank) node_rank=$2 ;;
    --master) master=$2 ;;
    *) return 1 ;;
  esac
}

gpus_present() { # those that CUDA_VISIBLE_DEVICES names before a -1, where it is set
  local listed named
  if [[ -n "${CUDA_VISIBLE_DEVICES+set}" ]]; then
    listed=",$CUDA_VISIBLE_DEVICES"
    listed=${listed%%,-1*}
    IFS=, read -ra named <<<"${listed#,}"
    echo "${#named[@]}"
    return
  fi
  { command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L 2>/dev/null | grep -c '^GPU'; } || true
}

check_launch_options() {
  check_device
  if ! trains_itself && [[ "$processes$nodes$node_rank$master" != 11 ]]; then
    die "--workers, --nodes, --node-rank, --master: not for this recipe, whose trainings are many and small; share them out to several nodes by giving each its own, and a --work of its own"
  fi
  need_count --workers "$processes"
  if [[ "$device" == gpu ]] && ((processes > 1)); then
    die "--workers $processes: goes with --cpu; on GPUs it is --gpus N"
  fi
  check_nodes
}

check_device() {
  local present
  present=$(gpus_present)
  if [[ -z "$device" ]]; then
    if ((${present:-0} > 0)); then device=gpu gpus=1; else device=cpu; fi
  elif [[ "$device" == gpu ]]; then
    need_count --gpus "$gpus"
    [[ -n "$dry_run" ]] || ((gpus <= ${present:-0})) ||
      die "--gpus $gpus: this machine shows ${present:-0} (use --cpu, or fewer)"
  fi
}

check_nodes() {
  local port
  need_count --nodes "$nodes"
  if ((nodes > 1)); then
    [[ -n "$node_rank" ]] || die "--nodes $nodes: needs --node-rank R: 0 on the first node, 1 to $((nodes - 1)) on the others"
    [[ -n "$master" ]] || die "--nodes $nodes: needs --master HOST[:PORT], the address of the node with --node-rank 0"
  fi
  node_rank=${node_rank:-0}
  if ! [[ "$node_rank" =~ ^(0|[1-9][0-9]{0,8})$ ]] || ((node_rank >= nodes)); then
    die "--node-rank $node_rank: must be a whole number from 0 to $((nodes - 1)), one less than --nodes"
  fi
  if [[ -z "$master" ]]; then return; fi
  [[ "$master" =~ ^[A-Za-z0-9._-]+(:[0-9]{1,5})?$ ]] || die "--master $master: must be HOST or HOST:PORT"
  if [[ "$master" != *:* ]]; then master=$master:$default_port; fi
  port=${master##*:}
  ((10#$port >= 1 && 10#$port <= 65535)) || die "--master $master: the port must be from 1 to 65535"
}

workers_of_node() { if [[ "$device" == gpu ]]; then echo "$gpus"; else echo "$processes"; fi; }

all_workers() { echo $((nodes * $(workers_of_node))); }

workers_said() { # the options that decide on their number, for messages
  local said="--gpus $gpus"
  if [[ "$device" == cpu ]]; then said="--workers $processes"; fi
  if ((nodes > 1)); then said+=" --nodes $nodes"; fi
  echo "$said"
}

# For keys: the number of nodes makes no difference, only the number of workers.
device_key() {
  if [[ "$device" == cpu && "$(all_workers)" == 1 ]]; then echo "cpu 0"; else echo "$device $(all_workers)"; fi
}

# glibc's malloc with --checkpoint-activations: it returns blocks of 4 MiB and more to the system at
# once. Otherwise freed blocks leave holes, which take half as much memory as is in use.
default_allocator=glibc.malloc.hugetlb=1 # as env.sh sets it
saving_allocator=$default_allocator:glibc.malloc.mmap_threshold=4194304

add_launcher() { # to `command`, a fairseq-train
  local each
  if [[ " ${command[*]} " == *' --checkpoint-activations '* && "${GLIBC_TUNABLES:-}" == "$default_allocator" ]]; then
    command=(env "GLIBC_TUNABLES=$saving_allocator" "${command[@]}")
  fi
  each=$(workers_of_node)
  if [[ "$device" == cpu ]]; then command+=(--cpu); fi
  if ((nodes > 1)); then
    command=(torchrun --nnodes "$nodes" --node-rank "$node_rank" --nproc-per-node "$each"
      --master-addr "${master%:*}" --master-port "${master##*:}"
      --rdzv-conf "timeout=$((hours_to_wait * 3600))" --no-python "${command[@]}")
  elif [[ "$device" == gpu ]] || ((each > 1)); then
    command+=(--distributed-world-size "$each")
  fi
  if [[ "$device" == cpu ]] && ((each > 1)) && [[ -z "${OMP_NUM_THREADS:-}" ]]; then
    command=(env "OMP_NUM_THREADS=$(threads_of_worker "$each")" "${command[@]}")
  fi
}

# PROCESSES: each of them would take all cores.
threads_of_worker() {
  local cores
  cores=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
  echo $((cores > $1 ? cores / $1 : 1))
}
