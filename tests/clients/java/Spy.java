import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import net.spy.memcached.CASResponse;
import net.spy.memcached.CASValue;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.ConnectionFactoryBuilder.Protocol;
import net.spy.memcached.MemcachedClient;
import net.spy.memcached.auth.AuthDescriptor;
import net.spy.memcached.auth.PlainCallbackHandler;

/** spymemcached. */
final class Spy implements Checks.Client {
    private final MemcachedClient client;
    private final boolean binary;

    Spy(InetSocketAddress address, boolean binary, String user, String password) throws Exception {
        this.binary = binary;
        ConnectionFactoryBuilder builder = new ConnectionFactoryBuilder()
            .setProtocol(binary ? Protocol.BINARY : Protocol.TEXT)
            .setOpTimeout(30_000)
            .setDaemon(true);
        if (user != null) {
            builder.setAuthDescriptor(new AuthDescriptor(new String[] {"PLAIN"}, new PlainCallbackHandler(user, password)));
        }
        client = new MemcachedClient(builder.build(), List.of(address));
    }

    public Object get(String key) {
        return client.get(key);
    }

    public boolean set(String key, int expiry, Object value) throws Exception {
        return client.set(key, expiry, value).get();
    }

    public boolean add(String key, Object value) throws Exception {
        return client.add(key, 0, value).get();
    }

    public boolean replace(String key, Object value) throws Exception {
        return client.replace(key, 0, value).get();
    }

    public boolean append(String key, Object value) throws Exception {
        return client.append(key, value).get();
    }

    public boolean prepend(String key, Object value) throws Exception {
        return client.prepend(key, value).get();
    }

    public long increment(String key, long by, Long initial) {
        return initial == null ? client.incr(key, by) : client.incr(key, by, initial);
    }

    public long decrement(String key, long by) {
        return client.decr(key, by);
    }

    public long number(String key) {
        CASValue<Object> found = client.gets(key);
        return found == null ? 0 : found.getCas();
    }

    public boolean cas(String key, Object value, long number) {
        return client.cas(key, number, value) == CASResponse.OK;
    }

    public boolean touch(String key, int expiry) throws Exception {
        return client.touch(key, expiry).get();
    }

    public Checks.GetAndTouch getAndTouch() {
        // Its text protocol has none.
        return !binary ? null : (key, expiry) -> {
            CASValue<Object> found = client.getAndTouch(key, expiry);
            return found == null ? null : found.getValue();
        };
    }

    public boolean delete(String key) throws Exception {
        return client.delete(key).get();
    }

    public Map<String, Object> getMany(Iterable<String> keys) {
        List<String> list = new ArrayList<>();
        keys.forEach(list::add);
        return client.getBulk(list);
    }

    public Map<String, String> stats() {
        return client.getStats().values().iterator().next();
    }

    public void flush() throws Exception {
        client.flush().get();
    }
}
