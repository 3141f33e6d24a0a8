/* What the Rust side needs of DPDK, flat: no mbuf is seen behind this header.
 *
 * Its twin is src/dpdk/shim.rs: change both. All functions are safe to call from any thread, but a
 * queue is used by one thread at a time.
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
	uint8_t link_bytes; /* of a frame that leaves: for checksums by hardware */
	uint8_t network_bytes;
	uint8_t verified; /* of a frame that arrived: the hardware found its checksums right */
	uint8_t unused;
};

/* One receive and one transmit queue with the buffers of both. */
struct micanite_queue;

/* What a port is opened with. */
struct micanite_port_options {
	const char *device;
	uint16_t queues;
	uint16_t unused;
	uint32_t descriptors;	    /* of each direction of each queue, as far as the device has them */
	uint32_t buffers_per_queue;
	uint32_t buffer_bytes;	    /* without the headroom */
	uint32_t mtu_wanted;
	uint32_t link_wait_ms;
};

/* What was got. */
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
	uint8_t unguarded; /* its driver takes memory away from under bursts, and cannot be kept from it */
	char driver[32];
};

/* Of all queues of a port. */
struct micanite_port_statistics {
	uint64_t lost_full;	 /* for want of a descriptor */
	uint64_t lost_no_buffer;
	uint64_t errors_receive;
	uint64_t gate_closed; /* times that bursts were kept out, of all ports */
};

/* Of one queue. */
struct micanite_queue_counters {
	uint64_t unsent;  /* the transmit queue was full */
	uint64_t chained; /* arrived in more than one buffer, and were dropped */
};

/* Starts the environment. 0, or what is wrong is in `error`. */
int micanite_dpdk_start(int argc, char **argv, char *error, size_t error_bytes);

/* Opens a port and starts it; fills `queues` with as many as options say. 0, or what is wrong is in
 * `error`, and nothing is left open. */
int micanite_dpdk_open(const struct micanite_port_options *options, struct micanite_port *port,
		       struct micanite_queue **queues, char *error, size_t error_bytes);

/* Stops and closes a port. Its queues and all their buffers are gone. */
void micanite_dpdk_close(const struct micanite_port *port, struct micanite_queue **queues,
			 uint16_t count);

/* UDP datagrams to a port go to a queue of the device. 0, or why not is in `error`. */
int micanite_dpdk_steer(uint16_t port, uint16_t udp_port, uint16_t queue, char *error,
			size_t error_bytes);

/* Starts a port anew whose link is down because the other end has left. By one thread at a time. */
int micanite_dpdk_revive(uint16_t port);

int micanite_dpdk_statistics(uint16_t port, struct micanite_port_statistics *statistics);

/* Makes the calling thread known, so that it gets buffers from a cache of its own. 0 if it is. */
int micanite_dpdk_register_thread(void);
void micanite_dpdk_unregister_thread(void);

/* The processor's clock, and its ticks in a second. */
uint64_t micanite_dpdk_ticks(void);
uint64_t micanite_dpdk_ticks_per_second(void);

/* Receives at most `count` frames, returns how many. Never waits. */
uint32_t micanite_dpdk_receive(struct micanite_queue *queue, struct micanite_frame *frames,
			       uint32_t count);

/* A frame of no bytes; 0 when no buffer is left. */
int micanite_dpdk_allocate(struct micanite_queue *queue, struct micanite_frame *frame);

/* Sends frames; their buffers are not the caller's any more. Never waits. */
void micanite_dpdk_send(struct micanite_queue *queue, const struct micanite_frame *frames,
			uint32_t count);

/* Gives a buffer back. */
void micanite_dpdk_free(uint64_t handle);

void micanite_dpdk_counters(const struct micanite_queue *queue,
			    struct micanite_queue_counters *counters);

/* Buffers that nobody has. Slow. */
uint32_t micanite_dpdk_buffers_free(const struct micanite_queue *queue);

#endif
