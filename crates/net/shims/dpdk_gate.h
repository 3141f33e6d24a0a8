/* Keeps bursts apart from what takes a port's memory away.
 *
 * memif's driver unmaps the rings in DPDK's interrupt thread when its peer leaves, while other
 * threads may be in the middle of a burst over them. The gate of a port keeps them out meanwhile.
 */
#ifndef MICANITE_DPDK_GATE_H
#define MICANITE_DPDK_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* One of a port; bursts pass while nobody has closed it. */
struct micanite_gate {
	atomic_uint closed;
};

extern struct micanite_gate micanite_gates[];
/* Whether who closes a gate cannot make other threads see it: then they have to look themselves. */
extern bool micanite_gates_need_fences;

/* Whether callbacks of memif's driver pass through here: known after the first port was opened. */
bool micanite_gates_are_closed_by_interrupts(void);

/* How often gates were closed. */
uint64_t micanite_gates_closed(void);

/* A queue that passes the gate, from now on and no longer. */
struct micanite_gate_pass {
	atomic_bool inside;
	uint16_t port;
	struct micanite_gate_pass *next;
};
void micanite_gate_add(struct micanite_gate_pass *pass);
void micanite_gate_remove(struct micanite_gate_pass *pass);

/* Held by callbacks of memif's driver, and by whoever stops and starts a port: the driver does not
 * expect both at once. */
void micanite_control_lock(void);
void micanite_control_unlock(void);

/* Keeps all queues of a port outside, and waits for those that are inside. */
void micanite_gate_close(uint16_t port);
void micanite_gate_open(uint16_t port);

/* Before a burst: whether it may begin. */
static inline bool micanite_gate_enter(struct micanite_gate_pass *pass)
{
	atomic_store_explicit(&pass->inside, true, memory_order_relaxed);
	if (micanite_gates_need_fences)
		atomic_thread_fence(memory_order_seq_cst);
	else
		atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(atomic_load_explicit(&micanite_gates[pass->port].closed,
						  memory_order_acquire) == 0,
			     1))
		return true;
	atomic_store_explicit(&pass->inside, false, memory_order_release);
	return false;
}

/* After it. */
static inline void micanite_gate_leave(struct micanite_gate_pass *pass)
{
	atomic_store_explicit(&pass->inside, false, memory_order_release);
}

#endif
