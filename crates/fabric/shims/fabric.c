/*
 * libfabric's API is inline functions over tables of function pointers: this compiles them. The others are
 * looked up when a fabric is first asked for. To link them would load all providers into every process, and
 * the libraries of some set signal handlers and measure the clock for 0.2 s.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric.h"
#include "internal.h"

#define API FI_VERSION(1, 17)
#define LIBRARY "libfabric.so.1"
#define PEERS_AT_FIRST 1024
#define MR_MODES (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)

static struct {
	__typeof__(&fi_version) version;
	__typeof__(&fi_strerror) strerror;
	__typeof__(&fi_getinfo) getinfo;
	__typeof__(&fi_dupinfo) dupinfo;
	__typeof__(&fi_freeinfo) freeinfo;
	__typeof__(&fi_fabric) fabric;
} library;
static const struct {
	const char *name;
	void *place;
} functions[] = {
	{"fi_version", &library.version},   {"fi_strerror", &library.strerror},
	{"fi_getinfo", &library.getinfo},   {"fi_dupinfo", &library.dupinfo},
	{"fi_freeinfo", &library.freeinfo}, {"fi_fabric", &library.fabric},
};
static pthread_once_t loaded = PTHREAD_ONCE_INIT;
static char load_error[256];

static void load(void)
{
	struct sigaction before[NSIG] = {0};
	struct fi_info *info = NULL;
	void *handle;

	for (int number = 1; number < NSIG; number++)
		sigaction(number, NULL, &before[number]);
	handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; handle != NULL && i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *function = dlsym(handle, functions[i].name);

		memcpy(functions[i].place, &function, sizeof(function));
		if (function == NULL)
			snprintf(load_error, sizeof(load_error), "%s has no %s", LIBRARY, functions[i].name);
	}
	if (handle == NULL)
		snprintf(load_error, sizeof(load_error), "%s", dlerror());
	/* The first call initializes the providers, some of which set handlers. Its result does not matter. */
	if (load_error[0] == '\0' && library.getinfo(API, NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &info) == 0)
		library.freeinfo(info);
	/* Restores the program's handlers. A signal whose handler cannot be read cannot be set, either. */
	for (int number = 1; number < NSIG; number++)
		sigaction(number, &before[number], NULL);
}

const char *micanite_fabric_load(void)
{
	pthread_once(&loaded, load);
	return load_error[0] != '\0' ? load_error : NULL;
}

uint32_t micanite_fabric_version(void)
{
	return library.version();
}

const char *micanite_fabric_error(int error)
{
	return library.strerror(error);
}

static struct fi_info *hints_for(const char *provider, int progresses, int writes)
{
	struct fi_info *hints = library.dupinfo(NULL);

	if (hints == NULL)
		return NULL;
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_REMOTE_READ | FI_SOURCE;
	if (writes)
		hints->caps |= FI_WRITE;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = MR_MODES;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->domain_attr->av_type = FI_AV_TABLE;
	if (progresses)
		hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
	hints->fabric_attr->prov_name = strdup(provider);
	if (hints->fabric_attr->prov_name == NULL) {
		library.freeinfo(hints);
		return NULL;
	}
	return hints;
}

int micanite_fabric_probe(const char *provider, uint8_t progresses)
{
	struct fi_info *hints = hints_for(provider, progresses, 0);
	struct fi_info *info = NULL;
	int result;

	if (hints == NULL)
		return FI_ENOMEM;
	result = library.getinfo(API, NULL, NULL, 0, hints, &info);
	library.freeinfo(hints);
	if (info != NULL)
		library.freeinfo(info);
	return -result;
}

static int find(const struct micanite_fabric_options *options, struct micanite_fabric *fabric)
{
	struct fi_info *hints = hints_for(options->provider, options->progresses, options->writes);
	int result;

	if (hints == NULL)
		return -FI_ENOMEM;
	result = library.getinfo(API, options->node, options->service, options->listens ? FI_SOURCE : 0, hints,
			    &fabric->info);
	library.freeinfo(hints);
	return result;
}

static int open_queue(const struct micanite_fabric_options *options, struct micanite_fabric *fabric,
		      struct micanite_fabric_facts *facts)
{
	struct fi_cq_attr attributes = {
		/* A transfer that failed may take a second entry. */
		.size = 2 * (size_t)options->transfers_max,
		.format = FI_CQ_FORMAT_DATA,
		.wait_obj = options->has_descriptor ? FI_WAIT_FD : FI_WAIT_NONE,
	};
	int result = fi_cq_open(fabric->domain, &attributes, &fabric->cq, NULL);

	if (result != 0 || !options->has_descriptor)
		return result;
	return fi_control(&fabric->cq->fid, FI_GETWAIT, &facts->descriptor);
}

static int open_addresses(const struct micanite_fabric_options *options, struct micanite_fabric *fabric)
{
	/* Providers allocate for so many at once, and grow, except those whose own limit it is. */
	struct fi_av_attr attributes = {
		.type = FI_AV_TABLE,
		.count = options->peers_max < PEERS_AT_FIRST ? options->peers_max : PEERS_AT_FIRST,
	};

	return fi_av_open(fabric->domain, &attributes, &fabric->av, NULL);
}

static int enable(struct micanite_fabric *fabric)
{
	int result = fi_ep_bind(fabric->ep, &fabric->av->fid, 0);

	if (result == 0)
		result = fi_ep_bind(fabric->ep, &fabric->cq->fid, FI_TRANSMIT | FI_RECV);
	return result != 0 ? result : fi_enable(fabric->ep);
}

static int describe(const struct micanite_fabric_options *options, struct micanite_fabric *fabric,
		    struct micanite_fabric_facts *facts)
{
	size_t bytes = sizeof(facts->name);
	int result = fi_getname(&fabric->ep->fid, facts->name, &bytes);

	facts->name_bytes = (uint32_t)bytes;
	facts->message_bytes_max = fabric->info->ep_attr->max_msg_size;
	facts->ranges_max = (uint32_t)fabric->info->tx_attr->rma_iov_limit;
	if (result != 0 || options->listens)
		return result;
	if (fabric->info->dest_addr == NULL)
		return -FI_EADDRNOTAVAIL;
	return -micanite_fabric_insert(fabric, fabric->info->dest_addr, &facts->server);
}

int micanite_fabric_open(const struct micanite_fabric_options *options, struct micanite_fabric **opened,
			 struct micanite_fabric_facts *facts, const char **step)
{
	struct micanite_fabric *fabric;
	int result;

	fabric = calloc(1, sizeof(*fabric) + options->slots_max * sizeof(fabric->contexts[0]));
	if (fabric == NULL)
		return FI_ENOMEM;
	fabric->slots_max = options->slots_max;
	facts->descriptor = -1;
	facts->server = FI_ADDR_NOTAVAIL;
	*step = "find the address";
	result = find(options, fabric);
	if (result == 0) {
		*step = "open the fabric";
		result = library.fabric(fabric->info->fabric_attr, &fabric->fabric, NULL);
	}
	if (result == 0) {
		*step = "open the domain";
		result = fi_domain(fabric->fabric, fabric->info, &fabric->domain, NULL);
	}
	if (result == 0) {
		*step = "open the completion queue";
		result = open_queue(options, fabric, facts);
	}
	if (result == 0) {
		*step = "open the address vector";
		result = open_addresses(options, fabric);
	}
	if (result == 0) {
		*step = "open the endpoint";
		result = fi_endpoint(fabric->domain, fabric->info, &fabric->ep, NULL);
	}
	if (result == 0)
		result = enable(fabric);
	if (result == 0) {
		*step = "learn the endpoint's address";
		result = describe(options, fabric, facts);
	}
	if (result != 0) {
		if (micanite_fabric_shut(fabric) == 0)
			micanite_fabric_close(fabric);
		return -result;
	}
	*opened = fabric;
	return 0;
}

int micanite_fabric_shut(struct micanite_fabric *fabric)
{
	int result = fabric->ep != NULL ? fi_close(&fabric->ep->fid) : 0;

	if (result != 0)
		return -result;
	if (fabric->av != NULL)
		fi_close(&fabric->av->fid);
	if (fabric->cq != NULL)
		fi_close(&fabric->cq->fid);
	fabric->ep = NULL;
	fabric->av = NULL;
	fabric->cq = NULL;
	return 0;
}

void micanite_fabric_close(struct micanite_fabric *fabric)
{
	if (fabric->domain != NULL)
		fi_close(&fabric->domain->fid);
	if (fabric->fabric != NULL)
		fi_close(&fabric->fabric->fid);
	if (fabric->info != NULL)
		library.freeinfo(fabric->info);
	free(fabric);
}

int micanite_fabric_insert(struct micanite_fabric *fabric, const void *name, uint64_t *peer)
{
	int inserted = fi_av_insert(fabric->av, name, 1, peer, 0, NULL);

	if (inserted < 0)
		return -inserted;
	return inserted == 1 ? 0 : FI_EADDRNOTAVAIL;
}

int micanite_fabric_remove(struct micanite_fabric *fabric, uint64_t peer)
{
	return -fi_av_remove(fabric->av, &peer, 1, 0);
}

int micanite_fabric_register(struct micanite_fabric *fabric, void *memory, size_t bytes, int is_remote,
			     uint64_t wanted_key, struct micanite_fabric_registration *registration)
{
	uint64_t access = is_remote ? FI_REMOTE_READ : FI_SEND | FI_RECV | FI_READ | FI_WRITE;
	struct fid_mr *mr;
	int result = fi_mr_reg(fabric->domain, memory, bytes, access, 0, wanted_key, 0, &mr, NULL);

	if (result != 0)
		return -result;
	registration->memory = (struct micanite_fabric_memory *)mr;
	registration->key = fi_mr_key(mr);
	registration->base = 0;
	if (fabric->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
		registration->base = (uintptr_t)memory;
	return 0;
}

int micanite_fabric_unregister(struct micanite_fabric_memory *memory)
{
	return -fi_close(&((struct fid_mr *)memory)->fid);
}
