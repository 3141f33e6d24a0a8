import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Random;

/** What both Java clients are asked to do, against an interface that each of them is put behind. */
final class Checks {
    /** A client. Methods that store say whether they did; `get` gives null for a miss, numbers are -1 for one. */
    interface Client {
        Object get(String key) throws Exception;

        boolean set(String key, int expiry, Object value) throws Exception;

        boolean add(String key, Object value) throws Exception;

        boolean replace(String key, Object value) throws Exception;

        boolean append(String key, Object value) throws Exception;

        boolean prepend(String key, Object value) throws Exception;

        long increment(String key, long by, Long initial) throws Exception;

        long decrement(String key, long by) throws Exception;

        /** The item's CAS number, or 0. */
        long number(String key) throws Exception;

        boolean cas(String key, Object value, long number) throws Exception;

        boolean touch(String key, int expiry) throws Exception;

        /** Null for a client that has no such command in this protocol. */
        GetAndTouch getAndTouch();

        boolean delete(String key) throws Exception;

        Map<String, Object> getMany(Iterable<String> keys) throws Exception;

        Map<String, String> stats() throws Exception;

        void flush() throws Exception;
    }

    interface GetAndTouch {
        Object apply(String key, int expiry) throws Exception;
    }

    interface Check {
        void run() throws Exception;
    }

    private static final long EXPIRY_DEADLINE_NS = 20_000_000_000L;
    private static final int LARGE_BYTES = (1 << 20) - 300;
    private static final int TOO_LARGE_BYTES = 2 << 20;
    private static final int MANY_KEYS = 500;

    private final Client client;
    private final String prefix;

    Checks(Client client, String prefix) {
        this.client = client;
        this.prefix = prefix;
    }

    private String key(String name) {
        return prefix + "-" + name;
    }

    private static void require(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    private void is(String key, Object value) throws Exception {
        Object found = client.get(key);
        require(Objects.deepEquals(found, value), key + " is " + found);
    }

    private void expires(String key) throws Exception {
        long deadline = System.nanoTime() + EXPIRY_DEADLINE_NS;
        while (client.get(key) != null) {
            require(System.nanoTime() < deadline, "it is still there");
            Thread.sleep(20);
        }
    }

    Map<String, Check> all() {
        Map<String, Check> checks = new LinkedHashMap<>();
        checks.put("get-set", this::getSet);
        checks.put("add", this::add);
        checks.put("replace", this::replace);
        checks.put("append-prepend", this::appendPrepend);
        checks.put("incr-decr", this::incrDecr);
        checks.put("cas", this::cas);
        checks.put("touch", this::touch);
        if (client.getAndTouch() != null) {
            checks.put("gat", this::gat);
        }
        checks.put("delete", this::delete);
        checks.put("multi-get", this::multiGet);
        checks.put("expiry", this::expiry);
        checks.put("large", this::large);
        checks.put("flags-compression", this::compression);
        checks.put("stats", this::stats);
        checks.put("flush", this::flush);
        return checks;
    }

    private void getSet() throws Exception {
        is(key("get-set"), null);
        // The classes of values are told apart by the item's flags.
        Object[] values = {"value", "", "line\r\nbreak", "ä", 42, 1L << 40, 1.5, true, new byte[] {0, -1}};
        for (Object value : values) {
            require(client.set(key("get-set"), 0, value), "set");
            is(key("get-set"), value);
        }
    }

    private void add() throws Exception {
        require(client.add(key("add"), "first"), "add");
        require(!client.add(key("add"), "second"), "add of what is there");
        is(key("add"), "first");
    }

    private void replace() throws Exception {
        require(!client.replace(key("replace"), "x"), "replace of what is not there");
        client.set(key("replace"), 0, "old");
        require(client.replace(key("replace"), "new"), "replace");
        is(key("replace"), "new");
    }

    private void appendPrepend() throws Exception {
        require(!client.append(key("append"), ">"), "append to what is not there");
        client.set(key("append"), 0, "middle");
        require(client.append(key("append"), ">"), "append");
        require(client.prepend(key("append"), "<"), "prepend");
        is(key("append"), "<middle>");
    }

    private void incrDecr() throws Exception {
        require(client.increment(key("incr"), 1, null) == -1, "incr of what is not there");
        require(client.increment(key("incr"), 1, 10L) == 10, "incr with an initial value");
        require(client.increment(key("incr"), 32, null) == 42, "incr");
        require(client.decrement(key("incr"), 100) == 0, "decr");
        require(client.increment(key("incr"), 1L << 40, null) == 1L << 40, "incr by 2^40");
    }

    private void cas() throws Exception {
        client.set(key("cas"), 0, "1");
        long number = client.number(key("cas"));
        require(client.cas(key("cas"), "2", number), "cas");
        require(!client.cas(key("cas"), "3", number), "cas with an old number");
        is(key("cas"), "2");
        client.delete(key("cas"));
        require(!client.cas(key("cas"), "3", number), "cas of what is not there");
    }

    private void touch() throws Exception {
        require(!client.touch(key("touch"), 100), "touch of what is not there");
        client.set(key("touch"), 100, "x");
        require(client.touch(key("touch"), 1), "touch");
        expires(key("touch"));
    }

    private void gat() throws Exception {
        require(client.getAndTouch().apply(key("gat"), 100) == null, "gat of what is not there");
        client.set(key("gat"), 100, "x");
        require("x".equals(client.getAndTouch().apply(key("gat"), 1)), "gat");
        expires(key("gat"));
    }

    private void delete() throws Exception {
        require(!client.delete(key("delete")), "delete of what is not there");
        client.set(key("delete"), 0, "x");
        require(client.delete(key("delete")), "delete");
        is(key("delete"), null);
    }

    private void multiGet() throws Exception {
        Map<String, Object> values = new LinkedHashMap<>();
        for (int number = 0; number < MANY_KEYS; number++) {
            values.put(key("multi-" + number), "value " + number);
        }
        for (Map.Entry<String, Object> entry : values.entrySet()) {
            client.set(entry.getKey(), 100, entry.getValue());
        }
        Map<String, Object> asked = new LinkedHashMap<>(values);
        asked.put(key("absent"), null);
        require(client.getMany(asked.keySet()).equals(values), "the values differ");
    }

    private void expiry() throws Exception {
        client.set(key("expiry"), (int) (System.currentTimeMillis() / 1000) + 1000, "x");
        is(key("expiry"), "x");
        client.set(key("expiry"), 1, "x");
        expires(key("expiry"));
    }

    private void large() throws Exception {
        byte[] value = new byte[LARGE_BYTES];
        new Random(1).nextBytes(value);
        require(client.set(key("large"), 0, value), "set");
        is(key("large"), value);
        byte[] larger = new byte[TOO_LARGE_BYTES];
        new Random(2).nextBytes(larger);
        boolean stored;
        try {
            stored = client.set(key("large"), 0, larger);
        } catch (Exception refused) {
            stored = false;
        }
        require(!stored, "a value of " + TOO_LARGE_BYTES + " bytes was taken");
        require(client.set(key("large"), 0, "after"), "set after it");
        is(key("large"), "after");
    }

    private void compression() throws Exception {
        char[] text = new char[600_000];
        Arrays.fill(text, 'c');
        require(client.set(key("compressed"), 0, new String(text)), "set");
        is(key("compressed"), new String(text));
    }

    private void stats() throws Exception {
        require(Long.parseLong(client.stats().get("pid")) > 0, "no pid");
    }

    private void flush() throws Exception {
        client.set(key("flush"), 0, "x");
        client.flush();
        is(key("flush"), null);
    }
}
