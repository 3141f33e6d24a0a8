/* The native client of Micanite, for C. Link with -lmicanite (or libmicanite.a and -lpthread -ldl -lm).
 *
 * One thread at a time may use a client. Keys and values are bytes with a length, and may contain
 * zeros. micanite_value_free frees values that a call returned.
 *
 * In the child of a fork a client connects anew with its next call, even if the fork came while another
 * thread was inside a call. Over a fabric this needs a provider that can be opened in a child
 * (docs/fabric.md). */
#ifndef MICANITE_H
#define MICANITE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Status of a call. Negative: it failed, and micanite_error explains why. */
typedef enum micanite_status {
    MICANITE_OK = 0,
    /* There is no such item. */
    MICANITE_NOT_FOUND = 1,
    /* The item has another CAS value. */
    MICANITE_EXISTS = 2,
    /* The condition of add or replace does not hold. */
    MICANITE_NOT_STORED = 3,
    /* Any error without a code of its own. */
    MICANITE_ERROR = -1,
    /* The server does not reply. The call was not sent, and not executed. */
    MICANITE_UNREACHABLE = -2,
    /* No reply in time, or the server no longer remembers: it is unknown whether a write was executed. */
    MICANITE_OUTCOME_UNKNOWN = -3,
    /* The key is empty, longer than 250 bytes, or not text where that is required. */
    MICANITE_BAD_KEY = -4,
    /* The value exceeds the server's limit. */
    MICANITE_TOO_LARGE = -5,
    /* The store has no space. */
    MICANITE_OUT_OF_SPACE = -6,
    /* The value is not a number. */
    MICANITE_NOT_A_NUMBER = -7,
    /* A required pointer is null, or the expiry is too far. */
    MICANITE_BAD_ARGUMENT = -8
} micanite_status;

typedef struct micanite micanite;

/* Result of a get: the status, and the value with its metadata. */
typedef struct micanite_value {
    /* MICANITE_OK, MICANITE_NOT_FOUND, or the error of the get. */
    micanite_status status;
    uint32_t flags;
    /* CAS value of micanite_gets, otherwise 0. */
    uint64_t cas;
    uint8_t *bytes;
    size_t length;
} micanite_value;

/* Connects to one or several servers: "host:port" of base ports, separated by commas. *client is set
 * except for MICANITE_BAD_ARGUMENT. After a failure it only serves micanite_error.
 *
 * "local:///PATH" is a server on the same host (serve --local PATH), with "?user=NAME&password=TEXT" where it
 * asks for a login. Gets read its memory, without the server. It is the only server of its list
 * (docs/local.md).
 *
 * A library that was built with the feature libfabric also takes "fabric://ADDRESS[:PORT]?provider=NAME",
 * with "&user=NAME&password=TEXT" where the server asks for a login (docs/fabric.md). Gets read such a
 * server's memory where they can. All servers of a list are reached in the same way. */
micanite_status micanite_connect(const char *servers, micanite **client);

/* Closes a client; null is allowed. */
void micanite_close(micanite *client);

/* Returns the error of the client's last call, until the next call. Never null. */
const char *micanite_error(const micanite *client);

micanite_status micanite_get(micanite *client, const void *key, size_t key_length, micanite_value *value);
/* Gets a value with its CAS value. */
micanite_status micanite_gets(micanite *client, const void *key, size_t key_length, micanite_value *value);
/* Gets count keys at once. values has room for as many, each with its own status. Returns MICANITE_OK if each
 * key was found or not found, and otherwise the first error. */
micanite_status micanite_multi_get(micanite *client, const void *const *keys, const size_t *key_lengths,
                                   size_t count, micanite_value *values);
/* Frees the value of a get; harmless on an empty one. */
void micanite_value_free(micanite_value *value);

/* expiry: seconds from now, 0 = never. An expiry that ends after the second 2^32-2 of Unix time, in 2106, is
 * too far. */
micanite_status micanite_set(micanite *client, const void *key, size_t key_length, const void *value,
                             size_t value_length, uint32_t flags, uint32_t expiry);
micanite_status micanite_add(micanite *client, const void *key, size_t key_length, const void *value,
                             size_t value_length, uint32_t flags, uint32_t expiry);
micanite_status micanite_replace(micanite *client, const void *key, size_t key_length, const void *value,
                                 size_t value_length, uint32_t flags, uint32_t expiry);
/* Stores if the item still has this CAS value. */
micanite_status micanite_cas(micanite *client, const void *key, size_t key_length, const void *value,
                             size_t value_length, uint32_t flags, uint32_t expiry, uint64_t cas);
micanite_status micanite_delete(micanite *client, const void *key, size_t key_length);
micanite_status micanite_touch(micanite *client, const void *key, size_t key_length, uint32_t expiry);
/* Writes the sum, or the difference, which is not below 0, to *number, which may be null. */
micanite_status micanite_increment(micanite *client, const void *key, size_t key_length, uint64_t delta,
                                   uint64_t *number);
micanite_status micanite_decrement(micanite *client, const void *key, size_t key_length, uint64_t delta,
                                   uint64_t *number);

#ifdef __cplusplus
}
#endif
#endif
