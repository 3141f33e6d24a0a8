/* Shared definitions of the shim. */
#ifndef MICANITE_DPDK_QUEUE_H
#define MICANITE_DPDK_QUEUE_H

#include <rte_mempool.h>
#include <stdbool.h>

#include "dpdk.h"
#include "dpdk_gate.h"

#define MICANITE_BURST_MAX 32

struct micanite_queue {
	struct rte_mempool *pool;
	uint16_t port;
	uint16_t number;
	bool receive_checksums;
	bool transmit_checksums;
	/* The driver may unmap memory (memif), so bursts have to pass the gate. */
	bool guarded;
	struct micanite_gate_pass pass;
	struct micanite_queue_counters counters;
};

#endif
