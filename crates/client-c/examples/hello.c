/* Stores and fetches. Build it with
 *   cc -Icrates/client-c/include crates/client-c/examples/hello.c -Ltarget/release -lmicanite -o hello
 * and run it as
 *   LD_LIBRARY_PATH=target/release ./hello 127.0.0.1:11300 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "micanite.h"

static int failed(micanite *client, const char *what) {
    fprintf(stderr, "%s: %s\n", what, micanite_error(client));
    micanite_close(client);
    return 1;
}

int main(int argc, char **argv) {
    micanite *client = NULL;
    if (micanite_connect(argc > 1 ? argv[1] : "127.0.0.1:11300", &client) != MICANITE_OK)
        return failed(client, "connect");

    if (micanite_set(client, "greeting", 8, "hello", 5, 7, 60) != MICANITE_OK)
        return failed(client, "set");
    micanite_value value;
    if (micanite_gets(client, "greeting", 8, &value) != MICANITE_OK)
        return failed(client, "get");
    printf("%.*s, flags %" PRIu32 "\n", (int)value.length, (const char *)value.bytes, value.flags);
    uint64_t cas = value.cas;
    micanite_value_free(&value);

    printf("cas %d\n", micanite_cas(client, "greeting", 8, "hullo", 5, 0, 0, cas));
    printf("cas again %d\n", micanite_cas(client, "greeting", 8, "hello", 5, 0, 0, cas));
    printf("add %d\n", micanite_add(client, "greeting", 8, "hello", 5, 0, 0));
    printf("touch %d\n", micanite_touch(client, "greeting", 8, 100));

    uint64_t number = 0;
    micanite_set(client, "visits", 6, "41", 2, 0, 0);
    micanite_increment(client, "visits", 6, 1, &number);
    printf("visits %" PRIu64 "\n", number);
    if (micanite_increment(client, "greeting", 8, 1, &number) != MICANITE_NOT_A_NUMBER)
        return failed(client, "increment");
    printf("increment: %s\n", micanite_error(client));

    /* The value is longer than a datagram, so the client uses TCP. */
    static char lengthy[100000];
    memset(lengthy, 'x', sizeof lengthy);
    if (micanite_set(client, "long", 4, lengthy, sizeof lengthy, 0, 0) != MICANITE_OK)
        return failed(client, "set");

    const void *keys[] = {"greeting", "visits", "long", "nothing"};
    const size_t lengths[] = {8, 6, 4, 7};
    micanite_value values[4];
    if (micanite_multi_get(client, keys, lengths, 4, values) != MICANITE_OK)
        return failed(client, "multi_get");
    for (int i = 0; i < 4; i++) {
        printf("%s %d %zu\n", (const char *)keys[i], values[i].status, values[i].length);
        micanite_value_free(&values[i]);
    }

    printf("delete %d\n", micanite_delete(client, "greeting", 8));
    printf("delete again %d\n", micanite_delete(client, "greeting", 8));
    micanite_close(client);
    return 0;
}
