/* NCCL's profiler plugin interface, versions 1 to 6, as far as the probe reads it
 * (src/include/plugin/profiler of NCCL 2.30, Apache 2.0; written anew, names are ours).
 *
 * All versions begin alike: type (8 bits, 64 from version 5 on; little-endian, the rest is
 * padding), parent, rank, then a union. */
#ifndef LOCKSTEP_NCCL_PROFILER_ABI_H
#define LOCKSTEP_NCCL_PROFILER_ABI_H

#include <stddef.h>
#include <stdint.h>

enum nccl_event {
  NCCL_EVENT_GROUP = 1 << 0,
  NCCL_EVENT_COLL = 1 << 1,
  NCCL_EVENT_P2P = 1 << 2,
  NCCL_EVENT_KERNEL_CH = 1 << 6,
  NCCL_EVENT_GROUP_API = 1 << 8,
  NCCL_EVENT_COLL_API = 1 << 9,
  NCCL_EVENT_P2P_API = 1 << 10,
  NCCL_EVENT_KERNEL_LAUNCH = 1 << 11,
  NCCL_EVENT_CE_COLL = 1 << 12
};
#define NCCL_STATE_KERNEL_CH_STOP 22
#define NCCL_OK 0

struct nccl_coll_v1 {
  const char* name;
  uint64_t comm_hash;
  uint64_t sequence;
  uint8_t func;
  const void* send;
  void* receive;
  size_t count;
  int root;
  uint8_t datatype;
  uint32_t op;
  size_t traffic_bytes;
  uint8_t channels;
  uint8_t warps;
  uint8_t algo;
  uint8_t proto;
};

struct nccl_coll_v2 {
  const char* name;
  uint64_t comm_hash;
  uint64_t sequence;
  const char* func;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* datatype;
  size_t traffic_bytes;
  uint8_t channels;
  uint8_t warps;
  const char* algo;
  const char* proto;
};

struct nccl_coll_v3 {
  const char* name;
  uint64_t comm_hash;
  uint64_t sequence;
  const char* func;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* datatype;
  uint8_t channels;
  uint8_t warps;
  const char* algo;
  const char* proto;
};

struct nccl_coll_v4 { /* and 5, 6: the group they add lies behind */
  uint64_t sequence;
  const char* func;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* datatype;
  uint8_t channels;
  uint8_t warps;
  const char* algo;
  const char* proto;
  void* parent_group; /* from version 5 on */
};

struct nccl_p2p_v1 {
  const char* name;
  uint64_t comm_hash;
  uint8_t func;
  void* buffer;
  uint8_t datatype;
  size_t count;
  int peer;
};

struct nccl_p2p_v2 { /* and 3 */
  const char* name;
  uint64_t comm_hash;
  const char* func;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
};

struct nccl_p2p_v4 { /* and 5, 6 */
  const char* func;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t channels;
  void* parent_group; /* from version 5 on */
};

struct nccl_coll_api {
  const char* func;
  size_t count;
  const char* datatype;
  int root;
  void* stream;
  uint8_t captured;
};

struct nccl_p2p_api {
  const char* func;
  size_t count;
  const char* datatype;
  void* stream;
  uint8_t captured;
};

struct nccl_kernel_ch {
  uint8_t channel;
  uint64_t timer; /* the GPU's globaltimer; version 3 has none */
};

struct nccl_ce_coll { /* version 6 */
  uint64_t sequence;
  const char* func;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* datatype;
};

/* As large as any version's: what another plugin is handed is a copy of NCCL's own. */
struct nccl_event_descriptor {
  uint64_t type;
  void* parent;
  int rank;
  union {
    struct nccl_coll_v1 coll_v1;
    struct nccl_coll_v2 coll_v2;
    struct nccl_coll_v3 coll_v3;
    struct nccl_coll_v4 coll_v4;
    struct nccl_p2p_v1 p2p_v1;
    struct nccl_p2p_v2 p2p_v2;
    struct nccl_p2p_v4 p2p_v4;
    struct nccl_coll_api coll_api;
    struct nccl_p2p_api p2p_api;
    struct nccl_kernel_ch kernel_ch;
    struct nccl_ce_coll ce_coll;
    uint8_t room[112];
  } of;
};

union nccl_state_arguments {
  struct {
    uint64_t timer;
  } kernel_ch;
  uint8_t room[16];
};

typedef void (*nccl_logger)(int level, unsigned long flags, const char* file, int line,
                            const char* format, ...);

struct nccl_profiler_v1 { /* to 3 */
  const char* name;
  int (*init)(void** context, int* mask);
  int (*start_event)(void* context, void** handle, struct nccl_event_descriptor* event);
  int (*stop_event)(void* handle);
  int (*record_state)(void* handle, int state, union nccl_state_arguments* arguments);
  int (*finalize)(void* context);
};

struct nccl_profiler_v4 {
  const char* name;
  int (*init)(void** context, int* mask, const char* comm_name, uint64_t comm_hash, int nodes,
              int ranks, int rank, nccl_logger log);
  int (*start_event)(void* context, void** handle, struct nccl_event_descriptor* event);
  int (*stop_event)(void* handle);
  int (*record_state)(void* handle, int state, union nccl_state_arguments* arguments);
  int (*finalize)(void* context);
};

struct nccl_profiler_v5 { /* and 6 */
  const char* name;
  int (*init)(void** context, uint64_t comm_id, int* mask, const char* comm_name, int nodes,
              int ranks, int rank, nccl_logger log);
  int (*start_event)(void* context, void** handle, struct nccl_event_descriptor* event);
  int (*stop_event)(void* handle);
  int (*record_state)(void* handle, int state, union nccl_state_arguments* arguments);
  int (*finalize)(void* context);
};

#endif
