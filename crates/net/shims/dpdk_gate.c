/* The gate, and the interception that lets DPDK's interrupt thread close it. */
#define _GNU_SOURCE
/* For the descriptor of an interrupt handle: experimental in DPDK 22.11, and present ever since. */
#define ALLOW_EXPERIMENTAL_API
#include "dpdk_gate.h"

#include <dlfcn.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct micanite_gate micanite_gates[RTE_MAX_ETHPORTS];
bool micanite_gates_need_fences = true;

static atomic_ulong times_closed;

uint64_t micanite_gates_closed(void)
{
	return atomic_load_explicit(&times_closed, memory_order_relaxed);
}

static pthread_mutex_t passes_lock = PTHREAD_MUTEX_INITIALIZER;
static struct micanite_gate_pass *passes;

static int membarrier(int command)
{
	return (int)syscall(SYS_membarrier, command, 0, 0);
}

void micanite_gate_add(struct micanite_gate_pass *pass)
{
	pthread_mutex_lock(&passes_lock);
	if (passes == NULL)
		micanite_gates_need_fences =
			membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) != 0;
	pass->next = passes;
	passes = pass;
	pthread_mutex_unlock(&passes_lock);
}

void micanite_gate_remove(struct micanite_gate_pass *pass)
{
	struct micanite_gate_pass **at;

	pthread_mutex_lock(&passes_lock);
	for (at = &passes; *at != NULL; at = &(*at)->next) {
		if (*at == pass) {
			*at = pass->next;
			break;
		}
	}
	pthread_mutex_unlock(&passes_lock);
}

static void wait_until_outside(const struct micanite_gate_pass *pass)
{
	/* The thread may have lost its CPU in the middle of a burst. */
	for (unsigned int round = 0; atomic_load_explicit(&pass->inside, memory_order_acquire);
	     round++)
		if (round > 100)
			usleep(20);
}

/* Closes the gates of one port, or of all. */
static void close_gates(int port)
{
	struct micanite_gate_pass *pass;

	atomic_fetch_add_explicit(&times_closed, 1, memory_order_relaxed);
	for (int i = 0; i < RTE_MAX_ETHPORTS; i++)
		if (port < 0 || i == port)
			atomic_fetch_add(&micanite_gates[i].closed, 1);
	atomic_thread_fence(memory_order_seq_cst);
	if (!micanite_gates_need_fences)
		(void)membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	pthread_mutex_lock(&passes_lock);
	for (pass = passes; pass != NULL; pass = pass->next)
		if (port < 0 || pass->port == port)
			wait_until_outside(pass);
	pthread_mutex_unlock(&passes_lock);
}

static void open_gates(int port)
{
	for (int i = 0; i < RTE_MAX_ETHPORTS; i++)
		if (port < 0 || i == port)
			atomic_fetch_sub_explicit(&micanite_gates[i].closed, 1, memory_order_release);
}

void micanite_gate_close(uint16_t port)
{
	close_gates(port);
}

void micanite_gate_open(uint16_t port)
{
	open_gates(port);
}

static pthread_mutex_t control = PTHREAD_MUTEX_INITIALIZER;

void micanite_control_lock(void)
{
	pthread_mutex_lock(&control);
}

void micanite_control_unlock(void)
{
	pthread_mutex_unlock(&control);
}

/* A callback of memif's driver. */
struct guarded {
	rte_intr_callback_fn callback;
	void *argument;
	rte_intr_unregister_callback_fn unregistered;
	struct guarded *next;
	/* The awaited descriptor, and its socket at registration. */
	int descriptor;
	struct stat socket;
	/* Registered by the running callback. */
	bool is_new;
};

static pthread_mutex_t guarded_lock = PTHREAD_MUTEX_INITIALIZER;
static struct guarded *all_guarded;

/* Set while this thread runs a callback of memif's driver. */
static __thread bool inside_callback;

static void forget_abandoned(void);

static void run_guarded(void *argument)
{
	const struct guarded *guarded = argument;

	micanite_control_lock();
	close_gates(-1);
	inside_callback = true;
	guarded->callback(guarded->argument);
	inside_callback = false;
	forget_abandoned();
	open_gates(-1);
	micanite_control_unlock();
}

/* Finds the entry of a callback, or NULL. Removes it from the list if `take` is set. */
static struct guarded *find_guarded(rte_intr_callback_fn callback, const void *argument, bool take)
{
	struct guarded **at, *found = NULL;

	pthread_mutex_lock(&guarded_lock);
	for (at = &all_guarded; *at != NULL; at = &(*at)->next) {
		if ((*at)->callback == callback && (*at)->argument == argument) {
			found = *at;
			if (take)
				*at = found->next;
			break;
		}
	}
	pthread_mutex_unlock(&guarded_lock);
	return found;
}

static void after_unregistering(struct rte_intr_handle *handle, void *argument)
{
	struct guarded *guarded = argument;

	if (guarded->unregistered != NULL)
		guarded->unregistered(handle, guarded->argument);
	free(guarded);
}

static bool is_of_memif(rte_intr_callback_fn callback)
{
	Dl_info info;
	union {
		rte_intr_callback_fn function;
		void *address;
	} pointer = {.function = callback};

	return dladdr(pointer.address, &info) != 0 && info.dli_fname != NULL &&
	       strstr(info.dli_fname, "memif") != NULL;
}

/* Returns DPDK's own function of a name that is also defined here. */
static void *original(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

/* Returns whether the descriptor of a callback is closed, or refers to another file now. */
static bool is_abandoned(const struct guarded *guarded)
{
	struct stat now;

	return fstat(guarded->descriptor, &now) != 0 || now.st_dev != guarded->socket.st_dev ||
	       now.st_ino != guarded->socket.st_ino;
}

static bool unregister_abandoned(struct guarded *guarded)
{
	int (*unregister)(const struct rte_intr_handle *, rte_intr_callback_fn, void *) =
		original("rte_intr_callback_unregister");
	struct rte_intr_handle *handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	bool done;

	if (handle == NULL)
		return false;
	done = rte_intr_fd_set(handle, guarded->descriptor) == 0 &&
	       unregister(handle, run_guarded, guarded) > 0;
	rte_intr_instance_free(handle);
	return done;
}

/* Unregisters callbacks that the last callback registered and abandoned.
 *
 * A memif listener accepts a peer, registers a callback for its socket, and sends a greeting. If the
 * peer has been killed meanwhile, the greeting fails: the driver closes the socket and frees its data,
 * but the callback stays registered. DPDK's interrupt thread waits for the descriptors of all callbacks.
 * It ends the process at the first closed one, or it waits for another file with the same number, and
 * calls back with freed memory. It reads the list of callbacks again only after this one has returned,
 * so the list can be corrected here. */
static void forget_abandoned(void)
{
	struct guarded **at, *guarded;

	pthread_mutex_lock(&guarded_lock);
	for (at = &all_guarded; (guarded = *at) != NULL;) {
		bool is_new = guarded->is_new;

		guarded->is_new = false;
		if (is_new && is_abandoned(guarded) && unregister_abandoned(guarded)) {
			*at = guarded->next;
			free(guarded);
		} else {
			at = &guarded->next;
		}
	}
	pthread_mutex_unlock(&guarded_lock);
}

/* The program's definition of a function takes precedence over a library's (as with malloc), so drivers
 * call these three functions instead of DPDK's own. Calls of other drivers than memif pass through. */
int rte_intr_callback_register(const struct rte_intr_handle *handle, rte_intr_callback_fn callback,
			       void *argument)
{
	int (*next)(const struct rte_intr_handle *, rte_intr_callback_fn, void *) =
		original("rte_intr_callback_register");
	struct guarded *guarded;
	int result;

	if (!is_of_memif(callback))
		return next(handle, callback, argument);
	guarded = calloc(1, sizeof(*guarded));
	if (guarded == NULL)
		return -ENOMEM;
	guarded->callback = callback;
	guarded->argument = argument;
	guarded->descriptor = rte_intr_fd_get(handle);
	guarded->is_new = inside_callback;
	if (fstat(guarded->descriptor, &guarded->socket) != 0) {
		free(guarded);
		return -EINVAL;
	}
	result = next(handle, run_guarded, guarded);
	if (result < 0) {
		free(guarded);
		return result;
	}
	pthread_mutex_lock(&guarded_lock);
	guarded->next = all_guarded;
	all_guarded = guarded;
	pthread_mutex_unlock(&guarded_lock);
	return result;
}

int rte_intr_callback_unregister(const struct rte_intr_handle *handle,
				 rte_intr_callback_fn callback, void *argument)
{
	int (*next)(const struct rte_intr_handle *, rte_intr_callback_fn, void *) =
		original("rte_intr_callback_unregister");
	struct guarded *guarded = find_guarded(callback, argument, false);
	int result;

	if (guarded == NULL)
		return next(handle, callback, argument);
	result = next(handle, run_guarded, guarded);
	if (result > 0)
		free(find_guarded(callback, argument, true));
	return result;
}

int rte_intr_callback_unregister_pending(const struct rte_intr_handle *handle,
					 rte_intr_callback_fn callback, void *argument,
					 rte_intr_unregister_callback_fn unregistered)
{
	int (*next)(const struct rte_intr_handle *, rte_intr_callback_fn, void *,
		    rte_intr_unregister_callback_fn) =
		original("rte_intr_callback_unregister_pending");
	struct guarded *guarded = find_guarded(callback, argument, false);
	int result;

	if (guarded == NULL)
		return next(handle, callback, argument, unregistered);
	guarded->unregistered = unregistered;
	result = next(handle, run_guarded, guarded, after_unregistering);
	if (result > 0)
		(void)find_guarded(callback, argument, true);
	return result;
}

bool micanite_gates_are_closed_by_interrupts(void)
{
	union {
		int (*function)(const struct rte_intr_handle *, rte_intr_callback_fn, void *);
		void *address;
	} ours = {.function = rte_intr_callback_register};
	void *first = dlsym(RTLD_DEFAULT, "rte_intr_callback_register");

	return first == ours.address && original("rte_intr_callback_register") != NULL;
}
