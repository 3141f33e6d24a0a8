/* C interface to DPDK for the Rust side, which never sees an mbuf.
 *
 * src/dpdk/shim.rs declares the same: change both. All functions are safe to call from any thread, but
 * only one thread at a time may use a queue.
 */
#ifndef MICANITE_DPDK_H
#define MICANITE_DPDK_H

#include <stddef.h>
#include <stdint.h>

/* A buffer and the frame in it. */
struct micanite_frame {
	uint8_t *buffer;
	uint64_t handle; /* the mbuf */
	uint32_t room_bytes;
	uint32_t start;
	uint32_t bytes;
	uint8_t link_bytes; /* of a frame to send: for checksums by hardware */
	uint8_t network_bytes;
	uint8_t verified; /* of a received frame: the hardware verified its checksums */
	uint8_t unused;
};

/* One receive and one transmit queue with the buffers of both. */
struct micanite_queue;

/* Options to open a port. */
struct micanite_port_options {
	const char *device;
	uint16_t queues;
	uint16_t unused;
	uint32_t descriptors;	    /* of each direction of each queue, if the device has as many */
	uint32_t buffers_per_queue;
	uint32_t buffer_bytes;	    /* without the headroom */
	uint32_t mtu_wanted;
	uint32_t link_wait_ms;
};

/* Properties of an open port. */
struct micanite_port {
	uint16_t port;
	uint16_t mtu;
	uint16_t descriptors_receive;
	uint16_t descriptors_transmit;
	int32_t numa_node;
	uint8_t mac[6];
	uint8_t link_up;
	uint8_t receive_checksums; /* the hardware verifies them */
	uint8_t transmit_checksums;
	uint8_t unguarded; /* its driver may unmap memory during bursts, and the gate cannot prevent it */
	char driver[32];
};

/* Counters of all queues of a port. */
struct micanite_port_statistics {
	uint64_t lost_full;	 /* no descriptor was free */
	uint64_t lost_no_buffer;
	uint64_t errors_receive;
	uint64_t gate_closed; /* how often gates were closed, of all ports */
};

/* Counters of one queue. */
struct micanite_queue_counters {
	uint64_t unsent;  /* the transmit queue was full */
	uint64_t chained; /* dropped, because they arrived in several buffers */
};

/* Starts the environment. Returns 0, or describes the problem in `error`. */
int micanite_dpdk_start(int argc, char **argv, char *error, size_t error_bytes);

/* Opens and starts a port; fills `queues` with as many as the options request. Returns 0, or describes
 * the problem in `error` and leaves nothing open. */
int micanite_dpdk_open(const struct micanite_port_options *options, struct micanite_port *port,
		       struct micanite_queue **queues, char *error, size_t error_bytes);

/* Stops and closes a port. This frees its queues and all their buffers. */
void micanite_dpdk_close(const struct micanite_port *port, struct micanite_queue **queues,
			 uint16_t count);

/* Directs UDP datagrams for a port to a queue of the device. Returns 0, or describes the problem in
 * `error`. */
int micanite_dpdk_steer(uint16_t port, uint16_t udp_port, uint16_t queue, char *error,
			size_t error_bytes);

/* Restarts a port whose link is down because the other end has left. One thread may call it at a time. */
int micanite_dpdk_revive(uint16_t port);

int micanite_dpdk_statistics(uint16_t port, struct micanite_port_statistics *statistics);

/* Registers the calling thread, so that it gets a cache of buffers. Returns 0 if it is registered. */
int micanite_dpdk_register_thread(void);
void micanite_dpdk_unregister_thread(void);

/* Clock of the processor, and its ticks per second. */
uint64_t micanite_dpdk_ticks(void);
uint64_t micanite_dpdk_ticks_per_second(void);

/* Receives at most `count` frames; returns how many. Never waits. */
uint32_t micanite_dpdk_receive(struct micanite_queue *queue, struct micanite_frame *frames,
			       uint32_t count);

/* Allocates an empty frame; returns 0 when no buffer is left. */
int micanite_dpdk_allocate(struct micanite_queue *queue, struct micanite_frame *frame);

/* Sends frames, and takes over their buffers. Never waits. */
void micanite_dpdk_send(struct micanite_queue *queue, const struct micanite_frame *frames,
			uint32_t count);

/* Gives a buffer back. */
void micanite_dpdk_free(uint64_t handle);

void micanite_dpdk_counters(const struct micanite_queue *queue,
			    struct micanite_queue_counters *counters);

/* Returns how many buffers are free. This is slow. */
uint32_t micanite_dpdk_buffers_free(const struct micanite_queue *queue);

#endif
