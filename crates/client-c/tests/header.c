/* Checks each sentence of micanite.h. Arguments: two servers that are stopped or killed when this program
 * asks for it, a store without room for much, and the first server by local://. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "micanite.h"

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

static char large[3 << 20];

static micanite *connected(const char *servers) {
    micanite *client = NULL;
    CHECK(micanite_connect(servers, &client) == MICANITE_OK && client != NULL);
    CHECK(*micanite_error(client) == 0);
    return client;
}

static micanite_status set(micanite *client, const char *key, const char *value) {
    return micanite_set(client, key, strlen(key), value, strlen(value), 0, 0);
}

/* Returns whether a key has a value. */
static int has(micanite *client, const char *key, const char *expected) {
    micanite_value value;
    micanite_status status = micanite_get(client, key, strlen(key), &value);
    int same = status == MICANITE_OK && value.status == status && value.cas == 0 &&
               value.length == strlen(expected) && memcmp(value.bytes, expected, value.length) == 0;
    micanite_value_free(&value);
    return same;
}

/* Has the test do something to the servers. */
static void ask(const char *what) {
    puts(what);
    fflush(stdout);
    CHECK(getchar() == '\n');
}

/* A negative status has an error, which lasts until the next call. */
static void failed(micanite *client, micanite_status status, micanite_status expected, const char *words) {
    CHECK(status == expected && status < 0);
    if (strstr(micanite_error(client), words) == NULL) {
        fprintf(stderr, "'%s' is not in '%s'\n", words, micanite_error(client));
        exit(1);
    }
    micanite_get(client, "a", 1, &(micanite_value){0});
}

static void calls(micanite *client) {
    micanite_value value;
    uint64_t number = 7;
    CHECK(micanite_set(client, "a\0b", 3, "x\0y", 3, 5, 0) == MICANITE_OK);
    CHECK(micanite_gets(client, "a\0b", 3, &value) == MICANITE_OK && value.status == MICANITE_OK);
    CHECK(value.length == 3 && memcmp(value.bytes, "x\0y", 3) == 0 && value.flags == 5 && value.cas != 0);
    uint64_t cas = value.cas;
    micanite_value_free(&value);
    CHECK(value.bytes == NULL && value.length == 0);
    micanite_value_free(&value);
    micanite_value_free(NULL);
    CHECK(micanite_get(client, "a", 1, &value) == MICANITE_NOT_FOUND && value.status == MICANITE_NOT_FOUND);
    CHECK(value.bytes == NULL && value.length == 0 && *micanite_error(client) == 0);
    micanite_value_free(&value);

    CHECK(micanite_cas(client, "a\0b", 3, "1", 1, 6, 0, cas) == MICANITE_OK);
    CHECK(micanite_cas(client, "a\0b", 3, "2", 1, 6, 0, cas) == MICANITE_EXISTS);
    CHECK(micanite_cas(client, "none", 4, "2", 1, 6, 0, cas) == MICANITE_NOT_FOUND);
    CHECK(micanite_get(client, "a\0b", 3, &value) == MICANITE_OK && value.flags == 6 && value.cas == 0);
    micanite_value_free(&value);

    CHECK(micanite_add(client, "a\0b", 3, "2", 1, 0, 0) == MICANITE_NOT_STORED);
    CHECK(micanite_add(client, "n", 1, "5", 1, 0, 0) == MICANITE_OK);
    CHECK(micanite_replace(client, "none", 4, "2", 1, 0, 0) == MICANITE_NOT_STORED);
    CHECK(micanite_replace(client, "n", 1, "6", 1, 0, 0) == MICANITE_OK);
    CHECK(micanite_increment(client, "n", 1, 4, &number) == MICANITE_OK && number == 10);
    CHECK(micanite_increment(client, "n", 1, 1, NULL) == MICANITE_OK);
    CHECK(micanite_decrement(client, "n", 1, 5, &number) == MICANITE_OK && number == 6);
    CHECK(micanite_decrement(client, "n", 1, 50, &number) == MICANITE_OK && number == 0);
    CHECK(micanite_increment(client, "none", 4, 1, &number) == MICANITE_NOT_FOUND && number == 0);
    CHECK(micanite_touch(client, "n", 1, 1000) == MICANITE_OK);
    CHECK(micanite_touch(client, "none", 4, 1000) == MICANITE_NOT_FOUND);
    CHECK(micanite_delete(client, "n", 1) == MICANITE_OK);
    CHECK(micanite_delete(client, "n", 1) == MICANITE_NOT_FOUND);

    CHECK(micanite_set(client, "soon", 4, "x", 1, 0, 1) == MICANITE_OK);
    CHECK(micanite_set(client, "later", 5, "x", 1, 0, 5184000) == MICANITE_OK);
    for (int tries = 0; has(client, "soon", "x"); tries++) {
        CHECK(tries < 3000);
        usleep(10000);
    }
    CHECK(has(client, "later", "x"));
}

static void errors(micanite *client) {
    micanite_value value;
    uint64_t number = 7;
    char key[251];
    memset(key, 'k', sizeof key);
    CHECK(set(client, "word", "abc") == MICANITE_OK);
    failed(client, micanite_increment(client, "word", 4, 1, &number), MICANITE_NOT_A_NUMBER, "number");
    CHECK(number == 7);
    CHECK(micanite_get(client, key, 250, &value) == MICANITE_NOT_FOUND);
    failed(client, micanite_get(client, key, 251, &value), MICANITE_BAD_KEY, "250");
    CHECK(value.status == MICANITE_BAD_KEY && value.bytes == NULL);
    failed(client, micanite_set(client, "", 0, "x", 1, 0, 0), MICANITE_BAD_KEY, "250");
    failed(client, micanite_set(client, "l", 1, large, sizeof large, 0, 0), MICANITE_TOO_LARGE, "limit");
    failed(client, micanite_set(client, "l", 1, "x", 1, 0, UINT32_MAX), MICANITE_BAD_ARGUMENT, "2106");
    failed(client, micanite_touch(client, "word", 4, UINT32_MAX), MICANITE_BAD_ARGUMENT, "2106");
    failed(client, micanite_get(client, NULL, 3, &value), MICANITE_BAD_ARGUMENT, "null");
    CHECK(value.status == MICANITE_BAD_ARGUMENT && value.bytes == NULL);
    failed(client, micanite_get(client, "a", 1, NULL), MICANITE_BAD_ARGUMENT, "null");
    failed(client, micanite_gets(client, "a", 1, NULL), MICANITE_BAD_ARGUMENT, "null");
    failed(client, micanite_set(client, "a", 1, NULL, 1, 0, 0), MICANITE_BAD_ARGUMENT, "null");
    failed(client, micanite_set(client, NULL, 1, "x", 1, 0, 0), MICANITE_BAD_ARGUMENT, "null");
    failed(client, micanite_cas(client, "a", 1, NULL, 1, 0, 0, 1), MICANITE_BAD_ARGUMENT, "null");
    failed(client, micanite_delete(client, NULL, 1), MICANITE_BAD_ARGUMENT, "null");
    failed(client, micanite_increment(client, NULL, 1, 1, &number), MICANITE_BAD_ARGUMENT, "null");
    CHECK(micanite_set(client, "empty", 5, NULL, 0, 0, 0) == MICANITE_OK && has(client, "empty", ""));
    CHECK(micanite_get(NULL, "a", 1, &value) == MICANITE_BAD_ARGUMENT);
    CHECK(micanite_set(NULL, "a", 1, "x", 1, 0, 0) == MICANITE_BAD_ARGUMENT);
    CHECK(micanite_error(NULL) != NULL);
    micanite_close(NULL);
}

/* Each key has its own status. */
static void many(micanite *client) {
    const void *keys[] = {"one", "", "none", NULL, "two"};
    const size_t lengths[] = {3, 0, 4, 4, 3};
    const micanite_status expected[] = {MICANITE_OK, MICANITE_BAD_KEY, MICANITE_NOT_FOUND,
                                        MICANITE_BAD_ARGUMENT, MICANITE_OK};
    micanite_value values[5];
    CHECK(set(client, "one", "1") == MICANITE_OK && set(client, "two", "22") == MICANITE_OK);
    failed(client, micanite_multi_get(client, keys, lengths, 5, values), MICANITE_BAD_KEY, "250");
    for (int i = 0; i < 5; i++)
        CHECK(values[i].status == expected[i]);
    CHECK(values[0].length == 1 && values[4].length == 2 && memcmp(values[4].bytes, "22", 2) == 0);
    for (int i = 0; i < 5; i++)
        micanite_value_free(&values[i]);
    keys[0] = NULL;
    failed(client, micanite_multi_get(client, keys, lengths, 5, values), MICANITE_BAD_ARGUMENT, "null");
    CHECK(values[0].status == MICANITE_BAD_ARGUMENT && values[1].status == MICANITE_BAD_KEY);
    for (int i = 0; i < 5; i++)
        micanite_value_free(&values[i]);
    keys[0] = "one", keys[1] = "one", keys[3] = "two";
    const size_t good[] = {3, 3, 4, 3, 3};
    CHECK(micanite_multi_get(client, keys, good, 5, values) == MICANITE_OK);
    CHECK(values[1].length == 1 && values[2].status == MICANITE_NOT_FOUND && values[3].length == 2);
    for (int i = 0; i < 5; i++)
        micanite_value_free(&values[i]);
    CHECK(micanite_multi_get(client, NULL, NULL, 0, NULL) == MICANITE_OK);
    failed(client, micanite_multi_get(client, NULL, good, 2, values), MICANITE_BAD_ARGUMENT, "null");
    CHECK(values[0].status == MICANITE_BAD_ARGUMENT && values[1].status == MICANITE_BAD_ARGUMENT);
    failed(client, micanite_multi_get(client, keys, good, 2, NULL), MICANITE_BAD_ARGUMENT, "null");
    CHECK(micanite_multi_get(NULL, keys, good, 1, values) == MICANITE_BAD_ARGUMENT);
    CHECK(values[0].status == MICANITE_BAD_ARGUMENT);
}

static void *set_of_a_thread(void *client) {
    set(client, "of a thread", "x");
    return NULL;
}

/* Forks; the child has its own replies, and the parent, too. */
static void forks(micanite *client, const char *key, int inside) {
    pthread_t thread;
    CHECK(set(client, key, "mine") == MICANITE_OK);
    CHECK(micanite_set(client, "sum", 3, "0", 1, 0, 0) == MICANITE_OK);
    if (inside) {
        ask("stop");
        CHECK(pthread_create(&thread, NULL, set_of_a_thread, client) == 0);
        usleep(200000);
    }
    pid_t child = fork();
    if (child == 0)
        alarm(60);
    if (inside && child != 0) {
        ask("continue");
        CHECK(pthread_join(thread, NULL) == 0);
    }
    /* The server may need some time to go on. */
    while (inside && !has(client, key, "mine"))
        usleep(10000);
    for (int i = 0; i < 100; i++) {
        CHECK(has(client, key, "mine"));
        CHECK(micanite_increment(client, "sum", 3, 1, NULL) == MICANITE_OK);
    }
    if (child == 0) {
        micanite_close(client);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    uint64_t sum = 0;
    CHECK(micanite_increment(client, "sum", 3, 0, &sum) == MICANITE_OK && sum == 200);
}

static void unreachable(const char *servers) {
    micanite *client = NULL;
    CHECK(micanite_connect(NULL, &client) == MICANITE_BAD_ARGUMENT && client == NULL);
    CHECK(micanite_connect(servers, NULL) == MICANITE_BAD_ARGUMENT);
    CHECK(micanite_connect("nonsense", &client) == MICANITE_ERROR && client != NULL);
    CHECK(strstr(micanite_error(client), "nonsense") != NULL);
    CHECK(set(client, "a", "x") == MICANITE_UNREACHABLE);
    CHECK(strstr(micanite_error(client), "nonsense") != NULL);
    micanite_close(client);
    CHECK(micanite_connect("local:///no/such", &client) == MICANITE_UNREACHABLE);
    micanite_close(client);
}

/* One of two servers dies: the keys of the other one are still there. */
static void one_of_two(const char *servers) {
    enum { COUNT = 64 };
    static char names[COUNT][8];
    const void *keys[COUNT];
    size_t lengths[COUNT];
    micanite_value values[COUNT];
    micanite *client = connected(servers);
    for (int i = 0; i < COUNT; i++) {
        keys[i] = names[i];
        lengths[i] = (size_t)sprintf(names[i], "key %d", i);
        CHECK(set(client, names[i], names[i]) == MICANITE_OK);
    }
    ask("kill");
    micanite_status status = micanite_multi_get(client, keys, lengths, COUNT, values);
    CHECK(status < 0 && strstr(micanite_error(client), "no reply") != NULL);
    int found = 0, lost = 0;
    for (int i = 0; i < COUNT; i++) {
        found += values[i].status == MICANITE_OK && memcmp(values[i].bytes, names[i], lengths[i]) == 0;
        lost += values[i].status == MICANITE_OUTCOME_UNKNOWN || values[i].status == MICANITE_UNREACHABLE;
        micanite_value_free(&values[i]);
    }
    CHECK(found > 8 && lost > 8 && found + lost == COUNT);
    CHECK(micanite_multi_get(client, keys, lengths, COUNT, values) == MICANITE_UNREACHABLE);
    for (int i = 0; i < COUNT; i++)
        micanite_value_free(&values[i]);
    micanite_close(client);
}

int main(int argc, char **argv) {
    CHECK(argc == 5);
    char both[200];
    snprintf(both, sizeof both, "%s, %s", argv[1], argv[2]);
    unreachable(argv[1]);
    for (int i = 0; i < 2; i++) {
        micanite *client = connected(i == 0 ? argv[1] : argv[4]);
        calls(client);
        errors(client);
        many(client);
        forks(client, "key", 0);
        forks(client, "key", 1);
        micanite_close(client);
    }
    micanite *client = connected(argv[1]);
    failed(client, micanite_set(client, "no text", 7, large, 100000, 0, 0), MICANITE_BAD_KEY, "text");
    ask("stop");
    failed(client, set(client, "a", "x"), MICANITE_OUTCOME_UNKNOWN, "reply");
    ask("continue");
    micanite_close(client);

    client = connected(argv[1]);
    ask("stop");
    failed(client, micanite_set(client, "a", 1, large, 100000, 0, 0), MICANITE_OUTCOME_UNKNOWN, "reply");
    ask("continue");
    micanite_close(client);

    client = connected(argv[3]);
    micanite_status status = MICANITE_OK;
    for (int i = 0; i < 200 && status == MICANITE_OK; i++) {
        char key[16];
        snprintf(key, sizeof key, "fill%d", i);
        status = micanite_set(client, key, strlen(key), large, 1000000, 0, 0);
    }
    failed(client, status, MICANITE_OUT_OF_SPACE, "space");
    micanite_close(client);

    one_of_two(both);
    puts("done");
    return 0;
}
