import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import net.rubyeye.xmemcached.GetsResponse;
import net.rubyeye.xmemcached.MemcachedClient;
import net.rubyeye.xmemcached.XMemcachedClientBuilder;
import net.rubyeye.xmemcached.command.BinaryCommandFactory;
import net.rubyeye.xmemcached.command.TextCommandFactory;

/** XMemcached. */
final class X implements Checks.Client {
    private final MemcachedClient client;
    private final boolean binary;

    X(InetSocketAddress address, boolean binary) throws Exception {
        this.binary = binary;
        XMemcachedClientBuilder builder = new XMemcachedClientBuilder(List.of(address));
        builder.setCommandFactory(binary ? new BinaryCommandFactory() : new TextCommandFactory());
        builder.setOpTimeout(30_000);
        client = builder.build();
    }

    public Object get(String key) throws Exception {
        return client.get(key);
    }

    public boolean set(String key, int expiry, Object value) throws Exception {
        return client.set(key, expiry, value);
    }

    public boolean add(String key, Object value) throws Exception {
        return client.add(key, 0, value);
    }

    public boolean replace(String key, Object value) throws Exception {
        return client.replace(key, 0, value);
    }

    public boolean append(String key, Object value) throws Exception {
        return client.append(key, value);
    }

    public boolean prepend(String key, Object value) throws Exception {
        return client.prepend(key, value);
    }

    public long increment(String key, long by, Long initial) throws Exception {
        if (initial != null) {
            return client.incr(key, by, initial);
        }
        // Without an initial value it would start at 0.
        return client.get(key) == null ? -1 : client.incr(key, by);
    }

    public long decrement(String key, long by) throws Exception {
        return client.decr(key, by);
    }

    public long number(String key) throws Exception {
        GetsResponse<Object> found = client.gets(key);
        return found == null ? 0 : found.getCas();
    }

    public boolean cas(String key, Object value, long number) throws Exception {
        return client.cas(key, 0, value, number);
    }

    public boolean touch(String key, int expiry) throws Exception {
        return client.touch(key, expiry);
    }

    public Checks.GetAndTouch getAndTouch() {
        // Its text protocol has none.
        return binary ? client::getAndTouch : null;
    }

    public boolean delete(String key) throws Exception {
        return client.delete(key);
    }

    public Map<String, Object> getMany(Iterable<String> keys) throws Exception {
        List<String> list = new ArrayList<>();
        keys.forEach(list::add);
        return client.get(list);
    }

    public Map<String, String> stats() throws Exception {
        return client.getStats().values().iterator().next();
    }

    public void flush() throws Exception {
        client.flushAll();
    }
}
