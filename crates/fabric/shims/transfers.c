/* Transfers of an open endpoint: their start, their end. */
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stdlib.h>

#include "fabric.h"
#include "internal.h"

static void *descriptor_of(struct micanite_fabric_memory *memory)
{
	return fi_mr_desc((struct fid_mr *)memory);
}

int micanite_fabric_receive(struct micanite_fabric *fabric, uint32_t slot,
			    struct micanite_fabric_memory *registered, void *memory, size_t bytes)
{
	return -(int)fi_recv(fabric->ep, memory, bytes, descriptor_of(registered), FI_ADDR_UNSPEC,
			     &fabric->contexts[slot]);
}

int micanite_fabric_send(struct micanite_fabric *fabric, uint32_t slot, uint64_t peer,
			 struct micanite_fabric_memory *registered, const void *memory, size_t bytes)
{
	return -(int)fi_send(fabric->ep, memory, bytes, descriptor_of(registered), peer,
			     &fabric->contexts[slot]);
}

int micanite_fabric_receive_tagged(struct micanite_fabric *fabric, uint32_t slot,
				   struct micanite_fabric_memory *registered, void *memory, size_t bytes,
				   uint64_t tag)
{
	return -(int)fi_trecv(fabric->ep, memory, bytes, descriptor_of(registered), FI_ADDR_UNSPEC, tag, 0,
			      &fabric->contexts[slot]);
}

int micanite_fabric_send_tagged(struct micanite_fabric *fabric, uint32_t slot, uint64_t peer,
				struct micanite_fabric_memory *registered, const void *memory, size_t bytes,
				uint64_t tag)
{
	return -(int)fi_tsend(fabric->ep, memory, bytes, descriptor_of(registered), peer, tag,
			      &fabric->contexts[slot]);
}

int micanite_fabric_cancel(struct micanite_fabric *fabric, uint32_t slot)
{
	return -(int)fi_cancel(&fabric->ep->fid, &fabric->contexts[slot]);
}

int micanite_fabric_read(struct micanite_fabric *fabric, uint32_t slot, uint64_t peer,
			 struct micanite_fabric_memory *registered, void *memory, size_t bytes,
			 uint64_t from, uint64_t key)
{
	return -(int)fi_read(fabric->ep, memory, bytes, descriptor_of(registered), peer, from, key,
			     &fabric->contexts[slot]);
}

int micanite_fabric_read_two(struct micanite_fabric *fabric, uint32_t slot, uint64_t peer,
			     struct micanite_fabric_memory *registered, void *memory, const uint64_t from[2],
			     const size_t bytes[2], uint64_t key)
{
	struct iovec here = {.iov_base = memory, .iov_len = bytes[0] + bytes[1]};
	struct fi_rma_iov there[2] = {
		{.addr = from[0], .len = bytes[0], .key = key},
		{.addr = from[1], .len = bytes[1], .key = key},
	};
	void *descriptor = descriptor_of(registered);
	struct fi_msg_rma message = {
		.msg_iov = &here,
		.desc = &descriptor,
		.iov_count = 1,
		.addr = peer,
		.rma_iov = there,
		.rma_iov_count = 2,
		.context = &fabric->contexts[slot],
	};

	return -(int)fi_readmsg(fabric->ep, &message, FI_COMPLETION);
}

#ifdef MICANITE_FABRIC_TESTING
int micanite_fabric_write(struct micanite_fabric *fabric, uint32_t slot, uint64_t peer,
			  struct micanite_fabric_memory *registered, const void *memory, size_t bytes,
			  uint64_t to, uint64_t key)
{
	return -(int)fi_write(fabric->ep, memory, bytes, descriptor_of(registered), peer, to, key,
			      &fabric->contexts[slot]);
}
#endif

static uint32_t slot_of(const struct micanite_fabric *fabric, const void *context)
{
	uintptr_t first = (uintptr_t)fabric->contexts;
	uintptr_t place = (uintptr_t)context;
	size_t slot = (place - first) / sizeof(fabric->contexts[0]);

	if (place < first || slot >= fabric->slots_max)
		return UINT32_MAX;
	return (uint32_t)slot;
}

static int poll_error(struct micanite_fabric *fabric, struct micanite_fabric_completion *completion)
{
	struct fi_cq_err_entry entry = {0};
	ssize_t result = fi_cq_readerr(fabric->cq, &entry, 0);

	if (result == -FI_EAGAIN)
		return 0;
	if (result != 1)
		return result < 0 ? (int)result : -FI_EIO;
	completion->slot = slot_of(fabric, entry.op_context);
	/* shm reports errors as negative numbers. */
	completion->error = entry.err != 0 ? abs(entry.err) : FI_EOTHER;
	completion->bytes = 0;
	completion->peer = FI_ADDR_NOTAVAIL;
	return 1;
}

int micanite_fabric_poll(struct micanite_fabric *fabric, struct micanite_fabric_completion *completions,
			 uint32_t count_max)
{
	struct fi_cq_data_entry entries[MICANITE_FABRIC_BATCH];
	fi_addr_t peers[MICANITE_FABRIC_BATCH];
	uint32_t room = count_max < MICANITE_FABRIC_BATCH ? count_max : MICANITE_FABRIC_BATCH;
	ssize_t count = fi_cq_readfrom(fabric->cq, entries, room, peers);

	if (count == -FI_EAGAIN)
		return 0;
	if (count == -FI_EAVAIL)
		return poll_error(fabric, completions);
	for (ssize_t i = 0; i < count; i++) {
		completions[i].slot = slot_of(fabric, entries[i].op_context);
		completions[i].error = 0;
		completions[i].bytes = entries[i].len;
		completions[i].peer = peers[i];
	}
	return (int)count;
}

int micanite_fabric_may_sleep(struct micanite_fabric *fabric)
{
	struct fid *queue = &fabric->cq->fid;

	return -fi_trywait(fabric->fabric, &queue, 1);
}
