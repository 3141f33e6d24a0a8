/* A kernel of two NUMA nodes, as far as a process sees it: LD_PRELOAD answers the system calls of memory
   policies. Which pages are present, the real kernel says. Variables set the rest:

   NODES_ALLOWED   mask of the nodes that give memory (3)
   NODES_POLICY    number of the policy that the process was started with (0)
   NODES_FULL      this node has no room for pages that move (none)
   NODES_SHARED    1: pages move only with MPOL_MF_MOVE_ALL, as those of several processes do; 2: which is
                   refused, too, as it is without CAP_SYS_NICE */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>

#define NODES 2
#define MPOL_DEFAULT 0
#define MPOL_INTERLEAVE 3
#define MPOL_MF_MOVE_ALL 4
#define MPOL_F_MEMS_ALLOWED 4
#define RANGES 1024
#define PLACES (1 << 20)
#define PAGE 4096ul

/* What was bound, with the policy that its pages were born under. */
static struct range { uintptr_t start, end; int mode; uint64_t nodes; } ranges[RANGES];
static int range_count;
/* Pages that have moved: address and node, by open addressing. */
static uintptr_t places[PLACES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static long number(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 0) : otherwise;
}

static uintptr_t *place(uintptr_t page) {
    uint32_t at = (uint32_t)((page / PAGE) * 2654435761u) % PLACES;
    while (places[at] && (places[at] & ~(PAGE - 1)) != page)
        at = (at + 1) % PLACES;
    return &places[at];
}

static int node_of(uintptr_t page) {
    uintptr_t found = *place(page);
    if (found)
        return (int)(found & 1);
    for (int at = 0; at < range_count; at++) {
        if (page < ranges[at].start || page >= ranges[at].end)
            continue;
        if (ranges[at].mode == MPOL_INTERLEAVE && ranges[at].nodes == 3)
            return (int)(page / PAGE % NODES);
        return ranges[at].nodes & 2 ? 1 : 0;
    }
    return 0;
}

static int wrong(int mode, uint64_t nodes) {
    uint64_t allowed = (uint64_t)number("NODES_ALLOWED", 3);
    return mode == MPOL_DEFAULT ? nodes != 0 : (nodes & allowed) == 0;
}

static long bind_range(uintptr_t start, size_t bytes, int mode, const uint64_t *mask) {
    uint64_t nodes = mask ? mask[0] : 0;
    if (wrong(mode, nodes)) {
        errno = EINVAL;
        return -1;
    }
    for (int at = 0; at < range_count; at++)
        if (ranges[at].start == start)
            return 0;
    if (range_count == RANGES)
        abort();
    ranges[range_count++] = (struct range){start, start + bytes, mode, nodes};
    return 0;
}

static long move(size_t count, void **pages, const int *nodes, int *states, int flags) {
    for (size_t at = 0; at < count; at++) {
        uintptr_t page = (uintptr_t)pages[at] & ~(PAGE - 1);
        if (states[at] < 0)
            continue; /* it is not present */
        if (!nodes) {
            states[at] = node_of(page);
        } else if (nodes[at] < 0 || nodes[at] >= NODES) {
            errno = ENODEV;
            return -1;
        } else if (nodes[at] == number("NODES_FULL", -1)) {
            errno = ENOMEM; /* Linux fails the whole call */
            return -1;
        } else if (number("NODES_SHARED", 0) && !(flags & MPOL_MF_MOVE_ALL)) {
            states[at] = -EACCES;
        } else {
            *place(page) = page | (uintptr_t)nodes[at];
            states[at] = nodes[at];
        }
    }
    return 0;
}

long syscall(long call, ...) {
    static long (*next)(long, ...);
    long a[6];
    va_list list;
    va_start(list, call);
    for (int at = 0; at < 6; at++)
        a[at] = va_arg(list, long);
    va_end(list);
    if (!next)
        next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    long result = 0;
    switch (call) {
    case SYS_set_mempolicy:
        if (wrong((int)a[0], a[1] ? *(uint64_t *)a[1] : 0)) {
            errno = EINVAL;
            return -1;
        }
        return 0;
    case SYS_get_mempolicy:
        if (a[4] & MPOL_F_MEMS_ALLOWED)
            *(uint64_t *)a[1] = (uint64_t)number("NODES_ALLOWED", 3);
        else
            *(int *)a[0] = (int)number("NODES_POLICY", 0);
        return 0;
    case SYS_mbind:
        pthread_mutex_lock(&lock);
        result = bind_range((uintptr_t)a[0], (size_t)a[1], (int)a[2], (const uint64_t *)a[3]);
        pthread_mutex_unlock(&lock);
        return result;
    case SYS_move_pages:
        if (a[3] && (a[5] & MPOL_MF_MOVE_ALL) && number("NODES_SHARED", 0) == 2) {
            errno = EPERM;
            return -1;
        }
        /* The real kernel finds the pages that are present. */
        result = next(call, a[0], a[1], a[2], NULL, a[4], 0);
        if (result < 0)
            return result;
        pthread_mutex_lock(&lock);
        result = move((size_t)a[1], (void **)a[2], (const int *)a[3], (int *)a[4], (int)a[5]);
        pthread_mutex_unlock(&lock);
        return result;
    default:
        return next(call, a[0], a[1], a[2], a[3], a[4], a[5]);
    }
}
