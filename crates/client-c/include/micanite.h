/* The native client of Micanite, for C. Link with -lmicanite (or libmicanite.a and -lpthread -ldl -lm).
 *
 * A client belongs to one thread at a time. Keys and values are bytes with a length; they may hold
 * zeros. Values that a call returns are freed by micanite_value_free. */
#ifndef MICANITE_H
#define MICANITE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a call ended. Negative: it failed, and micanite_error says why. */
typedef enum micanite_status {
    MICANITE_OK = 0,
    /* There is no such item. */
    MICANITE_NOT_FOUND = 1,
    /* The item has another CAS value. */
    MICANITE_EXISTS = 2,
    /* The condition of add or replace does not hold. */
    MICANITE_NOT_STORED = 3,
    /* Anything that has no name of its own. */
    MICANITE_ERROR = -1,
    /* The server does not reply. */
    MICANITE_UNREACHABLE = -2,
    /* No reply in time, or the server has forgotten: whether a write was executed is not known. */
    MICANITE_OUTCOME_UNKNOWN = -3,
    /* The key is empty, longer than 250 bytes, or not text where that is needed. */
    MICANITE_BAD_KEY = -4,
    /* The value is longer than the server takes. */
    MICANITE_TOO_LARGE = -5,
    /* A store has no space. */
    MICANITE_OUT_OF_SPACE = -6,
    /* The value is not a number. */
    MICANITE_NOT_A_NUMBER = -7,
    /* A pointer is null that must not be. */
    MICANITE_BAD_ARGUMENT = -8
} micanite_status;

/* A client. */
typedef struct micanite micanite;

/* A value, what is stored with it, and whether there is one. */
typedef struct micanite_value {
    /* MICANITE_OK, MICANITE_NOT_FOUND, or why the get failed. */
    micanite_status status;
    uint32_t flags;
    /* Of micanite_gets, else 0. */
    uint64_t cas;
    uint8_t *bytes;
    size_t length;
} micanite_value;

/* A client of one server or of several: "host:port" of base ports, separated by commas. *client is
 * set in any case but MICANITE_BAD_ARGUMENT: after a failure it only tells micanite_error why. */
micanite_status micanite_connect(const char *servers, micanite **client);

/* Gives a client up; null is none. */
void micanite_close(micanite *client);

/* Why the last call on the client failed, until the next call. Never null. */
const char *micanite_error(const micanite *client);

micanite_status micanite_get(micanite *client, const void *key, size_t key_length, micanite_value *value);
/* With the CAS value. */
micanite_status micanite_gets(micanite *client, const void *key, size_t key_length, micanite_value *value);
/* So many keys at once; values has room for as many, and each of them has its own status. */
micanite_status micanite_multi_get(micanite *client, const void *const *keys, const size_t *key_lengths,
                                   size_t count, micanite_value *values);
/* Frees what a get has returned; harmless on one that has nothing. */
void micanite_value_free(micanite_value *value);

/* expiry: seconds from now, 0 = never. */
micanite_status micanite_set(micanite *client, const void *key, size_t key_length, const void *value,
                             size_t value_length, uint32_t flags, uint32_t expiry);
micanite_status micanite_add(micanite *client, const void *key, size_t key_length, const void *value,
                             size_t value_length, uint32_t flags, uint32_t expiry);
micanite_status micanite_replace(micanite *client, const void *key, size_t key_length, const void *value,
                                 size_t value_length, uint32_t flags, uint32_t expiry);
/* If the item has this CAS value still. */
micanite_status micanite_cas(micanite *client, const void *key, size_t key_length, const void *value,
                             size_t value_length, uint32_t flags, uint32_t expiry, uint64_t cas);
micanite_status micanite_delete(micanite *client, const void *key, size_t key_length);
micanite_status micanite_touch(micanite *client, const void *key, size_t key_length, uint32_t expiry);
/* The sum, or the difference, which is not below 0, goes to *number, which may be null. */
micanite_status micanite_increment(micanite *client, const void *key, size_t key_length, uint64_t delta,
                                   uint64_t *number);
micanite_status micanite_decrement(micanite *client, const void *key, size_t key_length, uint64_t delta,
                                   uint64_t *number);

#ifdef __cplusplus
}
#endif
#endif
