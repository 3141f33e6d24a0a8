/* Declarations of src/shim.rs. Change both together. Functions return 0 or an errno of libfabric. */
#ifndef MICANITE_FABRIC_H
#define MICANITE_FABRIC_H

#include <stddef.h>
#include <stdint.h>

#define MICANITE_FABRIC_NAME_BYTES 256
#define MICANITE_FABRIC_BATCH 16

struct micanite_fabric;
struct micanite_fabric_memory;

struct micanite_fabric_options {
	const char *provider;
	const char *node;
	const char *service; /* null: the provider chooses, or needs none */
	uint32_t transfers_max;
	uint32_t slots_max; /* those of transfers that were given up, too */
	uint32_t zero;
	uint32_t peers_max;
	uint8_t listens; /* node and service are ours, else the server's */
	uint8_t progresses; /* by a thread of the provider */
	uint8_t has_descriptor;
	uint8_t writes; /* remote writes, for tests */
};

struct micanite_fabric_facts {
	uint64_t server; /* of those that do not listen */
	uint64_t message_bytes_max;
	int32_t descriptor; /* -1: none */
	uint32_t name_bytes;
	uint32_t ranges_max; /* of a remote read */
	uint32_t zero;
	uint8_t name[MICANITE_FABRIC_NAME_BYTES]; /* of the endpoint, for others */
};

struct micanite_fabric_registration {
	struct micanite_fabric_memory *memory;
	uint64_t key;
	uint64_t base; /* added to remote offsets */
};

struct micanite_fabric_completion {
	uint64_t bytes;
	uint64_t peer; /* of a received message; UINT64_MAX: unknown */
	uint32_t slot; /* UINT32_MAX: of no transfer */
	int32_t error;
};

/* Loads libfabric; returns null, or the reason of the failure. Must be called before all others. */
const char *micanite_fabric_load(void);

uint32_t micanite_fabric_version(void);
int micanite_fabric_probe(const char *provider, uint8_t progresses);
const char *micanite_fabric_error(int error);

int micanite_fabric_open(const struct micanite_fabric_options *options, struct micanite_fabric **fabric,
			 struct micanite_fabric_facts *facts, const char **step);
/* Ends all transfers. Their memory is not touched afterwards, unless this fails. */
int micanite_fabric_shut(struct micanite_fabric *fabric);
/* Closes a fabric that was shut and has no registrations left. */
void micanite_fabric_close(struct micanite_fabric *fabric);

int micanite_fabric_insert(struct micanite_fabric *fabric, const void *name, uint64_t *peer);
int micanite_fabric_remove(struct micanite_fabric *fabric, uint64_t peer);

int micanite_fabric_register(struct micanite_fabric *fabric, void *memory, size_t bytes, int is_remote,
			     uint64_t wanted_key, struct micanite_fabric_registration *registration);
int micanite_fabric_unregister(struct micanite_fabric_memory *memory);

int micanite_fabric_receive(struct micanite_fabric *fabric, uint32_t slot,
			    struct micanite_fabric_memory *registered, void *memory, size_t bytes);
int micanite_fabric_send(struct micanite_fabric *fabric, uint32_t slot, uint64_t peer,
			 struct micanite_fabric_memory *registered, const void *memory, size_t bytes);
int micanite_fabric_receive_tagged(struct micanite_fabric *fabric, uint32_t slot,
				   struct micanite_fabric_memory *registered, void *memory, size_t bytes,
				   uint64_t tag);
int micanite_fabric_send_tagged(struct micanite_fabric *fabric, uint32_t slot, uint64_t peer,
				struct micanite_fabric_memory *registered, const void *memory, size_t bytes,
				uint64_t tag);
/* Asks for the end of a receive, which completes with FI_ECANCELED, or as if this was not called. */
int micanite_fabric_cancel(struct micanite_fabric *fabric, uint32_t slot);
int micanite_fabric_read(struct micanite_fabric *fabric, uint32_t slot, uint64_t peer,
			 struct micanite_fabric_memory *registered, void *memory, size_t bytes,
			 uint64_t from, uint64_t key);
/* Reads two ranges, one behind the other in memory. */
int micanite_fabric_read_two(struct micanite_fabric *fabric, uint32_t slot, uint64_t peer,
			     struct micanite_fabric_memory *registered, void *memory, const uint64_t from[2],
			     const size_t bytes[2], uint64_t key);
#ifdef MICANITE_FABRIC_TESTING
int micanite_fabric_write(struct micanite_fabric *fabric, uint32_t slot, uint64_t peer,
			  struct micanite_fabric_memory *registered, const void *memory, size_t bytes,
			  uint64_t to, uint64_t key);
#endif

/* Fills at most MICANITE_FABRIC_BATCH completions; returns their number, or a negative errno. */
int micanite_fabric_poll(struct micanite_fabric *fabric, struct micanite_fabric_completion *completions,
			 uint32_t count_max);
/* Returns 0 if a thread may sleep on the descriptor without missing a completion. */
int micanite_fabric_may_sleep(struct micanite_fabric *fabric);

#endif
