/* Replaces hardware on a veth pair, attached with tc:
 *
 *   direct  on the clients' side, outgoing: replaces a NIC's flow rules. A datagram for port BASE + i arrives
 *           on receive queue i of the other end.
 *   pad     on the clients' side, outgoing: pads Ethernet frames to ROOM bytes with zeros, so that a received
 *           frame has room for a reply, as in the buffers of a NIC. veth's buffers are only as long as the
 *           packet.
 *   lose    in either direction: drops UDP datagrams at random, LOSS of 65,536.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#ifndef BASE
#define BASE 11300
#endif
#ifndef QUEUES
#define QUEUES 2
#endif
#ifndef ROOM
#define ROOM 1514
#endif
#ifndef LOSS
#define LOSS 0
#endif

/* Length of the headers of Ethernet, IPv6 and UDP. */
#define HEADER_BYTES 62

/* Returns the UDP header of a plain datagram, or NULL. Pulls the headers into the linear part first: of a
 * packet that a packet socket sends from its ring, only the Ethernet header is there. */
static __always_inline struct udphdr *udp_of(struct __sk_buff *skb)
{
	bpf_skb_pull_data(skb, skb->len < HEADER_BYTES ? skb->len : HEADER_BYTES);
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ethhdr *ethernet = data;

	if (data + sizeof(*ethernet) > end)
		return 0;
	void *network = ethernet + 1, *transport;
	if (ethernet->h_proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = network;
		if ((void *)(ip + 1) > end || ip->protocol != IPPROTO_UDP || ip->ihl != 5)
			return 0;
		transport = ip + 1;
	} else if (ethernet->h_proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = network;
		if ((void *)(ip + 1) > end || ip->nexthdr != IPPROTO_UDP)
			return 0;
		transport = ip + 1;
	} else {
		return 0;
	}
	struct udphdr *udp = transport;
	return (void *)(udp + 1) > end ? 0 : udp;
}

SEC("direct")
int direct_datagrams(struct __sk_buff *skb)
{
	struct udphdr *udp = udp_of(skb);

	if (udp) {
		__u32 queue = (__u32)bpf_ntohs(udp->dest) - BASE;
		if (queue < QUEUES)
			skb->queue_mapping = queue + 1;
	}
	return TC_ACT_OK;
}

SEC("pad")
int pad_datagrams(struct __sk_buff *skb)
{
	if (udp_of(skb) && skb->len < ROOM)
		bpf_skb_change_tail(skb, ROOM, 0);
	return TC_ACT_OK;
}

SEC("lose")
int lose_datagrams(struct __sk_buff *skb)
{
	if (udp_of(skb) && (bpf_get_prandom_u32() & 0xffff) < LOSS)
		return TC_ACT_SHOT;
	return TC_ACT_OK;
}

char licensed_as[] SEC("license") = "Dual MIT/GPL";
