/* Bursts: the hot path. */
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>

#include "dpdk_queue.h"

/* Returns whether hardware verified the checksums of UDP and, if there is one, of the IP header. */
static inline uint8_t verified(const struct rte_mbuf *mbuf)
{
	uint64_t udp = mbuf->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;
	uint64_t ip = mbuf->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK;

	return udp == RTE_MBUF_F_RX_L4_CKSUM_GOOD &&
	       (ip == RTE_MBUF_F_RX_IP_CKSUM_GOOD || RTE_ETH_IS_IPV6_HDR(mbuf->packet_type));
}

static inline void describe(struct rte_mbuf *mbuf, struct micanite_frame *frame)
{
	frame->buffer = mbuf->buf_addr;
	frame->handle = (uintptr_t)mbuf;
	frame->room_bytes = mbuf->buf_len;
	frame->start = mbuf->data_off;
	frame->bytes = mbuf->data_len;
	frame->link_bytes = 0;
	frame->network_bytes = 0;
	frame->verified = 0;
}

uint32_t micanite_dpdk_receive(struct micanite_queue *queue, struct micanite_frame *frames,
			       uint32_t count)
{
	struct rte_mbuf *mbufs[MICANITE_BURST_MAX];
	uint32_t taken = 0;
	uint16_t received, i;

	count = RTE_MIN(count, (uint32_t)MICANITE_BURST_MAX);
	if (queue->guarded && !micanite_gate_enter(&queue->pass))
		return 0;
	received = rte_eth_rx_burst(queue->port, queue->number, mbufs, (uint16_t)count);
	if (queue->guarded)
		micanite_gate_leave(&queue->pass);
	for (i = 0; i < received; i++)
		rte_prefetch0(rte_pktmbuf_mtod(mbufs[i], void *));
	for (i = 0; i < received; i++) {
		if (unlikely(mbufs[i]->nb_segs != 1)) {
			queue->counters.chained++;
			rte_pktmbuf_free(mbufs[i]);
			continue;
		}
		describe(mbufs[i], &frames[taken]);
		if (queue->receive_checksums)
			frames[taken].verified = verified(mbufs[i]);
		taken++;
	}
	return taken;
}

int micanite_dpdk_allocate(struct micanite_queue *queue, struct micanite_frame *frame)
{
	struct rte_mbuf *mbuf = rte_pktmbuf_alloc(queue->pool);

	if (unlikely(mbuf == NULL))
		return 0;
	describe(mbuf, frame);
	return 1;
}

/* Sets the mbuf of a frame to send. */
static inline struct rte_mbuf *as_mbuf(const struct micanite_queue *queue,
				       const struct micanite_frame *frame)
{
	struct rte_mbuf *mbuf = (struct rte_mbuf *)(uintptr_t)frame->handle;

	mbuf->data_off = (uint16_t)frame->start;
	mbuf->data_len = (uint16_t)frame->bytes;
	mbuf->pkt_len = frame->bytes;
	mbuf->ol_flags = 0;
	if (queue->transmit_checksums && frame->network_bytes != 0) {
		mbuf->l2_len = frame->link_bytes;
		mbuf->l3_len = frame->network_bytes;
		mbuf->ol_flags = RTE_MBUF_F_TX_UDP_CKSUM |
				 (frame->network_bytes == 20 ? RTE_MBUF_F_TX_IPV4 :
							       RTE_MBUF_F_TX_IPV6);
	}
	return mbuf;
}

/* Returns how many mbufs the driver accepts for sending. Drops the first one that it cannot send. */
static uint16_t transmit(struct micanite_queue *queue, struct rte_mbuf **mbufs, uint16_t count)
{
	uint16_t ready = count, sent;

	if (queue->transmit_checksums)
		ready = rte_eth_tx_prepare(queue->port, queue->number, mbufs, count);
	sent = rte_eth_tx_burst(queue->port, queue->number, mbufs, ready);
	if (unlikely(sent == ready && ready < count)) {
		rte_pktmbuf_free(mbufs[sent++]);
		queue->counters.unsent++;
	}
	return sent;
}

void micanite_dpdk_send(struct micanite_queue *queue, const struct micanite_frame *frames,
			uint32_t count)
{
	struct rte_mbuf *mbufs[MICANITE_BURST_MAX];
	uint32_t attempts = 3;
	uint16_t total, sent = 0;

	total = (uint16_t)RTE_MIN(count, (uint32_t)MICANITE_BURST_MAX);
	for (uint16_t i = 0; i < total; i++)
		mbufs[i] = as_mbuf(queue, &frames[i]);
	/* A driver may accept only some, because it frees sent mbufs only during this call. */
	if (!queue->guarded || micanite_gate_enter(&queue->pass)) {
		while (sent < total && attempts-- > 0)
			sent += transmit(queue, mbufs + sent, total - sent);
		if (queue->guarded)
			micanite_gate_leave(&queue->pass);
	}
	if (unlikely(sent < total)) {
		queue->counters.unsent += total - sent;
		rte_pktmbuf_free_bulk(mbufs + sent, total - sent);
	}
}

void micanite_dpdk_free(uint64_t handle)
{
	rte_pktmbuf_free((struct rte_mbuf *)(uintptr_t)handle);
}

void micanite_dpdk_counters(const struct micanite_queue *queue,
			    struct micanite_queue_counters *counters)
{
	*counters = queue->counters;
}

uint32_t micanite_dpdk_buffers_free(const struct micanite_queue *queue)
{
	return rte_mempool_avail_count(queue->pool);
}

uint64_t micanite_dpdk_ticks(void)
{
	return rte_rdtsc();
}

uint64_t micanite_dpdk_ticks_per_second(void)
{
	return rte_get_tsc_hz();
}
