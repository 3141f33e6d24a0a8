import java.net.InetSocketAddress;
import java.util.Map;
import java.util.logging.LogManager;

/**
 * Exercises a Java client against a server, and prints a verdict per check.
 *
 * <pre>java -cp ... Main HOST:PORT PREFIX spymemcached|xmemcached text|binary [USER PASSWORD, of spymemcached]</pre>
 */
public final class Main {
    public static void main(String[] arguments) throws Exception {
        LogManager.getLogManager().reset();
        System.setProperty("net.spy.log.LoggerImpl", "net.spy.memcached.compat.log.SunLogger");
        String[] address = arguments[0].split(":");
        InetSocketAddress server = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        String name = arguments[2];
        boolean binary = arguments[3].equals("binary");
        String user = arguments.length > 4 ? arguments[4] : null;
        String password = arguments.length > 5 ? arguments[5] : null;
        Checks.Client client = name.equals("xmemcached")
            ? new X(server, binary)
            : new Spy(server, binary, user, password);
        String prefix = arguments[1] + "-" + name + "-" + arguments[3];

        int ok = 0;
        int failed = 0;
        for (Map.Entry<String, Checks.Check> check : new Checks(client, prefix).all().entrySet()) {
            try {
                check.getValue().run();
                ok++;
                System.out.println("ok " + check.getKey());
            } catch (Exception | AssertionError error) {
                failed++;
                System.out.println("FAIL " + check.getKey() + ": " + error.toString().replace('\n', ' '));
            }
        }
        System.out.printf("verdict: %d ok, %d failed%n", ok, failed);
        System.exit(failed == 0 ? 0 : 1); // the clients' threads would keep it
    }
}
