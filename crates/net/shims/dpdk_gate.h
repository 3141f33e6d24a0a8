/* Stops bursts while a driver unmaps a port's memory.
 *
 * When its peer leaves, memif's driver unmaps the rings in DPDK's interrupt thread, while other threads
 * may be in the middle of a burst over them. The gate of the port keeps them out meanwhile.
 */
#ifndef MICANITE_DPDK_GATE_H
#define MICANITE_DPDK_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Gate of a port. Bursts pass while it is open. */
struct micanite_gate {
	atomic_uint closed;
};

extern struct micanite_gate micanite_gates[];
/* Set if the closing thread cannot force a memory barrier on other threads: then these need fences. */
extern bool micanite_gates_need_fences;

/* Returns whether callbacks of memif's driver pass through here. Valid after the first port was opened. */
bool micanite_gates_are_closed_by_interrupts(void);

/* Returns how often gates were closed. */
uint64_t micanite_gates_closed(void);

/* A queue that has to pass the gate, from its addition to its removal. */
struct micanite_gate_pass {
	atomic_bool inside;
	uint16_t port;
	struct micanite_gate_pass *next;
};
void micanite_gate_add(struct micanite_gate_pass *pass);
void micanite_gate_remove(struct micanite_gate_pass *pass);

/* Lock of callbacks of memif's driver, and of code that stops and starts a port: the driver does not
 * expect both at the same time. */
void micanite_control_lock(void);
void micanite_control_unlock(void);

/* Closes the gate of a port, and waits for the queues inside. */
void micanite_gate_close(uint16_t port);
void micanite_gate_open(uint16_t port);

/* Enters the gate before a burst; returns whether the burst may begin. */
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

/* Leaves the gate after a burst. */
static inline void micanite_gate_leave(struct micanite_gate_pass *pass)
{
	atomic_store_explicit(&pass->inside, false, memory_order_release);
}

#endif
