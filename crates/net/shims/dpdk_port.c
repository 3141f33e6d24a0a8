/* The environment and ports: the cold path. */
#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "dpdk_queue.h"

#define MEMPOOL_CACHE 256
#define MEMIF "net_memif"

/* Ports that are open in this process. */
static bool is_open[RTE_MAX_ETHPORTS];

struct message {
	char *text;
	size_t bytes;
};

/* Writes an error message; returns -1. */
__attribute__((format(printf, 2, 3))) static int fail(struct message error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(error.text, error.bytes, format, arguments);
	va_end(arguments);
	return -1;
}

/* Drivers return -1 after they logged the reason: a memif client without a server. */
static const char *reason(int result)
{
	return result == -1 ? "its driver logged the reason above" : rte_strerror(-result);
}

int micanite_dpdk_start(int argc, char **argv, char *error, size_t error_bytes)
{
	struct message message = {error, error_bytes};

	/* By default DPDK logs to standard output and the system's log. */
	rte_openlog_stream(stderr);
	if (rte_eal_init(argc, argv) < 0)
		return fail(message, "DPDK's environment does not start: %s", rte_strerror(rte_errno));
	return 0;
}

/* Finds the port of a probed device. */
static int find_port(const char *device, uint16_t *port)
{
	char name[RTE_DEV_NAME_MAX_LEN];
	struct rte_eth_dev_info info;
	uint16_t candidate;

	snprintf(name, sizeof(name), "%s", device);
	name[strcspn(name, ",")] = '\0';
	if (rte_eth_dev_get_port_by_name(name, port) == 0)
		return 0;
	RTE_ETH_FOREACH_DEV(candidate)
	{
		if (rte_eth_dev_info_get(candidate, &info) == 0 && info.device != NULL &&
		    strcmp(rte_dev_name(info.device), name) == 0) {
			*port = candidate;
			return 0;
		}
	}
	return -1;
}

static void describe(const struct rte_eth_dev_info *info, struct micanite_port *port)
{
	snprintf(port->driver, sizeof(port->driver), "%s", info->driver_name);
	port->numa_node = rte_eth_dev_socket_id(port->port);
	port->unguarded = strcmp(port->driver, MEMIF) == 0 &&
			  !micanite_gates_are_closed_by_interrupts();
}

/* Configures the requested queues, with the checksum offloads of the device. */
static int configure(const struct micanite_port_options *options,
		     const struct rte_eth_dev_info *info, struct micanite_port *port,
		     struct message error)
{
	const uint64_t receive = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
	struct rte_eth_conf conf;
	int result;

	memset(&conf, 0, sizeof(conf));
	conf.rxmode.mq_mode = RTE_ETH_MQ_RX_NONE;
	conf.txmode.mq_mode = RTE_ETH_MQ_TX_NONE;
	if (options->queues > info->max_rx_queues || options->queues > info->max_tx_queues)
		return fail(error,
			    "it has %u queue(s), and every thread needs one: %u. Use fewer threads, or "
			    "give it more (net_af_packet: ,qpairs=N; net_af_xdp: ,queue_count=N)",
			    RTE_MIN(info->max_rx_queues, info->max_tx_queues), options->queues);
	port->receive_checksums = (info->rx_offload_capa & receive) == receive;
	if (port->receive_checksums)
		conf.rxmode.offloads |= receive;
	port->transmit_checksums = (info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_UDP_CKSUM) != 0;
	if (port->transmit_checksums)
		conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
	/* All frames of a transmit queue come from that queue's pool. */
	conf.txmode.offloads |= info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
	result = rte_eth_dev_configure(port->port, options->queues, options->queues, &conf);
	if (result != 0)
		return fail(error, "it refuses %u queues: %s", options->queues,
			    rte_strerror(-result));
	return 0;
}

/* Sets a longer MTU if longer frames are requested, as far as the device allows. */
static void set_mtu(const struct micanite_port_options *options,
		    const struct rte_eth_dev_info *info, struct micanite_port *port)
{
	/* Limit of a buffer, less the Ethernet header, two tags and the checksum. */
	uint32_t room = options->buffer_bytes - RTE_ETHER_HDR_LEN - RTE_ETHER_CRC_LEN - 8;
	uint32_t wanted = RTE_MIN(RTE_MIN(options->mtu_wanted, room), (uint32_t)info->max_mtu);

	rte_eth_dev_get_mtu(port->port, &port->mtu);
	if (wanted > port->mtu && rte_eth_dev_set_mtu(port->port, (uint16_t)wanted) == 0)
		port->mtu = (uint16_t)wanted;
	port->mtu = (uint16_t)RTE_MIN(port->mtu, room);
}

static struct micanite_queue *open_queue(const struct micanite_port_options *options,
					 const struct rte_eth_dev_info *info,
					 const struct micanite_port *port, uint16_t number,
					 struct message error)
{
	struct rte_eth_rxconf receive = info->default_rxconf;
	struct rte_eth_txconf transmit = info->default_txconf;
	struct micanite_queue *queue;
	char name[RTE_MEMPOOL_NAMESIZE];
	int result;

	queue = rte_zmalloc_socket("micanite", sizeof(*queue), RTE_CACHE_LINE_SIZE, port->numa_node);
	if (queue == NULL) {
		fail(error, "no memory for queue %u", number);
		return NULL;
	}
	queue->port = port->port;
	queue->number = number;
	queue->receive_checksums = port->receive_checksums;
	queue->transmit_checksums = port->transmit_checksums;
	queue->guarded = strcmp(port->driver, MEMIF) == 0;
	queue->pass.port = port->port;
	snprintf(name, sizeof(name), "micanite_%u_%u", port->port, number);
	queue->pool = rte_pktmbuf_pool_create(name, options->buffers_per_queue, MEMPOOL_CACHE, 0,
					      (uint16_t)(options->buffer_bytes + RTE_PKTMBUF_HEADROOM),
					      port->numa_node);
	if (queue->pool == NULL) {
		fail(error,
		     "no memory for %u buffers of %u bytes of queue %u: %s; reserve more huge pages, or "
		     "give DPDK more with --bypass-dpdk-args \"-m MEGABYTES\"",
		     options->buffers_per_queue, options->buffer_bytes, number,
		     rte_strerror(rte_errno));
		rte_free(queue);
		return NULL;
	}
	result = rte_eth_rx_queue_setup(port->port, number, port->descriptors_receive,
					port->numa_node, &receive, queue->pool);
	if (result == 0)
		result = rte_eth_tx_queue_setup(port->port, number, port->descriptors_transmit,
						port->numa_node, &transmit);
	if (result != 0) {
		fail(error, "queue %u: %s", number, rte_strerror(-result));
		rte_mempool_free(queue->pool);
		rte_free(queue);
		return NULL;
	}
	if (queue->guarded)
		micanite_gate_add(&queue->pass);
	return queue;
}

static void wait_for_link(uint32_t wait_ms, struct micanite_port *port)
{
	struct rte_eth_link link = {0};

	for (uint32_t waited_ms = 0;; waited_ms += 10) {
		if (rte_eth_link_get_nowait(port->port, &link) == 0 &&
		    link.link_status == RTE_ETH_LINK_UP) {
			port->link_up = 1;
			return;
		}
		if (waited_ms >= wait_ms)
			return;
		rte_delay_us_sleep(10 * 1000);
	}
}

static int start(const struct micanite_port_options *options, struct micanite_port *port,
		 struct micanite_queue **queues, struct message error)
{
	struct rte_eth_dev_info info;
	struct rte_ether_addr mac;
	int result;

	result = rte_eth_dev_info_get(port->port, &info);
	if (result != 0)
		return fail(error, "it cannot be queried: %s", rte_strerror(-result));
	describe(&info, port);
	if (configure(options, &info, port, error) != 0)
		return -1;
	port->descriptors_receive = (uint16_t)options->descriptors;
	port->descriptors_transmit = (uint16_t)options->descriptors;
	result = rte_eth_dev_adjust_nb_rx_tx_desc(port->port, &port->descriptors_receive,
						  &port->descriptors_transmit);
	if (result != 0)
		return fail(error, "%u descriptors: %s", options->descriptors,
			    rte_strerror(-result));
	set_mtu(options, &info, port);
	for (uint16_t i = 0; i < options->queues; i++) {
		queues[i] = open_queue(options, &info, port, i, error);
		if (queues[i] == NULL)
			return -1;
	}
	result = rte_eth_dev_start(port->port);
	if (result != 0)
		return fail(error, "it does not start: %s", reason(result));
	/* Not every device supports or needs it. */
	(void)rte_eth_promiscuous_disable(port->port);
	/* IPv6 neighbour solicitations go to a group, which the device's filter does not know. */
	(void)rte_eth_allmulticast_enable(port->port);
	if (rte_eth_macaddr_get(port->port, &mac) == 0)
		memcpy(port->mac, mac.addr_bytes, sizeof(port->mac));
	wait_for_link(options->link_wait_ms, port);
	return 0;
}

int micanite_dpdk_open(const struct micanite_port_options *options, struct micanite_port *port,
		       struct micanite_queue **queues, char *error, size_t error_bytes)
{
	struct message message = {error, error_bytes};
	int result;

	memset(port, 0, sizeof(*port));
	memset(queues, 0, options->queues * sizeof(*queues));
	/* A device that the environment was started with has been probed already. */
	if (find_port(options->device, &port->port) != 0) {
		result = rte_dev_probe(options->device);
		if (result != 0)
			return fail(message, "DPDK finds no driver or no device for it: %s",
				    reason(result));
		if (find_port(options->device, &port->port) != 0)
			return fail(message, "it is not an Ethernet device of DPDK");
	}
	if (is_open[port->port])
		return fail(message, "it is open already");
	is_open[port->port] = true;
	if (start(options, port, queues, message) != 0) {
		micanite_dpdk_close(port, queues, options->queues);
		return -1;
	}
	return 0;
}

void micanite_dpdk_close(const struct micanite_port *port, struct micanite_queue **queues,
			 uint16_t count)
{
	struct rte_eth_dev_info info;
	struct rte_device *device = NULL;

	if (rte_eth_dev_info_get(port->port, &info) == 0)
		device = info.device;
	micanite_control_lock();
	(void)rte_eth_dev_stop(port->port);
	(void)rte_eth_dev_close(port->port);
	micanite_control_unlock();
	if (device != NULL)
		(void)rte_dev_remove(device);
	for (uint16_t i = 0; i < count; i++) {
		if (queues[i] == NULL)
			continue;
		if (queues[i]->guarded)
			micanite_gate_remove(&queues[i]->pass);
		rte_mempool_free(queues[i]->pool);
		rte_free(queues[i]);
		queues[i] = NULL;
	}
	is_open[port->port] = false;
}

/* Requires the control lock. */
static int revive(uint16_t port)
{
	/* Gates that are closed because their port does not start. */
	static bool closed[RTE_MAX_ETHPORTS];
	struct rte_eth_link link = {0};

	if (rte_eth_link_get_nowait(port, &link) == 0 && link.link_status == RTE_ETH_LINK_UP)
		return 0;
	if (!closed[port])
		micanite_gate_close(port);
	closed[port] = true;
	(void)rte_eth_dev_stop(port);
	if (rte_eth_dev_start(port) != 0)
		return -1;
	micanite_gate_open(port);
	closed[port] = false;
	return 0;
}

int micanite_dpdk_revive(uint16_t port)
{
	int result;

	micanite_control_lock();
	result = revive(port);
	micanite_control_unlock();
	return result;
}

int micanite_dpdk_steer(uint16_t port, uint16_t udp_port, uint16_t queue, char *error,
			size_t error_bytes)
{
	const enum rte_flow_item_type networks[] = {RTE_FLOW_ITEM_TYPE_IPV4,
						    RTE_FLOW_ITEM_TYPE_IPV6};
	struct message message = {error, error_bytes};
	struct rte_flow_attr attributes = {.ingress = 1};
	struct rte_flow_item_udp udp = {.hdr.dst_port = rte_cpu_to_be_16(udp_port)};
	struct rte_flow_item_udp mask = {.hdr.dst_port = RTE_BE16(0xffff)};
	struct rte_flow_action_queue target = {.index = queue};
	struct rte_flow_action actions[] = {
		{.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &target},
		{.type = RTE_FLOW_ACTION_TYPE_END},
	};

	for (size_t i = 0; i < RTE_DIM(networks); i++) {
		struct rte_flow_item pattern[] = {
			{.type = RTE_FLOW_ITEM_TYPE_ETH},
			{.type = networks[i]},
			{.type = RTE_FLOW_ITEM_TYPE_UDP, .spec = &udp, .mask = &mask},
			{.type = RTE_FLOW_ITEM_TYPE_END},
		};
		struct rte_flow_error why = {0};

		if (rte_flow_validate(port, &attributes, pattern, actions, &why) != 0 ||
		    rte_flow_create(port, &attributes, pattern, actions, &why) == NULL)
			return fail(message, "%s",
				    why.message != NULL ? why.message : rte_strerror(rte_errno));
	}
	return 0;
}

int micanite_dpdk_statistics(uint16_t port, struct micanite_port_statistics *statistics)
{
	struct rte_eth_stats stats;

	if (rte_eth_stats_get(port, &stats) != 0)
		return -1;
	statistics->lost_full = stats.imissed;
	statistics->lost_no_buffer = stats.rx_nombuf;
	statistics->errors_receive = stats.ierrors;
	statistics->gate_closed = micanite_gates_closed();
	return 0;
}

int micanite_dpdk_register_thread(void)
{
	if (rte_lcore_id() != LCORE_ID_ANY)
		return 0;
	return rte_thread_register();
}

void micanite_dpdk_unregister_thread(void)
{
	rte_thread_unregister();
}
